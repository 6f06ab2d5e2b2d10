//! The list of held robust mutexes that the kernel walks when this process dies.
//!
//! The guest's own list leads through its shared mappings, which are closed to the kernel. A SIGKILL leaves no time to open them, so as
//! soon as the guest locks such a mutex the kernel is given a list of ours in place of it:
//!
//! ```text
//!   head ──► node ──► node ──► head        private, at `arena::ROBUST`
//!             │ the same distance for all (`futex_offset`)
//!             ▼
//!           lock word, in the alias of its mapping
//! ```
//!
//! Whoever locks or unlocks a robust mutex first names it in its head, as the operation that is pending. By that an instruction that
//! does so is known, and the host performs it each time.
//!
//! I1. The kernel marks a lock word only if it holds this thread's number, so a node too many does no harm; one too few would.
//! I2. Every change to the list is one store, and the operation is pending in ours while it is in the guest's: a kill finds a list at any time.

use alloc::boxed::Box;
use alloc::vec::Vec;

use engine::sys::{self, raw};
use engine::{arena, read_guest};

/// Of `struct robust_list_head`: the first node, the distance from nodes to lock words, the pending operation.
const NEXT: usize = 0;
const DISTANCE: usize = 1;
const PENDING: usize = 2;
const HEAD_BYTES: u64 = 24;
/// In a node's address: the mutex inherits priority.
const INHERITS: u64 = 1;
/// Of a lock word: its owner.
const OWNER: u32 = 0x3fff_ffff;

#[derive(Debug)]
pub struct RobustList {
    /// The guest's head; 0: it has none.
    theirs: u64,
    ours: Box<[u64; 3]>,
    /// What is in the list, last one first; with [`INHERITS`].
    nodes: Vec<u64>,
    /// Where nodes have memory.
    pages: Vec<u64>,
    /// Whose list it is.
    thread: i32,
    /// The kernel has ours.
    active: bool,
}

impl RobustList {
    pub fn new() -> Self {
        Self { theirs: 0, ours: Box::new([0; 3]), nodes: Vec::new(), pages: Vec::new(), thread: 0, active: false }
    }

    /// A recording of this thread begins.
    pub fn begin(&mut self) {
        let (mut head, mut length) = (0u64, 0u64);
        let args = [0, (&raw mut head) as u64, (&raw mut length) as u64, 0, 0, 0];
        // SAFETY: the kernel writes one word to each.
        let result = unsafe { sys::syscall(u64::from(raw::__NR_get_robust_list), args) };
        self.theirs = if result == 0 { head } else { 0 };
        self.thread = sys::gettid();
        self.nodes.clear();
        self.active = false;
    }

    /// The guest has registered a head.
    pub fn registered(&mut self, head: u64) {
        self.theirs = head;
        self.resume();
    }

    /// Gives the kernel the guest's list: its mappings are open.
    pub fn release(&self) {
        if self.active && sys::gettid() == self.thread {
            register(self.theirs);
        }
    }

    /// After [`Self::release`].
    pub fn resume(&self) {
        if self.active && sys::gettid() == self.thread {
            register(address_of(&self.ours));
        }
    }

    /// Before a locked instruction on the guest's `address`: whether it locks or unlocks a robust mutex. Then ours tells the kernel so.
    pub fn starts(&mut self, address: u64, alias: u64) -> bool {
        let mut bytes = [0; HEAD_BYTES as usize];
        if self.theirs == 0 || read_guest(self.theirs, &mut bytes) != bytes.len() {
            return false;
        }
        let word = |index: usize| super::access::word(&bytes[8 * index..8 * index + 8]);
        let (pending, inherits) = (word(PENDING) & !INHERITS, word(PENDING) & INHERITS);
        if pending == 0 || pending.wrapping_add(word(DISTANCE)) != address {
            return false;
        }
        let node = alias - arena::ALIASES + arena::ROBUST;
        if !self.has_memory(node) || !self.has_memory(node + 7) {
            return false;
        }
        if !self.active {
            *self.ours = [address_of(&self.ours), arena::ALIASES.wrapping_sub(arena::ROBUST), 0];
            self.active = true;
            self.resume();
        }
        self.set(PENDING, node | inherits);
        true
    }

    /// The instruction has left `value` in the lock word.
    pub fn ends(&mut self, value: u32) {
        let node = self.ours[PENDING];
        if node == 0 {
            return;
        }
        if value & OWNER == self.thread as u32 {
            self.link(node);
        } else {
            self.unlink(|linked| linked == node);
        }
        self.set(PENDING, 0);
    }

    /// The aliases from `start` on go away.
    pub fn forget(&mut self, start: u64, length: u64) {
        let first = start - arena::ALIASES + arena::ROBUST;
        self.unlink(|node| (first..first + length).contains(&node));
    }

    fn link(&mut self, node: u64) {
        if self.nodes.contains(&node) {
            return;
        }
        // SAFETY: `starts` has given it memory, which is ours.
        unsafe { ((node & !INHERITS) as *mut u64).write_volatile(self.ours[NEXT]) };
        self.set(NEXT, node);
        self.nodes.insert(0, node);
    }

    fn unlink(&mut self, goes: impl Fn(u64) -> bool) {
        while let Some(index) = self.nodes.iter().position(|&node| goes(node)) {
            self.nodes.remove(index);
            let next = self.nodes.get(index).copied().unwrap_or(address_of(&self.ours));
            match index.checked_sub(1) {
                // SAFETY: as in `link`.
                Some(before) => unsafe { ((self.nodes[before] & !INHERITS) as *mut u64).write_volatile(next) },
                None => self.set(NEXT, next),
            }
        }
    }

    fn set(&mut self, index: usize, value: u64) {
        // SAFETY: a word of ours, which the kernel reads when this process dies.
        unsafe { (&raw mut self.ours[index]).write_volatile(value) };
    }

    fn has_memory(&mut self, address: u64) -> bool {
        let page = address & !4095;
        if self.pages.contains(&page) {
            return true;
        }
        let mapped = arena::map_private(page, 4096, raw::PROT_READ | raw::PROT_WRITE).is_ok();
        if mapped {
            self.pages.push(page);
        }
        mapped
    }
}

fn address_of(head: &[u64; 3]) -> u64 {
    core::ptr::from_ref(head) as u64
}

fn register(head: u64) {
    // SAFETY: the kernel reads the list when this thread ends, as far as it can.
    unsafe { sys::syscall(u64::from(raw::__NR_set_robust_list), [head, HEAD_BYTES, 0, 0, 0, 0]) };
}
