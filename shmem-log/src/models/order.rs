//! The claim of line clocks: what they order happened in that order.
use super::{model, thread};
use crate::clock::{Interval, Touch, after, before};
use crate::memory::Memory;
use crate::memory::model::Words;
use crate::sync::Ordering::Relaxed;

type Line = Words<2>;
const CLOCK: usize = 0;
const DATA: usize = 16;
const OTHER: usize = 24;

/// The program's access itself is as weak as can be: the clocks must not lean on it.
fn write(line: &Line, at: usize, value: u64) -> Interval {
    let start = before(line, CLOCK, Touch::Write);
    line.word(at).store(value, Relaxed);
    Interval::new(start, after(line, CLOCK, Touch::Write)).unwrap()
}

fn read(line: &Line, at: usize) -> (Interval, u64) {
    let start = before(line, CLOCK, Touch::Read);
    let value = line.word(at).load(Relaxed);
    (Interval::new(start, after(line, CLOCK, Touch::Read)).unwrap(), value)
}

/// An instruction that reads and writes, `lock`ed or not (but still atomic, as loom's words are): what it saw.
fn add(line: &Line, at: usize, touch: Touch) -> (Interval, u64) {
    let start = before(line, CLOCK, touch);
    let old = line.word(at).fetch_add(1, Relaxed);
    (Interval::new(start, after(line, CLOCK, touch)).unwrap(), old)
}

/// `xchg`, of which only the store matters.
fn exchange(line: &Line, at: usize, value: u64) -> Interval {
    let start = before(line, CLOCK, Touch::Locked);
    line.word(at).store(value, Relaxed);
    Interval::new(start, after(line, CLOCK, Touch::Locked)).unwrap()
}

#[test]
fn of_two_ordered_writes_the_later_one_stays() {
    model(None, || {
        let line = Line::new(3);
        let other = line.clone();
        let thread = thread::spawn(move || write(&other, DATA, 2));
        let first = write(&line, DATA, 1);
        let second = thread.join().unwrap();
        let left = line.word(DATA).load(Relaxed);
        if first.precedes(&second) {
            assert_eq!(left, 2);
        }
        if second.precedes(&first) {
            assert_eq!(left, 1);
        }
        assert!(!(first.precedes(&second) && second.precedes(&first)));
    });
}

#[test]
fn a_read_sees_the_writes_before_it_and_none_after() {
    model(None, || {
        let line = Line::new(3);
        let other = line.clone();
        let writer = thread::spawn(move || write(&other, DATA, 1));
        let (read, value) = read(&line, DATA);
        let write = writer.join().unwrap();
        if write.precedes(&read) {
            assert_eq!(value, 1);
        }
        if read.precedes(&write) {
            assert_eq!(value, 0);
        }
    });
}

fn read_writes_chain(ours: Touch, theirs: Touch) {
    model(None, move || {
        let line = Line::new(3);
        let other = line.clone();
        let thread = thread::spawn(move || add(&other, DATA, theirs));
        let (first, saw_first) = add(&line, DATA, ours);
        let (second, saw_second) = thread.join().unwrap();
        if first.precedes(&second) {
            assert_eq!((saw_first, saw_second), (0, 1));
        }
        if second.precedes(&first) {
            assert_eq!((saw_first, saw_second), (1, 0));
        }
    });
}

#[test]
fn read_writes_chain_in_the_claimed_order() {
    read_writes_chain(Touch::Write, Touch::Write);
}

#[test]
fn locked_instructions_chain_in_the_claimed_order() {
    read_writes_chain(Touch::Locked, Touch::Locked);
}

#[test]
fn a_locked_instruction_and_a_plain_one_chain_in_the_claimed_order() {
    read_writes_chain(Touch::Locked, Touch::Write);
}

#[test]
fn of_a_locked_and_a_plain_write_the_later_one_stays() {
    model(None, || {
        let line = Line::new(3);
        let other = line.clone();
        let thread = thread::spawn(move || write(&other, DATA, 2));
        let first = exchange(&line, DATA, 1);
        let second = thread.join().unwrap();
        let left = line.word(DATA).load(Relaxed);
        assert!(!first.precedes(&second) || left == 2);
        assert!(!second.precedes(&first) || left == 1);
    });
}

#[test]
fn a_read_sees_the_locked_writes_before_it_and_none_after() {
    model(None, || {
        let line = Line::new(3);
        let other = line.clone();
        let writer = thread::spawn(move || exchange(&other, DATA, 1));
        let (read, value) = read(&line, DATA);
        let write = writer.join().unwrap();
        assert!(!write.precedes(&read) || value == 1);
        assert!(!read.precedes(&write) || value == 0);
    });
}

/// The tick between a locked write and a read that is claimed to follow it may be a third one's.
#[test]
#[cfg_attr(loom, ignore = "slow")]
fn a_read_sees_the_locked_write_that_anothers_tick_puts_before_it() {
    model(Some(3), || {
        let line = Line::new(4);
        let (a, b) = (line.clone(), line.clone());
        let writer = thread::spawn(move || exchange(&a, DATA, 1));
        let ticker = thread::spawn(move || exchange(&b, OTHER, 1));
        let (read, value) = read(&line, DATA);
        let write = writer.join().unwrap();
        ticker.join().unwrap();
        assert!(!write.precedes(&read) || value == 1);
        assert!(!read.precedes(&write) || value == 0);
    });
}

/// Two lines with one clock: the claim is about time, so it holds across them as well.
#[test]
fn lines_that_share_a_clock_are_ordered_too() {
    model(None, || {
        let line = Line::new(4);
        let other = line.clone();
        let writer = thread::spawn(move || (write(&other, DATA, 1), write(&other, OTHER, 1)));
        let (saw_other, other_value) = read(&line, OTHER);
        let (saw_data, data_value) = read(&line, DATA);
        let (wrote_data, wrote_other) = writer.join().unwrap();
        if wrote_data.precedes(&saw_other) {
            assert_eq!(data_value, 1, "ordered before an earlier read already");
        }
        if saw_data.precedes(&wrote_other) {
            assert_eq!(other_value, 0);
        }
    });
}

#[test]
fn two_ordered_reads_do_not_go_back_in_time() {
    model(Some(3), || {
        let line = Line::new(3);
        let (a, b) = (line.clone(), line.clone());
        let writer = thread::spawn(move || write(&a, DATA, 1));
        let reader = thread::spawn(move || read(&b, DATA));
        let (first, saw_first) = read(&line, DATA);
        let (second, saw_second) = reader.join().unwrap();
        let write = writer.join().unwrap();
        if first.precedes(&second) {
            assert!(saw_first <= saw_second);
        }
        if write.precedes(&first) {
            assert_eq!(saw_first, 1);
        }
        if second.precedes(&write) {
            assert_eq!(saw_second, 0);
        }
    });
}

/// What chains claim: a write that came before a read, whose program then writes elsewhere, came before whoever sees that.
#[test]
#[cfg_attr(loom, ignore = "slow")]
fn claims_chain_through_a_third_process() {
    model(Some(3), || {
        let line = Line::new(4);
        let (a, b) = (line.clone(), line.clone());
        let first = thread::spawn(move || write(&a, DATA, 1));
        let middle = thread::spawn(move || (read(&b, DATA).0, write(&b, OTHER, 1)));
        let (saw_other, _) = read(&line, OTHER);
        let (_, data) = read(&line, DATA);
        let wrote = first.join().unwrap();
        let (saw, passed_on) = middle.join().unwrap();
        if wrote.precedes(&saw) && passed_on.precedes(&saw_other) {
            assert_eq!(data, 1);
        }
    });
}
