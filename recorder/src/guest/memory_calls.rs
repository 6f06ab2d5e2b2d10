//! System calls that change the address space. Each shared mapping exists three times, so what the guest asks for is done to its own
//! mapping and then to our views of it.

use alloc::vec::Vec;

use engine::sys::{self, errno, raw};
use engine::{Flow, arena, read_guest};
use recording::{EventBuilder, Full};

use super::calls::Turn;
use super::freed::Freed;
use super::host::{Guest, Recorder};
use super::maps::{self, Map};
use super::shared::{SharedMap, SharedMaps};
use super::{borrowed, end, own_memory};

/// The end of what Linux gives to a program.
const USER_END: u64 = 0x7fff_ffff_f000;

const fn page_up(address: u64) -> u64 {
    address.saturating_add(4095) & !4095
}

impl Turn<'_> {
    pub fn memory(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        let is_asking = self.number as u32 == raw::__NR_brk && self.args[0] == 0;
        if host.events.is_muted() && !is_asking && !is_about_contents(self.number as u32) {
            borrowed::note_change();
        }
        self.change_memory(host, engine)
    }

    fn change_memory(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        let [address, length, ..] = self.args;
        let end = page_up(address.saturating_add(length));
        match self.number as u32 {
            raw::__NR_mmap => self.mmap(host, engine),
            raw::__NR_brk => {
                let result = self.native();
                self.done_simply(host, engine, result)
            }
            raw::__NR_munmap => {
                let result = self.munmap(host, engine, address, end);
                if result == 0 {
                    host.shared.remove(address, end);
                    host.code.set(address, end, 0);
                    engine.discard(address, end);
                }
                self.done_simply(host, engine, result)
            }
            raw::__NR_mprotect | raw::__NR_pkey_mprotect => self.mprotect(host, engine, address, end),
            raw::__NR_mremap => self.mremap(host, engine),
            raw::__NR_madvise => self.madvise(host, engine, address, end),
            raw::__NR_shmat => {
                let result = self.native();
                if result > 0 {
                    adopt_at(host, engine.bbcount(), result as u64, u64::MAX);
                }
                // Only the kernel knows the segment's size: an empty write at its end tells replay.
                let end = host.shared.find(result as u64).map(|map| map.end);
                let end = end.or_else(|| maps::find(result as u64).map(|map| map.end));
                self.done_up_to(host, engine, result, end.filter(|_| result > 0))
            }
            raw::__NR_shmdt => {
                let end = host.shared.find(address).map(|first| {
                    let parts = host.shared.iter().filter(|map| map.is_of(first) && map.start.wrapping_sub(map.offset) == address);
                    parts.map(|map| map.end).max().unwrap_or(first.end)
                });
                let end = end.or_else(|| maps::find(address).map(|map| map.end));
                let result = self.native();
                if let (0, Some(end)) = (result, end) {
                    host.shared.remove(address, end);
                }
                self.done_up_to(host, engine, result, end.filter(|_| result == 0))
            }
            raw::__NR_msync | raw::__NR_mlock | raw::__NR_mlock2 | raw::__NR_munlock => {
                host.shared.open(address, end);
                let result = self.native();
                host.shared.shut(address, end);
                self.done_simply(host, engine, result)
            }
            raw::__NR_mlockall | raw::__NR_munlockall => {
                let result = self.native();
                self.done_simply(host, engine, result)
            }
            _ => end::stop_unsupported(host, engine, format_args!("system call {}", self.name())),
        }
    }

    /// Notes the call with an empty write at `end`.
    fn done_up_to(&self, host: &mut Recorder, engine: &mut Guest, result: i64, end: Option<u64>) -> Flow {
        self.done(host, engine, result, &mut |builder| match end {
            Some(end) => builder.push_write(end, &[]),
            None => Ok(()),
        })
    }

    fn mmap(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        let [address, length, prot, flags, fd, offset] = self.args;
        let flags = flags as u32;
        let end = page_up(address.saturating_add(length));
        let fixed = flags & raw::MAP_FIXED != 0;
        if fixed && own_memory::overlaps(host, engine, address, end) {
            return changes_ours(host, engine);
        }
        if flags & raw::MAP_FIXED_NOREPLACE != 0 && !fixed && own_memory::overlaps(host, engine, address, end) {
            return self.done_simply(host, engine, -i64::from(errno::EEXIST));
        }
        let kind = flags & raw::MAP_TYPE;
        let shared = kind == raw::MAP_SHARED || kind == raw::MAP_SHARED_VALIDATE;
        if shared && flags & raw::MAP_ANONYMOUS == 0 && becomes_written_code(host, fd as i32, prot as u32, offset, page_up(length)) {
            return end::stop_unsupported(host, engine, format_args!("{WRITTEN_CODE}"));
        }
        let result = if fixed { self.native() } else { self.mmap_elsewhere(host, engine) };
        if result < 0 && result > -4096 {
            if fixed {
                host.shared.reconcile(address, end);
            }
            return self.done_simply(host, engine, result);
        }
        let start = result as u64;
        let end = page_up(start.saturating_add(length));
        if fixed {
            host.shared.remove(start, end);
        }
        engine.discard(start, end);
        host.code.set(start, end, prot as u32);
        if shared && prot as u32 & raw::PROT_EXEC == 0 && adopt_at(host, engine.bbcount(), start, end) {
            return self.done_simply(host, engine, result);
        }
        if flags & raw::MAP_ANONYMOUS != 0 {
            return self.done_simply(host, engine, result);
        }
        self.done(host, engine, result, &mut |builder| push_file(builder, fd as i32, offset, start, end - start))
    }

    /// What is ours stays, as if nothing were there.
    fn munmap(&self, host: &Recorder, engine: &Guest, address: u64, end: u64) -> i64 {
        if !address.is_multiple_of(4096) || end <= address || end > USER_END || !own_memory::overlaps(host, engine, address, end) {
            return self.native();
        }
        let results = own_memory::outside(host, engine, address, end).into_iter().map(|(start, end)| sys::munmap(start, end - start));
        results.fold(0, |all, result| if all == 0 { result } else { all })
    }

    /// Maps at an address of the kernel's choice, which must not lie in areas of ours: asked for by the guest or not.
    fn mmap_elsewhere(&self, host: &Recorder, engine: &Guest) -> i64 {
        let [hint, length, ..] = self.args;
        let pages = page_up(length);
        let below = arena::BASE.saturating_sub(pages);
        let mut actual = self.args;
        for hint in [hint, 0, below] {
            if hint != 0 && hint != below && own_memory::overlaps(host, engine, hint & !4095, (hint & !4095).saturating_add(pages)) {
                continue;
            }
            actual[0] = hint;
            // SAFETY: as the guest asked, but for the hint.
            let result = unsafe { sys::syscall(self.number, actual) };
            let refused = (-4095..0).contains(&result);
            if refused || !own_memory::overlaps(host, engine, result as u64, (result as u64).saturating_add(pages)) {
                return result;
            }
            sys::munmap(result as u64, pages);
        }
        -i64::from(errno::ENOMEM)
    }

    fn mprotect(&mut self, host: &mut Recorder, engine: &mut Guest, address: u64, end: u64) -> Flow {
        if own_memory::overlaps(host, engine, address, end) {
            return changes_ours(host, engine);
        }
        let prot = self.args[2] as u32 & 7;
        let code = if prot & raw::PROT_EXEC == 0 { Vec::new() } else { host.shared.within(address, end) };
        let elsewhere = |map: &&SharedMap| map.end <= address || end <= map.start;
        if code.iter().any(|code| host.shared.iter().filter(elsewhere).any(|map| map.may_write(code.device, code.inode, code.extent()))) {
            return end::stop_unsupported(host, engine, format_args!("{WRITTEN_CODE}"));
        }
        let result = self.native();
        engine.discard(address, end);
        // After half of it has been done they are asked for again.
        host.code.set(address, end, if result == 0 { prot } else { 0 });
        let end = if result == 0 { end } else { changed_up_to(address, end, result, prot) };
        let parts = host.shared.within(address, end);
        if prot & raw::PROT_EXEC == 0 {
            host.shared.protect(address, end, prot);
            // Replay knows where the next gap is, but not which rights the kernel refuses.
            return self.done_up_to(host, engine, result, (result == -i64::from(errno::EACCES)).then_some(end));
        }
        // What is shared is code from now on, which is executed where it lies.
        host.shared.remove(address, end);
        self.done(host, engine, result, &mut |builder| parts.iter().try_for_each(|part| push_memory(builder, part.start, part.end)))
    }

    fn mremap(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        let [old, old_length, new_length, flags, to, _] = self.args;
        let flags = flags as u32;
        let (old_end, new_length) = (page_up(old.saturating_add(old_length)), page_up(new_length));
        let target = (flags & raw::MREMAP_FIXED != 0).then_some((to, to.saturating_add(new_length)));
        if own_memory::overlaps(host, engine, old, old_end.max(old.saturating_add(1))) {
            return self.done_simply(host, engine, -i64::from(errno::EFAULT));
        }
        if target.is_some_and(|(start, end)| own_memory::overlaps(host, engine, start, end)) {
            return changes_ours(host, engine);
        }
        let parts = host.shared.within(old, old_end);
        // To the kernel those that differ in nothing but their rights are one now.
        if parts.iter().any(|part| part.prot != parts[0].prot) {
            return self.done_simply(host, engine, -i64::from(errno::EFAULT));
        }
        let seen_again = if old_end == old { host.shared.find(old).map(|map| map.part(old, map.end)) } else { None };
        let result = self.native();
        if (-4095..0).contains(&result) {
            if let Some((start, end)) = target {
                host.shared.reconcile(start, end);
            }
            return self.done_simply(host, engine, result);
        }
        let (new, new_end) = (result as u64, (result as u64).saturating_add(new_length));
        if let Some((start, end)) = target {
            host.shared.remove(start, end);
        }
        let keeps = flags & raw::MREMAP_DONTUNMAP != 0;
        for (start, end) in [(old, old_end), (new, new_end)] {
            engine.discard(start, end);
            // Asked for again when it is executed.
            host.code.set(start, end, 0);
        }
        if let Some(model) = seen_again.or(parts.first().copied()) {
            let map = Map { start: new, end: new_end, offset: model.offset, ..model.as_map() };
            if !parts.is_empty() && !keeps && new == old && new_end <= old_end {
                // It has only become shorter.
                host.shared.remove(new_end, old_end);
            } else if host.shared.moved((old, old_end), &map, keeps).is_ok() && model.object.is_some() {
                let name = maps::find(new).map(|map| map.name).unwrap_or_default();
                log_mapping(host, engine.bbcount(), new, &name);
            }
            return self.done_simply(host, engine, result);
        }
        // What of a file is in reach now, or again.
        let mut pieces = Vec::new();
        let added = new + (old_end - old).min(new_length);
        if added < new_end && is_private_file(added) {
            pieces.push((added, new_end));
        }
        if keeps && is_private_file(old) {
            pieces.push((old, old_end));
        }
        self.done(host, engine, result, &mut |builder| pieces.iter().try_for_each(|&(start, end)| push_memory(builder, start, end)))
    }

    fn madvise(&mut self, host: &mut Recorder, engine: &mut Guest, address: u64, end: u64) -> Flow {
        let advice = self.args[2] as u32;
        if own_memory::overlaps(host, engine, address, end) {
            return changes_ours(host, engine);
        }
        let empties = [raw::MADV_DONTNEED, raw::MADV_DONTNEED_LOCKED, raw::MADV_REMOVE].contains(&advice);
        let shares = host.shared.overlaps(address, end);
        let frees = shares && advice == raw::MADV_REMOVE;
        let freed = if frees { self.frees(host, engine, address, end) } else { Freed::default() };
        if shares {
            host.shared.open(address, end);
        }
        let result = match advice {
            // When freed pages become zero is the kernel's whim; keeping them is within what it promises.
            raw::MADV_FREE => 0,
            _ => self.native(),
        };
        if shares {
            host.shared.shut(address, end);
        }
        // An error may come after a part of the work.
        let is_done = result == 0 || result == -i64::from(errno::ENOMEM);
        self.freed(host, engine, freed, is_done);
        let mut back = Vec::new();
        if is_done && empties {
            // Replay sees what is shared as empty until it is read again.
            host.shared.forget_contents(address, end);
            if advice != raw::MADV_REMOVE {
                // Of a private mapping of a file, the file's contents come back.
                let files = maps::own().into_iter().filter(|map| map.inode != 0 && !map.shared && map.start < end && address < map.end);
                back.extend(files.map(|map| (map.start.max(address), map.end.min(end))));
            }
        }
        self.done(host, engine, result, &mut |builder| back.iter().try_for_each(|&(start, end)| push_memory(builder, start, end)))
    }
}

