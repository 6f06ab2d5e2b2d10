//! Runs a system call for real and compares what changed with what the table says.
//!
//! All buffers of a scenario are cut from one region filled with a pattern, with untouched bytes between them and closed
//! pages around it. After a call, every changed byte must lie in a declared output (I1 of the module), and every declared
//! range inside a buffer (I2).

use std::arch::asm;
use std::collections::{BTreeMap, BTreeSet};

use linux_raw_sys::errno::EFAULT;
use linux_raw_sys::general::*;

use crate::syscalls::call::Call;
use crate::syscalls::{Dir, GuestMemory, Place, Range};

const REGION: u64 = 64 * 1024;
const GUARD: u64 = 4096;
const GAP: u64 = 48;

/// Executes a system call.
pub(super) fn raw(nr: u32, args: &[u64]) -> i64 {
    let arg = |i: usize| args.get(i).copied().unwrap_or(0);
    let result;
    // SAFETY: the scenarios pass buffers of their own region only, and no call here changes any other memory.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") i64::from(nr) => result,
            in("rdi") arg(0), in("rsi") arg(1), in("rdx") arg(2), in("r10") arg(3), in("r8") arg(4), in("r9") arg(5),
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// This process's memory, read by the kernel, which answers with an error where nothing is mapped.
pub(super) struct OwnMemory;

impl GuestMemory for OwnMemory {
    fn read(&self, addr: u64, into: &mut [u8]) -> bool {
        let local = [into.as_mut_ptr() as u64, into.len() as u64];
        let remote = [addr, into.len() as u64];
        let pid = raw(__NR_getpid, &[]) as u64;
        raw(__NR_process_vm_readv, &[pid, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0]) == into.len() as i64
    }

    fn semaphores(&self, set: u64) -> u64 {
        let mut info = [0u64; 13];
        let result = raw(__NR_semctl, &[set, 0, 2, info.as_mut_ptr() as u64]);
        if result == 0 { info[10] } else { 0 }
    }
}

pub(super) struct Oracle {
    base: u64,
    /// Six open pages, each with a closed one behind it.
    edges: u64,
    next: u64,
    buffers: Vec<Range>,
    tried: BTreeSet<&'static str>,
    calls: usize,
    noticed: BTreeMap<(&'static str, u8), bool>,
}

fn covered(ranges: &[Range], addr: u64) -> bool {
    ranges.iter().any(|r| (r.addr..r.addr + r.len).contains(&addr))
}

/// The addresses of the bytes that differ.
fn differences(before: &[(u64, Vec<u8>)], after: &[(u64, Vec<u8>)]) -> Vec<u64> {
    const LINE: usize = 64;
    let mut changed = Vec::new();
    for ((at, old), (_, new)) in before.iter().zip(after) {
        let lines = old.chunks(LINE).zip(new.chunks(LINE)).enumerate();
        for (line, (old, new)) in lines.filter(|(_, (old, new))| old != new) {
            let bytes = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new);
            changed.extend(bytes.map(|(i, _)| at + (line * LINE + i) as u64));
        }
    }
    changed
}

fn pattern(offset: usize) -> u8 {
    (offset.wrapping_mul(167) >> 3) as u8 | 1
}

impl Oracle {
    pub(super) fn new() -> Oracle {
        let map = |addr: u64, len: u64, prot: u32, flags: u32| {
            raw(__NR_mmap, &[addr, len, prot.into(), (MAP_PRIVATE | MAP_ANONYMOUS | flags).into(), u64::MAX, 0])
        };
        let outer = map(0, REGION + 2 * GUARD, PROT_NONE, 0);
        assert!(outer > 0);
        let base = outer as u64 + GUARD;
        assert_eq!(map(base, REGION, PROT_READ | PROT_WRITE, MAP_FIXED), base as i64);
        let edges = map(0, 12 * GUARD, PROT_NONE, 0) as u64;
        for i in 0..6 {
            assert!(map(edges + 2 * i * GUARD, GUARD, PROT_READ | PROT_WRITE, MAP_FIXED) > 0);
        }
        let oracle =
            Oracle { base, edges, next: base + GAP, buffers: Vec::new(), tried: BTreeSet::new(), calls: 0, noticed: BTreeMap::new() };
        let bytes: Vec<u8> = (0..REGION as usize).map(pattern).collect();
        oracle.write(base, &bytes);
        oracle
    }

    /// The first address behind the region, where nothing can be read.
    pub(super) fn end(&self) -> u64 {
        self.base + REGION
    }

    /// The names of the calls made so far.
    pub(super) fn tried(&self) -> impl Iterator<Item = &'static str> {
        self.tried.iter().copied()
    }

    /// A buffer filled with the pattern.
    pub(super) fn buffer(&mut self, len: u64) -> u64 {
        let addr = self.next;
        self.next += len.next_multiple_of(16) + GAP;
        assert!(self.next < self.end(), "the region is too small for this scenario");
        self.buffers.push(Range { addr, len });
        addr
    }

    /// A buffer at the very end of the region.
    pub(super) fn last_buffer(&mut self, len: u64) -> u64 {
        let addr = self.end() - len;
        assert!(self.next < addr);
        self.buffers.push(Range { addr, len });
        addr
    }

    /// A buffer with this content.
    pub(super) fn put(&mut self, bytes: &[u8]) -> u64 {
        let addr = self.buffer(bytes.len() as u64);
        self.write(addr, bytes);
        addr
    }

    pub(super) fn put_words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put(&bytes)
    }

    pub(super) fn put_halves(&mut self, halves: &[u32]) -> u64 {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_ne_bytes()).collect();
        self.put(&bytes)
    }

    pub(super) fn put_string(&mut self, string: &str) -> u64 {
        let mut bytes = string.as_bytes().to_vec();
        bytes.push(0);
        self.put(&bytes)
    }

    pub(super) fn write(&self, addr: u64, bytes: &[u8]) {
        assert!(addr >= self.base && addr + bytes.len() as u64 <= self.end());
        // SAFETY: the range lies in the region, which this object mapped and nobody refers to.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr as *mut u8, bytes.len()) };
    }

    pub(super) fn read(&self, addr: u64, len: u64) -> Vec<u8> {
        assert!(addr >= self.base && addr + len <= self.end());
        // SAFETY: as in `write`; the bytes are copied before anything can change them.
        unsafe { std::slice::from_raw_parts(addr as *const u8, len as usize) }.to_vec()
    }

    /// All memory that the scenario's calls may reach: address and content of each piece.
    fn everything(&self) -> Vec<(u64, Vec<u8>)> {
        let edges = (0..6).map(|i| (self.edges + 2 * i * GUARD, GUARD));
        let pieces = std::iter::once((self.base, REGION)).chain(edges);
        // SAFETY: these pages belong to this object, are open, and change only within a system call.
        pieces.map(|(at, len)| (at, unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) }.to_vec())).collect()
    }

    pub(super) fn half(&self, addr: u64) -> u32 {
        u32::from_ne_bytes(self.read(addr, 4).try_into().unwrap())
    }

    fn inside_a_buffer(&self, range: Range) -> bool {
        self.buffers.iter().any(|b| range.addr >= b.addr && range.addr + range.len <= b.addr + b.len)
    }

    fn inside_the_region(&self, range: Range) -> bool {
        range.addr < self.end() && range.addr + range.len > self.base
    }

    /// Puts a new pattern where the kernel only writes, so that it cannot write what is there already.
    fn refill(&mut self, written: &[Range], read: &[Range]) {
        self.calls += 1;
        let overlap = |a: &Range, b: &Range| a.addr < b.addr + b.len && b.addr < a.addr + a.len;
        for range in written {
            if self.inside_a_buffer(*range) && !read.iter().any(|r| overlap(r, range)) {
                let bytes: Vec<u8> = (0..range.len as usize).map(|i| pattern(i * 5 + self.calls)).collect();
                self.write(range.addr, &bytes);
            }
        }
    }

    /// Makes the call as `call` describes it; answers with the result and everything that contradicts the description.
    pub(super) fn judge(&mut self, call: &Call) -> (i64, Vec<String>) {
        let mut wrong = Vec::new();
        let (mut capacity, mut written, mut read) = (Vec::new(), Vec::new(), Vec::new());
        call.for_each_pointer(&OwnMemory, &mut |p| {
            if let Place::Arg(i) = p.place
                && p.range.addr != call.args()[usize::from(i)]
            {
                wrong.push(format!("argument {i} is not {:#x}", p.range.addr));
            }
            capacity.push(p.range);
            if p.dir == Dir::Out { &mut written } else { &mut read }.push(p.range);
        });
        self.refill(&written, &read);

        let before = self.everything();
        let result = raw(call.nr() as u32, call.args());
        let after = self.everything();

        let mut inputs = Vec::new();
        call.for_each_input(result, &OwnMemory, &mut |range| inputs.push(range));
        let mut outputs = Vec::new();
        call.for_each_output(result, &OwnMemory, &mut |range| outputs.push(range));

        for range in capacity.iter().chain(&inputs).chain(&outputs) {
            if self.inside_the_region(*range) && !self.inside_a_buffer(*range) {
                wrong.push(format!("{range:x?} is in no buffer"));
            }
        }
        for range in inputs.iter().chain(&outputs) {
            if !capacity.iter().any(|c| range.addr >= c.addr && range.addr + range.len <= c.addr + c.len) {
                wrong.push(format!("no pointer leads to {range:x?}"));
            }
        }
        let changed = differences(&before, &after);
        for &addr in &changed {
            if !covered(&outputs, addr) {
                let buffer = self.buffers.iter().find(|b| (b.addr..b.addr + b.len).contains(&addr));
                let at = buffer.map_or(-1, |b| (addr - b.addr) as i64);
                wrong.push(format!("the kernel wrote offset {at} of {buffer:x?}, outside of {outputs:x?}"));
            }
        }
        self.tried.insert(call.name());
        self.try_without_each_output(call, result, &changed);
        (result, wrong)
    }

    /// Notes for each output of the call whether its row could lose it unnoticed.
    fn try_without_each_output(&mut self, call: &Call, result: i64, changed: &[u64]) {
        for (i, arg) in call.effects.iter().enumerate().filter(|(_, arg)| arg.dir.writes()) {
            let mut rest = call.effects.to_vec();
            rest.remove(i);
            let mut outputs = Vec::new();
            call.with_effects(rest.leak()).for_each_output(result, &OwnMemory, &mut |range| outputs.push(range));
            let noticed = changed.iter().any(|&addr| !covered(&outputs, addr));
            if noticed || result >= 0 {
                *self.noticed.entry((call.name(), arg.arg)).or_insert(false) |= noticed;
            }
        }
    }

    /// The outputs that were there in calls that succeeded, and whether it was noticed when their row lost them.
    pub(super) fn noticed(&self) -> &BTreeMap<(&'static str, u8), bool> {
        &self.noticed
    }

    /// Copies what an argument only reads to the end of a page with nothing behind it: a call that reads more than its row says
    /// fails there.
    fn move_inputs_to_the_edge(&self, nr: u32, args: &mut [u64; 6]) {
        let mut only_read: [Option<u64>; 6] = [None; 6];
        let mut other = [false; 6];
        Call::capture(nr.into(), args, &OwnMemory).for_each_pointer(&OwnMemory, &mut |p| {
            if let Place::Arg(i) = p.place {
                let i = usize::from(i);
                only_read[i] = only_read[i].max(Some(p.range.len));
                other[i] |= p.dir != Dir::In || !self.inside_a_buffer(p.range) || p.range.len > GUARD;
            }
        });
        for (i, len) in only_read.into_iter().enumerate() {
            if let Some(len) = len.filter(|_| !other[i]) {
                let edge = self.edges + (i as u64 * 2 + 1) * GUARD;
                let bytes = self.read(args[i], len);
                args[i] = edge - len;
                // SAFETY: the page before the edge belongs to this object alone, and `len` is at most a page.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), args[i] as *mut u8, bytes.len()) };
            }
        }
    }

    /// Makes a call that may fail, though not by reaching into nothing, and checks the table's description.
    pub(super) fn any(&mut self, nr: u32, args: &[u64]) -> i64 {
        let result = self.run(nr, args);
        assert_ne!(result, -i64::from(EFAULT), "{nr} {args:x?} went beyond what its row says");
        result
    }

    fn run(&mut self, nr: u32, args: &[u64]) -> i64 {
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        self.move_inputs_to_the_edge(nr, &mut six);
        let call = Call::capture(nr.into(), &six, &OwnMemory);
        let (result, wrong) = self.judge(&call);
        assert!(wrong.is_empty(), "{} = {result}: {wrong:#?}", call.name());
        result
    }

    /// The same for a call that must succeed.
    pub(super) fn ok(&mut self, nr: u32, args: &[u64]) -> i64 {
        let result = self.any(nr, args);
        assert!(result >= 0, "{nr} {args:x?} failed with {result}");
        result
    }

    /// The same for a call that must fail with this error.
    pub(super) fn fails(&mut self, error: u32, nr: u32, args: &[u64]) {
        assert_eq!(self.run(nr, args), -i64::from(error), "{nr} {args:x?}");
    }

    /// Opens a file for the scenario.
    pub(super) fn open(&mut self, path: &str, flags: u32) -> u64 {
        let path = self.put_string(path);
        self.ok(__NR_openat, &[AT_FDCWD as u64, path, flags.into(), 0o600]) as u64
    }

    /// A memory file with this content, positioned at its start.
    pub(super) fn memory_file(&mut self, content: &[u8]) -> u64 {
        let name = self.put_string("oracle");
        let fd = self.ok(__NR_memfd_create, &[name, 0]) as u64;
        let bytes = self.put(content);
        self.ok(__NR_pwrite64, &[fd, bytes, content.len() as u64, 0]);
        fd
    }

    /// A pipe with this content: its reading and its writing end.
    pub(super) fn pipe(&mut self, content: &[u8]) -> (u64, u64) {
        let fds = self.buffer(8);
        self.ok(__NR_pipe2, &[fds, 0]);
        let (reader, writer) = (u64::from(self.half(fds)), u64::from(self.half(fds + 4)));
        if !content.is_empty() {
            let bytes = self.put(content);
            self.ok(__NR_write, &[writer, bytes, content.len() as u64]);
        }
        (reader, writer)
    }

    pub(super) fn close(&mut self, fds: &[u64]) {
        for fd in fds {
            self.ok(__NR_close, &[*fd]);
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        raw(__NR_munmap, &[self.base - GUARD, REGION + 2 * GUARD]);
        raw(__NR_munmap, &[self.edges, 12 * GUARD]);
    }
}

/// One test per scenario of a module.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(super) const SCENARIOS: &[super::Scenario] = &[$((stringify!($name), $name)),*];

        mod each {
            $(
                #[test]
                fn $name() {
                    super::$name(&mut crate::syscalls::tests::oracle::Oracle::new());
                }
            )*
        }
    };
}
pub(super) use scenarios;
