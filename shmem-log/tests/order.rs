//! Order is the truth: real processes hammer the same words, and the values say what really happened.
mod common;
use common::process::{Random, Shared, spawn, wait_ok};
use common::*;
use shmem_log::*;
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

const PROCESSES: u64 = 3;
const ROUNDS: u64 = 250_000;
/// Word 0: `lock xadd`. 8: `lock cmpxchg`. 16, 24, 32: plain stores and loads. Each in a line of its own, 40 shares one with 32.
const WORDS: [usize; 6] = [0, 8, 16, 24, 32, 33];

struct Hammer<'a> {
    w: &'a mut Writer,
    memory: Shared,
    o: ObjectIndex,
    read: SiteIndex,
    write: SiteIndex,
    rmw: SiteIndex,
}

impl Hammer<'_> {
    fn access(&mut self, bb: u64, word: usize, kind: Kind, new: u64) {
        let Hammer { w, memory, .. } = self;
        let at = memory.word(word);
        // Every other store is an `xchg`; so is every read/write a locked instruction.
        let locked = kind == Kind::ReadWrite || kind == Kind::Write && new.is_multiple_of(2);
        let begin = if locked { Writer::begin_locked } else { Writer::begin };
        let t = begin(w, kind, self.o, word as u64 * 8, 8);
        match (kind, word) {
            (Kind::Read, _) => {
                let value = at.load(Relaxed);
                w.commit(t, self.read, bb, value);
            }
            (Kind::Write, _) => {
                if locked {
                    at.swap(new, SeqCst);
                } else {
                    at.store(new, Relaxed);
                }
                w.commit(t, self.write, bb, new);
            }
            (Kind::ReadWrite, 0) => {
                let old = at.fetch_add(1, SeqCst);
                w.commit_rw(t, self.rmw, bb, old, old + 1);
            }
            (Kind::ReadWrite, _) => {
                let guess = at.load(Relaxed);
                let (old, left) = match at.compare_exchange(guess, new, SeqCst, SeqCst) {
                    Ok(old) => (old, new),
                    Err(old) => (old, old),
                };
                w.commit_rw(t, self.rmw, bb, old, left);
            }
        }
    }
}

fn hammer(w: &mut Writer, memory: Shared, o: ObjectIndex, me: u64) {
    let [read, write, rmw] = [Kind::Read, Kind::Write, Kind::ReadWrite].map(|kind| w.register_site(1, kind, 8).unwrap());
    let mut hammer = Hammer { w, memory, o, read, write, rmw };
    let mut random = Random(me + 1);
    for round in 1..=ROUNDS {
        let unique = me << 40 | round;
        let word = WORDS[random.below(WORDS.len() as u64) as usize];
        let kind = match (word, random.below(2)) {
            (0 | 8, _) => Kind::ReadWrite,
            (_, 0) => Kind::Read,
            _ => Kind::Write,
        };
        hammer.access(round, word, kind, unique);
    }
}

#[derive(Clone, Copy)]
struct Seen {
    recording: u32,
    sequence: u64,
    kind: Kind,
    old: u64,
    new: u64,
    clock: ClockIndex,
    interval: Interval,
}

fn record() -> (TestLog, HashMap<u64, Vec<Seen>>) {
    let test = TestLog::new();
    let log = test.join(64 << 20);
    let o = object(&log);
    let memory = Shared::new(64);
    let gate = Shared::new(8);
    let children: Vec<_> = (1..=PROCESSES)
        .map(|me| {
            spawn(|| {
                let mut w = writer(&log, me as u32);
                gate.word(0).fetch_add(1, SeqCst);
                gate.wait(1, |go| go == 1);
                hammer(&mut w, memory, o, me);
                w.finish();
            })
        })
        .collect();
    gate.wait(0, |ready| ready == PROCESSES);
    gate.set(1, 1);
    children.into_iter().for_each(wait_ok);
    let reader = test.read();
    assert_eq!(reader.total_counts().committed, PROCESSES * ROUNDS);
    let mut words: HashMap<u64, Vec<Seen>> = HashMap::new();
    let seen = all(&reader, |a| {
        let line = a.lines().next().unwrap();
        (
            a.offset / 8,
            Seen {
                recording: a.recording.get(),
                sequence: a.sequence,
                kind: a.kind,
                old: number(a.seen()),
                new: number(a.value()),
                clock: line.clock,
                interval: line.interval,
            },
        )
    });
    seen.into_iter().for_each(|(word, seen)| words.entry(word).or_default().push(seen));
    (test, words)
}

/// No later one (in the true order) ends, by the clock, before an earlier one starts.
fn assert_no_inversion(true_order: &[Seen]) {
    let mut latest_start = 0;
    for (index, seen) in true_order.iter().enumerate() {
        assert!(seen.interval.end >= latest_start, "access {index} is claimed to precede one that it followed");
        latest_start = latest_start.max(seen.interval.start);
    }
}

