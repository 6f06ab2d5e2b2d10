//! How a unit ends: the ways out of it, and where its transfers are subtracted.

use alloc::vec::Vec;

use iced_x86::OpKind;

use super::{LeadIn, SiteMode, Translator, condition};
use crate::context::{offset, reg};
use crate::emit::{Assembler, Branch, cond};
use crate::flags::{self, STATUS};
use crate::gate::Gate;
use crate::site::Site;
use crate::trace::{End, Insn, Item, Trace, flags_dead_at};
use crate::unit::{Exit, ExitKind, Spill};

impl Translator<'_> {
    pub(super) fn end(&mut self, end: &End) {
        match end {
            End::Cut(pc) => self.go_on(None, *pc),
            End::Jump(insn) => {
                self.counted += 1;
                self.go_on(None, insn.instruction.near_branch_target());
            }
            End::Call(insn) => {
                self.call(insn);
                self.counted += 1;
                self.go_on(None, insn.instruction.near_branch_target());
            }
            End::Conditional(insn) => self.conditional(insn),
            End::IndirectJump(insn) | End::IndirectCall(insn) | End::Return(insn) => self.indirect(insn),
            End::VectorState(insn) => {
                let number = self.add_site(insn, Site::of_state(&insn.instruction));
                let shared = self.is_site(insn.pc());
                if shared && matches!(self.style.sites, SiteMode::Redirect { .. }) {
                    return self.simple_exit(insn.pc(), ExitKind::SharedWhole { site: number, transfers: 0 });
                }
                if shared {
                    self.before_site(number, insn.pc());
                }
                self.simple_exit(insn.pc(), ExitKind::VectorState { site: number });
            }
            End::SystemCall(insn) => self.simple_exit(insn.pc(), ExitKind::SystemCall { length: insn.instruction.len() as u8 }),
            End::Nondeterministic(insn, what) => {
                let register = insn.instruction.op0_register();
                let kind = ExitKind::Nondeterministic {
                    what: *what,
                    register: if register.is_gpr() { register.full_register().number() as u8 } else { 0 },
                    size: register.size() as u8,
                    length: insn.instruction.len() as u8,
                };
                self.simple_exit(insn.pc(), kind);
            }
            End::Trap(insn) => self.simple_exit(insn.next(), ExitKind::Trap),
            End::Breakpoint(pc) => self.simple_exit(*pc, ExitKind::Breakpoint),
            End::Unsupported(insn, what) => self.simple_exit(insn.pc(), ExitKind::Unsupported { what }),
            End::Undecodable(pc) => self.simple_exit(*pc, ExitKind::Undecodable),
        }
    }

    fn simple_exit(&mut self, pc: u64, kind: ExitKind) {
        self.row(pc, Spill::None);
        let exit = self.exit(kind, pc);
        self.leave(exit);
    }

    /// Ends the unit by going to `target`, where the conditional branch at that address leads if one did it.
    pub(super) fn go_on(&mut self, conditional: Option<u64>, target: u64) {
        if self.style.linked && self.counted != self.settled {
            let (settle, counter) = (self.unsettled(), self.style.counter);
            self.lead_in(LeadIn { settle, counter }, target);
            self.settled = self.counted;
        }
        let onward = self.asm.jump();
        self.link(onward, conditional, target);
    }

    /// Makes `branch` lead to an exit that is to be linked to the unit for `target`.
    pub(super) fn link(&mut self, branch: Branch, conditional: Option<u64>, target: u64) {
        let kind =
            if self.style.linked { ExitKind::Link { patch: self.asm.patch_address(branch) } } else { ExitKind::Unlinked { conditional } };
        let exit = self.exit(kind, target);
        let at = self.leave_cold(exit);
        self.asm.bind(branch, at);
    }

    /// Subtracts on the way to the unit for `target`.
    pub(super) fn lead_in(&mut self, lead_in: LeadIn, target: u64) {
        let dead = !self.style.precise_flags && flags_dead_at(self.fetcher, target);
        let counter = offset::counter(lead_in.counter as usize);
        if !dead {
            self.asm.store(offset::SPILL_RAX, reg::RAX);
            self.asm.save_flags();
        }
        self.asm.subtract(counter, lead_in.settle);
        // Giving back needs no check.
        if lead_in.settle > 0 {
            let branch = self.asm.jump_if(cond::SIGN);
            self.asm.bind(branch, self.cold.here());
            if !dead {
                self.cold.restore_flags();
                self.cold.load(reg::RAX, offset::SPILL_RAX);
            }
            let kind = ExitKind::Limit { undo: 0, flags_dirty: dead };
            self.leave_cold(Exit { kind, pc: target, unsettled: 0, counter: lead_in.counter });
        }
        if !dead {
            self.asm.restore_flags();
            self.asm.load(reg::RAX, offset::SPILL_RAX);
        }
    }

    pub(super) fn conditional(&mut self, insn: &Insn) {
        self.row(insn.pc(), Spill::None);
        let target = insn.instruction.near_branch_target();
        let branch = if insn.instruction.is_jcc_short_or_near() {
            self.asm.jump_if(condition(insn))
        } else {
            // loop, loope, loopne, jrcxz: only a short form exists. over: jmp rest; taken: jmp stub; rest:
            let bytes = insn.raw();
            self.asm.raw(&bytes[..bytes.len() - 1]);
            self.asm.raw(&[5]);
            let rest = self.asm.jump();
            let taken = self.asm.jump();
            self.asm.bind_here(rest);
            taken
        };
        self.counted += 1;
        self.link(branch, Some(insn.pc()), target);
        self.go_on(Some(insn.pc()), insn.next());
    }
}

/// The code of an exit alone, to stand at `base`.
pub fn exit_code(base: u64, number: u32, gate: &Gate) -> Vec<u8> {
    let mut asm = Assembler::new(Vec::new(), base);
    asm.store_immediate(offset::EXIT, number);
    let branch = asm.jump();
    asm.bind(branch, gate.exit);
    asm.into_bytes()
}

/// Transfers that the whole trace executes if it is not left before its end.
pub(super) fn transfers(trace: &Trace) -> i32 {
    let inside = trace.items.iter().filter(|item| !matches!(item, Item::Plain(_))).count() as i32;
    inside + i32::from(settles_at_end(&trace.end))
}

fn settles_at_end(end: &End) -> bool {
    matches!(end, End::Jump(_) | End::Call(_) | End::Conditional(_) | End::IndirectJump(_) | End::IndirectCall(_) | End::Return(_))
}

/// Where to subtract ahead: before the last item that overwrites all status flags without reading any.
pub(super) fn settle_place(trace: &Trace) -> Option<usize> {
    if !settles_at_end(&trace.end) && !matches!(trace.end, End::Cut(_)) || transfers(trace) == 0 {
        return None;
    }
    trace.items.iter().rposition(|item| {
        let Item::Plain(insn) = item else { return false };
        let effect = flags::effect(&insn.instruction);
        // An instruction that may fault must find the guest's own flags.
        let faults = (0..insn.instruction.op_count()).any(|operand| insn.instruction.op_kind(operand) == OpKind::Memory);
        effect.reads == 0 && effect.kills == STATUS && !faults && !insn.instruction.is_string_instruction()
    })
}
