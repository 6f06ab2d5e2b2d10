//! Instructions at shared sites that are performed here as a whole, because they have no single operand to redirect: those that use the
//! stack, gathers and scatters, and operands that the opcode implies.

use engine::lanes::{self, REGISTER_BYTES, Vectors};
use engine::{Flow, Site, SiteForm, TRAP, TRAP_FLAG, read_guest, reg, vector};
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

use super::guest_bytes::Refused;
use super::host::{Guest, Recorder};
use super::{end, signals, strings};

/// What popf may change in user mode, but for the trap flag: CF PF AF ZF SF DF OF NT AC ID.
const POPPED_FLAGS: u64 = 0x24_4cd5;
/// What pushf shows as zero: RF and VM.
const HIDDEN_FLAGS: u64 = 0x3_0000;
const LINE: u64 = 64;

enum Failed {
    Refused(Refused),
    NoRule,
    TrapFlag,
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

pub fn perform(host: &mut Recorder, engine: &mut Guest, site: &Site) -> Flow {
    let done = match site.form {
        SiteForm::String => return strings::perform(host, engine, site),
        SiteForm::Stack => stack(host, engine, site),
        SiteForm::Lanes => lanes(host, engine, site),
        SiteForm::Explicit | SiteForm::Other => other(host, engine, site),
    };
    match done {
        Ok(()) => Flow::Continue,
        Err(Failed::Refused(refused)) => match signals::fault(host, engine, &refused.fault()) {
            Flow::Continue => Flow::NotMade,
            flow => flow,
        },
        Err(Failed::NoRule) => no_rule(host, engine, site.pc),
        Err(Failed::TrapFlag) => end::stop_unsupported(host, engine, format_args!("{TRAP_FLAG}")),
    }
}

/// Ends the recording at an instruction that touches shared memory in a way that is not known here.
pub fn no_rule(host: &mut Recorder, engine: &mut Guest, pc: u64) -> Flow {
    let mut bytes = [0; 15];
    let length = read_guest(pc, &mut bytes);
    let instruction = Decoder::with_ip(64, &bytes[..length], pc, DecoderOptions::NONE).decode();
    end::stop_unsupported(host, engine, format_args!("the instruction {:?} on shared memory", instruction.mnemonic()))
}

/// The guest's registers as they will be when the instruction is done: the context is its own until then.
struct State {
    gpr: [u64; 16],
    rflags: u64,
    rip: u64,
}

impl State {
    fn of(engine: &mut Guest, site: &Site) -> Self {
        let context = engine.context();
        Self { gpr: context.gpr, rflags: context.rflags, rip: context.rip + site.length() }
    }

    fn finish(self, engine: &mut Guest) {
        let context = engine.context();
        (context.gpr, context.rflags, context.rip) = (self.gpr, self.rflags, self.rip);
    }

