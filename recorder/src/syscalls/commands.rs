//! The calls that are many calls in one: `ioctl`, `fcntl`, `prctl`, `futex`, …, one list of commands each.

pub(super) mod fcntl;
pub(super) mod filesystem;
pub(super) mod futex;
pub(super) mod ioctl;
pub(super) mod ipc;
pub(super) mod keyctl;
pub(super) mod prctl;
pub(super) mod process;
pub(super) mod socket;
