//! Indirect branches, calls and returns: the target into rcx, the count settled, on to the sieve.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use super::{SiteMode, Translator, operand};
use crate::arena;
use crate::context::{offset, reg};
use crate::emit::{Assembler, cond};
use crate::site::Site;
use crate::trace::Insn;
use crate::unit::{Exit, ExitKind, Spill};

impl Translator<'_> {
    pub(super) fn indirect(&mut self, insn: &Insn) {
        let instruction = &insn.instruction;
        let call = is_call(instruction);
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
        self.asm.store(offset::SPILL_R11, reg::R11);
        self.row(insn.pc(), Spill::RcxR11);
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
            let exit = self.exit(ExitKind::UnlinkedIndirect { from: insn.pc() }, 0);
            self.leave(exit);
            return;
        }
        if self.counted > self.settled {
            self.asm.store(offset::SPILL_RAX, reg::RAX);
            self.asm.save_flags();
            self.asm.subtract(self.counter(), self.unsettled());
            let branch = self.asm.jump_if(cond::SIGN);
            self.asm.bind(branch, self.cold.here());
            self.limit_indirect();
            self.asm.restore_flags();
            self.asm.load(reg::RAX, offset::SPILL_RAX);
        }
        to_sieve(&mut self.asm);
    }

    /// An indirect transfer that goes on in the trace if it leads to `target`. Touches no flags: they may be live elsewhere.
    pub(super) fn guarded(&mut self, insn: &Insn, target: u64) {
        let instruction = &insn.instruction;
        let returns = instruction.mnemonic() == Mnemonic::Ret;
        self.asm.store(offset::SPILL_RCX, reg::RCX);
        self.asm.store(offset::SPILL_R11, reg::R11);
        self.row(insn.pc(), Spill::RcxR11);
        if returns {
            self.asm.raw(&[0x48, 0x8b, 0x0c, 0x24]); // mov rcx, [rsp]
        } else {
            self.load_target(instruction);
        }
        if is_call(instruction) {
            self.push_return_address(insn);
        }
        self.asm.load_immediate(reg::R11, target.wrapping_neg());
        self.asm.raw(&[0x4a, 0x8d, 0x0c, 0x19]); // lea rcx, [rcx + r11]
        const JUMP_BYTES: u8 = 5;
        self.asm.jump_if_rcx_zero(JUMP_BYTES);
        let elsewhere = self.asm.jump();
        self.asm.load(reg::RCX, offset::SPILL_RCX);
        self.asm.load(reg::R11, offset::SPILL_R11);
        if returns {
            drop_return_address(&mut self.asm, instruction);
        }
        self.counted += 1;
        self.asm.bind(elsewhere, self.cold.here());
        self.cold.load_immediate(reg::R11, target);
        self.cold.raw(&[0x4a, 0x8d, 0x0c, 0x19]); // lea rcx, [rcx + r11]
        if returns {
            drop_return_address(&mut self.cold, instruction);
        }
        let unsettled = self.unsettled();
        if unsettled == 0 {
            return to_sieve(&mut self.cold);
        }
        self.cold.store(offset::SPILL_RAX, reg::RAX);
        self.cold.save_flags();
        self.cold.subtract(self.counter(), unsettled);
        // Giving back needs no check.
        let branch = (unsettled > 0).then(|| self.cold.jump_if(cond::SIGN));
        self.cold.restore_flags();
        self.cold.load(reg::RAX, offset::SPILL_RAX);
        to_sieve(&mut self.cold);
        if let Some(branch) = branch {
            self.cold.bind_here(branch);
            self.limit_indirect();
        }
    }

    /// The exit, among the cold code, of an indirect branch whose counter went negative; the flags lie in rax.
    fn limit_indirect(&mut self) {
        self.cold.restore_flags();
        self.cold.load(reg::RAX, offset::SPILL_RAX);
        let exit = Exit { kind: ExitKind::LimitIndirect, pc: 0, unsettled: 0, counter: self.style.counter };
        self.leave_cold(exit);
    }

    /// Loads the target of an indirect branch into rcx; r11 may be lost as well.
    fn load_target(&mut self, instruction: &Instruction) {
        if instruction.mnemonic() == Mnemonic::Ret {
            self.asm.raw(&[0x59]); // pop rcx
            if instruction.op_count() == 1 {
                drop_from_stack(&mut self.asm, u32::from(instruction.immediate16()));
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

fn is_call(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Call
}

fn drop_return_address(asm: &mut Assembler, instruction: &Instruction) {
    let more = if instruction.op_count() == 1 { u32::from(instruction.immediate16()) } else { 0 };
    drop_from_stack(asm, 8 + more);
}

/// `lea rsp, [rsp + bytes]`
fn drop_from_stack(asm: &mut Assembler, bytes: u32) {
    asm.raw(&[0x48, 0x8d, 0xa4, 0x24]);
    asm.raw(&bytes.to_le_bytes());
}

/// The target is in rcx; rcx and r11 are spilled.
fn to_sieve(asm: &mut Assembler) {
    asm.raw(&[0x44, 0x0f, 0xb7, 0xd9]); // movzx r11d, cx
    asm.jump_table_r11(arena::INDIRECT_TABLE_OFFSET);
}
