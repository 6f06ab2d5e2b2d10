//! Whether this processor can replay what another one recorded.
//!
//! Programs choose their way by the processor's features, and the recorded way must be open here: every feature that the recorded CPUID leaves
//! show, where their masks say, must be here as well. More of them do no harm, as the program gets the recorded answers.

use recording::{CpuidLeaf, Recording};

use crate::timeline::Error;

const REGISTERS: [&str; 4] = ["eax", "ebx", "ecx", "edx"];

/// Names as in /proc/cpuinfo, by bit from 0 on; empty: no feature, or one without a name here.
struct Names {
    leaf: u32,
    subleaf: u32,
    register: usize,
    names: &'static str,
}

const NAMES: [Names; 6] = [
    Names {
        leaf: 1,
        subleaf: 0,
        register: 2,
        names: "sse3,pclmulqdq,dtes64,monitor,ds_cpl,vmx,smx,est,tm2,ssse3,,sdbg,fma,cx16,xtpr,pdcm,,pcid,dca,sse4_1,sse4_2,x2apic,movbe,popcnt,\
                tsc_deadline_timer,aes,xsave,osxsave,avx,f16c,rdrand,hypervisor",
    },
    Names {
        leaf: 1,
        subleaf: 0,
        register: 3,
        names: "fpu,vme,de,pse,tsc,msr,pae,mce,cx8,apic,,sep,mtrr,pge,mca,cmov,pat,pse36,pn,clflush,,dts,acpi,mmx,fxsr,sse,sse2,ss,ht,tm,ia64,pbe",
    },
    Names {
        leaf: 7,
        subleaf: 0,
        register: 1,
        names: "fsgsbase,tsc_adjust,sgx,bmi1,hle,avx2,,smep,bmi2,erms,invpcid,rtm,cqm,,mpx,rdt_a,avx512f,avx512dq,rdseed,adx,smap,avx512ifma,,\
                clflushopt,clwb,intel_pt,avx512pf,avx512er,avx512cd,sha_ni,avx512bw,avx512vl",
    },
    Names {
        leaf: 7,
        subleaf: 0,
        register: 2,
        names: "prefetchwt1,avx512vbmi,umip,pku,ospke,waitpkg,avx512_vbmi2,shstk,gfni,vaes,vpclmulqdq,avx512_vnni,avx512_bitalg,tme,\
                avx512_vpopcntdq,,la57,,,,,,rdpid,,bus_lock_detect,cldemote,,movdiri,movdir64b,enqcmd,sgx_lc,pks",
    },
    Names {
        leaf: 7,
        subleaf: 0,
        register: 3,
        names: ",,avx512_4vnniw,avx512_4fmaps,fsrm,uintr,,,avx512_vp2intersect,srbds_ctrl,md_clear,rtm_always_abort,,rtm_force_abort,serialize,\
                hybrid_cpu,tsxldtrk,,pconfig,arch_lbr,ibt,,amx_bf16,avx512_fp16,amx_tile,amx_int8,spec_ctrl,intel_stibp,flush_l1d,\
                arch_capabilities,core_capabilities,spec_ctrl_ssbd",
    },
    Names { leaf: 0xd, subleaf: 1, register: 0, names: "xsaveopt,xsavec,xgetbv1,xsaves" },
];

pub fn check(recording: &Recording) -> Result<(), Error> {
    let answer = |leaf: &CpuidLeaf| {
        let found = std::arch::x86_64::__cpuid_count(leaf.leaf, leaf.subleaf);
        [found.eax, found.ebx, found.ecx, found.edx]
    };
    let missing: Vec<String> = recording.meta().cpuid.iter().flat_map(|leaf| missing(leaf, answer(leaf))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Recording(format!(
        "{}: this processor cannot replay the recording: it lacks {}, which the recorded one had",
        recording.path().display(),
        missing.join(", ")
    )))
}

/// The features that the leaf shows and the answer does not.
fn missing(leaf: &CpuidLeaf, found: [u32; 4]) -> impl Iterator<Item = String> + use<> {
    let (number, subleaf) = (leaf.leaf, leaf.subleaf);
    let lost: [u32; 4] = std::array::from_fn(|index| leaf.value[index] & leaf.mask[index] & !found[index]);
    lost.into_iter().enumerate().flat_map(move |(register, lost)| {
        (0..32).filter(move |bit| lost & 1 << bit != 0).map(move |bit| name(number, subleaf, register, bit))
    })
}

fn name(leaf: u32, subleaf: u32, register: usize, bit: usize) -> String {
    let place = format!("CPUID {leaf:#x}.{subleaf:#x} {} bit {bit}", REGISTERS[register]);
    let names = NAMES.iter().find(|names| (names.leaf, names.subleaf, names.register) == (leaf, subleaf, register));
    match names.and_then(|names| names.names.split(',').nth(bit)).filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} ({place})"),
        None => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_are_missing_are_named_and_others_do_no_harm() {
        let leaf = CpuidLeaf { leaf: 7, subleaf: 0, mask: [0, !0, !(1 << 4), !0], value: [9, 1 << 16 | 1 << 5, 1 << 4, 1 << 7] };
        let missing: Vec<String> = missing(&leaf, [0, 1 << 5 | 1 << 31, 0, 0]).collect();
        assert_eq!(missing, ["avx512f (CPUID 0x7.0x0 ebx bit 16)", "CPUID 0x7.0x0 edx bit 7"]);
    }

    #[test]
    fn names_stand_at_their_bits() {
        let known = [(1, 0, 2, 28, "avx"), (1, 0, 3, 26, "sse2"), (7, 0, 1, 31, "avx512vl"), (7, 0, 2, 22, "rdpid")];
        let more = [(7, 0, 3, 24, "amx_tile"), (7, 0, 3, 31, "spec_ctrl_ssbd"), (0xd, 1, 0, 3, "xsaves"), (1, 0, 2, 31, "hypervisor")];
        for (leaf, subleaf, register, bit, expected) in known.into_iter().chain(more) {
            assert!(name(leaf, subleaf, register, bit).starts_with(&format!("{expected} (")), "{}", name(leaf, subleaf, register, bit));
        }
    }
}
