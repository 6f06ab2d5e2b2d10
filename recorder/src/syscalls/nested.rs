//! Arguments that lead further: arrays of buffers, messages, lists of futexes.
//!
//! Offsets are those of the kernel's structures on x86-64, written down beside each reader.

use super::call::SOCKET_ADDRESS_MAX;
use super::spec::{Dir, Size};
use super::walk::{GuestMemory, Item, Phase, Place, Walk, read_array, read_u32, read_u64, string_len};

/// `struct iovec`: base 0, length 8.
const IOVEC: u64 = 16;
/// More buffers than this the kernel refuses (`UIO_MAXIOV`); it is also the largest batch of messages.
const IOVECS_MAX: u64 = 1024;
/// `struct msghdr`: name 0, its length 8 (32 bits), iovecs 16, their number 24, control 32, its length 40, flags 48 (32 bits).
const MESSAGE: u64 = 56;
/// `struct mmsghdr`: a message header and its length at 56 (32 bits).
pub(super) const MESSAGE_HEADER_STEP: u64 = 64;
/// `struct futex_waitv`: value 0, address 8, flags 16.
const WAITER: u64 = 24;
const WAITERS_MAX: u64 = 128;
const POLLFD: u64 = 8;
const REVENTS: u64 = 6;
/// By default no process has more descriptors, and the kernel refuses a longer list.
const POLLFDS_MAX: u64 = 1 << 20;
/// More strings than this no `execve` takes.
const STRINGS_MAX: u64 = 1 << 20;

/// The room for the sender's address in the message header at `at`.
pub(super) fn message_room(mem: &impl GuestMemory, at: u64) -> u8 {
    let length = read_u32(mem, at.wrapping_add(8)).unwrap_or(0);
    if length as i32 <= 0 { 0 } else { length.min(SOCKET_ADDRESS_MAX) as u8 }
}

/// The 64-bit word at `offset` of a structure that has been read.
fn word(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |b| u64::from_ne_bytes(*b))
}

fn half(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |b| u32::from_ne_bytes(*b))
}

