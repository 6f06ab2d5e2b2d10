//! Gives the rows their meaning: from arguments, memory and a result to ranges of memory.
//!
//! One walk serves three questions. Before the call it follows every pointer to the full capacity of its buffer. After it, it
//! asks only for what was read, or only for what was written, and sizes follow the result. A result of `EFAULT` is special:
//! the kernel may have filled a part of the buffers before it met the bad page, so outputs are reported to their capacity
//! but not beyond the first page that cannot be read.

use linux_raw_sys::errno::{EBADF, EFAULT, EINTR, EINVAL, ENOSYS, ENOTSOCK, ENOTTY};

use super::call::Call;
use super::spec::{Dir, MemArg, On, Only, Size};

/// The program's memory, as the recorder lets itself read it.
pub trait GuestMemory {
    /// Copies from the guest's address, or answers false and leaves `into` in any state if some byte is unreadable.
    fn read(&self, addr: u64, into: &mut [u8]) -> bool;

    /// The number of semaphores in a System V set, which only the kernel can say; 0 if there is no such set.
    fn semaphores(&self, set: u64) -> u64;
}

/// Guest memory; never empty where reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub addr: u64,
    pub len: u64,
}

/// Where a pointer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is this argument.
    Arg(u8),
    /// It is in memory, at this address.
    Nested(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub place: Place,
    pub range: Range,
    pub dir: Dir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Before,
    Inputs(i64),
    Outputs(i64),
}

const PAGE: u64 = 4096;

/// Self-describing structures are refused by the kernel beyond this.
const SELF_SIZED_MAX: u64 = PAGE;

fn errno(result: i64) -> Option<u32> {
    (-4095..0).contains(&result).then(|| -result as u32)
}

impl Phase {
    fn result(self) -> Option<i64> {
        match self {
            Phase::Before => None,
            Phase::Inputs(result) | Phase::Outputs(result) => Some(result),
        }
    }

    /// Whether sizes are those of the buffers, not those of the result.
    pub(super) fn to_capacity(self) -> bool {
        self.result().is_none_or(|result| errno(result) == Some(EFAULT))
    }

    /// Whether the kernel has touched what is touched on `on`.
    fn reaches(self, on: On) -> bool {
        match self {
            Phase::Before => true,
            Phase::Inputs(result) => !matches!(errno(result), Some(EBADF | EFAULT | EINVAL | ENOSYS | ENOTSOCK | ENOTTY)),
            Phase::Outputs(result) => match (on, errno(result)) {
                (On::Always | On::Reached, _) | (On::Success | On::SuccessOrInterrupt | On::SuccessOr(_), None) => true,
                (On::Positive, None) => result > 0,
                (On::Error(_), None) => false,
                (_, Some(EFAULT)) => true,
                (On::Success | On::Positive, Some(_)) => false,
                (On::SuccessOrInterrupt, Some(error)) => error == EINTR,
                (On::SuccessOr(expected) | On::Error(expected), Some(error)) => error == expected,
            },
        }
    }
}

impl Only {
    fn holds(self, args: &[u64; 6]) -> bool {
        match self {
            Only::Any => true,
            Only::Set { arg, mask } => args[arg as usize] & mask != 0,
            Only::Clear { arg, mask } => args[arg as usize] & mask == 0,
            Only::Equal { arg, value } => args[arg as usize] == value,
        }
    }
}

/// Reports what `phase` asks for.
pub(super) fn walk<M: GuestMemory, F: FnMut(Item)>(call: &Call, phase: Phase, mem: &M, visit: &mut F) {
    let mut walk = Walk { call, phase, mem, visit };
    for arg in call.effects {
        let wanted = match phase {
            Phase::Before => true,
            Phase::Inputs(_) => arg.dir.reads(),
            Phase::Outputs(_) => arg.dir.writes(),
        };
        if wanted && call.args[arg.arg as usize] != 0 && phase.reaches(arg.on) && arg.only.holds(&call.args) {
            walk.argument(arg);
        }
    }
}

pub(super) struct Walk<'a, M, F> {
    pub call: &'a Call,
    pub phase: Phase,
    pub mem: &'a M,
    pub visit: &'a mut F,
}

