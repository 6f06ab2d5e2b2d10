//! Operands that cannot be redirected to a known copy: they lie across the edge of a mapping, are parts of what the operand names
//! (masked moves), or blocks of processor state. The bytes that the instruction reads are gathered in a buffer, it runs there, and the
//! bytes that it wrote are spread again.
//!
//! A locked instruction across an edge is not atomic to other processes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use engine::{Site, SiteKind, lanes};
use iced_x86::Mnemonic;

use super::guest_bytes::{Refused, check_all};
use super::host::{Guest, Recorder};

/// The largest block of processor state, and what alignment may add.
const BYTES: usize = (16 << 10) + ALIGNMENT;
/// The buffer's address is the operand's modulo this: instructions that demand an alignment see the program's own.
const ALIGNMENT: usize = 64;
/// fxsave leaves the bytes behind these alone.
const LEGACY_BYTES: usize = 416;

#[repr(C, align(64))]
pub struct Bounce([u8; BYTES]);

impl Bounce {
    pub fn new() -> Box<Self> {
        Box::new(Self([0; BYTES]))
    }
}

/// What is to be written when the instruction has run.
pub struct Bounced {
    address: u64,
    /// (offset, length)
    ranges: Vec<(u64, u64)>,
}

/// Bytes of the explicit operand, from its address on.
pub fn operand_size(host: &mut Recorder, site: &Site) -> usize {
    use Mnemonic::*;
    match site.instruction.mnemonic() {
        Fxsave | Fxsave64 | Fxrstor | Fxrstor64 => LEGACY_BYTES,
        Xrstor | Xrstor64 => host.vector_layout().size(),
        _ => site.size as usize,
    }
}

/// Cache control: needs an address that can be read, touches nothing.
pub fn is_no_access(site: &Site) -> bool {
    use Mnemonic::*;
    matches!(site.instruction.mnemonic(), Clflush | Clflushopt | Clwb | Cldemote)
}

/// Where the instruction is to run, and what [`after`] needs for one that writes.
pub fn before(host: &mut Recorder, engine: &mut Guest, site: &Site, address: u64, size: usize) -> Result<(u64, Option<Bounced>), Refused> {
    let masked = if site.masked { lanes::masked_ranges(site, &host.vectors()) } else { None };
    let ranges = masked.unwrap_or_else(|| alloc::vec![(0, size as u64)]);
    let writes = site.kind != SiteKind::Read;
    for &(offset, length) in &ranges {
        check_all(host, engine, address.wrapping_add(offset), length as usize, writes)?;
    }
    let start = address as usize % ALIGNMENT;
    if site.kind != SiteKind::Write {
        for &(offset, length) in &ranges {
            let mut bytes = alloc::vec![0; length as usize];
            host.get(engine, site.pc, address.wrapping_add(offset), &mut bytes)?;
            host.bounce_buffer().0[start + offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
    }
    let place = host.bounce_buffer().0.as_ptr() as u64 + start as u64;
    Ok((place, writes.then_some(Bounced { address, ranges })))
}

pub fn after(host: &mut Recorder, engine: &mut Guest, site: &Site, bounced: &Bounced) {
    let start = bounced.address as usize % ALIGNMENT;
    for &(offset, length) in &bounced.ranges {
        let bytes = host.bounce_buffer().0[start + offset as usize..][..length as usize].to_vec();
        let done = host.put(engine, site.pc, bounced.address.wrapping_add(offset), &bytes);
        debug_assert!(done.is_ok(), "checked before");
    }
}
