//! The allocator of guest code: a heap of its own in the arena, so that the guest's malloc is never entered.
//!
//! Its state lies in the arena too, at a fixed address; the static below has no bytes. A spinning lock is enough because only one
//! thread of a guest runs engine code at a time and signal handlers of ours do not allocate.

use core::alloc::{GlobalAlloc, Layout};

use talc::{ErrOnOom, Span, Talc, Talck};

use crate::arena;

struct ArenaHeap;

#[global_allocator]
static HEAP: ArenaHeap = ArenaHeap;

type State = Talck<RawSpin, ErrOnOom>;

/// A test-and-set lock; see the module's head for why it never spins long.
struct RawSpin(core::sync::atomic::AtomicBool);

// SAFETY: `lock` returns only to one caller between two `unlock`s, by the atomic swap.
unsafe impl lock_api::RawMutex for RawSpin {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for a constant to initialise from")]
    const INIT: Self = Self(core::sync::atomic::AtomicBool::new(false));
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        while !self.try_lock() {
            core::hint::spin_loop();
        }
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, core::sync::atomic::Ordering::Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, core::sync::atomic::Ordering::Release);
    }
}

fn state() -> *mut State {
    arena::HEAP as *mut State
}

/// Prepares the heap. Call once, after [`arena::map`], before anything allocates.
pub fn init() {
    // SAFETY: the arena is mapped and nothing else uses the heap's first page; the span behind it is the heap's alone.
    unsafe {
        state().write(Talck::new(Talc::new(ErrOnOom)));
        let _ = (*state()).lock().claim(Span::new((arena::HEAP + 4096) as *mut u8, arena::HEAP_END as *mut u8));
    }
}

// SAFETY: talc upholds the contract of GlobalAlloc; `init` ran before anything allocates.
unsafe impl GlobalAlloc for ArenaHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: forwarded with the caller's promises.
        unsafe { (*state()).alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: forwarded with the caller's promises.
        unsafe { (*state()).dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: forwarded with the caller's promises.
        unsafe { (*state()).realloc(pointer, layout, size) }
    }
}