    fn set(&mut self, register: Register, value: u64) {
        let to = &mut self.gpr[register.full_register().number()];
        *to = if register.size() == 2 { *to & !0xffff | value & 0xffff } else { value };
    }
}

fn stack(host: &mut Recorder, engine: &mut Guest, site: &Site) -> Result<(), Failed> {
    use Mnemonic::*;
    let instruction = &site.instruction;
    let mut state = State::of(engine, site);
    let rsp = state.gpr[reg::RSP];
    let width = match instruction.mnemonic() {
        Ret | Leave | Call => 8,
        Enter => -instruction.stack_pointer_increment() as u64 - u64::from(instruction.immediate16()),
        _ => u64::from(instruction.stack_pointer_increment().unsigned_abs()),
    };
    if ![2, 8].contains(&width) {
        return Err(Failed::NoRule);
    }
    let wide = width as usize;
    let word = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
    match instruction.mnemonic() {
        Push | Pushf | Pushfq | Call => {
            let value = match instruction.mnemonic() {
                Pushf | Pushfq => state.rflags & !HIDDEN_FLAGS,
                Call => state.rip,
                _ => source(host, engine, site, wide)?,
            };
            if instruction.mnemonic() == Call {
                state.rip = match instruction.op0_kind() {
                    OpKind::NearBranch64 => instruction.near_branch_target(),
                    _ => source(host, engine, site, 8)?,
                };
            }
            host.put(engine, site.pc, rsp.wrapping_sub(width), &value.to_le_bytes()[..wide])?;
            state.gpr[reg::RSP] = rsp.wrapping_sub(width);
        }
        Pop | Popf | Popfq | Ret => {
            let mut bytes = [0; 8];
            host.get(engine, site.pc, rsp, &mut bytes[..wide])?;
            let value = word(bytes);
            state.gpr[reg::RSP] = rsp.wrapping_add(width);
            match instruction.mnemonic() {
                Ret => {
                    let more = if instruction.op_count() == 1 { u64::from(instruction.immediate16()) } else { 0 };
                    state.gpr[reg::RSP] = state.gpr[reg::RSP].wrapping_add(more);
                    state.rip = value;
                }
                Popf | Popfq if value & TRAP != 0 => return Err(Failed::TrapFlag),
                Popf | Popfq => {
                    let changed = POPPED_FLAGS & if wide == 2 { 0xffff } else { u64::MAX };
                    state.rflags = state.rflags & !changed | value & changed;
                }
                _ if instruction.op0_kind() == OpKind::Memory => {
                    let address = site.address(engine.context());
                    host.put(engine, site.pc, address, &bytes[..wide])?;
                }
                _ if instruction.op0_register().is_gpr() => state.set(instruction.op0_register(), value),
                _ => return Err(Failed::NoRule),
            }
        }
        Leave => {
            let frame = state.gpr[reg::RBP];
            let mut bytes = [0; 8];
            host.get(engine, site.pc, frame, &mut bytes)?;
            state.gpr[reg::RSP] = frame.wrapping_add(width);
            state.gpr[reg::RBP] = word(bytes);
        }
        Enter if instruction.immediate8_2nd() == 0 => {
            let frame = rsp.wrapping_sub(width);
            host.put(engine, site.pc, frame, &state.gpr[reg::RBP].to_le_bytes())?;
            state.gpr[reg::RBP] = frame;
            state.gpr[reg::RSP] = frame.wrapping_sub(u64::from(instruction.immediate16()));
        }
        _ => return Err(Failed::NoRule),
    }
    state.finish(engine);
    Ok(())
}

/// What push pushes, or where an indirect call goes.
fn source(host: &mut Recorder, engine: &mut Guest, site: &Site, width: usize) -> Result<u64, Failed> {
    let instruction = &site.instruction;
    let mut bytes = [0; 8];
    match instruction.op0_kind() {
        OpKind::Memory => {
            let address = site.address(engine.context());
            host.get(engine, site.pc, address, &mut bytes[..width])?;
            Ok(u64::from_le_bytes(bytes))
        }
        OpKind::Register if instruction.op0_register().is_gpr() => {
            Ok(engine.context().gpr[instruction.op0_register().full_register().number()])
        }
        OpKind::Register => Err(Failed::NoRule),
        _ => Ok(instruction.immediate(0)),
    }
}

fn lanes(host: &mut Recorder, engine: &mut Guest, site: &Site) -> Result<(), Failed> {
    let mut vectors = host.vectors();
    let Some(lanes) = lanes::lanes(site, engine.context(), &vectors) else { return Err(Failed::NoRule) };
    if site.instruction.op0_kind() == OpKind::Memory {
        let value = vectors.register(lanes.register);
        for lane in &lanes.selected {
            host.put(engine, site.pc, lane.address, &value[lane.number * lanes.size..][..lanes.size])?;
        }
        vectors.finish_scatter(&lanes);
    } else {
        let mut values = alloc::vec::Vec::with_capacity(lanes.selected.len());
        for lane in &lanes.selected {
            let mut bytes = [0; 8];
            host.get(engine, site.pc, lane.address, &mut bytes[..lanes.size])?;
            values.push((lane.number, bytes));
        }
        vectors.finish_gather(&lanes, &values);
    }
    finish_vectors(engine, site, &mut vectors)
}

fn finish_vectors(engine: &mut Guest, site: &Site, vectors: &mut Vectors) -> Result<(), Failed> {
    if !vectors.load() {
        return Err(Failed::NoRule);
    }
    engine.context().rip += site.length();
    Ok(())
}

fn other(host: &mut Recorder, engine: &mut Guest, site: &Site) -> Result<(), Failed> {
    use Mnemonic::*;
    let instruction = &site.instruction;
    let gpr = engine.context().gpr;
    match instruction.mnemonic() {
        Xlatb => {
            let mut byte = [0];
            let address = gpr[reg::RBX].wrapping_add(gpr[reg::RAX] & 0xff);
            host.get(engine, site.pc, address, &mut byte)?;
            engine.context().gpr[reg::RAX] = gpr[reg::RAX] & !0xff | u64::from(byte[0]);
        }
        Clzero => host.put(engine, site.pc, gpr[reg::RAX] & !(LINE - 1), &[0; LINE as usize])?,
        Movdir64b => {
            let mut line = [0; LINE as usize];
            let address = site.address(engine.context());
            host.get(engine, site.pc, address, &mut line)?;
            host.put(engine, site.pc, gpr[instruction.op0_register().full_register().number()], &line)?;
        }
        Maskmovdqu | Vmaskmovdqu => {
            let vectors = host.vectors();
            let register = |operand| vectors.register(instruction.op_register(operand).full_register().number());
            let (value, mask): ([u8; REGISTER_BYTES], _) = (register(1), register(2));
            for index in (0..16).filter(|&index| mask[index] & 0x80 != 0) {
                host.put(engine, site.pc, gpr[reg::RDI].wrapping_add(index as u64), &value[index..=index])?;
            }
        }
        Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 => {
            let compact = matches!(instruction.mnemonic(), Xsavec | Xsavec64);
            let wanted = gpr[reg::RDX] << 32 | gpr[reg::RAX] & 0xffff_ffff;
            let address = site.address(engine.context());
            let mut header = [0u8; 8];
            if !compact {
                host.get(engine, site.pc, address + vector::HEADER as u64, &mut header)?;
            }
            for (offset, bytes) in &vector::image_for(wanted, compact, u64::from_le_bytes(header)) {
                host.put(engine, site.pc, address + *offset as u64, bytes)?;
            }
        }
        _ => return Err(Failed::NoRule),
    }
    engine.context().rip += site.length();
    Ok(())
}