impl<M: GuestMemory, F: FnMut(Item)> Walk<'_, M, F> {
    fn argument(&mut self, arg: &MemArg) {
        let place = Place::Arg(arg.arg);
        let base = self.call.args[arg.arg as usize];
        if let Size::Part { offset, len } = arg.size {
            self.field(place, base, offset.into(), len.into(), arg.dir);
        } else if let Some(len) = self.flat(base, arg.size) {
            self.emit(place, base, len, arg.dir);
        } else {
            self.nested(place, base, arg.size, arg.dir);
        }
    }

    /// Part of a structure. A pointer leads to the structure, so before the call that is what is reported.
    pub(super) fn field(&mut self, place: Place, base: u64, offset: u64, len: u64, dir: Dir) {
        if self.phase == Phase::Before {
            self.emit(place, base, offset + len, dir);
        } else {
            self.emit(place, base.wrapping_add(offset), len, dir);
        }
    }

    /// Reports a range if it has the direction asked for.
    pub(super) fn emit(&mut self, place: Place, addr: u64, len: u64, dir: Dir) {
        let len = match self.phase {
            Phase::Before => len,
            Phase::Inputs(_) if dir.reads() => len,
            Phase::Outputs(result) if dir.writes() => match errno(result) {
                Some(_) => self.readable(addr, len),
                None => len,
            },
            _ => 0,
        };
        if addr != 0 && len != 0 {
            (self.visit)(Item { place, range: Range { addr, len }, dir });
        }
    }

    /// As much of the range as can be read.
    fn readable(&self, addr: u64, len: u64) -> u64 {
        let end = addr.saturating_add(len);
        let mut at = addr;
        while at < end && self.mem.read(at, &mut [0]) {
            at = (at & !(PAGE - 1)).saturating_add(PAGE);
        }
        at.clamp(addr, end) - addr
    }

    pub(super) fn arg(&self, i: u8) -> u64 {
        self.call.args[i as usize]
    }

    /// What the result says, within `room`; all of `room` where the result says nothing.
    pub(super) fn moved(&self, room: u64) -> u64 {
        match self.phase.result() {
            Some(result) if !self.phase.to_capacity() => u64::try_from(result).unwrap_or(0).min(room),
            _ => room,
        }
    }

    /// The length of an argument that is one piece of memory; `None` for those that lead further.
    fn flat(&self, base: u64, size: Size) -> Option<u64> {
        let words = |bits: u64| (bits.wrapping_add(63) & !63) / 8;
        Some(match size {
            Size::Fixed(len) => len.into(),
            Size::Part { len, .. } => len.into(),
            Size::Arg(i) => self.arg(i),
            Size::ArgPlus(i, header) => self.arg(i).saturating_add(header.into()),
            Size::ArgTimes(i, item) => self.arg(i).saturating_mul(item.into()),
            Size::Bits(i) => words(self.arg(i).wrapping_sub(1)),
            Size::FdSet(i) => words(u64::try_from(self.arg(i) as i32).unwrap_or(0)),
            Size::Pages(i) => self.arg(i).div_ceil(PAGE),
            Size::Ret(room) => self.moved(self.arg(room)),
            Size::RetPlus(room, header) => self.moved(self.arg(room)).saturating_add(header.into()),
            Size::RetTimes(room, item) => {
                let room = u64::try_from(self.arg(room) as i32).unwrap_or(0);
                self.moved(room).saturating_mul(item.into())
            }
            Size::Deref(length) => {
                let room = u64::try_from(self.call.before.room as i32).unwrap_or(0);
                match self.phase {
                    Phase::Before => room,
                    _ => room.min(read_u32(self.mem, self.arg(length)).unwrap_or(0).into()),
                }
            }
            Size::Field { arg, offset } => read_u32(self.mem, self.arg(arg).wrapping_add(offset.into())).unwrap_or(0).into(),
            Size::SelfSized { offset, min, cap } => {
                let stated = u64::from(read_u32(self.mem, base.wrapping_add(offset.into())).unwrap_or(0));
                match self.call.args.get(cap as usize) {
                    Some(&room) if self.phase.to_capacity() => room,
                    Some(&room) => stated.max(min.into()).min(room),
                    None => stated.clamp(min.into(), SELF_SIZED_MAX),
                }
            }
            Size::Flexible { header, count, room, width, item } => {
                let number = |offset: u32| read_number(self.mem, base.wrapping_add(offset.into()), width).unwrap_or(0);
                let items = if self.phase.to_capacity() { number(room) } else { number(room).min(number(count)) };
                u64::from(header).saturating_add(items.saturating_mul(item.into()))
            }
            Size::CString(max) => string_len(self.mem, base, max.into()),
            Size::Capabilities => match read_u32(self.mem, self.arg(0)) {
                Some(0x1998_0330) => 12,
                _ => 24,
            },
            Size::SemaphoreValues => self.mem.semaphores(self.arg(0)).saturating_mul(2),
            Size::Encoded => (self.arg(1) >> 16) & 0x3fff,
            _ => return None,
        })
    }
}

pub(super) fn read_array<const N: usize>(mem: &impl GuestMemory, addr: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    mem.read(addr, &mut bytes).then_some(bytes)
}

pub(super) fn read_u32(mem: &impl GuestMemory, addr: u64) -> Option<u32> {
    read_array(mem, addr).map(u32::from_ne_bytes)
}

pub(super) fn read_u64(mem: &impl GuestMemory, addr: u64) -> Option<u64> {
    read_array(mem, addr).map(u64::from_ne_bytes)
}

fn read_number(mem: &impl GuestMemory, addr: u64, width: u8) -> Option<u64> {
    let mut bytes = [0; 8];
    mem.read(addr, bytes.get_mut(..width as usize)?).then(|| u64::from_ne_bytes(bytes))
}

/// Eight bytes at a time, for there are no vector registers here.
fn position_of_zero(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let (words, rest) = bytes.as_chunks::<8>();
    let has_zero = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
    };
    let start = match words.iter().position(has_zero) {
        Some(word) => word * 8,
        None => bytes.len() - rest.len(),
    };
    let end = bytes.get(start..)?.iter().position(|&b| b == 0)?;
    Some(start + end)
}

/// The length of a string with its terminator. Reads by aligned pieces, so it never touches a page behind the end.
pub(super) fn string_len(mem: &impl GuestMemory, addr: u64, max: u64) -> u64 {
    const PIECE: u64 = 64;
    let mut len = 0;
    while len < max {
        let at = addr.wrapping_add(len);
        let n = PIECE - at % PIECE;
        let mut piece = [0; PIECE as usize];
        let Some(piece) = piece.get_mut(..n as usize) else { break };
        if !mem.read(at, piece) {
            break;
        }
        if let Some(end) = position_of_zero(piece) {
            return max.min(len + end as u64 + 1);
        }
        len += n;
    }
    len.min(max)
}
