//! Writes the `.undo` file, in the snapshot: its memory is the start state.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use engine::arena;
use engine::sys::{self, raw};
use recording::{
    Area, Body, EVENT_HEADER_BYTES, End, EndReason, EventBuilder, EventHeader, EventKind, Events, FileHead, FileWriter, Mapping,
    MappingFlags, Metadata, RunningHash, Sink, Time,
};

use super::control::control;
use super::events;
use super::failure::{Failure, Step};
use super::maps::Map;
use super::packer::{self, Packer};
use super::pages::{self, Pagemap, Wanted};
use super::shared::SharedMaps;
use super::snapshot::Start;

const PIECE: usize = 256 << 10;

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
        write_all(self.fd, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

fn write_all(fd: i32, mut rest: &[u8]) -> Result<(), i32> {
    while !rest.is_empty() {
        match sys::write(fd, rest) {
            written if written > 0 => rest = &rest[written as usize..],
            error if error == -i64::from(sys::errno::EINTR) => {}
            0 => return Err(sys::errno::ENOSPC as i32),
            error => return Err(-error as i32),
        }
    }
    Ok(())
}

impl Sink for Output {
    type Error = i32;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), i32> {
        if self.buffer.len() + bytes.len() > PIECE {
            self.flush()?;
        }
        if bytes.len() > PIECE {
            return write_all(self.fd, bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }
}

/// Writes the recording to a file without a name, then gives it the name `path`.
///
/// So whatever happens to this process nothing is left behind. Where the file system cannot do that the file has the name `path.part`
/// until it is whole.
pub fn save(start: &Start, packer: &mut Packer, path: &[u8]) -> Result<(), Failure> {
    let mut temporary = path[..path.len() - 1].to_vec();
    temporary.extend_from_slice(b".part\0");
    unlink(&temporary);
    let mut directory = path[..path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)].to_vec();
    directory.extend_from_slice(b".\0");
    let nameless = sys::open(&directory, raw::O_WRONLY | raw::O_TMPFILE | raw::O_CLOEXEC, 0o600);
    let named = || sys::open(&temporary, raw::O_WRONLY | raw::O_CREAT | raw::O_EXCL | raw::O_CLOEXEC, 0o600);
    let fd = if nameless >= 0 { nameless } else { named() };
    if fd < 0 {
        return Err(Failure::at(Step::Create, -fd as i32));
    }
    let written = write(start, packer, Output { fd: fd as i32, buffer: Vec::with_capacity(PIECE) });
    let result = written.map_err(|error| Failure::at(Step::Write, error)).and_then(|()| {
        let named = if nameless >= 0 { name(fd as i32, &temporary) } else { Ok(()) };
        let args = [temporary.as_ptr() as u64, path.as_ptr() as u64, 0, 0, 0, 0];
        // SAFETY: paths end in zero.
        let named = named.and_then(|()| succeeded(unsafe { sys::syscall(u64::from(raw::__NR_rename), args) }));
        named.map_err(|error| Failure::at(Step::Name, error))
    });
    sys::close(fd as i32);
    if result.is_err() {
        unlink(&temporary);
    }
    result
}

fn unlink(path: &[u8]) {
    // SAFETY: paths end in zero.
    unsafe { sys::syscall(u64::from(raw::__NR_unlink), [path.as_ptr() as u64, 0, 0, 0, 0, 0]) };
}

fn succeeded(result: i64) -> Result<(), i32> {
    if result == 0 { Ok(()) } else { Err(-result as i32) }
}

/// Gives the file behind a descriptor a name.
fn name(fd: i32, path: &[u8]) -> Result<(), i32> {
    let mut link = alloc::format!("/proc/self/fd/{fd}").into_bytes();
    link.push(0);
    let here = raw::AT_FDCWD as u64;
    let args = [here, link.as_ptr() as u64, here, path.as_ptr() as u64, u64::from(raw::AT_SYMLINK_FOLLOW), 0];
    // SAFETY: paths end in zero.
    succeeded(unsafe { sys::syscall(u64::from(raw::__NR_linkat), args) })
}

/// An errno for any way of failing.
fn failed(error: recording::WriteError<i32>) -> i32 {
    match error {
        recording::WriteError::Sink(error) => error,
        _ => sys::errno::EIO as i32,
    }
}

fn write(start: &Start, packer: &mut Packer, output: Output) -> Result<(), i32> {
    packer.pack();
    let last = last_events();
    let mut running = events::shared().running_at_open();
    Events::new(last).filter_map(Result::ok).for_each(|event| running.add(event.bytes()));
    let end = if has_end() { Vec::new() } else { end_event(running) };
    if !end.is_empty() {
        running.add(&end);
    }
    let mut writer = FileWriter::new(output).map_err(failed)?;
    writer.metadata(&Metadata { events_hash: Some(running.value()), ..metadata(start) }).map_err(failed)?;
    let kept = if control().include_symbol_files { files_to_keep(start) } else { Vec::new() };
    for map in start.maps.iter().filter(|map| is_guest(start, map)) {
        writer.mapping(&mapping(map, is_backed(&kept, map))).map_err(failed)?;
    }
    write_pages(&mut writer, start, &kept)?;
    packer.write(&mut writer, |percent| progress(60 + 30 * percent / 100)).map_err(failed)?;
    writer.events(last).map_err(failed)?;
    writer.events(&end).map_err(failed)?;
    for pc in packer.sites().iter().copied().chain(packer::sites(last)) {
        writer.site(pc).map_err(failed)?;
    }
    for file in &kept {
        write_file(&mut writer, file)?;
    }
    let (mut output, _) = writer.finish().map_err(failed)?;
    output.flush()
}

/// The events of the open segment, the log's last ones.
fn last_events() -> &'static [u8] {
    let log = events::shared();
    log.events(log.open())
}

