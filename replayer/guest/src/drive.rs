//! Running: from a command to the moment at which it is done.
//!
//! ```text
//!   serve ──Run/Step──► plan ──► engine ──stop──► drive_on ──► nothing to report: plan, engine
//!     ▲                                              │
//!     └───────────────── report ◄────────────────────┘
//! ```
//!
//! D1. The engine's stop is the earliest of the limit asked for, the next event that no instruction asks for, and the end of a slice.
//! D2. A limit at the time of such an event is met before the event happens.
//! D3. With `MOVE_FIRST` one instruction (or the delivery of a signal) happens before the limit and breakpoints are looked at.
//! D4. A slice is as many transfers as take about [`SLICE_NS`]: how long a cancellation may have to wait.

use engine::{Flow, Stopped};
use recording::{EventKind, Time};

use crate::control::{Reason, run_flags, value};
use crate::host::{Guest, ReplayHost, now};
use crate::start::clock;
use crate::watch::Hit;

const SLICE_NS: u64 = 20_000_000;
/// After so many instructions executed alone, the clock is looked at.
const LOOKS: u32 = 64;
const FIRST_SLICE: u64 = 1 << 20;
const SLICES: core::ops::RangeInclusive<u64> = (1 << 14)..=(1 << 28);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Nothing has been asked for.
    Idle,
    /// Until a limit.
    Run,
    /// One instruction after the other; `until`: up to that time.
    Steps { until: Option<Time> },
}

/// What is being done.
#[derive(Debug)]
pub struct Drive {
    mode: Mode,
    limit: Option<Time>,
    flags: u64,
    deadline: u64,
    slice: u64,
    slice_start: u64,
    slice_end: u64,
    /// Instructions executed alone.
    alone: u32,
    /// Where the command began.
    started: Time,
    /// A hit that waits to be looked at: the time before the instruction.
    pub hit: Option<(Time, Hit)>,
    last: Option<(Time, Hit)>,
    previous: Option<Time>,
}

/// What comes next.
pub enum Then {
    Engine,
    Report(Reason, u64),
}

impl Drive {
    pub fn new() -> Self {
        let none = Time { bbcount: 0, pc: 0 };
        Self {
            mode: Mode::Idle,
            limit: None,
            flags: 0,
            deadline: 0,
            slice: FIRST_SLICE,
            slice_start: 0,
            slice_end: 0,
            alone: 0,
            started: none,
            hit: None,
            last: None,
            previous: None,
        }
    }

    pub fn is_stepping(&self) -> bool {
        matches!(self.mode, Mode::Steps { .. })
    }

    /// Whether breakpoints and watchpoints count now.
    pub fn looks_at_points(&self) -> bool {
        self.mode == Mode::Run && self.flags & (run_flags::POINTS | run_flags::NOTE_LAST) != 0
    }

    fn is_noting(&self) -> bool {
        self.flags & run_flags::NOTE_LAST != 0
    }
}

impl ReplayHost {
    /// Tells the engine where to stop next (D1).
    pub fn plan(&mut self, engine: &mut Guest) {
        if self.drive.mode != Mode::Run {
            engine.set_stop(None);
            return;
        }
        let mut stop = Time { bbcount: self.drive.slice_end, pc: 0 };
        if let Some(limit) = self.drive.limit {
            stop = stop.min(limit);
        }
        if let Some(next) = self.log.next()
            && matches!(next.kind, EventKind::Signal | EventKind::MemoryHash | EventKind::End)
        {
            stop = stop.min(next.time);
        }
        engine.set_stop(Some((stop.bbcount, stop.pc)));
    }

    fn new_slice(&mut self, engine: &mut Guest) {
        self.slot.beat();
        self.drive.slice_start = clock();
        self.drive.slice_end = engine.bbcount().saturating_add(self.drive.slice);
    }

    /// Begins a Run command.
    pub fn begin_run(&mut self, engine: &mut Guest, limit: Option<Time>, flags: u64, budget_ns: u64) -> Then {
        let looked = self.drive.looks_at_points();
        let time = now(engine);
        self.drive = Drive {
            mode: Mode::Run,
            limit,
            flags,
            deadline: if budget_ns == 0 { u64::MAX } else { clock().saturating_add(budget_ns) },
            slice: self.drive.slice,
            started: time,
            ..Drive::new()
        };
        self.arm(engine, looked);
        self.new_slice(engine);
        if flags & run_flags::MOVE_FIRST == 0 {
            return self.look(engine);
        }
        if let Some(then) = self.due_now(engine, time) {
            return then;
        }
        self.begin_alone(engine);
        Then::Engine
    }

    /// Begins a Step command.
    pub fn begin_steps(&mut self, engine: &mut Guest, until: Option<Time>) -> Then {
        let looked = self.drive.looks_at_points();
        let time = now(engine);
        self.drive = Drive { mode: Mode::Steps { until }, slice: self.drive.slice, started: time, ..Drive::new() };
        self.arm(engine, looked);
        engine.set_stop(None);
        if until.is_some_and(|until| time >= until) {
            return Then::Report(Reason::Arrived, 0);
        }
        self.step(engine)
    }

