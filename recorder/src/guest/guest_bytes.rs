//! Reading and writing guest memory, shared or not, on behalf of an instruction that is performed here, or of the kernel in a system call
//! that is answered here.
//!
//! Shared bytes are an access of their own in the log, what another process changed is an event of the instruction or call.

use engine::{FaultInfo, is_readable, read_guest, sys::raw};
use shmem_log::{Kind, LineTicks, Origin, Writer};

use super::host::{Guest, Recorder, load, store};
use super::shared::SharedMap;

/// Bytes of the longest access; longer ones are several.
pub const PIECE: usize = 4096;
const LINES: usize = PIECE / 64 + 1;
const PAGE: u64 = 4096;

const _: () = assert!(LINES >= Writer::lines(63, PIECE as u64));

/// An access that memory does not allow.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    address: u64,
    writes: bool,
    why: Why,
}

#[derive(Clone, Copy, Debug)]
enum Why {
    Right,
    /// Behind the end of a mapped file.
    End,
    Unmapped,
}

impl Refused {
    /// The guest's fault that this is.
    pub fn fault(self) -> FaultInfo {
        match (self.why, self.writes) {
            (Why::Right, writes) => FaultInfo::access(self.address, writes),
            (Why::End, writes) => FaultInfo::bus(self.address, writes),
            (Why::Unmapped, true) => FaultInfo::write(self.address),
            (Why::Unmapped, false) => FaultInfo::read(self.address),
        }
    }
}

impl Recorder {
    /// How many elements from `address` on lie on one side of a mapping's edge.
    pub fn elements_to_edge(&self, address: u64, size: usize) -> usize {
        ((self.edge(address) - address) as usize) / size
    }

    fn edge(&self, address: u64) -> u64 {
        match self.shared.find(address) {
            Some(map) => map.end,
            None => self.shared.next_start(address),
        }
    }

    /// Reads guest memory; `buffer` is undefined after an error. The context is that of the instruction at `pc`.
    pub fn get(&mut self, engine: &mut Guest, pc: u64, address: u64, buffer: &mut [u8]) -> Result<(), Refused> {
        self.get_as(engine, Origin::Pc { pc, by_kernel: false }, address, buffer)
    }

    /// Reads what the system call at rip finds in guest memory; `false` where the kernel would say EFAULT.
    pub fn kernel_get(&mut self, engine: &mut Guest, address: u64, buffer: &mut [u8]) -> bool {
        let pc = engine.context().rip;
        self.get_as(engine, Origin::Pc { pc, by_kernel: true }, address, buffer).is_ok()
    }

