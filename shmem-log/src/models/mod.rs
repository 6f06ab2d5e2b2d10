//! Models of the algorithms, for loom: every interleaving and every outcome that the language's memory model allows.
//!
//! `cargo xtask loom` runs the fast ones, `cargo xtask loom --slow` the rest too (they are marked `ignore`). Without loom the
//! same code runs once with real threads, which is what Miri can watch.
mod order;
mod ring;

/// Runs a model; `preemptions` bounds how often loom switches away from a thread that could go on, `None` not at all.
#[cfg(loom)]
fn model(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(body);
}

#[cfg(not(loom))]
fn model(_preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let rounds = if cfg!(miri) { 20 } else { 200 };
    (0..rounds).for_each(|_| body());
}

#[cfg(loom)]
use loom::thread;
#[cfg(not(loom))]
use std::thread;
