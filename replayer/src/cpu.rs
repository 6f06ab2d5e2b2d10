//! Whether this processor can replay what another one recorded.
//!
//! Programs choose their way by the processor's features, and the recorded choice must be open here: the recorded CPUID leaves are
//! compared where their masks say.

use recording::Metadata;

use crate::timeline::Error;

pub fn check(meta: &Metadata) -> Result<(), Error> {
    let mut missing = Vec::new();
    for leaf in &meta.cpuid {
        let found = std::arch::x86_64::__cpuid_count(leaf.leaf, leaf.subleaf);
        for (index, (name, found)) in ["eax", "ebx", "ecx", "edx"].iter().zip([found.eax, found.ebx, found.ecx, found.edx]).enumerate() {
            let (mask, value) = (leaf.mask[index], leaf.value[index]);
            if found & mask != value & mask {
                missing.push(format!(
                    "CPUID {:#x}.{:#x} {name}: recorded {:#x}, here {:#x}",
                    leaf.leaf,
                    leaf.subleaf,
                    value & mask,
                    found & mask
                ));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Recording(format!("this processor cannot replay a recording made on another kind: {}", missing.join("; "))))
}
