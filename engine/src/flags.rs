//! Liveness of the status flags: may a sequence of ours that changes them stand before an instruction?

use iced_x86::{Instruction, RflagsBits};

/// The flags that arithmetic writes: OF SF ZF AF CF PF.
pub const STATUS: u32 = RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// `rflags` with the status flags that `Assembler::save_flags` has put into a register: the low byte in ah, the overflow in al.
pub fn put_back(rflags: u64, saved: u64) -> u64 {
    const LOW: u64 = 0xd5;
    const OVERFLOW: u64 = 0x800;
    rflags & !(LOW | OVERFLOW) | saved >> 8 & LOW | ((saved & 1) << 11)
}

/// What one instruction does to the status flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    pub reads: u32,
    /// Given a new value (or left undefined) whatever the operands are.
    pub kills: u32,
}

pub fn effect(instruction: &Instruction) -> Effect {
    use iced_x86::Mnemonic::*;
    let reads = instruction.rflags_read() & STATUS;
    let kills = match instruction.mnemonic() {
        // A count of zero leaves the flags as they were.
        Shl | Shr | Sar | Rol | Ror | Rcl | Rcr | Shld | Shrd => 0,
        // What the manual leaves undefined these leave as it was.
        Imul | Mul | Bt | Bts | Btr | Btc | Bsf | Bsr => instruction.rflags_modified() & !instruction.rflags_undefined() & STATUS,
        _ if instruction.has_rep_prefix() || instruction.has_repne_prefix() => 0,
        _ => instruction.rflags_modified() & STATUS,
    };
    Effect { reads, kills }
}

/// Runs over a straight line of instructions and tells when the answer is known.
#[derive(Clone, Copy, Debug)]
pub struct Liveness {
    undecided: u32,
}

impl Liveness {
    pub fn new() -> Self {
        Self { undecided: STATUS }
    }

    /// `Some(true)`: the flags at the start are dead; `Some(false)`: live; `None`: look further.
    pub fn feed(&mut self, effect: Effect) -> Option<bool> {
        if effect.reads & self.undecided != 0 {
            return Some(false);
        }
        self.undecided &= !effect.kills;
        (self.undecided == 0).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::Decoder;

    fn dead(bytes: &[u8]) -> Option<bool> {
        let mut decoder = Decoder::new(64, bytes, 0);
        let mut liveness = Liveness::new();
        while decoder.can_decode() {
            let answer = liveness.feed(effect(&decoder.decode()));
            if answer.is_some() {
                return answer;
            }
        }
        None
    }

    #[test]
    fn arithmetic_kills_and_conditions_keep() {
        assert_eq!(dead(&[0x48, 0x01, 0xc3]), Some(true), "add rbx, rax");
        assert_eq!(dead(&[0x74, 0x00]), Some(false), "je");
        assert_eq!(dead(&[0x48, 0x89, 0xc3, 0x48, 0x39, 0xc3]), Some(true), "mov; cmp");
        assert_eq!(dead(&[0x48, 0x11, 0xc3]), Some(false), "adc reads the carry");
    }

    #[test]
    fn a_partial_writer_does_not_kill_all() {
        assert_eq!(dead(&[0x48, 0xff, 0xc0]), None, "inc leaves the carry");
        assert_eq!(dead(&[0x48, 0xd3, 0xe0]), None, "shl by cl may leave all");
        assert_eq!(dead(&[0xf3, 0xa6]), None, "repe cmpsb with rcx = 0 leaves all");
    }
}
