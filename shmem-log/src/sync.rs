//! The one place that names atomics, so that loom can put its own in their place.
//!
//! Every Release in this crate carries a tag, `[publish-slot]` for instance, that the Acquire which pairs with it carries too.
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(not(any(target_arch = "x86_64", loom)))]
compile_error!("line clocks rely on x86: a locked instruction is a full fence, and loads and stores keep their order");

/// What a locked instruction is to everything before and behind it: to be called next to one.
#[inline(always)]
pub(crate) fn full_fence() {
    if cfg!(any(loom, miri)) {
        // They run on the language's machine, not on x86.
        fence(Ordering::SeqCst);
    } else {
        // The instruction has done it already; only the compiler is to be told.
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
}

/// What x86 does between any two loads: that they happen in this order, and that who sees a store is not the only one to see it.
#[inline(always)]
pub(crate) fn loads_in_order() {
    if cfg!(any(loom, miri)) {
        // The language has no weaker word for the second.
        fence(Ordering::SeqCst);
    } else {
        // No instruction: only the compiler is to be told.
        fence(Ordering::Acquire);
    }
}
