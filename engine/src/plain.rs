//! Whether code keeps to the general registers, so that engine code may call it: the vector state is the guest's there.

use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashSet;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// More instructions than a small function has.
const MAX_INSTRUCTIONS: usize = 4096;

/// Whether all code that can be reached from `entry`, inside `image` (mapped at `base`), uses no vector or x87 register and leaves only by
/// `ret`. Where that cannot be seen the answer is no.
pub fn is_plain(image: &[u8], base: u64, entry: u64) -> bool {
    let inside: Range<u64> = base..base + image.len() as u64;
    let (mut seen, mut waiting) = (HashSet::new(), alloc::vec![entry]);
    while let Some(mut pc) = waiting.pop() {
        loop {
            if !seen.insert(pc) {
                break;
            }
            if !inside.contains(&pc) || seen.len() > MAX_INSTRUCTIONS {
                return false;
            }
            let instruction = Decoder::with_ip(64, &image[(pc - base) as usize..], pc, DecoderOptions::NONE).decode();
            if instruction.is_invalid() || !has_general_registers_only(&instruction) {
                return false;
            }
            match follow(&instruction, &mut waiting) {
                Some(true) => pc = instruction.next_ip(),
                Some(false) => break,
                None => return false,
            }
        }
    }
    true
}

/// Whether the next instruction can come next; adds branch targets. `None`: it cannot be seen where this one leads.
fn follow(instruction: &Instruction, waiting: &mut Vec<u64>) -> Option<bool> {
    match instruction.flow_control() {
        FlowControl::Next => Some(true),
        FlowControl::ConditionalBranch | FlowControl::Call => {
            waiting.push(instruction.near_branch_target());
            // `syscall` counts as a call without a target.
            if instruction.near_branch_target() == 0 {
                waiting.pop();
            }
            Some(true)
        }
        FlowControl::UnconditionalBranch => {
            waiting.push(instruction.near_branch_target());
            Some(false)
        }
        FlowControl::Return => Some(false),
        _ => None,
    }
}

fn has_general_registers_only(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).filter(|&index| instruction.op_kind(index) == OpKind::Register).all(|index| {
        let register = instruction.op_register(index);
        !register.is_vector_register() && !register.is_mm() && !register.is_st()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(code: &[u8]) -> bool {
        is_plain(code, 0x1000, 0x1000)
    }

    #[test]
    fn vector_registers_are_found_behind_branches() {
        // xor eax, eax; jne +1; ret; then one instruction and ret.
        let with = |tail: &[u8]| [&[0x31, 0xc0, 0x75, 0x01, 0xc3], tail, &[0xc3]].concat();
        assert!(plain(&with(&[0x0f, 0x31]))); // rdtsc
        assert!(plain(&with(&[0x0f, 0x05]))); // syscall
        assert!(!plain(&with(&[0x0f, 0x28, 0xc1]))); // movaps xmm0, xmm1
        assert!(!plain(&with(&[0xd9, 0xc1]))); // fld st(1)
    }

    #[test]
    fn what_cannot_be_followed_is_not_plain() {
        assert!(!plain(&[0xff, 0xe0])); // jmp rax
        assert!(!plain(&[0x90])); // runs out of the image
        assert!(!plain(&[0xe9, 0, 0, 1, 0])); // jmp far away
        assert!(plain(&[0xeb, 0xfe])); // jmp to itself
    }
}