/// Translations of such code would have to follow each write to it, in replay too.
const WRITTEN_CODE: &str = "code in shared memory that is written through another mapping";

/// Whether a shared mapping of a file with these rights makes code of it writable elsewhere, or what is writable elsewhere code.
fn becomes_written_code(host: &Recorder, fd: i32, prot: u32, offset: u64, length: u64) -> bool {
    let (writes, executes) = (prot & raw::PROT_WRITE != 0, prot & raw::PROT_EXEC != 0);
    // struct stat: device, inode.
    let mut status = [0u64; 18];
    // SAFETY: struct stat is 144 bytes.
    let known = (writes || executes)
        && unsafe { sys::syscall(u64::from(raw::__NR_fstat), [fd as u64, status.as_mut_ptr() as u64, 0, 0, 0, 0]) } == 0;
    let (device, inode, extent) = (status[0], status[1], (offset, offset.saturating_add(length)));
    let is_code = |map: &Map| {
        let overlaps = map.offset < extent.1 && extent.0 < map.offset + (map.end - map.start);
        map.shared && map.prot & raw::PROT_EXEC != 0 && (map.device, map.inode) == (device, inode) && overlaps
    };
    known && (executes && host.shared.iter().any(|map| map.may_write(device, inode, extent)) || writes && maps::own().iter().any(is_code))
}

