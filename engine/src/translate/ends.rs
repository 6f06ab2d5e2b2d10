//! How a unit ends: the ways out of it, and where its transfers are subtracted.

use alloc::vec::Vec;

use iced_x86::OpKind;

use super::{Late, SiteMode, Stub, Translator, condition};
use crate::context::{offset, reg};
use crate::emit::{Assembler, cond};
use crate::flags::{self, STATUS};
use crate::gate::Gate;
use crate::site::Site;
use crate::trace::{End, Insn, Item, Trace, flags_dead_at};
use crate::unit::{Exit, ExitKind, Spill};

impl Translator<'_> {
    pub(super) fn end(&mut self, end: &End) {
        match end {
            End::Cut(pc) => self.go_on(*pc),
            End::Jump(insn) => {
                self.counted += 1;
                self.go_on(insn.instruction.near_branch_target());
            }
            End::Call(insn) => {
                self.call(insn);
                self.counted += 1;
                self.go_on(insn.instruction.near_branch_target());
            }
            End::Conditional(insn) => self.conditional(insn),
            End::IndirectJump(insn) | End::IndirectCall(insn) | End::Return(insn) => {
                self.indirect(insn, matches!(end, End::IndirectCall(_)))
            }
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

    /// Ends the unit by going to `target`.
    pub(super) fn go_on(&mut self, target: u64) {
        let settle = self.counted - self.settled;
        self.stub(&Stub { branch: None, target, settle });
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
        let settle = self.counted - self.settled;
        self.stubs.push(Stub { branch: Some(branch), target, settle });
        self.go_on(insn.next());
    }

    /// Everything that is not on the straight way.
    pub(super) fn cold(&mut self) {
        self.cold_sites();
        for stub in core::mem::take(&mut self.stubs) {
            self.stub(&stub);
        }
        for late in core::mem::take(&mut self.late) {
            self.asm.bind_here(late.branch);
            if late.flags_saved {
                self.asm.restore_flags();
                if !matches!(late.exit.kind, ExitKind::LimitIndirect) {
                    self.asm.load(reg::RAX, offset::SPILL_RAX);
                }
            }
            self.leave(late.exit);
        }
        if !self.constants.is_empty() {
            self.asm.align(8);
        }
        for (branch, value) in core::mem::take(&mut self.constants) {
            self.asm.bind_here(branch);
            self.asm.u64(value);
        }
    }

    /// A way out to `stub.target`.
    pub(super) fn stub(&mut self, stub: &Stub) {
        if let Some(branch) = stub.branch {
            self.asm.bind_here(branch);
        }
        let exit = Exit { kind: ExitKind::Unlinked, pc: stub.target, unsettled: 0, counter: self.style.counter };
        if !self.style.linked {
            self.leave(Exit { unsettled: stub.settle as i8, ..exit });
            return;
        }
        let mut patch = stub.branch;
        if stub.settle > 0 {
            let dead = !self.style.precise_flags && flags_dead_at(self.fetcher, stub.target);
            if !dead {
                self.asm.store(offset::SPILL_RAX, reg::RAX);
                self.asm.save_flags();
            }
            self.asm.subtract(self.counter(), stub.settle as u8);
            let branch = self.asm.jump_if(cond::SIGN);
            let limit = Exit { kind: ExitKind::Limit { undo: 0, flags_dirty: dead }, ..exit };
            self.late.push(Late { branch, exit: limit, flags_saved: !dead });
            if !dead {
                self.asm.restore_flags();
                self.asm.load(reg::RAX, offset::SPILL_RAX);
            }
            patch = None;
        }
        let patch = patch.unwrap_or_else(|| {
            let onward = self.asm.jump();
            self.asm.bind_here(onward);
            onward
        });
        let kind = ExitKind::Link { patch: self.asm.patch_address(patch) };
        self.leave(Exit { kind, ..exit });
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

/// Transfers that the whole trace executes if no side exit is taken.
pub(super) fn transfers(trace: &Trace) -> i32 {
    let inside = trace.items.iter().filter(|item| !matches!(item, Item::Plain(_))).count() as i32;
    inside + i32::from(settles_at_end(&trace.end))
}

fn settles_at_end(end: &End) -> bool {
    matches!(end, End::Jump(_) | End::Call(_) | End::Conditional(_) | End::IndirectJump(_) | End::IndirectCall(_) | End::Return(_))
}

/// Where to subtract ahead: before the last item behind the last side exit that overwrites all status flags without reading any.
pub(super) fn settle_place(trace: &Trace) -> Option<usize> {
    if !settles_at_end(&trace.end) && !matches!(trace.end, End::Cut(_)) || transfers(trace) == 0 {
        return None;
    }
    let behind = trace.items.iter().rposition(|item| matches!(item, Item::SideExit(_))).map_or(0, |at| at + 1);
    (behind..trace.items.len()).rev().find(|&index| {
        let effect = flags::effect(&trace.items[index].insn().instruction);
        let Item::Plain(insn) = trace.items[index] else { return false };
        // An instruction that may fault must find the guest's own flags.
        let faults = (0..insn.instruction.op_count()).any(|operand| insn.instruction.op_kind(operand) == OpKind::Memory);
        effect.reads == 0 && effect.kills == STATUS && !faults && !insn.instruction.is_string_instruction()
    })
}
