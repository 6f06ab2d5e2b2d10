//! The claim of line clocks: what they order happened in that order.
use super::{model, thread};
use crate::clock::{Interval, after, before};
use crate::memory::Memory;
use crate::memory::model::Words;
use crate::sync::Ordering::Relaxed;

type Line = Words<2>;
const CLOCK: usize = 0;
const DATA: usize = 8;
const OTHER: usize = 16;

/// The program's access itself is as weak as can be: the clocks must not lean on it.
fn write(line: &Line, at: usize, value: u64) -> Interval {
    let b = before(line, CLOCK, true);
    line.word(at).store(value, Relaxed);
    Interval::new(true, b, after(line, CLOCK, true)).unwrap()
}

fn read(line: &Line, at: usize) -> (Interval, u64) {
    let b = before(line, CLOCK, false);
    let value = line.word(at).load(Relaxed);
    (Interval::new(false, b, after(line, CLOCK, false)).unwrap(), value)
}

/// Like `lock xadd`: what it saw.
fn add(line: &Line, at: usize, value: u64) -> (Interval, u64) {
    let b = before(line, CLOCK, true);
    let old = line.word(at).fetch_add(value, Relaxed);
    (Interval::new(true, b, after(line, CLOCK, true)).unwrap(), old)
}

#[test]
fn of_two_ordered_writes_the_later_one_stays() {
    model(None, || {
        let line = Line::new(2);
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
        let line = Line::new(2);
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

#[test]
fn read_writes_chain_in_the_claimed_order() {
    model(None, || {
        let line = Line::new(2);
        let other = line.clone();
        let thread = thread::spawn(move || add(&other, DATA, 1));
        let (first, saw_first) = add(&line, DATA, 1);
        let (second, saw_second) = thread.join().unwrap();
        if first.precedes(&second) {
            assert_eq!((saw_first, saw_second), (0, 1));
        }
        if second.precedes(&first) {
            assert_eq!((saw_first, saw_second), (1, 0));
        }
    });
}

/// Two lines with one clock: the claim is about time, so it holds across them as well.
#[test]
fn lines_that_share_a_clock_are_ordered_too() {
    model(None, || {
        let line = Line::new(3);
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
        let line = Line::new(2);
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
        let line = Line::new(3);
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