/// How often the word went from one process to another, and how many of those neighbours are concurrent.
fn hand_overs(true_order: &[Seen]) -> (usize, usize) {
    let pairs = true_order.windows(2).filter(|pair| pair[0].recording != pair[1].recording);
    let overlap = |pair: &&[Seen]| !pair[0].interval.precedes(&pair[1].interval);
    (pairs.clone().count(), pairs.filter(overlap).count())
}

#[test]
fn the_claimed_order_is_what_the_values_prove() {
    let (_test, words) = record();

    // lock xadd: the values count the accesses.
    let mut xadds = words[&0].clone();
    xadds.sort_by_key(|seen| seen.old);
    assert!(xadds.iter().enumerate().all(|(index, seen)| seen.old == index as u64));
    assert_no_inversion(&xadds);
    let (hand_overs, concurrent) = hand_overs(&xadds);
    println!("lock xadd: {} accesses, {hand_overs} hand-overs, {concurrent} of them concurrent", xadds.len());

    // lock cmpxchg: those that succeeded chain old → new; a failed one saw what it saw in between.
    let by_old: HashMap<u64, &Seen> = words[&8].iter().filter(|seen| seen.old != seen.new).map(|seen| (seen.old, seen)).collect();
    let mut chain = Vec::new();
    let mut value = 0;
    while let Some(next) = by_old.get(&value) {
        chain.push(**next);
        value = next.new;
    }
    assert_eq!(chain.len(), by_old.len(), "one chain");
    assert_no_inversion(&chain);
    let made: HashMap<u64, Interval> = chain.iter().map(|seen| (seen.new, seen.interval)).collect();
    for failed in words[&8].iter().filter(|seen| seen.old == seen.new) {
        if let Some(made) = made.get(&failed.old) {
            assert!(!failed.interval.precedes(made), "saw a value that is claimed to be of later");
        }
        if let Some(replaced) = by_old.get(&failed.old) {
            assert!(!replaced.interval.precedes(&failed.interval), "saw a value that is claimed to be gone");
        }
    }

    // Plain stores and loads: who saw what.
    for word in [16, 24, 32, 33] {
        let mut writes: Vec<&Seen> = words[&word].iter().filter(|seen| seen.kind == Kind::Write).collect();
        writes.sort_by_key(|seen| seen.interval.start);
        let mut earliest_end = vec![u64::MAX; writes.len() + 1];
        for index in (0..writes.len()).rev() {
            earliest_end[index] = earliest_end[index + 1].min(writes[index].interval.end);
        }
        let by_value: HashMap<u64, &Seen> = writes.iter().map(|seen| (seen.new, *seen)).collect();
        for read in words[&word].iter().filter(|seen| seen.kind == Kind::Read) {
            let written = by_value.get(&read.old);
            assert!(written.is_some() || read.old == 0, "a value that nobody wrote");
            if let Some(write) = written {
                assert!(!read.interval.precedes(&write.interval), "saw a write that is claimed to be of later");
            }
            let after = written.map_or(0, |write| writes.partition_point(|other| other.interval.start <= write.interval.end));
            assert!(earliest_end[after] >= read.interval.start, "saw a write that is claimed to be overwritten");
        }
    }
}

/// Program order and the claimed order of all words together never go in a circle: there is one history that explains the log.
/// Nothing that is claimed per line alone would notice a store that passed an earlier load of another line.
#[test]
fn all_claims_together_have_no_circle() {
    let (_test, words) = record();
    let mut programs: Vec<Vec<Seen>> = vec![Vec::new(); PROCESSES as usize];
    let mut queues: HashMap<(u32, ClockIndex), Vec<Seen>> = HashMap::new();
    words.values().flatten().for_each(|seen| programs[seen.recording as usize].push(*seen));
    for program in &mut programs {
        program.sort_by_key(|seen| seen.sequence);
        program.iter().for_each(|seen| queues.entry((seen.recording, seen.clock)).or_default().push(*seen));
    }
    let mut heads = vec![0; programs.len()];
    let mut done: HashMap<(u32, ClockIndex), usize> = HashMap::new();
    loop {
        let next = (0..programs.len()).find(|program| {
            let Some(head) = programs[*program].get(heads[*program]) else { return false };
            (0..programs.len() as u32).filter(|other| *other != head.recording).all(|other| {
                let key = (other, head.clock);
                let waiting = queues.get(&key).and_then(|queue| queue.get(done.get(&key).copied().unwrap_or(0)));
                waiting.is_none_or(|waiting| !waiting.interval.precedes(&head.interval))
            })
        });
        let Some(program) = next else { break };
        let head = programs[program][heads[program]];
        heads[program] += 1;
        *done.entry((head.recording, head.clock)).or_default() += 1;
    }
    let left: usize = programs.iter().zip(&heads).map(|(program, head)| program.len() - head).sum();
    assert_eq!(left, 0, "accesses in a circle of claims");
}
