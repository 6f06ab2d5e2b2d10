//! Random walks over a timeline: whatever way leads to a time, the state there is the same. Also used on the recordings of real programs,
//! by the crate `tests`.

use std::collections::HashMap;

use replayer::{Cancel, Direction, Error, Points, Replay, StopReason, Time, Timeline, WatchKind, Watchpoint};

/// One move.
#[derive(Clone, Debug)]
pub enum Move {
    Step(Direction),
    /// To a part of the whole range, in 1/65536.
    Seek(u16),
    /// To a time visited before.
    Return(u16),
    /// To the time of an event, in 1/65536 of all.
    Event(u16),
    /// To the next (or previous) time at a pc that was visited before.
    Breakpoint(Direction, u16),
    /// Until the word at the stack pointer of a visited time changes, or is read, or either.
    Watch(Direction, WatchKind, u16),
}

impl Move {
    /// The move that a random number stands for.
    pub fn of(random: u64) -> Self {
        let pick = (random >> 16) as u16;
        let direction = if random >> 8 & 1 == 0 { Direction::Forward } else { Direction::Backward };
        let kind = [WatchKind::Write, WatchKind::Read, WatchKind::Access][(random >> 9 & 0xf) as usize % 3];
        match (random & 0xff) % 15 {
            0..4 => Self::Step(direction),
            4..7 => Self::Seek(pick),
            7..9 => Self::Return(pick),
            9..11 => Self::Event(pick),
            11..13 => Self::Breakpoint(direction, pick),
            _ => Self::Watch(direction, kind, pick),
        }
    }
}

/// What is compared at a time.
#[derive(Clone, Debug, PartialEq)]
struct State {
    registers: replayer::Registers,
    xsave: Vec<u8>,
    memory: u64,
}

struct Walker {
    replay: Replay,
    seen: HashMap<Time, State>,
    order: Vec<Time>,
    stacks: Vec<u64>,
    compared: usize,
}

impl Walker {
    fn new(replay: Replay) -> Self {
        Self { replay, seen: HashMap::new(), order: Vec::new(), stacks: Vec::new(), compared: 0 }
    }

    /// Looks at the state here; it must be what it was last time.
    fn look(&mut self) {
        let time = self.replay.now();
        assert!(time >= self.replay.begin() && time <= self.replay.end());
        let registers = self.replay.registers().unwrap();
        assert_eq!(registers.rip, time.pc);
        let mut xsave = self.replay.xsave().unwrap();
        // Which components the processor holds to be in use depends on when the kernel saved them; their contents do not.
        xsave[512..520].fill(0);
        let state = State { registers, xsave, memory: self.replay.memory_hash().unwrap() };
        if let Some(before) = self.seen.get(&time) {
            assert_eq!(before.registers, registers, "the registers at {time} depend on the way to it");
            assert_eq!(before.memory, state.memory, "the memory at {time} depends on the way to it");
            assert!(before.xsave == state.xsave, "the vector registers at {time} depend on the way to it");
            self.compared += 1;
            return;
        }
        self.stacks.push(registers.gpr[4]);
        self.order.push(time);
        self.seen.insert(time, state);
    }

    fn visited(&self, pick: u16) -> Time {
        self.order[usize::from(pick) % self.order.len()]
    }