    /// Gives the engine the points if they count now, and takes them away if they did.
    fn arm(&mut self, engine: &mut Guest, looked: bool) {
        if self.drive.looks_at_points() {
            engine.set_breakpoints(self.points.breakpoints());
            let ranges: alloc::vec::Vec<(u64, u64)> = self.points.watches.iter().map(|watch| (watch.address, watch.length)).collect();
            let writes = self.points.watches.iter().any(|watch| watch.kind != crate::watch::Kind::Read);
            let reads = self.points.watches.iter().any(|watch| watch.kind != crate::watch::Kind::Write);
            engine.set_watch((reads || writes).then_some(engine::WatchWanted { reads, writes }), &ranges);
        } else if looked {
            engine.set_breakpoints(core::iter::empty());
            engine.set_watch(None, &[]);
        }
    }

    /// Has the engine execute one instruction and notes what that may hit.
    pub fn begin_alone(&mut self, engine: &mut Guest) {
        // This takes a thousand times as long as translated code does, which slices are measured by.
        self.slot.beat();
        self.drive.alone = self.drive.alone.wrapping_add(1);
        if self.drive.alone.is_multiple_of(LOOKS) && clock() - self.drive.slice_start > SLICE_NS {
            self.drive.slice_end = engine.bbcount();
        }
        if self.drive.looks_at_points() && !self.points.watches.is_empty() && self.pending.is_none() {
            let touches = self.touches(engine);
            let (time, vm) = (now(engine), &self.vm);
            self.pending = Some(self.points.before(time, &touches, |address, to| vm.read(address, to)));
        }
        engine.set_step();
    }

    /// One instruction of a Step command, or what stands in its place.
    fn step(&mut self, engine: &mut Guest) -> Then {
        self.slot.beat();
        let time = now(engine);
        self.drive.previous = Some(time);
        if let Some(then) = self.due_now(engine, time) {
            return then;
        }
        engine.set_step();
        Then::Engine
    }

    /// The instruction at `time` is to execute: events that come before it, or instead of it, happen now.
    fn due_now(&mut self, engine: &mut Guest, time: Time) -> Option<Then> {
        while let Some(next) = self.log.next().filter(|next| next.time == time) {
            match next.kind {
                EventKind::MemoryHash => self.memory_hash(engine),
                EventKind::End => return Some(Then::Report(Reason::End, 0)),
                EventKind::Signal if self.deliver(engine) => return Some(self.after_one(engine)),
                EventKind::Signal => {}
                _ => break,
            }
        }
        None
    }

    /// As [`ReplayHost::signal`], with a look at watchpoints.
    fn deliver(&mut self, engine: &mut Guest) -> bool {
        let watching = self.drive.looks_at_points() && !self.points.watches.is_empty();
        let (time, vm) = (now(engine), &self.vm);
        let pending = watching.then(|| self.points.before(time, &[], |address, to| vm.read(address, to)));
        if self.pending.is_none() {
            self.pending = pending;
        }
        let handler = self.signal(engine);
        if let Some((time, index)) = self.take_hit() {
            self.drive.hit = Some((time, Hit::Watch(index)));
        }
        handler
    }

    /// One instruction has been executed.
    fn after_one(&mut self, engine: &mut Guest) -> Then {
        let time = now(engine);
        self.check_overdue(engine, time);
        match self.drive.mode {
            Mode::Steps { until: Some(until) } if time < until => self.step(engine),
            Mode::Steps { .. } => Then::Report(Reason::Arrived, 0),
            Mode::Run | Mode::Idle => {
                if let Some((time, index)) = self.take_hit() {
                    self.drive.hit = Some((time, Hit::Watch(index)));
                }
                self.look(engine)
            }
        }
    }

    fn check_overdue(&mut self, engine: &mut Guest, time: Time) {
        if let Some(next) = self.log.next().filter(|next| next.time < time) {
            self.diverge(
                engine,
                alloc::format!("{} was recorded at {}, but the program did not come by there", next.kind.name(), next.time),
            )
        }
    }

    /// At a breakpoint: `Some` if that ends the command.
    fn handle_breakpoint(&mut self, engine: &mut Guest, time: Time) -> Option<Then> {
        let vm = &self.vm;
        let stops = self.points.stops(&self.registers(engine.context()), |address, to| vm.read(address, to));
        if stops { self.handle_hit(time, Hit::Breakpoint) } else { None }
    }