impl<M: GuestMemory, F: FnMut(Item)> Walk<'_, M, F> {
    /// The structures that only this file knows.
    pub(super) fn nested(&mut self, place: Place, base: u64, size: Size, dir: Dir) {
        match size {
            Size::Iovecs(count) => self.iovecs(place, base, self.arg(count), self.moved(u64::MAX), dir),
            Size::AllIovecs(count) => self.iovecs(place, base, self.arg(count), u64::MAX, dir),
            Size::Message => self.message(place, base, self.moved(u64::MAX), dir, self.call.before.names[0].into()),
            Size::Messages(count) => self.messages(place, base, self.arg(count), dir),
            Size::SentLengths(count) => {
                for i in 0..self.moved(self.arg(count).min(IOVECS_MAX)) {
                    self.field(place, base, i * MESSAGE_HEADER_STEP + MESSAGE, 4, dir);
                }
            }
            Size::Revents(count) => self.revents(place, base, self.arg(count), dir),
            Size::FutexWaiters(count) => self.waiters(place, base, self.arg(count).min(WAITERS_MAX), u64::MAX),
            Size::FutexPair => self.waiters(place, base, 2, 1),
            Size::Strings => self.strings(place, base),
            Size::SigsetPair => {
                self.emit(place, base, 16, Dir::In);
                let Some(pair) = read_array::<16>(self.mem, base) else { return };
                self.emit(Place::Nested(base), word(&pair, 0), word(&pair, 8), Dir::In);
            }
            Size::Filter => self.filter(place, base),
            Size::SocketOption(length) => {
                self.emit(place, base, self.arg(length), Dir::In);
                // SOL_SOCKET with SO_ATTACH_FILTER or SO_ATTACH_REUSEPORT_CBPF.
                if self.arg(1) as u32 == 1 && matches!(self.arg(2) as u32, 26 | 51) {
                    self.filter(place, base);
                }
            }
            Size::CloneArgs(length) => self.clone_args(place, base, self.arg(length)),
            Size::XattrArgs(length) => self.xattr_args(place, base, self.arg(length), dir),
            Size::InterfaceList => self.interfaces(place, base),
            _ => {}
        }
    }

    /// The array, and `total` bytes spread over its buffers.
    fn iovecs(&mut self, place: Place, array: u64, count: u64, total: u64, dir: Dir) {
        if count > IOVECS_MAX {
            return;
        }
        self.emit(place, array, count * IOVEC, Dir::In);
        let mut left = total;
        for i in 0..count {
            if left == 0 {
                return;
            }
            let at = array.wrapping_add(i * IOVEC);
            let Some(iovec) = read_array::<{ IOVEC as usize }>(self.mem, at) else { return };
            let n = word(&iovec, 8).min(left);
            self.emit(Place::Nested(at), word(&iovec, 0), n, dir);
            left -= n;
        }
    }

    /// A message of `total` bytes, sent (`In`) or received (`Out`), with `room` for the sender's address.
    fn message(&mut self, place: Place, at: u64, total: u64, dir: Dir, room: u64) {
        let Some(header) = read_array::<{ MESSAGE as usize }>(self.mem, at) else {
            self.emit(place, at, MESSAGE, Dir::In);
            return;
        };
        self.emit(place, at, MESSAGE, Dir::In);
        let (name, name_len) = (word(&header, 0), u64::from(half(&header, 8)));
        let (control, control_len) = (word(&header, 32), word(&header, 40));
        if dir == Dir::In {
            self.emit(Place::Nested(at), name, name_len.min(SOCKET_ADDRESS_MAX.into()), dir);
        } else {
            let name_len = if self.phase.to_capacity() { room } else { name_len.min(room) };
            self.emit(Place::Nested(at), name, name_len, dir);
            if name != 0 {
                self.field(place, at, 8, 4, dir);
            }
            self.field(place, at, 40, 12, dir);
        }
        self.emit(Place::Nested(at.wrapping_add(32)), control, control_len, dir);
        self.nested_iovecs(at.wrapping_add(16), &header, total, dir);
    }

    fn nested_iovecs(&mut self, at: u64, header: &[u8], total: u64, dir: Dir) {
        self.iovecs(Place::Nested(at), word(header, 16), word(header, 24), total, dir);
    }

    fn messages(&mut self, place: Place, array: u64, count: u64, dir: Dir) {
        for i in 0..self.moved(count.min(IOVECS_MAX)) {
            let at = array.wrapping_add(i * MESSAGE_HEADER_STEP);
            let total = match read_u32(self.mem, at.wrapping_add(MESSAGE)) {
                Some(length) if !self.phase.to_capacity() => length.into(),
                _ => u64::MAX,
            };
            let place = if i == 0 { place } else { Place::Nested(at) };
            let room = self.call.before.names.get(i as usize).map_or(SOCKET_ADDRESS_MAX.into(), |&room| room.into());
            self.message(place, at, total, dir, room);
            if dir == Dir::Out {
                self.field(place, at, MESSAGE, 4, dir);
            }
        }
    }

    fn revents(&mut self, place: Place, array: u64, count: u64, dir: Dir) {
        if self.phase == Phase::Before {
            self.emit(place, array, count.saturating_mul(POLLFD), dir);
            return;
        }
        for i in 0..count.min(POLLFDS_MAX) {
            self.emit(place, array.wrapping_add(i * POLLFD + REVENTS), 2, dir);
        }
    }

    /// Futex words: the first `compared` are read, the others only addressed.
    fn waiters(&mut self, place: Place, array: u64, count: u64, compared: u64) {
        self.emit(place, array, count * WAITER, Dir::In);
        for i in 0..count {
            let at = array.wrapping_add(i * WAITER + 8);
            let Some(address) = read_u64(self.mem, at) else { return };
            self.emit(Place::Nested(at), address, 4, if i < compared { Dir::In } else { Dir::Address });
        }
    }

    fn strings(&mut self, place: Place, array: u64) {
        let mut count = 0;
        while count < STRINGS_MAX {
            let at = array.wrapping_add(count * 8);
            let Some(string) = read_u64(self.mem, at) else { break };
            count += 1;
            if string == 0 {
                break;
            }
            let len = string_len(self.mem, string, 32 * 4096);
            self.emit(Place::Nested(at), string, len, Dir::In);
        }
        self.emit(place, array, count * 8, Dir::In);
    }

    /// `struct sock_fprog`: number of instructions 0 (16 bits), instructions of 8 bytes at 8.
    fn filter(&mut self, place: Place, at: u64) {
        self.emit(place, at, 16, Dir::In);
        let Some(program) = read_array::<16>(self.mem, at) else { return };
        let instructions = u64::from(half(&program, 0) & 0xffff);
        self.emit(Place::Nested(at.wrapping_add(8)), word(&program, 8), instructions * 8, Dir::In);
    }

    /// `struct clone_args`: flags 0, pidfd 8, child's id 16, parent's copy 24, …, list of ids 64, its length 72.
    fn clone_args(&mut self, place: Place, at: u64, len: u64) {
        const PIDFD: u64 = 0x1000;
        const PARENT_SETTID: u64 = 0x10_0000;
        const CHILD_TID: u64 = 0x120_0000;
        let len = len.min(88);
        self.emit(place, at, len, Dir::In);
        let mut bytes = [0; 88];
        let Some(known) = bytes.get_mut(..len as usize) else { return };
        if !self.mem.read(at, known) {
            return;
        }
        let flags = word(&bytes, 0);
        for (flag, offset, dir) in [(PIDFD, 8, Dir::Out), (CHILD_TID, 16, Dir::Address), (PARENT_SETTID, 24, Dir::Out)] {
            if flags & flag != 0 {
                self.emit(Place::Nested(at.wrapping_add(offset)), word(&bytes, offset as usize), 4, dir);
            }
        }
        self.emit(Place::Nested(at.wrapping_add(64)), word(&bytes, 64), word(&bytes, 72).min(32) * 4, Dir::In);
    }

    /// `struct xattr_args`: value 0, its size 8 (32 bits), flags 12.
    fn xattr_args(&mut self, place: Place, at: u64, len: u64, dir: Dir) {
        self.emit(place, at, len, Dir::In);
        let Some(args) = read_array::<16>(self.mem, at) else { return };
        let room = u64::from(half(&args, 8));
        let len = if dir == Dir::In { room } else { self.moved(room) };
        self.emit(Place::Nested(at), word(&args, 0), len, dir);
    }

    /// `struct ifconf`: length in bytes 0 (32 bits), list 8.
    fn interfaces(&mut self, place: Place, at: u64) {
        self.emit(place, at, 16, Dir::InOut);
        let Some(list) = read_array::<16>(self.mem, at) else { return };
        self.emit(Place::Nested(at.wrapping_add(8)), word(&list, 8), half(&list, 0).into(), Dir::Out);
    }
}
