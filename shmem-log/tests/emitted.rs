//! An append in machine code, through the published offsets alone, gives the same log as one through `Writer`.
//!
//! This is the sequence that a translator may put around an instrumented load, store or `lock xadd`; where it cannot go on (no room, a
//! wide interval, a distant bbcount) it calls the slow way, here `Writer`.
mod common;
use common::process::Shared;
use common::*;
use shmem_log::layout::*;
use shmem_log::*;
use std::arch::asm;

/// The site's constant part, the object's, and where things are.
struct Emitted<'a> {
    w: &'a mut Writer,
    memory: Shared,
    o: ObjectIndex,
    sites: [SiteIndex; 3],
}

impl Emitted<'_> {
    /// The address of the word's clock, as emitted code computes it.
    fn clock(&self, place: u64) -> u64 {
        let base: *const u64 = std::ptr::from_ref::<Writer>(self.w).cast();
        // SAFETY: the writer's first words, at their published offsets.
        let (clocks, shift) = unsafe { (*base.byte_add(WRITER_CLOCKS), *base.byte_add(WRITER_CLOCK_SHIFT)) };
        let h = (place >> 12).wrapping_mul(CLOCK_HASH) >> shift;
        clocks + (h >> 2 << 12 | place & 0xfc0 | (h & 3) << 4)
    }

    /// True if it was logged; else nothing happened.
    fn store(&mut self, word: usize, value: u64, bbcount: u64) -> bool {
        let place = Log::place(self.o, word as u64 * 8);
        let (clock, memory) = (self.clock(place), std::ptr::from_ref(self.memory.word(word)));
        let logged: u64;
        // SAFETY: appends as documented, to this thread's writer; stores to a word of ours.
        unsafe {
            asm!(
                "xor {logged:e}, {logged:e}",
                "mov {slot}, [{writer} + {CURSOR}]",
                "cmp {slot}, [{writer} + {LIMIT}]",
                "ja 2f",
                "mov [{slot} + {WHERE}], {place}",
                "mov {start:e}, 1",
                "lock xadd [{clock}], {start}",
                "inc {start}",
                "mov [{memory}], {value}",
                "mov {end:e}, 1",
                "lock xadd [{clock}], {end}",
                "sub {end}, {start}",
                "shl {end}, 48",
                "or {end}, {start}",
                "mov [{slot} + {INTERVAL}], {end}",
                "mov [{slot} + {VALUE}], {value}",
                "sub {bbcount}, [{writer} + {BASE}]",
                "shl {bbcount}, 32",
                "or {bbcount}, {site}",
                "mov [{slot} + {COMMIT}], {bbcount}",
                "add qword ptr [{writer} + {CURSOR}], {SLOT}",
                "mov {logged:e}, 1",
                "2:",
                writer = in(reg) std::ptr::from_mut::<Writer>(self.w),
                place = in(reg) place,
                clock = in(reg) clock,
                memory = in(reg) memory,
                value = in(reg) value,
                site = in(reg) u64::from(self.sites[1].get()),
                bbcount = inout(reg) bbcount => _,
                slot = out(reg) _,
                start = out(reg) _,
                end = out(reg) _,
                logged = out(reg) logged,
                CURSOR = const WRITER_CURSOR,
                LIMIT = const WRITER_LIMIT,
                BASE = const WRITER_BB_BASE,
                WHERE = const SLOT_WHERE,
                INTERVAL = const SLOT_INTERVAL,
                VALUE = const SLOT_VALUE,
                COMMIT = const SLOT_COMMIT,
                SLOT = const SLOT_BYTES,
                options(nostack),
            );
        }
        logged == 1
    }

    fn load(&mut self, word: usize, bbcount: u64) -> Option<u64> {
        let place = Log::place(self.o, word as u64 * 8);
        let (clock, memory) = (self.clock(place), std::ptr::from_ref(self.memory.word(word)));
        let (logged, value): (u64, u64);
        // SAFETY: as above, and only reads our word.
        unsafe {
            asm!(
                "xor {logged:e}, {logged:e}",
                "mov {slot}, [{writer} + {CURSOR}]",
                "cmp {slot}, [{writer} + {LIMIT}]",
                "ja 2f",
                "mov [{slot} + {WHERE}], {place}",
                "mov {start}, [{clock}]",
                "cmp {start}, [{clock} + {OPEN}]",
                "jne 3f",
                "mov {start:e}, 1",
                "lock xadd [{clock}], {start}",
                "inc {start}",
                "3:",
                "mov {value}, [{memory}]",
                "mov {end}, [{clock}]",
                "sub {end}, {start}",
                "shl {end}, 48",
                "or {end}, {start}",
                "mov [{slot} + {INTERVAL}], {end}",
                "mov [{slot} + {VALUE}], {value}",
                "sub {bbcount}, [{writer} + {BASE}]",
                "shl {bbcount}, 32",
                "or {bbcount}, {site}",
                "mov [{slot} + {COMMIT}], {bbcount}",
                "add qword ptr [{writer} + {CURSOR}], {SLOT}",
                "mov {logged:e}, 1",
                "2:",
                writer = in(reg) std::ptr::from_mut::<Writer>(self.w),
                place = in(reg) place,
                clock = in(reg) clock,
                memory = in(reg) memory,
                site = in(reg) u64::from(self.sites[0].get()),
                value = out(reg) value,
                bbcount = inout(reg) bbcount => _,
                slot = out(reg) _,
                start = out(reg) _,
                end = out(reg) _,
                logged = out(reg) logged,
                CURSOR = const WRITER_CURSOR,
                LIMIT = const WRITER_LIMIT,
                BASE = const WRITER_BB_BASE,
                WHERE = const SLOT_WHERE,
                INTERVAL = const SLOT_INTERVAL,
                VALUE = const SLOT_VALUE,
                COMMIT = const SLOT_COMMIT,
                SLOT = const SLOT_BYTES,
                OPEN = const CLOCK_OPEN,
                options(nostack),
            );
        }
        (logged == 1).then_some(value)
    }

    fn xadd(&mut self, word: usize, add: u64, bbcount: u64) -> Option<u64> {
        let place = Log::place(self.o, word as u64 * 8);
        let (clock, memory) = (self.clock(place), std::ptr::from_ref(self.memory.word(word)));
        let (logged, old): (u64, u64);
        // The commit word of a double record.
        let site = u64::from(self.sites[2].get()) | SHAPE_DOUBLE << SHAPE_BITS;
        // SAFETY: as above.
        unsafe {
            asm!(
                "xor {logged:e}, {logged:e}",
                "mov {slot}, [{writer} + {CURSOR}]",
                "cmp {slot}, [{writer} + {LIMIT}]",
                "ja 2f",
                "mov [{slot} + {WHERE}], {place}",
                "mov {start:e}, 1",
                "lock xadd [{clock}], {start}",
                "inc {start}",
                "mov [{clock} + {OPEN}], {start}",
                "mov {old}, {add}",
                "lock xadd [{memory}], {old}",
                "mov {end}, [{clock}]",
                "sub {end}, {start}",
                "mov {width}, {end}",
                "shl {end}, 48",
                "or {end}, {start}",
                "mov [{slot} + {INTERVAL}], {end}",
                "mov [{slot} + {VALUE}], {old}",
                "add {add}, {old}",
                "mov [{slot} + {SLOT}], {add}",
                "sub {bbcount}, [{writer} + {BASE}]",
                "shl {bbcount}, 32",
                "or {bbcount}, {site}",
                "mov [{slot} + {COMMIT}], {bbcount}",
                "inc qword ptr [{writer} + {EXTRA}]",
                "add qword ptr [{writer} + {CURSOR}], 2 * {SLOT}",
                "mov {logged:e}, 1",
                "test {width}, {width}",
                "jz 2f",
                "mov {width:e}, {PAUSES}",
                "3:",
                "pause",
                "dec {width:e}",
                "jnz 3b",
                "2:",
                writer = in(reg) std::ptr::from_mut::<Writer>(self.w),
                place = in(reg) place,
                clock = in(reg) clock,
                memory = in(reg) memory,
                site = in(reg) site,
                add = inout(reg) add => _,
                old = out(reg) old,
                bbcount = inout(reg) bbcount => _,
                slot = out(reg) _,
                start = out(reg) _,
                end = out(reg) _,
                width = out(reg) _,
                logged = out(reg) logged,
                CURSOR = const WRITER_CURSOR,
                LIMIT = const WRITER_LIMIT,
                BASE = const WRITER_BB_BASE,
                EXTRA = const WRITER_EXTRA_SLOTS,
                WHERE = const SLOT_WHERE,
                INTERVAL = const SLOT_INTERVAL,
                VALUE = const SLOT_VALUE,
                COMMIT = const SLOT_COMMIT,
                SLOT = const SLOT_BYTES,
                OPEN = const CLOCK_OPEN,
                PAUSES = const GIVE_WAY_PAUSES,
                options(nostack),
            );
        }
        (logged == 1).then_some(old)
    }
}