/// Whether a call leaves the list of mappings as it is.
fn is_about_contents(number: u32) -> bool {
    use raw::{__NR_madvise, __NR_mlock, __NR_mlock2, __NR_mlockall, __NR_msync, __NR_munlock, __NR_munlockall};
    [__NR_madvise, __NR_msync, __NR_mlock, __NR_mlock2, __NR_munlock, __NR_mlockall, __NR_munlockall].contains(&number)
}

/// The program changes memory of ours, which it can know of only from the kernel. We leave: then it may.
fn changes_ours(host: &mut Recorder, engine: &mut Guest) -> Flow {
    end::stop_unsupported(host, engine, format_args!("a change of the recorder's own memory"))
}

/// How far an mprotect that failed half-way has come.
fn changed_up_to(address: u64, end: u64, error: i64, prot: u32) -> u64 {
    let is_refused = error == -i64::from(errno::EACCES);
    let mut reached = address;
    if !is_refused && error != -i64::from(errno::ENOMEM) {
        return reached;
    }
    for map in maps::own().iter().filter(|map| map.end > address && map.start < end) {
        if map.start > reached || (is_refused && map.prot != prot) {
            break;
        }
        reached = map.end.min(end);
    }
    reached
}

fn is_private_file(address: u64) -> bool {
    maps::find(address).is_some_and(|map| map.inode != 0 && !map.shared)
}

