//! Indirect branches, calls and returns: the target into rcx, the count settled, on to the sieve.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use super::{Late, SiteMode, Translator, operand};
use crate::arena;
use crate::context::{offset, reg};
use crate::emit::cond;
use crate::site::Site;
use crate::trace::Insn;
use crate::unit::{ExitKind, Spill};

impl Translator<'_> {
    pub(super) fn indirect(&mut self, insn: &Insn, call: bool) {
        let instruction = &insn.instruction;
        self.watch_branch(insn);
        let jump = !call && instruction.mnemonic() != Mnemonic::Ret;
        let shared = jump && instruction.op0_kind() == OpKind::Memory && self.is_site(insn.pc());
        if shared {
            let number = self.add_site(insn, Site::of_pointer(instruction));
            self.before_site(number, insn.pc());
        }
        if !jump && self.branch_site(insn) {
            return;
        }
        self.asm.store(offset::SPILL_RCX, reg::RCX);
        self.asm.store(offset::SPILL_RAX, reg::RAX);
        self.row(insn.pc(), Spill::RcxRax);
        if shared && matches!(self.style.sites, SiteMode::Redirect { .. }) {
            self.asm.load(reg::RCX, offset::ACCESS_ADDRESS);
            self.asm.raw(&[0x48, 0x8b, 0x09]); // mov rcx, [rcx]
        } else {
            self.load_target(instruction);
        }
        if call {
            self.push_return_address(insn);
        }
        self.counted += 1;
        if !self.style.linked {
            let exit = self.exit(ExitKind::UnlinkedIndirect, 0);
            self.leave(exit);
            return;
        }
        let settle = self.counted - self.settled;
        self.settled = self.counted;
        if settle > 0 {
            self.asm.save_flags();
            self.asm.subtract(self.counter(), settle as u8);
            let branch = self.asm.jump_if(cond::SIGN);
            self.late.push(Late { branch, exit: self.exit(ExitKind::LimitIndirect, 0), flags_saved: true });
            self.asm.restore_flags();
        }
        self.asm.raw(&[0x0f, 0xb7, 0xc1]); // movzx eax, cx
        self.asm.jump_table_rax(arena::INDIRECT_TABLE_OFFSET);
    }

    /// Loads the target of an indirect branch into rcx; rax may be lost as well.
    fn load_target(&mut self, instruction: &Instruction) {
        if instruction.mnemonic() == Mnemonic::Ret {
            self.asm.raw(&[0x59]); // pop rcx
            if instruction.op_count() == 1 {
                // lea rsp, [rsp + imm16]
                self.asm.raw(&[0x48, 0x8d, 0xa4, 0x24]);
                self.asm.raw(&u32::from(instruction.immediate16()).to_le_bytes());
            }
            return;
        }
        if instruction.op0_kind() == OpKind::Register {
            let from = instruction.op0_register().full_register();
            if from != Register::RCX
                && let Ok(mov) = Instruction::with2(Code::Mov_r64_rm64, Register::RCX, from)
            {
                self.reencode(&mov, false);
            }
            return;
        }
        if instruction.is_ip_rel_memory_operand() {
            let target = instruction.ip_rel_memory_address();
            self.asm.load_immediate(reg::RCX, target);
            self.asm.raw(&[0x48, 0x8b, 0x09]); // mov rcx, [rcx]
            return;
        }
        if let Ok(mov) = Instruction::with2(Code::Mov_r64_rm64, Register::RCX, operand(instruction)) {
            self.reencode(&mov, false);
        }
    }
}