#[test]
fn emitted_appends_and_ours_give_the_same_log() {
    const ACCESSES: u64 = 5000;
    type Seen = (u64, Kind, u64, Vec<u8>, Vec<u8>, ClockIndex, Interval);
    let run = |emitted: bool| -> (Vec<Seen>, Counts, u64) {
        let test = TestLog::new();
        let log = test.join(1 << 20);
        let mut w = writer(&log, 1);
        let o = object(&log);
        let sites = [Kind::Read, Kind::Write, Kind::ReadWrite].map(|kind| w.register_site(kind as u64, kind, 8).unwrap());
        let memory = Shared::new(2048);
        let mut slow = 0;
        for n in 0..ACCESSES {
            let word = (n * 37 % 2048) as usize;
            let mut e = Emitted { w: &mut w, memory, o, sites };
            let done = emitted
                && match n % 3 {
                    0 => e.load(word, n).is_some(),
                    1 => e.store(word, n, n),
                    _ => e.xadd(word, n, n).is_some(),
                };
            if done {
                continue;
            }
            slow += 1;
            let at = memory.word(word);
            let relaxed = std::sync::atomic::Ordering::Relaxed;
            let kind = [Kind::Read, Kind::Write, Kind::ReadWrite][(n % 3) as usize];
            let t = match kind {
                Kind::ReadWrite => w.begin_locked(kind, o, word as u64 * 8, 8),
                _ => w.begin(kind, o, word as u64 * 8, 8),
            };
            match kind {
                Kind::Read => w.commit(t, sites[0], n, at.load(relaxed)),
                Kind::Write => {
                    at.store(n, relaxed);
                    w.commit(t, sites[1], n, n);
                }
                Kind::ReadWrite => {
                    let old = at.fetch_add(n, relaxed);
                    w.commit_rw(t, sites[2], n, old, old + n);
                }
            }
        }
        w.finish();
        let reader = test.read();
        let seen = all(&reader, |a| {
            let line = a.lines().next().unwrap();
            (a.bbcount, a.kind, a.offset, a.seen().to_vec(), a.written().to_vec(), line.clock, line.interval)
        });
        (seen, reader.total_counts(), slow)
    };
    let (ours, our_counts, _) = run(false);
    let (theirs, their_counts, slow) = run(true);
    assert_eq!(ours, theirs);
    assert_eq!(our_counts, their_counts);
    assert_eq!(our_counts.committed, ACCESSES);
    assert!(slow < ACCESSES / 100, "{slow} took the slow way: once a block");
}