/// What there is of [start, end) up to the first page without contents (behind a file's end), whatever the rights.
fn push_memory(builder: &mut EventBuilder, start: u64, end: u64) -> Result<(), Full> {
    let mem = sys::open(b"/proc/self/mem\0", raw::O_RDONLY | raw::O_CLOEXEC, 0);
    let mut page = [0u8; 4096];
    let mut result = Ok(());
    for at in (start..end).step_by(page.len()) {
        if read_guest(at, &mut page) != page.len() && sys::pread(mem as i32, &mut page, at) != page.len() as i64 {
            break;
        }
        result = builder.push_write(at, &page);
        if result.is_err() {
            break;
        }
    }
    if mem >= 0 {
        sys::close(mem as i32);
    }
    result
}

/// The contents of a file mapping, up to the end of the file's last page.
fn push_file(builder: &mut EventBuilder, fd: i32, offset: u64, start: u64, length: u64) -> Result<(), Full> {
    const PIECE: u64 = 1 << 20;
    let mut done = 0;
    let mut piece = Vec::new();
    while done < length {
        let wanted = (length - done).min(PIECE);
        piece.resize(wanted as usize, 0);
        let mut filled = 0;
        while filled < piece.len() {
            match sys::pread(fd, &mut piece[filled..], offset + done + filled as u64) {
                got if got > 0 => filled += got as usize,
                _ => break,
            }
        }
        if filled == 0 {
            break;
        }
        builder.push_write(start + done, &piece[..filled])?;
        if filled < piece.len() {
            break;
        }
        done += wanted;
    }
    Ok(())
}