    /// A hit: `Some` if it ends the command.
    fn handle_hit(&mut self, time: Time, hit: Hit) -> Option<Then> {
        if !self.drive.is_noting() {
            return Some(match hit {
                Hit::Breakpoint => Then::Report(Reason::Breakpoint, 0),
                Hit::Watch(index) => Then::Report(Reason::Watchpoint, index as u64),
            });
        }
        if self.drive.limit.is_none_or(|limit| time < limit) {
            self.drive.last = Some((time, hit));
        }
        None
    }

    /// What is to be done at this moment of a Run command.
    fn look(&mut self, engine: &mut Guest) -> Then {
        loop {
            let time = now(engine);
            if let Some((before, hit)) = self.drive.hit.take()
                && let Some(then) = self.handle_hit(before, hit)
            {
                return then;
            }
            if let Some(limit) = self.drive.limit
                && time >= limit
            {
                let met = time == limit || (limit.pc == 0 && time.bbcount == limit.bbcount);
                return Then::Report(if met { Reason::Arrived } else { Reason::Missed }, 0);
            }
            self.check_overdue(engine, time);
            let Some(next) = self.log.next().filter(|next| next.time == time) else { break };
            match next.kind {
                EventKind::MemoryHash => self.memory_hash(engine),
                EventKind::End => return Then::Report(Reason::End, 0),
                EventKind::Signal => {
                    // The engine does not come to a breakpoint at an instruction that a signal forestalls.
                    let points = self.drive.looks_at_points() && self.points.has_breakpoint(time.pc) && next.enters_handler;
                    let first = time == self.drive.started && self.drive.flags & run_flags::MOVE_FIRST != 0;
                    if points
                        && !first
                        && let Some(then) = self.handle_breakpoint(engine, time)
                    {
                        return then;
                    }
                    self.deliver(engine);
                }
                _ => break,
            }
        }
        if engine.bbcount() >= self.drive.slice_end
            && let Some(then) = self.end_slice(engine)
        {
            return then;
        }
        self.plan(engine);
        Then::Engine
    }

    fn end_slice(&mut self, engine: &mut Guest) -> Option<Then> {
        let time = clock();
        let took = time - self.drive.slice_start;
        if took < SLICE_NS / 2 {
            self.drive.slice = (self.drive.slice * 2).min(*SLICES.end());
        } else if took > SLICE_NS * 2 {
            self.drive.slice = (self.drive.slice / 2).max(*SLICES.start());
        }
        if self.slot.head().cancel.load(core::sync::atomic::Ordering::Relaxed) != 0 {
            return Some(Then::Report(Reason::Cancelled, 0));
        }
        if time >= self.drive.deadline {
            return Some(Then::Report(Reason::Paused, 0));
        }
        self.new_slice(engine);
        None
    }

    /// The engine stopped.
    pub fn drive_on(&mut self, engine: &mut Guest, why: Stopped) -> Flow {
        let mut then = match (self.drive.mode, why) {
            // The very first stop: the process is ready.
            (Mode::Idle, _) => Then::Report(Reason::Arrived, 0),
            (_, Stopped::Stepped) => self.after_one(engine),
            (_, Stopped::Time | Stopped::Attention) => self.look(engine),
            (_, Stopped::Breakpoint) => {
                let time = now(engine);
                match self.handle_breakpoint(engine, time) {
                    Some(then) => then,
                    None => {
                        self.begin_alone(engine);
                        Then::Engine
                    }
                }
            }
            (_, Stopped::Watch { address, length }) => {
                if length == 0 || self.points.is_near(address, u64::from(length)) {
                    self.begin_alone(engine);
                }
                return Flow::Continue;
            }
        };
        while let Then::Report(reason, detail) = then {
            self.report(engine, reason, detail);
            then = self.serve(engine);
        }
        Flow::Continue
    }

    /// Fills in the reply's values.
    pub fn report(&mut self, engine: &mut Guest, reason: Reason, detail: u64) {
        let time = now(engine);
        let (last, previous) = (self.drive.last, self.drive.previous);
        let values = [
            (value::BBCOUNT, time.bbcount),
            (value::PC, time.pc),
            (value::REASON, u64::from(reason as u32)),
            (value::DETAIL, detail),
            (value::EVENTS, self.log.consumed()),
            (
                value::HIT,
                last.map_or(0, |(_, hit)| if hit == Hit::Breakpoint { Reason::Breakpoint as u64 } else { Reason::Watchpoint as u64 }),
            ),
            (value::HIT_BBCOUNT, last.map_or(0, |(time, _)| time.bbcount)),
            (value::HIT_PC, last.map_or(0, |(time, _)| time.pc)),
            (value::HIT_DETAIL, last.map_or(0, |(_, hit)| if let Hit::Watch(index) = hit { index as u64 } else { 0 })),
            (value::PREVIOUS_BBCOUNT, previous.map_or(0, |time| time.bbcount)),
            (value::PREVIOUS_PC, previous.map_or(0, |time| time.pc)),
            (value::HASHES, self.hashes),
        ];
        for (index, value) in values {
            self.slot.set_value(index, value);
        }
    }
}