/// Whether the log's last event is the end of history.
pub fn has_end() -> bool {
    Events::new(last_events()).filter_map(Result::ok).last().is_some_and(|event| event.kind() == Some(EventKind::End))
}

/// The end of a history that is saved while it goes on, or that was cut off by a kill.
fn end_event(running: RunningHash) -> Vec<u8> {
    let control = control();
    let reason = EndReason::from_raw(control.end_reason).unwrap_or(EndReason::Saved);
    let header = EventHeader::new(Time { bbcount: control.bbcount, pc: control.registers.rip }, running.note(0));
    let body = Body::End(End { reason, status: control.end_status, message: "" });
    let mut bytes = vec![0; EVENT_HEADER_BYTES + 64];
    let length = EventBuilder::begin(&mut bytes, &header, &body).map_or(0, EventBuilder::finish);
    bytes.truncate(length);
    bytes
}

pub fn is_guest(start: &Start, map: &Map) -> bool {
    !arena::contains(map.start) && !start.own.contains(&map.start) && map.name != b"[vsyscall]"
}

/// Whether its pages are part of the start state: private memory that can be read, and shared memory that is not watched.
fn has_contents(map: &Map) -> bool {
    let unreadable = map.name == b"[vvar]" || map.name.starts_with(b"[vvar_");
    !unreadable && !SharedMaps::is_candidate(map)
}

