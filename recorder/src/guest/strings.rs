//! String instructions on shared memory: movs, stos, lods, cmps, scas, with or without a repeat prefix.
//!
//! They are performed here, a page at most at a time, instead of by the processor. Each piece is an access of its own in the log; all
//! differences found are events of the one instruction.

use engine::{Flow, Site, read_guest, reg};

use super::end;
use super::guest_bytes::{PIECE, check_all};
use super::host::{Guest, Recorder};
use super::signals;

const DIRECTION: u64 = 0x400;
const STATUS: u64 = 0x8d5;
const ZERO: u64 = 0x40;

/// What the instruction does with its elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Move,
    Store,
    Load,
    Compare,
    Scan,
}

fn operation(site: &Site) -> Option<Operation> {
    // The opcode byte tells: a4 a5 movs, a6 a7 cmps, aa ab stos, ac ad lods, ae af scas.
    let mut bytes = [0u8; 15];
    let length = read_guest(site.pc, &mut bytes[..site.length() as usize]);
    Some(match bytes[..length].last()? {
        0xa4 | 0xa5 => Operation::Move,
        0xa6 | 0xa7 => Operation::Compare,
        0xaa | 0xab => Operation::Store,
        0xac | 0xad => Operation::Load,
        0xae | 0xaf => Operation::Scan,
        _ => return None,
    })
}

pub fn perform(host: &mut Recorder, engine: &mut Guest, site: &Site) -> Flow {
    let Some(operation) = operation(site) else {
        return end::stop_unsupported(host, engine, format_args!("an unknown string instruction on shared memory"));
    };
    let size = site.size as usize;
    let repeated = site.instruction.has_rep_prefix() || site.instruction.has_repne_prefix();
    let start = engine.context().gpr;
    let mut state = start;
    let mut rflags = engine.context().rflags;
    let backwards = rflags & DIRECTION != 0;
    let step = if backwards { (size as u64).wrapping_neg() } else { size as u64 };
    let (uses_source, uses_target) = (!matches!(operation, Operation::Store | Operation::Scan), !matches!(operation, Operation::Load));
    let total = if repeated { state[reg::RCX] } else { 1 };
    let mut left = total;
    // After a piece that memory does not allow as a whole.
    let mut one_by_one = false;
    while left > 0 {
        let (source, target) = (state[reg::RSI], state[reg::RDI]);
        let bulk = matches!(operation, Operation::Move | Operation::Store) && !backwards && !one_by_one;
        let overlapping = operation == Operation::Move && target.wrapping_sub(source) < PIECE as u64;
        let mut count = if bulk && !overlapping { (left as usize).min(PIECE / size) } else { 1 };
        if uses_source {
            count = count.min(host.elements_to_edge(source, size));
        }
        if uses_target {
            count = count.min(host.elements_to_edge(target, size));
        }
        // An element across the edge of a mapping comes alone.
        count = count.max(1);
        let length = count * size;
        let mut buffer = [0u8; PIECE];
        let mut other = [0u8; 8];
        let (gpr_before, before) = (state, rflags);
        let done = match operation {
            Operation::Move => host
                .get(engine, site.pc, source, &mut buffer[..length])
                .and_then(|()| check_all(host, engine, target, length, true))
                .and_then(|()| host.put(engine, site.pc, target, &buffer[..length])),
            Operation::Store => {
                let value = state[reg::RAX].to_le_bytes();
                for element in buffer[..length].chunks_exact_mut(size) {
                    element.copy_from_slice(&value[..size]);
                }
                check_all(host, engine, target, length, true).and_then(|()| host.put(engine, site.pc, target, &buffer[..length]))
            }
            Operation::Load => {
                let done = host.get(engine, site.pc, source, &mut buffer[..size]);
                let mut value = state[reg::RAX].to_le_bytes();
                if size == 4 {
                    value = [0; 8];
                }
                value[..size].copy_from_slice(&buffer[..size]);
                state[reg::RAX] = u64::from_le_bytes(value);
                done
            }
            Operation::Compare => {
                let done = host
                    .get(engine, site.pc, source, &mut buffer[..size])
                    .and_then(|()| host.get(engine, site.pc, target, &mut other[..size]));
                rflags = compare(rflags, &buffer[..size], &other[..size]);
                done
            }
            Operation::Scan => {
                let done = host.get(engine, site.pc, target, &mut other[..size]);
                rflags = compare(rflags, &state[reg::RAX].to_le_bytes()[..size], &other[..size]);
                done
            }
        };
        if let Err(refused) = done {
            if count > 1 {
                one_by_one = true;
                continue;
            }
            // What has been done stays done; the instruction goes on from there if the handler returns to it.
            let context = engine.context();
            (context.gpr, context.rflags) = (gpr_before, before);
            return signals::fault(host, engine, &refused.fault());
        }
        left -= count as u64;
        if uses_source {
            state[reg::RSI] = source.wrapping_add(step.wrapping_mul(count as u64));
        }
        if uses_target {
            state[reg::RDI] = target.wrapping_add(step.wrapping_mul(count as u64));
        }
        if repeated {
            state[reg::RCX] = left;
        }
        let equal = rflags & ZERO != 0;
        let ends = matches!(operation, Operation::Compare | Operation::Scan) && equal == site.instruction.has_repne_prefix();
        if repeated && ends {
            break;
        }
    }
    let context = engine.context();
    context.gpr = state;
    context.rflags = rflags;
    context.rip += site.length();
    Flow::Continue
}

/// The flags of `left - right`.
fn compare(rflags: u64, left: &[u8], right: &[u8]) -> u64 {
    let shift = 64 - 8 * left.len() as u32;
    // At the top of the register the carry, sign, zero and overflow are those of the narrow operands; parity and the auxiliary carry
    // come from the low byte.
    let (a, b) = (super::access::word(left), super::access::word(right));
    let high: u64;
    let low: u64;
    // SAFETY: touches registers and the own stack only.
    unsafe {
        core::arch::asm!("cmp {0}, {1}", "pushfq", "pop {2}", in(reg) a << shift, in(reg) b << shift, out(reg) high);
        core::arch::asm!("cmp {0}, {1}", "pushfq", "pop {2}", in(reg) a, in(reg) b, out(reg) low);
    }
    const FROM_LOW: u64 = 0x14;
    rflags & !STATUS | high & STATUS & !FROM_LOW | low & FROM_LOW
}