    fn go(&mut self, step: &Move) {
        let before = self.replay.now();
        let (begin, end) = (self.replay.begin(), self.replay.end());
        match *step {
            Move::Step(direction) => {
                let stop = self.replay.step(direction).unwrap();
                let edge = if direction == Direction::Forward { end } else { begin };
                if before == edge {
                    assert_eq!((stop.time, stop.reason == StopReason::Arrived), (before, false));
                } else {
                    assert_eq!(stop.reason, StopReason::Arrived);
                    assert_eq!(stop.time > before, direction == Direction::Forward);
                    self.look();
                    // The other way leads back, T4.
                    let back = if direction == Direction::Forward { Direction::Backward } else { Direction::Forward };
                    assert_eq!(self.replay.step(back).unwrap().time, before, "{direction:?} from {before}, {back:?} from {}", stop.time);
                    self.replay.seek(stop.time.bbcount, Some(stop.time.pc)).unwrap();
                }
            }
            Move::Seek(part) => {
                let range = u128::from(end.bbcount - begin.bbcount);
                let bbcount = begin.bbcount + (range * u128::from(part) / 65535) as u64;
                match self.replay.seek(bbcount, None) {
                    Ok(stop) => assert_eq!(stop.time.bbcount, bbcount),
                    // A signal that comes with a system call leaves a bbcount without a time.
                    Err(Error::NoSuchTime { .. }) => assert_eq!(self.replay.now(), before),
                    Err(error) => panic!("seek to {bbcount}: {error}"),
                }
            }
            Move::Return(pick) => {
                let time = self.visited(pick);
                assert_eq!(self.replay.seek(time.bbcount, Some(time.pc)).unwrap().time, time);
            }
            Move::Event(part) => {
                let index = (self.replay.event_count() - 1) * usize::from(part) / 65535;
                let time = self.replay.event(index).time;
                assert_eq!(self.replay.seek(time.bbcount, Some(time.pc)).unwrap().time, time, "event {index}");
                assert!(self.replay.first_event_at_or_after(time) <= index);
            }
            Move::Breakpoint(direction, pick) => {
                let pc = self.visited(pick).pc;
                let points = Points { breakpoints: vec![pc], ..Points::default() };
                self.resume(direction, &points, before);
            }
            Move::Watch(direction, kind, pick) => {
                let address = self.stacks[usize::from(pick) % self.stacks.len()];
                let watch = Watchpoint { address, length: 8, kind };
                self.resume(direction, &Points { watchpoints: vec![watch], ..Points::default() }, before);
            }
        }
        self.look();
    }

    fn resume(&mut self, direction: Direction, points: &Points, before: Time) {
        let stop = self.replay.resume(direction, points, &Cancel::default()).unwrap();
        let forward = direction == Direction::Forward;
        assert!(if forward { stop.time >= before } else { stop.time <= before });
        match stop.reason {
            StopReason::Breakpoint => assert!(points.breakpoints.contains(&stop.time.pc) && stop.time != before),
            StopReason::End | StopReason::Signal(_) => assert_eq!(stop.time, self.replay.end()),
            StopReason::Begin => assert_eq!(stop.time, self.replay.begin()),
            StopReason::Watchpoint(watch) => self.check_watch(forward, watch, points, stop.time),
            other => panic!("{other:?}"),
        }
        self.look();
        // Searching the other way from just beyond finds the same place.
        if stop.reason == StopReason::Breakpoint {
            let (out, back) = if forward { (Direction::Forward, Direction::Backward) } else { (Direction::Backward, Direction::Forward) };
            if self.replay.step(out).unwrap().reason == StopReason::Arrived {
                assert_eq!(self.replay.resume(back, points, &Cancel::default()).unwrap().time, stop.time);
            }
        }
    }

    /// One instruction makes the hit: it lies between the times at which the search stops in either direction, and if it is to be a write
    /// the bytes differ there.
    fn check_watch(&mut self, forward: bool, watch: Watchpoint, points: &Points, at: Time) {
        let read = |replay: &mut Replay| {
            let mut bytes = vec![0; watch.length as usize];
            let got = replay.read_memory(watch.address, &mut bytes).unwrap_or(0);
            bytes.truncate(got);
            bytes
        };
        let here = read(&mut self.replay);
        let (out, back) = if forward { (Direction::Forward, Direction::Backward) } else { (Direction::Backward, Direction::Forward) };
        let other = self.replay.step(back).unwrap();
        assert_eq!(other.reason, StopReason::Arrived);
        if watch.kind == WatchKind::Write {
            assert_ne!(read(&mut self.replay), here, "nothing changed at the watchpoint's hit {at}");
        }
        let again = self.replay.resume(out, points, &Cancel::default()).unwrap();
        assert_eq!((again.time, again.reason), (at, StopReason::Watchpoint(watch)), "from {}", other.time);
        let there = self.replay.resume(back, points, &Cancel::default()).unwrap();
        assert_eq!((there.time, there.reason), (other.time, StopReason::Watchpoint(watch)), "from {at}");
        self.replay.seek(at.bbcount, Some(at.pc)).unwrap();
    }
}

/// Walks over a recording; whatever differs on the way panics.
pub fn walk(replay: Replay, moves: &[Move]) {
    let mut walker = Walker::new(replay);
    walker.look();
    for step in moves {
        walker.go(step);
    }
    let begin = walker.replay.begin();
    walker.replay.seek(begin.bbcount, Some(begin.pc)).unwrap();
    walker.look();
    assert!(walker.compared > 0);
}