/// Takes over the mapping that was made from `start` to at most `end`, if it is a shared one; returns whether it was.
fn adopt_at(host: &mut Recorder, bbcount: u64, start: u64, end: u64) -> bool {
    let Some(found) = maps::find(start) else { return false };
    // The kernel may have joined it with a neighbour.
    let map = Map { start, end: end.min(found.end), offset: found.offset + (start - found.start), ..found };
    SharedMaps::is_candidate(&map) && adopt(host, bbcount, &map)
}

/// Takes over a shared mapping and makes it known to the access log.
pub fn adopt(host: &mut Recorder, bbcount: u64, map: &Map) -> bool {
    if host.shared.adopt(map).is_err() {
        return false;
    }
    // Caches of the system that every program maps read-only (character sets, fonts) would only fill the log with their reads.
    let system_cache = map.prot & raw::PROT_WRITE == 0
        && [b"/usr/".as_slice(), b"/lib", b"/etc/", b"/var/cache/"].iter().any(|dir| map.name.starts_with(dir));
    if !system_cache {
        log_mapping(host, bbcount, map.start, &map.name);
    }
    true
}

/// Makes a mapping that has been taken over known to the access log.
fn log_mapping(host: &mut Recorder, bbcount: u64, start: u64, name: &[u8]) {
    let mapping = host.shared.iter_mut().find(|map| map.start == start);
    if let (Some(log), Some(map)) = (&mut host.log, mapping) {
        log.add_mapping(map, name, bbcount);
    }
}

impl SharedMap {
    /// The part of its object that it shows.
    fn extent(&self) -> (u64, u64) {
        (self.offset, self.to_object(self.end))
    }

    /// Whether this part of this object can be written through it.
    fn may_write(&self, device: u64, inode: u64, extent: (u64, u64)) -> bool {
        let (from, to) = self.extent();
        self.prot & raw::PROT_WRITE != 0 && (self.device, self.inode) == (device, inode) && from < extent.1 && extent.0 < to
    }

    /// As the kernel would list it without us.
    fn as_map(&self) -> Map {
        Map {
            start: self.start,
            end: self.end,
            prot: self.prot,
            shared: true,
            offset: self.offset,
            device: self.device,
            inode: self.inode,
            name: Vec::new(),
        }
    }
}
