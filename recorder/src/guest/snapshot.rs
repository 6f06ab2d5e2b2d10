//! The snapshot: a copy-on-write child made when recording starts, which holds the program's memory as it was then and writes the
//! `.undo` file when asked.
//!
//! It has no exit signal, so the guest's wait() does not see it; it closes every descriptor at once, so that no pipe of the guest is
//! held open (only standard error is kept, if it is a file or a terminal); it ignores every signal that can be ignored, and ends with its parent.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use engine::sys::{self, SigAction, raw};
use engine::{arena, read_guest};
use recording::{
    Area, Body, CpuidLeaf, EVENT_HEADER_BYTES, End, EndReason, EventBuilder, EventHeader, EventKind, Events, FileHead, FileWriter, Mapping,
    MappingFlags, Metadata, Registers, Sink, Time,
};

use super::control::{QUIT, REPORT, SAVE, control};
use super::host::Recorder;
use super::maps::Map;
use super::message::Descriptor;

/// What the snapshot knows besides its memory.
pub struct Start {
    pub maps: Vec<Map>,
    pub metadata: Metadata,
    /// Mappings of ours among `maps`: start addresses.
    pub own: Vec<u64>,
}

const PIECE: usize = 256 << 10;

/// Makes the snapshot; returns when it is ready.
pub fn make(host: &mut Recorder, start: Start) -> Result<(), i64> {
    let control = control();
    control.ready.store(0, Ordering::Relaxed);
    control.request.store(0, Ordering::Relaxed);
    control.done.store(0, Ordering::Relaxed);
    let parent = sys::getpid();
    control.owner = parent as u32;
    // SAFETY: a plain copy of this process, without exit signal.
    let pid = unsafe { sys::syscall(u64::from(raw::__NR_clone), [0; 6]) };
    if pid == 0 {
        serve(host, start, parent);
    }
    if pid < 0 {
        return Err(pid);
    }
    control.snapshot_pid = pid as u32;
    while control.ready.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&control.ready, 0, 1);
    }
    Ok(())
}

fn serve(host: &mut Recorder, start: Start, parent: i32) -> ! {
    close_descriptors();
    ignore_signals();
    sys::prctl(sys::PR_SET_PDEATHSIG, u64::from(raw::SIGUSR1));
    sys::prctl(sys::PR_SET_NAME, c"undo-snapshot".as_ptr() as u64);
    let control = control();
    control.ready.store(1, Ordering::Release);
    sys::futex_wake(&control.ready);
    let mut done = 0;
    loop {
        let request = control.request.load(Ordering::Acquire);
        if request == done {
            if sys::getppid() != parent {
                on_orphaned(&start);
            }
            // A timeout covers a parent that died just before PR_SET_PDEATHSIG.
            sys::futex_wait(&control.request, request, 2);
            continue;
        }
        match control.what.load(Ordering::Relaxed) {
            SAVE => {
                let path = until_zero(&control.path);
                let error = save(&start, path).err().unwrap_or(0);
                control.result.store(error as u32, Ordering::Relaxed);
            }
            REPORT => {
                sys::write(2, &control.line[..control.line_length as usize]);
            }
            QUIT => {
                control.done.store(request, Ordering::Release);
                sys::futex_wake(&control.done);
                sys::exit_group(0);
            }
            _ => {}
        }
        done = request;
        control.progress.store(100, Ordering::Relaxed);
        control.done.store(request, Ordering::Release);
        sys::futex_wake(&control.done);
        let _ = &host;
    }
}

/// Nothing of the program's may be held open, but its standard error is kept for messages where that does no harm.
fn close_descriptors() {
    let first = match Descriptor::of(2) {
        Some(descriptor) if descriptor.may_be_kept() => 3,
        _ => 2,
    };
    for (from, to) in [(0, 1), (first, u64::from(u32::MAX))] {
        // SAFETY: this process uses none of them.
        unsafe { sys::syscall(u64::from(raw::__NR_close_range), [from, to, 0, 0, 0, 0]) };
    }
}

/// The recorded process was killed: what it noted until then is saved if that was asked for.
fn on_orphaned(start: &Start) -> ! {
    let control = control();
    let path = until_zero(&control.path_if_killed);
    if path.len() > 1 && !has_end() {
        note_kill();
        let _ = save(start, path);
    }
    sys::exit_group(0)
}

