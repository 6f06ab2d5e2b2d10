//! The append as it is inlined into whoever calls it, for `no_panic.rs` to look at.
#![no_std]

use core::sync::atomic::{AtomicU64, Ordering};
use shmem_log::{Kind, ObjectIndex, SiteIndex, Writer};

#[unsafe(no_mangle)]
pub fn probe_read(writer: &mut Writer, object: ObjectIndex, offset: u64, site: SiteIndex, bbcount: u64, word: &AtomicU64) {
    let token = writer.begin(Kind::Read, object, offset, 8);
    let value = word.load(Ordering::Relaxed);
    writer.commit(token, site, bbcount, value);
}

#[unsafe(no_mangle)]
pub fn probe_write(writer: &mut Writer, object: ObjectIndex, offset: u64, site: SiteIndex, bbcount: u64, word: &AtomicU64) {
    let token = writer.begin(Kind::Write, object, offset, 8);
    word.store(bbcount, Ordering::Relaxed);
    writer.commit(token, site, bbcount, bbcount);
}

#[unsafe(no_mangle)]
pub fn probe_locked(writer: &mut Writer, object: ObjectIndex, offset: u64, site: SiteIndex, bbcount: u64, word: &AtomicU64) {
    let token = writer.begin_locked(Kind::ReadWrite, object, offset, 8);
    let old = word.fetch_add(1, Ordering::SeqCst);
    writer.commit_rw(token, site, bbcount, old, old.wrapping_add(1));
}