fn mapping(map: &Map, backed: bool) -> Mapping {
    let named = |name: &[u8], flag| if map.name == name { flag } else { MappingFlags::NONE };
    let shared = if SharedMaps::is_candidate(map) { MappingFlags::SHARED } else { MappingFlags::NONE };
    let flags = shared
        | named(b"[stack]", MappingFlags::STACK | MappingFlags::GROWS_DOWN)
        | named(b"[heap]", MappingFlags::HEAP)
        | named(b"[vdso]", MappingFlags::VDSO)
        | named(b"[vvar]", MappingFlags::VVAR)
        | if backed { MappingFlags::FROM_FILE } else { MappingFlags::NONE };
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

/// Tells whoever asked how far the save has come.
fn progress(percent: usize) {
    control().progress.store(percent as u32, Ordering::Relaxed);
}

/// Writes the pages of the start state, but for those that the reader takes from a kept file.
fn write_pages(writer: &mut FileWriter<Output>, start: &Start, kept: &[Kept]) -> Result<(), i32> {
    let mem = sys::open(b"/proc/self/mem\0", raw::O_RDONLY | raw::O_CLOEXEC, 0) as i32;
    let pagemap = Pagemap::open();
    let mut result = Ok(());
    for (index, map) in start.maps.iter().enumerate().filter(|(_, map)| is_guest(start, map) && has_contents(map)) {
        progress(60 * index / start.maps.len());
        let backed = is_backed(kept, map);
        let copy = |from, to| copy_pages(writer, map, mem, from, to, backed);
        result = if backed {
            pagemap.runs(map.start, map.end, Wanted::Changed, copy)
        } else if map.inode == 0 && map.name != b"[vdso]" {
            pagemap.runs(map.start, map.end, Wanted::Touched, copy)
        } else {
            let mut copy = copy;
            copy(map.start, map.end)
        };
        if result.is_err() {
            break;
        }
    }
    sys::close(mem);
    result
}

fn copy_pages(writer: &mut FileWriter<Output>, map: &Map, mem: i32, from: u64, to: u64, backed: bool) -> Result<(), i32> {
    let mut put = |at: u64, bytes: &[u8]| if backed { writer.changed_pages(at, bytes) } else { writer.pages(at, bytes) }.map_err(failed);
    if map.prot & raw::PROT_READ != 0 {
        return pages::read(from, to, put);
    }
    let mut buffer = vec![0; PIECE.min((to - from) as usize)];
    let mut at = from;
    while at < to {
        let length = buffer.len().min((to - at) as usize);
        let piece = &mut buffer[..length];
        let got = sys::pread(mem, piece, at).max(0) as usize;
        piece[got..].fill(0);
        put(at, piece)?;
        at += length as u64;
    }
    Ok(())
}

/// A file that goes into the recording: the executable, or a library.
struct Kept<'a> {
    path: &'a [u8],
    fd: i32,
    device: u64,
    inode: u64,
    mode: u32,
    size: u64,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        sys::close(self.fd);
    }
}

/// Opens the executable and its libraries, as far as they are still what the program has mapped.
fn files_to_keep(start: &Start) -> Vec<Kept<'_>> {
    let mut kept: Vec<Kept> = Vec::new();
    for map in &start.maps {
        if map.name.first() != Some(&b'/') || map.prot & raw::PROT_EXEC == 0 || kept.iter().any(|file| file.path == map.name) {
            continue;
        }
        let mut path = map.name.clone();
        path.push(0);
        let fd = sys::open(&path, raw::O_RDONLY | raw::O_CLOEXEC | raw::O_NONBLOCK, 0);
        if fd < 0 {
            continue;
        }
        let mut status = [0u64; 18];
        // SAFETY: struct stat is 144 bytes.
        let result = unsafe { sys::syscall(u64::from(raw::__NR_fstat), [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0]) };
        let [device, inode, _, mode, _, _, size, ..] = status;
        let file = Kept { path: &map.name, fd: fd as i32, device, inode, mode: mode as u32, size };
        const REGULAR: u32 = 0o100_000;
        if result == 0 && (device, inode) == (map.device, map.inode) && file.mode & 0o170_000 == REGULAR {
            kept.push(file);
        }
    }
    kept
}

/// Whether the pages of this mapping that the program has not changed are those of a kept file.
fn is_backed(kept: &[Kept], map: &Map) -> bool {
    !map.shared && kept.iter().any(|file| (file.device, file.inode) == (map.device, map.inode) && file.path == map.name)
}

fn write_file(writer: &mut FileWriter<Output>, file: &Kept) -> Result<(), i32> {
    let head = FileHead { path: file.path.to_vec(), mode: file.mode, size: file.size, build_id: Vec::new() };
    writer.file(&head).map_err(failed)?;
    let mut buffer = vec![0u8; PIECE];
    let mut at = 0;
    while at < file.size {
        let wanted = buffer.len().min((file.size - at) as usize);
        match sys::pread(file.fd, &mut buffer[..wanted], at) {
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
