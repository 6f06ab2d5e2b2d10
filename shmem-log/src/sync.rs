//! The one place that names atomics, so that loom can put its own in their place.
//!
//! Every Release in this crate carries a tag, `[publish-slot]` for instance, that the Acquire which pairs with it carries too.
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// What a locked instruction is to everything before and behind it.
#[cfg(loom)]
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

/// What x86 does between any two loads, in the strength that the language has for it: that they happen in this order, and
/// that who sees a store is not the only one to see it.
#[cfg(loom)]
pub(crate) fn loads_in_order() {
    fence(Ordering::SeqCst);
}

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};

/// What a locked instruction is to everything before and behind it: to be called next to one. The instruction has done it already, so
/// that only the compiler is to be told.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn full_fence() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// What x86 does between any two loads: that they happen in this order, and that who sees a store is not the only one to see it.
/// So that only the compiler is to be told.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn loads_in_order() {
    fence(Ordering::Acquire);
}

#[cfg(not(any(target_arch = "x86_64", loom)))]
compile_error!("line clocks rely on x86: a locked instruction is a full fence, and loads and stores keep their order");
