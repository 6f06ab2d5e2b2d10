//! No instruction of the guest libraries touches a vector or x87 register: they run with the recorded program's own values in them.
//!
//! What saves and restores that whole state at once (`xsave`, `xrstor` and their kin) names none of the registers and is allowed, since it
//! is how the recorder keeps them in a recording.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace::output;

const ALLOWED: [&str; 4] = ["xsave", "xrstor", "fxsave", "fxrstor"];
/// Instructions that change vector or x87 state without naming a register; all x87 instructions begin with `f`.
const NAMELESS: [&str; 4] = ["vzero", "emms", "femms", "ldmxcsr"];
const REGISTERS: [&str; 5] = ["%xmm", "%ymm", "%zmm", "%mm", "%st"];
/// Enough to find the cause.
const SHOWN: usize = 5;

pub fn check(library: &Path) -> Result<()> {
    let listing = output(Command::new("objdump").args(["--disassemble", "--no-show-raw-insn", "--wide"]).arg(library))?;
    let found = offenders(&listing);
    if found.is_empty() {
        return Ok(());
    }
    bail!("{} in {}, among them:\n{}", found.len(), library.display(), found[..found.len().min(SHOWN)].join("\n"))
}

/// The offending instructions, each with its function.
fn offenders(listing: &str) -> Vec<String> {
    let mut function = "?";
    let mut found = Vec::new();
    for line in listing.lines() {
        if let Some(name) = line.strip_suffix(">:") {
            function = name.split_once('<').map_or(name, |(_, name)| name);
        } else if let Some((_, instruction)) = line.split_once(":\t")
            && offends(instruction)
        {
            found.push(format!("  {function}: {}", instruction.trim()));
        }
    }
    found
}

fn offends(instruction: &str) -> bool {
    let mnemonic = instruction.split_whitespace().next().unwrap_or_default();
    let begins = |with: &[&str]| with.iter().any(|start| mnemonic.starts_with(start));
    !begins(&ALLOWED) && (mnemonic.starts_with('f') || begins(&NAMELESS) || REGISTERS.iter().any(|name| instruction.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_and_x87_instructions_are_found_with_their_function() {
        let listing = "0000000000000000 <clean>:\n   0:\tmov    %rdi,%rax\n0000000000000010 <bad>:\n  10:\tmovaps %xmm0,(%rdi)\n  14:\tfldcw  (%rdi)\n  16:\tvzeroupper\n";
        assert_eq!(offenders(listing), ["  bad: movaps %xmm0,(%rdi)", "  bad: fldcw  (%rdi)", "  bad: vzeroupper"]);
    }

    #[test]
    fn saving_the_whole_state_is_allowed() {
        assert!(offenders("0 <f>:\n   0:\txsave64 (%rdi)\n   4:\txrstor64 (%rdi)\n   8:\tfxsave64 (%rdi)\n   c:\tstac\n").is_empty());
    }
}
