//! Times of day: a recording knows two moments by clock and by time stamp counter, and its events by time stamp counter.

use replayer::{Time, Timeline};

/// Nanoseconds since 1970.
pub type Nanoseconds = u64;

/// A line through the recording's two known moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wallclock {
    pub begin: Nanoseconds,
    pub end: Nanoseconds,
    /// Time stamp counter at `begin`.
    pub begin_stamp: u64,
    pub end_stamp: u64,
}

impl Wallclock {
    /// `None` if the recording has no such moments.
    pub fn new(begin: Nanoseconds, end: Nanoseconds, begin_stamp: u64, end_stamp: u64) -> Option<Self> {
        (begin > 0 && begin <= end && begin_stamp < end_stamp).then_some(Wallclock { begin, end, begin_stamp, end_stamp })
    }

    /// The clock at a time stamp, never outside the recorded range.
    pub fn at(&self, stamp: u64) -> Nanoseconds {
        let stamp = stamp.clamp(self.begin_stamp, self.end_stamp);
        let passed =
            u128::from(stamp - self.begin_stamp) * u128::from(self.end - self.begin) / u128::from(self.end_stamp - self.begin_stamp);
        // Not more than `end - begin`, so it fits.
        self.begin + u64::try_from(passed).unwrap_or(0)
    }

    /// The clock at the last event before `now`: nothing is known between events.
    pub fn now(&self, timeline: &dyn Timeline, now: Time) -> Nanoseconds {
        self.before(timeline, timeline.first_event_at_or_after(now))
    }

    /// The clock at the last event with a time stamp among those below `index`.
    fn before(&self, timeline: &dyn Timeline, index: usize) -> Nanoseconds {
        let stamps = (0..index).rev().map(|index| timeline.event(index).timestamp);
        stamps.take(MAX_WITHOUT_STAMP).find(|stamp| *stamp > 0).map_or(self.begin, |stamp| self.at(stamp))
    }

    /// The first event at or after a time of day.
    pub fn event_at(&self, timeline: &dyn Timeline, wanted: Nanoseconds) -> Option<Time> {
        let (mut low, mut high) = (0, timeline.event_count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.before(timeline, middle + 1) < wanted { low = middle + 1 } else { high = middle }
        }
        (low < timeline.event_count()).then(|| timeline.event(low).time)
    }
}

/// So many events in a row without a time stamp are not written by any recorder (at most 64 KiB, by emitted code).
const MAX_WITHOUT_STAMP: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn clock() -> Wallclock {
        Wallclock::new(1_000_000, 2_000_000, 500, 600).unwrap()
    }

    #[test]
    fn stamps_lie_on_a_line_and_within_the_range() {
        assert_eq!([0, 500, 550, 600, u64::MAX].map(|stamp| clock().at(stamp)), [1_000_000, 1_000_000, 1_500_000, 2_000_000, 2_000_000]);
        assert_eq!(Wallclock::new(0, 1, 2, 3), None);
        assert_eq!(Wallclock::new(5, 6, 7, 7), None);
    }

    #[test]
    fn events_tell_the_time_between_them() {
        let events = (0..10).map(|moment| replayer::Event { timestamp: 500 + 10 * moment, ..fake::event(moment, "read") }).collect();
        let opened = fake::opened_with(events);
        let timeline = opened.timeline.as_ref();
        assert_eq!(clock().now(timeline, fake::time(0)), 1_000_000);
        assert_eq!(clock().now(timeline, fake::time(6)), 1_500_000);
        assert_eq!(clock().event_at(timeline, 1_500_000), Some(fake::time(5)));
        assert_eq!(clock().event_at(timeline, 1_500_001), Some(fake::time(6)));
        assert_eq!(clock().event_at(timeline, 1_950_000), None);
    }
}
