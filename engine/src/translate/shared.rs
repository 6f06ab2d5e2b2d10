//! Instructions at shared sites, and accesses that are watched.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use super::{LEAVE_BYTES, SiteMode, Translator, operand, through};
use crate::context::{offset, reg};
use crate::site::{Form, Kind, Site};
use crate::trace::Insn;
use crate::unit::{ExitKind, Spill};

impl Translator<'_> {
    /// An instruction at a shared site.
    pub(super) fn site(&mut self, insn: &Insn, site: Site) {
        let number = self.add_site(insn, site);
        if matches!(self.style.sites, SiteMode::Announce(_)) {
            self.announce(number, insn);
            return;
        }
        match site.form {
            Form::String | Form::Stack | Form::Lanes | Form::Other => {
                let exit = self.exit(ExitKind::SharedWhole { site: number, transfers: 0 }, insn.pc());
                self.leave(exit);
            }
            Form::Explicit => {
                if !self.inline_site(insn, &site, number) {
                    self.explicit_site(number, insn, &site);
                }
            }
        }
    }

    /// The host is asked before and, for writes, after the instruction, which runs on the address that it gave.
    pub(super) fn explicit_site(&mut self, number: u32, insn: &Insn, site: &Site) {
        self.before_site(number, insn.pc());
        let body = self.asm.here();
        let scratch = self.scratch(&insn.instruction);
        self.asm.store(offset::SPILL_RCX, scratch);
        self.asm.load(scratch, offset::ACCESS_ADDRESS);
        self.row(insn.pc(), Spill::One(scratch as u8));
        self.reencode(&through(&insn.instruction, scratch), true);
        self.row(insn.next(), Spill::One(scratch as u8));
        self.asm.load(scratch, offset::SPILL_RCX);
        if site.kind != Kind::Read {
            let exit = self.exit(ExitKind::SharedAfter { site: number, next: 0, body }, insn.next());
            let after = self.exits.len();
            self.leave(exit);
            self.exits[after].kind = ExitKind::SharedAfter { site: number, next: self.asm.here(), body };
        }
    }

    pub(super) fn add_site(&mut self, insn: &Insn, site: Site) -> u32 {
        let number = self.style.first_site + self.sites.len() as u32;
        self.sites.push(site);
        self.row(insn.pc(), Spill::None);
        number
    }

    /// A call or return at a shared site; `true` if the host performs it.
    pub(super) fn branch_site(&mut self, insn: &Insn) -> bool {
        if !self.is_site(insn.pc()) {
            return false;
        }
        let Some(site) = Site::analyse(&insn.instruction, self.factory) else { return false };
        let number = self.add_site(insn, site);
        if matches!(self.style.sites, SiteMode::Announce(_)) {
            self.before_site(number, insn.pc());
            return false;
        }
        let exit = self.exit(ExitKind::SharedWhole { site: number, transfers: 1 }, insn.pc());
        self.leave(exit);
        true
    }

    fn announce(&mut self, number: u32, insn: &Insn) {
        self.before_site(number, insn.pc());
        self.row(insn.pc(), Spill::None);
        self.copy(insn);
    }

    /// The exit in front of a shared site; its body follows.
    pub(super) fn before_site(&mut self, number: u32, pc: u64) {
        let exit = self.exit(ExitKind::SharedBefore { site: number, body: 0 }, pc);
        let before = self.exits.len();
        self.leave(exit);
        self.exits[before].kind = ExitKind::SharedBefore { site: number, body: self.asm.here() };
    }

    pub(super) fn is_site(&self, pc: u64) -> bool {
        match self.style.sites {
            SiteMode::Redirect { is_site, .. } | SiteMode::Announce(is_site) => is_site(pc),
        }
    }

    /// An exit before the coming instruction if the watch filter has a mark for the address it touches.
    pub(super) fn watch(&mut self, insn: &Insn, site: Site) {
        let number = self.style.first_site + self.sites.len() as u32;
        self.sites.push(site);
        self.row(site.pc, Spill::None);
        let filtered = self.watch_address(insn, &site);
        if filtered {
            self.row(site.pc, Spill::One(reg::RCX as u8));
            crate::watch::emit_filter(&mut self.asm, LEAVE_BYTES);
        }
        let exit = self.exit(ExitKind::Watch { site: number, next: 0 }, site.pc);
        let index = self.exits.len();
        let before = self.asm.len();
        self.leave(exit);
        debug_assert_eq!(self.asm.len() - before, LEAVE_BYTES as usize);
        if filtered {
            self.asm.load(reg::RCX, offset::SPILL_RCX);
        }
        self.exits[index].kind = ExitKind::Watch { site: number, next: self.asm.here() };
    }

    /// Calls, returns and branches through memory touch it too.
    pub(super) fn watch_branch(&mut self, insn: &Insn) {
        if let Some(wanted) = self.style.watch
            && let Some(site) = Site::analyse(&insn.instruction, self.factory)
            && wanted.matches(site.kind)
        {
            self.watch(insn, site);
        }
    }

    /// Spills rcx and computes the operand's address into it; `false` (and nothing emitted) if it cannot be done so simply.
    fn watch_address(&mut self, insn: &Insn, site: &Site) -> bool {
        let instruction = &insn.instruction;
        if instruction.mnemonic() == Mnemonic::Ret {
            self.asm.store(offset::SPILL_RCX, reg::RCX);
            self.asm.raw(&[0x48, 0x89, 0xe1]); // mov rcx, rsp
            return true;
        }
        let pushes = matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Call);
        if pushes && site.form == Form::Stack && instruction.op0_kind() != OpKind::Memory {
            self.asm.store(offset::SPILL_RCX, reg::RCX);
            self.asm.raw(&[0x48, 0x8d, 0x4c, 0x24, 0xf8]); // lea rcx, [rsp - 8]
            return true;
        }
        if !site.is_alone() || instruction.segment_prefix() == Register::FS {
            return false;
        }
        if instruction.is_ip_rel_memory_operand() {
            self.asm.store(offset::SPILL_RCX, reg::RCX);
            self.asm.load_immediate(reg::RCX, instruction.ip_rel_memory_address());
            return true;
        }
        let Ok(lea) = Instruction::with2(Code::Lea_r64_m, Register::RCX, operand(instruction)) else { return false };
        self.asm.store(offset::SPILL_RCX, reg::RCX);
        self.reencode(&lea, false);
        true
    }
}