/// Without an end of its own making, history ends just before its last event: that is the last time known to have been reached.
fn note_kill() {
    let control = control();
    if let Some(last) = event_bytes().filter_map(Result::ok).last() {
        control.bbcount = last.time().bbcount;
        // Registers that are all zero say that they are not known.
        control.registers = Registers { rip: last.time().pc, ..Registers::default() };
        control.events_used.store(last.offset(), Ordering::Release);
    }
    control.end_reason = EndReason::Signalled.raw();
    control.end_status = raw::SIGKILL as i32;
}

/// Including the terminating zero.
fn until_zero(path: &[u8]) -> &[u8] {
    let length = path.iter().position(|&byte| byte == 0).unwrap_or(path.len() - 1);
    &path[..=length]
}

fn ignore_signals() {
    let ignore = SigAction { handler: 1, ..SigAction::default() };
    for signal in 1..65u32 {
        // Faults keep the engine's handler, for reads of memory that is not there. SIGUSR1 tells of the parent's death: it must
        // interrupt the wait, which an ignored signal does not.
        if ![raw::SIGSEGV, raw::SIGBUS, raw::SIGUSR1].contains(&signal) {
            // SAFETY: ignoring is not running a handler.
            unsafe { sys::rt_sigaction(signal as i32, &raw const ignore, core::ptr::null_mut()) };
        }
    }
    engine::install_handler::<Recorder>(raw::SIGUSR1 as i32, 0, None);
    sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&0), None);
}

fn event_bytes() -> Events<'static> {
    let used = control().events_used.load(Ordering::Acquire) as usize;
    // SAFETY: the log is mapped for at least `used` bytes; the recorded process only appends behind them.
    Events::new(unsafe { core::slice::from_raw_parts(arena::EVENT_LOG as *const u8, used) })
}

/// A file under a temporary name, buffered.
struct Output {
    fd: i32,
    buffer: Vec<u8>,
}

