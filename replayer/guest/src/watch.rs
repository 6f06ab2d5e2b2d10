//! Breakpoints, watchpoints and their hits.
//!
//! W1. A write watchpoint is hit where its bytes differ after an instruction from what they were before it, whoever changed them: the
//!     instruction, the kernel, or an update of shared memory that the instruction met.
//! W2. A read or access watchpoint is hit where an operand of the instruction overlaps it, changed or not.
//! W3. A breakpoint that has conditions is hit where one of them holds or cannot be computed.

use alloc::vec::Vec;

use recording::{Registers, Time};

use crate::condition;
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
    /// The breakpoint's pc and the condition's code.
    conditions: Vec<(u64, Vec<u8>)>,
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
        let mut data = data;
        let [breakpoints, watches, conditions] = [word(&mut data)?, word(&mut data)?, word(&mut data)?];
        let mut points = Self::default();
        for _ in 0..breakpoints {
            points.breakpoints.push(word(&mut data)?);
        }
        points.breakpoints.sort_unstable();
        for _ in 0..watches {
            let (address, length) = (word(&mut data)?, word(&mut data)?);
            let kind = match word(&mut data)? {
                0 => Kind::Write,
                1 => Kind::Read,
                2 => Kind::Access,
                _ => return None,
            };
            points.watches.push(Watch { address, length, kind });
        }
        for _ in 0..conditions {
            let (pc, length) = (word(&mut data)?, usize::try_from(word(&mut data)?).ok()?);
            points.conditions.push((pc, data.split_off(..length)?.to_vec()));
        }
        data.is_empty().then_some(points)
    }

    pub fn encode<'a>(
        breakpoints: &[u64],
        watches: &[(u64, u64, u64)],
        conditions: impl ExactSizeIterator<Item = (u64, &'a [u8])>,
    ) -> Vec<u8> {
        let head = [breakpoints.len() as u64, watches.len() as u64, conditions.len() as u64];
        let watches = watches.iter().flat_map(|&(address, length, kind)| [address, length, kind]);
        let mut data: Vec<u8> = head.into_iter().chain(breakpoints.iter().copied()).chain(watches).flat_map(u64::to_le_bytes).collect();
        for (pc, code) in conditions {
            data.extend([pc, code.len() as u64].into_iter().flat_map(u64::to_le_bytes));
            data.extend(code);
        }
        data
    }

    pub fn breakpoints(&self) -> impl Iterator<Item = u64> + '_ {
        self.breakpoints.iter().copied()
    }

    pub fn has_breakpoint(&self, pc: u64) -> bool {
        self.breakpoints.binary_search(&pc).is_ok()
    }

    /// Whether the breakpoint at `registers.rip` stops there, by its conditions (W3).
    pub fn stops(&self, registers: &Registers, read: impl Fn(u64, &mut [u8]) -> usize) -> bool {
        let mut conditions = self.conditions.iter().filter(|(pc, _)| *pc == registers.rip).peekable();
        conditions.peek().is_none() || conditions.any(|(_, code)| condition::value(code, registers, &read).is_none_or(|value| value != 0))
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

fn word(data: &mut &[u8]) -> Option<u64> {
    let (word, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(u64::from_le_bytes(*word))
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
        let condition = [0x22, 7];
        let conditions = [(9, &condition[..]), (3, &[])];
        let points = Points::decode(&Points::encode(&[9, 3], &[(16, 4, 0), (32, 8, 2)], conditions.into_iter())).unwrap();
        assert!(points.has_breakpoint(3) && points.has_breakpoint(9) && !points.has_breakpoint(4));
        assert_eq!(points.watches[1], Watch { address: 32, length: 8, kind: Kind::Access });
        assert_eq!(points.conditions, [(9, condition.to_vec()), (3, Vec::new())]);
        for malformed in [&[0; 16][..], &[1; 24], &[0; 25], &[&[0; 16][..], &[1, 0, 0, 0, 0, 0, 0, 0], &[9; 16]].concat()] {
            assert!(Points::decode(malformed).is_none(), "{malformed:x?}");
        }
    }

    #[test]
    fn one_condition_that_holds_stops() {
        let never = [0x22, 0, 0x27];
        let rax_is_5 = [0x26, 0, 0, 0x22, 5, 0x13, 0x27];
        let unknown = [0x01];
        let conditions = [(9, &never[..]), (9, &rax_is_5), (8, &never), (7, &unknown)];
        let points = Points::decode(&Points::encode(&[6, 7, 8, 9], &[], conditions.into_iter())).unwrap();
        let stops = |rip, rax| {
            let mut registers = Registers { rip, ..Registers::default() };
            registers.gpr[0] = rax;
            points.stops(&registers, |_, _| 0)
        };
        assert!(stops(9, 5) && !stops(9, 4) && !stops(8, 5) && stops(7, 0) && stops(6, 0));
    }

    #[test]
    fn writes_hit_by_change_and_reads_by_touch() {
        let points = Points::decode(&Points::encode(&[], &[(16, 4, 0), (32, 8, 1)], [].into_iter())).unwrap();
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
