//! Appends one event to the free tail of a log.
//!
//! Runs at every system call of the recorded program, so it stores each byte once, in place, and does nothing else. Whatever goes wrong, the
//! log is as it was: an event exists from the moment [`EventBuilder::finish`] stores its size (E2), and one that is dropped unfinished never was.

use super::body::{Body, RegisterValues, encode_registers};
use super::{EVENT_HEADER_BYTES, EventHeader, offset};
use crate::wire::padded;
use core::sync::atomic::{Ordering, compiler_fence};

/// The log has not enough room for this event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event log is full: the event needs {needed_bytes} bytes or more, {available_bytes} are left")]
pub struct Full {
    pub needed_bytes: u64,
    pub available_bytes: u64,
}

/// One event in the making.
#[derive(Debug)]
#[must_use = "the event is in the log only after finish()"]
pub struct EventBuilder<'b> {
    region: &'b mut [u8],
    /// Bytes of the event so far; a multiple of 8.
    len: usize,
}

impl<'b> EventBuilder<'b> {
    /// Starts an event at the start of `region`, which is the free tail of the log.
    ///
    /// What the caller guarantees: `region` starts at a multiple of 8 from the start of the log (E1), and nobody else writes to it.
    #[inline]
    pub fn begin(region: &'b mut [u8], header: &EventHeader, body: &Body<'_>) -> Result<Self, Full> {
        let mut builder = Self { region, len: 0 };
        let head = builder.extend(EVENT_HEADER_BYTES)?;
        put_u64(head, offset::SIZE, 0);
        put_u16(head, offset::KIND, body.kind().raw());
        put_u16(head, offset::FLAGS, header.flags.0);
        put_u32(head, offset::THREAD, header.thread);
        put_u64(head, offset::TIMESTAMP, header.timestamp);
        put_u64(head, offset::BBCOUNT, header.time.bbcount);
        put_u64(head, offset::PC, header.time.pc);
        put_u64(head, offset::STATE_HASH, header.state_hash);
        builder.push_body(body)?;
        Ok(builder)
    }

    #[inline]
    fn push_body(&mut self, body: &Body<'_>) -> Result<(), Full> {
        match body {
            Body::Syscall(syscall) => {
                let part = self.extend(64)?;
                put_u32(part, 0, syscall.number);
                put_u32(part, 4, 0);
                put_u64(part, 8, syscall.result.cast_unsigned());
                for (i, arg) in syscall.args.iter().enumerate() {
                    put_u64(part, 16 + 8 * i, *arg);
                }
            }
            Body::Nondet(nondet) => {
                let count = nondet.registers.count().min(RegisterValues::MAX);
                let part = self.extend(16 + 8 * count)?;
                put_u16(part, 0, nondet.instruction.raw());
                put_u16(part, 2, 0);
                put_u32(part, 4, nondet.registers.mask());
                put_u64(part, 8, nondet.rflags);
                for (i, value) in nondet.registers.values().iter().take(count).enumerate() {
                    put_u64(part, 16 + 8 * i, *value);
                }
            }
            Body::ShmemFixup => {}
            Body::Signal(signal) => {
                let part = self.extend(8)?;
                put_u32(part, 0, signal.number);
                put_u32(part, 4, signal.action.raw());
                self.extend(signal.siginfo.len())?.copy_from_slice(signal.siginfo);
                let registers = encode_registers(&signal.registers);
                self.extend(registers.len())?.copy_from_slice(&registers);
            }
            Body::MemoryHash(memory) => {
                let part = self.extend(16)?;
                put_u64(part, 0, memory.hash);
                put_u64(part, 8, memory.pages);
                for (addr, len) in memory.ranges.iter() {
                    self.push_range(addr, len)?;
                }
            }
            Body::SitesAdded { pc } => put_u64(self.extend(8)?, 0, *pc),
            Body::End(end) => {
                let part = self.extend(16)?;
                put_u32(part, 0, end.reason.raw());
                put_u32(part, 4, end.status.cast_unsigned());
                put_u64(part, 8, end.message.len() as u64);
                self.extend_padded(end.message.len() as u64)?.copy_from_slice(end.message.as_bytes());
            }
        }
        Ok(())
    }

    /// Adds a memory write of `len` bytes at the guest address `addr` and returns where those bytes go. The caller fills all of them.
    #[inline]
    pub fn push_write_header(&mut self, addr: u64, len: u64) -> Result<&mut [u8], Full> {
        let before = self.len;
        let part = self.extend(16)?;
        put_u64(part, 0, addr);
        put_u64(part, 8, len);
        match self.padded_end(len) {
            Ok(_) => self.extend_padded(len),
            Err(full) => {
                // The caller may finish the event without this write.
                self.len = before;
                Err(full)
            }
        }
    }

    /// Adds a memory write of `bytes` at the guest address `addr`.
    #[inline]
    pub fn push_write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Full> {
        self.push_write_header(addr, bytes.len() as u64)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Adds a range to a [`MemoryHash`](super::MemoryHash).
    #[inline]
    pub fn push_range(&mut self, addr: u64, len: u64) -> Result<(), Full> {
        let part = self.extend(16)?;
        put_u64(part, 0, addr);
        put_u64(part, 8, len);
        Ok(())
    }

    /// Bytes that the event takes so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: an event has a header.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes the event part of the log. Returns its length: the next one starts there.
    #[inline]
    pub fn finish(self) -> usize {
        // E3; what is there may be left of an event that was dropped.
        if let Some(next) = self.region.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut()) {
            *next = [0; 8];
        }
        // E2: x86 keeps stores in order, this fence keeps the compiler from moving them.
        compiler_fence(Ordering::Release);
        put_u64(self.region, offset::SIZE, self.len as u64);
        self.len
    }

    /// Where an addition of `len` bytes and their padding would end.
    #[inline]
    fn padded_end(&self, len: u64) -> Result<usize, Full> {
        padded(len)
            .and_then(|len| usize::try_from(len).ok())
            .and_then(|len| self.len.checked_add(len))
            .filter(|end| *end <= self.region.len())
            .ok_or(Full {
                needed_bytes: (self.len as u64).saturating_add(padded(len).unwrap_or(len)),
                available_bytes: self.region.len() as u64,
            })
    }

    /// Adds `len` bytes, a multiple of 8.
    #[inline]
    fn extend(&mut self, len: usize) -> Result<&mut [u8], Full> {
        let full = Full { needed_bytes: (self.len + len) as u64, available_bytes: self.region.len() as u64 };
        let part = self.region.get_mut(self.len..self.len + len).ok_or(full)?;
        self.len += len;
        Ok(part)
    }

    /// Adds `len` bytes and zeroes up to the next multiple of 8.
    #[inline]
    fn extend_padded(&mut self, len: u64) -> Result<&mut [u8], Full> {
        let end = self.padded_end(len)?;
        let (start, filled_end) = (self.len, self.len + len as usize);
        self.region[filled_end..end].fill(0);
        self.len = end;
        Ok(&mut self.region[start..filled_end])
    }
}

#[inline]
fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

#[inline]
fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[inline]
fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