impl Output {
    fn flush(&mut self) -> Result<(), i32> {
        if control().given_up.load(Ordering::Relaxed) != 0 {
            return Err(sys::errno::ECANCELED as i32);
        }
        let mut rest = self.buffer.as_slice();
        while !rest.is_empty() {
            match sys::write(self.fd, rest) {
                written if written > 0 => rest = &rest[written as usize..],
                error if error == -i64::from(sys::errno::EINTR) => {}
                0 => return Err(sys::errno::ENOSPC as i32),
                error => return Err(-error as i32),
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Sink for Output {
    type Error = i32;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), i32> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE { self.flush() } else { Ok(()) }
    }
}

/// Writes the recording to a temporary name beside `path` and renames it. The error is an errno.
fn save(start: &Start, path: &[u8]) -> Result<(), i32> {
    let mut temporary = path[..path.len() - 1].to_vec();
    temporary.extend_from_slice(b".part\0");
    // SAFETY: paths end in zero.
    let unlink = |path: &[u8]| unsafe { sys::syscall(u64::from(raw::__NR_unlink), [path.as_ptr() as u64, 0, 0, 0, 0, 0]) };
    unlink(&temporary);
    let fd = sys::open(&temporary, raw::O_WRONLY | raw::O_CREAT | raw::O_EXCL | raw::O_CLOEXEC, 0o600);
    if fd < 0 {
        return Err(-fd as i32);
    }
    let result = write(start, Output { fd: fd as i32, buffer: Vec::with_capacity(2 * PIECE) });
    sys::close(fd as i32);
    let result = result.and_then(|()| {
        let args = [temporary.as_ptr() as u64, path.as_ptr() as u64, 0, 0, 0, 0];
        // SAFETY: as above.
        match unsafe { sys::syscall(u64::from(raw::__NR_rename), args) } {
            0 => Ok(()),
            error => Err(-error as i32),
        }
    });
    if result.is_err() {
        unlink(&temporary);
    }
    result
}

/// An errno for any way of failing.
fn failed(error: recording::WriteError<i32>) -> i32 {
    match error {
        recording::WriteError::Sink(error) => error,
        _ => sys::errno::EIO as i32,
    }
}

fn write(start: &Start, output: Output) -> Result<(), i32> {
    let mut writer = FileWriter::new(output).map_err(failed)?;
    writer.metadata(&metadata(start)).map_err(failed)?;
    for map in start.maps.iter().filter(|map| is_guest(start, map)) {
        writer.mapping(&mapping(map)).map_err(failed)?;
    }
    let progress = |percent: usize| control().progress.store(percent as u32, Ordering::Relaxed);
    for (index, map) in start.maps.iter().enumerate().filter(|(_, map)| is_guest(start, map) && has_contents(map)) {
        write_pages(&mut writer, map)?;
        progress(60 * index / start.maps.len());
    }
    let used = control().events_used.load(Ordering::Acquire) as usize;
    // SAFETY: as in `event_bytes`.
    let bytes = unsafe { core::slice::from_raw_parts(arena::EVENT_LOG as *const u8, used) };
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        writer.events(piece).map_err(failed)?;
        progress(60 + 30 * index * PIECE / used);
    }
    if !has_end() {
        writer.events(&end_event()).map_err(failed)?;
    }
    for event in event_bytes() {
        if let Ok(event) = event
            && event.kind() == Some(EventKind::SitesAdded)
            && let Ok(recording::Body::SitesAdded { pc }) = event.body()
        {
            writer.site(pc).map_err(failed)?;
        }
    }
    if control().include_symbol_files {
        write_files(&mut writer, start)?;
    }
    let (mut output, _) = writer.finish().map_err(failed)?;
    output.flush()
}

/// Whether the log's last event is the end of history.
fn has_end() -> bool {
    event_bytes().filter_map(Result::ok).last().is_some_and(|event| event.kind() == Some(EventKind::End))
}

/// The end of a history that is saved while it goes on, or that was cut off by a kill.
fn end_event() -> Vec<u8> {
    let control = control();
    let reason = EndReason::from_raw(control.end_reason).unwrap_or(EndReason::Saved);
    let header = EventHeader::new(Time { bbcount: control.bbcount, pc: control.registers.rip }, 0);
    let body = Body::End(End { reason, status: control.end_status, message: "" });
    let mut bytes = vec![0; EVENT_HEADER_BYTES + 64];
    let length = EventBuilder::begin(&mut bytes, &header, &body).map_or(0, EventBuilder::finish);
    bytes.truncate(length);
    bytes
}

fn is_guest(start: &Start, map: &Map) -> bool {
    !arena::contains(map.start) && !start.own.contains(&map.start) && map.name != b"[vsyscall]"
}

/// Whether its pages are part of the start state: private memory that can be read, and shared memory that is not watched.
fn has_contents(map: &Map) -> bool {
    let unreadable = map.name == b"[vvar]" || map.name.starts_with(b"[vvar_");
    !unreadable && !super::shared::SharedMaps::is_candidate(map)
}

fn mapping(map: &Map) -> Mapping {
    let named = |name: &[u8], flag| if map.name == name { flag } else { MappingFlags::NONE };
    let shared = if super::shared::SharedMaps::is_candidate(map) { MappingFlags::SHARED } else { MappingFlags::NONE };
    let flags = shared
        | named(b"[stack]", MappingFlags::STACK | MappingFlags::GROWS_DOWN)
        | named(b"[heap]", MappingFlags::HEAP)
        | named(b"[vdso]", MappingFlags::VDSO)
        | named(b"[vvar]", MappingFlags::VVAR);
    Mapping {
        start: map.start,
        end: map.end,
        prot: map.prot,
        flags,
        file_offset: map.offset,
        dev: map.device,
        ino: map.inode,
        name: map.name.clone(),
    }
}

/// Writes the pages of one mapping that are not zero.
fn write_pages(writer: &mut FileWriter<Output>, map: &Map) -> Result<(), i32> {
    let mem = sys::open(b"/proc/self/mem\0", raw::O_RDONLY | raw::O_CLOEXEC, 0);
    let pagemap = sys::open(b"/proc/self/pagemap\0", raw::O_RDONLY | raw::O_CLOEXEC, 0);
    let result = copy_pages(writer, map, mem as i32, pagemap as i32);
    sys::close(mem as i32);
    sys::close(pagemap as i32);
    result
}

fn copy_pages(writer: &mut FileWriter<Output>, map: &Map, mem: i32, pagemap: i32) -> Result<(), i32> {
    const PAGE: u64 = 4096;
    const PAGES: usize = 64;
    /// Bits of a pagemap entry: present, swapped.
    const THERE: u64 = 1 << 63 | 1 << 62;
    let anonymous = map.inode == 0;
    let mut buffer = Vec::new();
    let mut at = map.start;
    while at < map.end {
        let pages = (((map.end - at) / PAGE) as usize).min(PAGES);
        let mut entries = [0u8; 8 * PAGES];
        if anonymous && sys::pread(pagemap, &mut entries[..8 * pages], at / PAGE * 8) == 8 * pages as i64 {
            let any = entries[..8 * pages].chunks_exact(8).any(|entry| super::access::word(entry) & THERE != 0);
            if !any {
                at += pages as u64 * PAGE;
                continue;
            }
        }
        buffer.clear();
        buffer.resize(pages * PAGE as usize, 0);
        let readable =
            if map.prot & raw::PROT_READ != 0 { read_guest(at, &mut buffer) } else { sys::pread(mem, &mut buffer, at).max(0) as usize };
        // Pages of a file mapping behind the file's end cannot be read; they are left zero.
        buffer[readable..].fill(0);
        writer.pages(at, &buffer).map_err(failed)?;
        at += pages as u64 * PAGE;
    }
    Ok(())
}

/// Keeps the executable and its libraries.
fn write_files(writer: &mut FileWriter<Output>, start: &Start) -> Result<(), i32> {
    let mut seen: Vec<&[u8]> = Vec::new();
    for map in &start.maps {
        if map.name.first() != Some(&b'/') || map.prot & raw::PROT_EXEC == 0 || seen.contains(&map.name.as_slice()) {
            continue;
        }
        seen.push(&map.name);
        let mut path = map.name.clone();
        path.push(0);
        let fd = sys::open(&path, raw::O_RDONLY | raw::O_CLOEXEC, 0);
        if fd < 0 {
            continue;
        }
        let result = write_file(writer, fd as i32, &map.name);
        sys::close(fd as i32);
        result?;
    }
    Ok(())
}

fn write_file(writer: &mut FileWriter<Output>, fd: i32, path: &[u8]) -> Result<(), i32> {
    let mut status = [0u64; 18];
    // SAFETY: struct stat is 144 bytes.
    if unsafe { sys::syscall(u64::from(raw::__NR_fstat), [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0]) } != 0 {
        return Ok(());
    }
    let (mode, size) = (status[3] as u32, status[6]);
    writer.file(&FileHead { path: path.to_vec(), mode, size, build_id: Vec::new() }).map_err(failed)?;
    let mut buffer = vec![0u8; PIECE];
    let mut at = 0;
    while at < size {
        let wanted = buffer.len().min((size - at) as usize);
        match sys::pread(fd, &mut buffer[..wanted], at) {
            got if got > 0 => {
                writer.file_data(&buffer[..got as usize]).map_err(failed)?;
                at += got as u64;
            }
            _ => break,
        }
    }
    Ok(())
}

/// The start's metadata completed with what is known at the end.
fn metadata(start: &Start) -> Metadata {
    let control = control();
    let now = sys::clock_gettime(raw::CLOCK_REALTIME);
    let regions = &control.regions[..control.region_count as usize];
    let mut reserved: Vec<Area> = regions.iter().map(|&(addr, len)| Area { addr, len }).collect();
    reserved.sort_by_key(|area| area.addr);
    Metadata {
        end_wallclock_ns: now[0] * 1_000_000_000 + now[1],
        // SAFETY: rdtsc has no preconditions.
        end_timestamp: unsafe { core::arch::x86_64::_rdtsc() },
        end: Time { bbcount: control.bbcount, pc: control.registers.rip },
        end_registers: control.registers,
        reserved,
        end_reason: EndReason::from_raw(control.end_reason).unwrap_or(EndReason::Saved),
        end_status: control.end_status,
        end_message: core::str::from_utf8(&control.message[..control.message_length as usize]).unwrap_or("").into(),
        ..start.metadata.clone()
    }
}

/// What a processor must have to replay: the features that code chooses its way by.
pub fn cpuid() -> Vec<CpuidLeaf> {
    const LEAVES: [(u32, u32, [u32; 4]); 3] =
        [(1, 0, [0, 0, !(1 << 27 | 1 << 31), 0xffff_ffff]), (7, 0, [0, 0xffff_ffff, !(1 << 4), 0xffff_ffff]), (0xd, 1, [0xf, 0, 0, 0])];
    let answer = |&(leaf, subleaf, mask): &(u32, u32, [u32; 4])| {
        let found = core::arch::x86_64::__cpuid_count(leaf, subleaf);
        let value = [found.eax & mask[0], found.ebx & mask[1], found.ecx & mask[2], found.edx & mask[3]];
        CpuidLeaf { leaf, subleaf, mask, value }
    };
    LEAVES.iter().map(answer).collect()
}
