//! Reading guest memory that may not be there.
//!
//! A copy loop of one instruction whose address the fault handler knows: a fault in it ends the copy instead of the process.

#[cfg(target_os = "none")]
use core::arch::global_asm;

#[cfg(target_os = "none")]
global_asm!(
    ".global undo_copy_guest",
    ".hidden undo_copy_guest",
    ".global undo_copy_guest_insn",
    ".hidden undo_copy_guest_insn",
    ".global undo_copy_guest_end",
    ".hidden undo_copy_guest_end",
    // (rdi destination, rsi source, rdx length) -> bytes not copied
    "undo_copy_guest:",
    "mov rcx, rdx",
    "undo_copy_guest_insn:",
    "rep movsb",
    "undo_copy_guest_end:",
    "mov rax, rcx",
    "ret",
    ".global undo_probe",
    ".hidden undo_probe",
    ".global undo_probe_insn",
    ".hidden undo_probe_insn",
    ".global undo_probe_end",
    ".hidden undo_probe_end",
    // (rdi address) -> 1 if its byte can be read, else 0
    "undo_probe:",
    "xor eax, eax",
    "undo_probe_insn:",
    "mov cl, [rdi]",
    "mov eax, 1",
    "undo_probe_end:",
    "ret",
);

#[cfg(target_os = "none")]
unsafe extern "C" {
    fn undo_copy_guest(destination: *mut u8, source: *const u8, length: usize) -> usize;
    static undo_copy_guest_insn: u8;
    static undo_copy_guest_end: u8;
    fn undo_probe(address: *const u8) -> u32;
    static undo_probe_insn: u8;
    static undo_probe_end: u8;
}

/// Whether the byte at `address` can be read.
#[cfg(target_os = "none")]
pub fn is_readable(address: u64) -> bool {
    // SAFETY: a fault ends the probe (see `recover`).
    unsafe { undo_probe(address as *const u8) != 0 }
}

/// Copies as many bytes as are readable from `address` on and returns how many.
#[cfg(target_os = "none")]
pub fn read_guest(address: u64, buffer: &mut [u8]) -> usize {
    // SAFETY: the destination is valid; a fault at the source ends the copy (see `recover`).
    let left = unsafe { undo_copy_guest(buffer.as_mut_ptr(), address as *const u8, buffer.len()) };
    buffer.len() - left
}

/// Copies `bytes` to `address` as far as it is writable and returns how many bytes were.
#[cfg(target_os = "none")]
pub fn write_guest(address: u64, bytes: &[u8]) -> usize {
    // SAFETY: the source is valid; a fault at the destination ends the copy (see `recover`). The guest's memory is not ours.
    let left = unsafe { undo_copy_guest(address as *mut u8, bytes.as_ptr(), bytes.len()) };
    bytes.len() - left
}

/// If `rip` is the copying or probing instruction, where to go on.
#[cfg(target_os = "none")]
pub fn recover(rip: u64) -> Option<u64> {
    let pairs =
        [(&raw const undo_copy_guest_insn, &raw const undo_copy_guest_end), (&raw const undo_probe_insn, &raw const undo_probe_end)];
    pairs.into_iter().find(|(insn, _)| *insn as u64 == rip).map(|(_, end)| end as u64)
}

/// Host builds translate code that lies in a buffer of the test.
#[cfg(not(target_os = "none"))]
pub fn read_guest(address: u64, buffer: &mut [u8]) -> usize {
    // SAFETY: tests pass addresses of their own buffers, long enough by construction.
    unsafe { core::ptr::copy_nonoverlapping(address as *const u8, buffer.as_mut_ptr(), buffer.len()) };
    buffer.len()
}

#[cfg(not(target_os = "none"))]
pub fn write_guest(address: u64, bytes: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    bytes.len()
}

#[cfg(not(target_os = "none"))]
pub fn is_readable(_address: u64) -> bool {
    true
}

#[cfg(not(target_os = "none"))]
pub fn recover(_rip: u64) -> Option<u64> {
    None
}
