//! The words that every part of the toolkit shares: a time, a register set.

use core::fmt;

/// One moment in a recording: the state just before the instruction at `pc` executes within block `bbcount`.
///
/// Within one bbcount execution is a straight line and later
/// moments have a higher `pc`, so the derived lexicographic order is the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Control transfers executed so far, plus one.
    pub bbcount: u64,
    /// Address of the instruction about to execute.
    pub pc: u64,
}

impl fmt::Display for Time {
    /// `2,822:0x5618d2d15c61`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_grouped(f, self.bbcount)?;
        write!(f, ":{:#x}", self.pc)
    }
}

/// Writes `n` with a comma between groups of three digits.
fn write_grouped(f: &mut fmt::Formatter<'_>, n: u64) -> fmt::Result {
    let mut scale = 1u64;
    while n / scale >= 1000 {
        scale *= 1000;
    }
    write!(f, "{}", n / scale)?;
    while scale > 1 {
        let rest = n % scale;
        scale /= 1000;
        write!(f, ",{:03}", rest / scale)?;
    }
    Ok(())
}

/// The integer registers of the guest. Vector and x87 state travel as an xsave image beside it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// In the order of the instruction encoding: rax rcx rdx rbx rsp rbp rsi rdi r8 … r15.
    pub gpr: [u64; 16],
    pub rip: u64,
    pub rflags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_printed_as_users_know_it() {
        let t = |bbcount, pc| Time { bbcount, pc }.to_string();
        assert_eq!(t(2822, 0x5618_d2d1_5c61), "2,822:0x5618d2d15c61");
        assert_eq!(t(1, 0), "1:0x0");
        assert_eq!(t(1_000_000, 1), "1,000,000:0x1");
        assert_eq!(t(1_002_003, 1), "1,002,003:0x1");
        assert_eq!(t(u64::MAX, 1), "18,446,744,073,709,551,615:0x1");
    }
}
