//! The table of all system calls of x86-64 Linux up to 6.18, found by number.
//!
//! The rows stand in one file per family. The index over them is built by the compiler, which refuses a number given twice.

use super::spec::Spec;

mod admin;
mod files;
mod ipc;
mod memory;
mod net;
mod process;
mod time;

const FAMILIES: [&[Spec]; 7] = [files::CALLS, net::CALLS, memory::CALLS, process::CALLS, time::CALLS, ipc::CALLS, admin::CALLS];

/// One more than the highest number known.
pub const NUMBERS: usize = 470;

static INDEX: [Option<&Spec>; NUMBERS] = build();

const fn build() -> [Option<&'static Spec>; NUMBERS] {
    let mut index = [None; NUMBERS];
    let mut family = 0;
    while family < FAMILIES.len() {
        let calls = FAMILIES[family];
        let mut i = 0;
        while i < calls.len() {
            let nr = calls[i].nr as usize;
            assert!(index[nr].is_none(), "a system call stands twice in the table");
            index[nr] = Some(&calls[i]);
            i += 1;
        }
        family += 1;
    }
    index
}

/// The row of a system call, or `None` for a number that the table does not know.
pub fn lookup(nr: u64) -> Option<&'static Spec> {
    *INDEX.get(usize::try_from(nr).ok()?)?
}

/// All rows by ascending number.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    INDEX.iter().flatten().copied()
}
