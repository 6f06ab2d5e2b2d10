//! The one place that names atomics, so that loom can put its own in their place.
//!
//! Every Release in this crate carries a tag, `[publish-slot]` for instance, that the Acquire which pairs with it carries too.
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