    fn get_as(&mut self, engine: &mut Guest, who: Origin, address: u64, buffer: &mut [u8]) -> Result<(), Refused> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.wrapping_add(done as u64);
            let length = (buffer.len() - done).min((self.edge(at) - at) as usize).min(PIECE);
            self.get_part(engine, who, at, &mut buffer[done..done + length])?;
            done += length;
        }
        Ok(())
    }

    fn get_part(&mut self, engine: &mut Guest, who: Origin, address: u64, buffer: &mut [u8]) -> Result<(), Refused> {
        let Some(map) = self.shared.find(address).copied() else {
            return match read_guest(address, buffer) {
                done if done == buffer.len() => Ok(()),
                done => Err(private_fault(address + done as u64, false)),
            };
        };
        check(&map, address, buffer.len(), false)?;
        let mut scratch = [LineTicks::default(); LINES];
        let token = match (map.object, &mut self.log) {
            (Some(object), Some(log)) => {
                Some(log.begin_wide(Kind::Read, object, map.to_object(address), buffer.len() as u64, &mut scratch))
            }
            _ => None,
        };
        load(map.to_alias(address), buffer);
        if let (Some(token), Some(log)) = (token, &mut self.log) {
            log.commit_wide(token, &mut scratch, who, engine.bbcount(), buffer, &[]);
        }
        if !self.refresh(engine, address, buffer, map.to_known(address)) {
            // The next event finds the log full as well and ends the recording there.
            self.overflow = true;
        }
        Ok(())
    }

    /// Writes guest memory, in address order; those before an error's address may have been written.
    pub fn put(&mut self, engine: &mut Guest, pc: u64, address: u64, bytes: &[u8]) -> Result<(), Refused> {
        self.put_as(engine, Origin::Pc { pc, by_kernel: false }, address, bytes)
    }

    /// Writes what the system call, or the frame of the signal, that is due at rip puts into guest memory; `false` where the kernel cannot.
    pub fn kernel_put(&mut self, engine: &mut Guest, address: u64, bytes: &[u8]) -> bool {
        let pc = engine.context().rip;
        self.put_as(engine, Origin::Pc { pc, by_kernel: true }, address, bytes).is_ok()
    }

    fn put_as(&mut self, engine: &mut Guest, who: Origin, address: u64, bytes: &[u8]) -> Result<(), Refused> {
        let mut done = 0;
        while done < bytes.len() {
            let at = address.wrapping_add(done as u64);
            let length = (bytes.len() - done).min((self.edge(at) - at) as usize).min(PIECE);
            self.put_part(engine, who, at, &bytes[done..done + length])?;
            done += length;
        }
        Ok(())
    }

    fn put_part(&mut self, engine: &mut Guest, who: Origin, address: u64, bytes: &[u8]) -> Result<(), Refused> {
        let Some(map) = self.shared.find(address).copied() else {
            return match engine.write_guest(address, bytes) {
                done if done == bytes.len() => Ok(()),
                done => Err(private_fault(address + done as u64, true)),
            };
        };
        check(&map, address, bytes.len(), true)?;
        let mut scratch = [LineTicks::default(); LINES];
        let token = match (map.object, &mut self.log) {
            (Some(object), Some(log)) => {
                Some(log.begin_wide(Kind::Write, object, map.to_object(address), bytes.len() as u64, &mut scratch))
            }
            _ => None,
        };
        store(map.to_alias(address), bytes);
        store(map.to_known(address), bytes);
        if let (Some(token), Some(log)) = (token, &mut self.log) {
            log.commit_wide(token, &mut scratch, who, engine.bbcount(), &[], bytes);
        }
        Ok(())
    }
}

/// What an access would meet at the guest's own addresses, shared or not, before anything has been changed.
pub fn check_all(host: &Recorder, engine: &mut Guest, address: u64, length: usize, writes: bool) -> Result<(), Refused> {
    let mut done = 0;
    while done < length {
        let at = address.wrapping_add(done as u64);
        let part = (length - done).min((host.edge(at) - at) as usize);
        match host.shared.find(at) {
            Some(map) => check(map, at, part, writes)?,
            None => check_private(engine, at, part, writes)?,
        }
        done += part;
    }
    Ok(())
}

fn check_private(engine: &mut Guest, address: u64, length: usize, writes: bool) -> Result<(), Refused> {
    for at in [address, address + length as u64 - 1] {
        let mut byte = [0];
        // The byte is written back as it is: nothing else runs in this process.
        if read_guest(at, &mut byte) == 0 || (writes && engine.write_guest(at, &byte) == 0) {
            return Err(private_fault(at, writes));
        }
    }
    Ok(())
}

/// What an access within a shared mapping would meet at the guest's own address.
pub fn check(map: &SharedMap, address: u64, length: usize, writes: bool) -> Result<(), Refused> {
    // On x86 a page that may be written may be read as well, whatever was asked for.
    let allows = if writes { raw::PROT_WRITE } else { raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC };
    if map.prot & allows == 0 {
        return Err(Refused { address, writes, why: Why::Right });
    }
    let end = (address + length as u64).min(map.end);
    let mut byte = address;
    while byte < end {
        if !is_readable(map.to_alias(byte)) {
            return Err(Refused { address: byte, writes, why: Why::End });
        }
        byte = (byte & !(PAGE - 1)) + PAGE;
    }
    Ok(())
}

/// Why an access to private memory did not work.
fn private_fault(address: u64, writes: bool) -> Refused {
    Refused { address, writes, why: if is_readable(address) { Why::Right } else { Why::Unmapped } }
}
