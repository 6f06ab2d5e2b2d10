//! Breakpoints, watchpoints and their hits.
//!
//! W1. A write watchpoint is hit where its bytes differ after an instruction from what they were before it, whoever changed them: the
//!     instruction, the kernel, or an update of shared memory that the instruction met.
//! W2. A read or access watchpoint is hit where an operand of the instruction overlaps it, changed or not.

use alloc::vec::Vec;

use recording::Time;

use crate::touch::Touch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    Read,
    Access,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub address: u64,
    pub length: u64,
    pub kind: Kind,
}

#[derive(Clone, Debug, Default)]
pub struct Points {
    /// Ascending.
    breakpoints: Vec<u64>,
    pub watches: Vec<Watch>,
}

/// What was before an instruction that may hit a watchpoint.
#[derive(Clone, Debug)]
pub struct Pending {
    pub time: Time,
    /// Index of a read or access watchpoint that the operands overlap.
    pub touched: Option<usize>,
    /// The bytes of each write watchpoint, by index.
    saved: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    Breakpoint,
    /// Index of the watchpoint.
    Watch(usize),
}

impl Points {
    /// Reads the data of a SetPoints command. `None`: they are not well-formed.
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (words, rest) = data.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (breakpoints, watches) = (words.next()?, words.next()?);
        let wanted = breakpoints.checked_add(watches.checked_mul(3)?)?;
        if !rest.is_empty() || words.len() as u64 != wanted {
            return None;
        }
        let mut points = Self { breakpoints: words.by_ref().take(breakpoints as usize).collect(), watches: Vec::new() };
        points.breakpoints.sort_unstable();
        while let (Some(address), Some(length), Some(kind)) = (words.next(), words.next(), words.next()) {
            let kind = match kind {
                0 => Kind::Write,
                1 => Kind::Read,
                2 => Kind::Access,
                _ => return None,
            };
            points.watches.push(Watch { address, length, kind });
        }
        Some(points)
    }

    pub fn encode(breakpoints: &[u64], watches: &[(u64, u64, u64)]) -> Vec<u8> {
        let head = [breakpoints.len() as u64, watches.len() as u64];
        let watches = watches.iter().flat_map(|&(address, length, kind)| [address, length, kind]);
        head.into_iter().chain(breakpoints.iter().copied()).chain(watches).flat_map(u64::to_le_bytes).collect()
    }

    pub fn breakpoints(&self) -> impl Iterator<Item = u64> + '_ {
        self.breakpoints.iter().copied()
    }

    pub fn has_breakpoint(&self, pc: u64) -> bool {
        self.breakpoints.binary_search(&pc).is_ok()
    }

    /// Whether [address, address + length) overlaps any watchpoint.
    pub fn is_near(&self, address: u64, length: u64) -> bool {
        let touch = Touch { address, length, reads: true, writes: true };
        self.watches.iter().any(|watch| touch.overlaps(watch.address, watch.length))
    }

    /// Notes the state before an instruction with these operands.
    pub fn before(&self, time: Time, touches: &[Touch], read: impl Fn(u64, &mut [u8]) -> usize) -> Pending {
        let hit = |watch: &Watch, touch: &Touch| {
            let kind = match watch.kind {
                Kind::Write => false,
                Kind::Read => touch.reads,
                Kind::Access => true,
            };
            kind && touch.overlaps(watch.address, watch.length)
        };
        let touched = self.watches.iter().position(|watch| touches.iter().any(|touch| hit(watch, touch)));
        let saved = self
            .watches
            .iter()
            .enumerate()
            .filter(|(_, watch)| watch.kind == Kind::Write)
            .map(|(index, watch)| (index, bytes(watch, &read)));
        Pending { time, touched, saved: saved.collect() }
    }

    /// Which watchpoint was hit between `before` and now.
    pub fn after(&self, pending: &Pending, read: impl Fn(u64, &mut [u8]) -> usize) -> Option<usize> {
        let changed =
            pending.saved.iter().find(|(index, saved)| self.watches.get(*index).is_some_and(|watch| bytes(watch, &read) != *saved));
        changed.map(|(index, _)| *index).or(pending.touched)
    }

    /// The access watchpoint that a write of the kernel touches.
    pub fn kernel_touch(&self, address: u64, length: u64) -> Option<usize> {
        let touch = Touch { address, length, reads: false, writes: true };
        self.watches.iter().position(|watch| watch.kind == Kind::Access && touch.overlaps(watch.address, watch.length))
    }
}

fn bytes(watch: &Watch, read: &impl Fn(u64, &mut [u8]) -> usize) -> Vec<u8> {
    const MOST: u64 = 1 << 20;
    let mut bytes = alloc::vec![0; watch.length.min(MOST) as usize];
    let got = read(watch.address, &mut bytes);
    bytes.truncate(got);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_travel() {
        let points = Points::decode(&Points::encode(&[9, 3], &[(16, 4, 0), (32, 8, 2)])).unwrap();
        assert!(points.has_breakpoint(3) && points.has_breakpoint(9) && !points.has_breakpoint(4));
        assert_eq!(points.watches[1], Watch { address: 32, length: 8, kind: Kind::Access });
        assert!(Points::decode(&[0; 8]).is_none() && Points::decode(&[1; 16]).is_none() && Points::decode(&[0; 17]).is_none());
    }

    #[test]
    fn writes_hit_by_change_and_reads_by_touch() {
        let points = Points::decode(&Points::encode(&[], &[(16, 4, 0), (32, 8, 1)])).unwrap();
        let memory = |value: u8| {
            move |_: u64, to: &mut [u8]| {
                to.fill(value);
                to.len()
            }
        };
        let time = Time { bbcount: 1, pc: 2 };
        let pending = points.before(time, &[], memory(1));
        assert_eq!((points.after(&pending, memory(1)), points.after(&pending, memory(2))), (None, Some(0)));
        let read = Touch { address: 30, length: 4, reads: true, writes: false };
        let pending = points.before(time, &[read], memory(1));
        assert_eq!(points.after(&pending, memory(1)), Some(1));
        let write = Touch { reads: false, writes: true, ..read };
        assert_eq!(points.before(time, &[write], memory(1)).touched, None);
    }
}
