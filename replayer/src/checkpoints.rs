//! Processes that wait at chosen times, so that any time is a bounded replay away.
//!
//! The cost of a time is how long replaying to it from the begin takes. Checkpoints are taken while running forwards, whenever the last one
//! lies an interval of cost back. When there are too many, the interval doubles and those closer together go.
//!
//! C1. The first stands at the begin of history and stays.
//! C2. There are at most [`MOST`]; two neighbours are at least half an interval apart, but for the few *near* ones that stepping
//!     backwards leaves behind.

use std::time::Duration;

use recording::Time;

use crate::process::Process;

/// More checkpoints cost memory: a few hundred KiB each, and each page that the program writes between two.
const MOST: usize = 96;
const FIRST_INTERVAL_NS: u64 = 50_000_000;
/// No run is shorter.
const LEAST_NS: u64 = 100_000;
/// Kept for stepping backwards.
const NEAR: usize = 3;

pub struct Checkpoints {
    /// Ascending by time; not empty.
    list: Vec<Process>,
    /// The latest last.
    near: Vec<Process>,
    interval_ns: u64,
}

impl Checkpoints {
    pub fn new(begin: Process) -> Self {
        Self { list: vec![begin], near: Vec::new(), interval_ns: FIRST_INTERVAL_NS }
    }

    /// The latest checkpoint at or before `time`.
    pub fn nearest(&mut self, time: Time) -> &mut Process {
        let index = self.list.partition_point(|process| process.time <= time).max(1) - 1;
        let near = self.near.iter().enumerate().filter(|(_, process)| process.time <= time).max_by_key(|(_, process)| process.time);
        match near.map(|(near, process)| (near, process.time)) {
            Some((near, at)) if at > self.list[index].time => &mut self.near[near],
            _ => &mut self.list[index],
        }
    }

    /// The latest checkpoint before `time`, near ones left out; `None`: there is none.
    pub fn before(&mut self, time: Time) -> Option<&mut Process> {
        let index = self.list.partition_point(|process| process.time < time);
        self.list.get_mut(index.checked_sub(1)?)
    }

    /// How much longer a process of this time and cost may run before it is to leave a checkpoint behind.
    pub fn budget(&self, time: Time, cost_ns: u64) -> Duration {
        let index = self.list.partition_point(|process| process.time <= time).max(1) - 1;
        let since = cost_ns.saturating_sub(self.list[index].cost_ns);
        Duration::from_nanos(self.interval_ns.saturating_sub(since).max(LEAST_NS))
    }

    /// Whether a process of this time and cost should leave one behind.
    pub fn wants(&self, time: Time, cost_ns: u64) -> bool {
        let index = self.list.partition_point(|process| process.time <= time).max(1) - 1;
        let back = cost_ns.saturating_sub(self.list[index].cost_ns) >= self.interval_ns / 10 * 9;
        let ahead = self.list.get(index + 1).is_none_or(|next| next.cost_ns.saturating_sub(cost_ns) >= self.interval_ns / 2);
        back && ahead && self.list[index].time < time
    }

    pub fn add(&mut self, process: Process) {
        let index = self.list.partition_point(|other| other.time < process.time);
        self.list.insert(index, process);
        while self.list.len() > MOST {
            self.interval_ns *= 2;
            self.thin();
        }
    }

    fn thin(&mut self) {
        let mut kept: u64 = 0;
        let (mut first, least) = (true, self.interval_ns / 10 * 9);
        self.list.retain(|process| {
            let keep = first || process.cost_ns.saturating_sub(kept) >= least;
            if keep {
                kept = process.cost_ns;
            }
            first = false;
            keep
        });
    }

    /// How much cost is to lie between two from now on.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
    }

    pub fn add_near(&mut self, process: Process) {
        if self.near.len() >= NEAR {
            self.near.remove(0);
        }
        self.near.push(process);
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }
}
