//! What is known about one installed translation.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::host::Nondeterministic;

/// One guest instruction's place in a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Offset of its first host byte from the unit's.
    pub host: u32,
    /// Transfers executed before it and not yet subtracted from the counter (negative: subtracted ahead).
    pub unsettled: i8,
    pub spill: Spill,
    pub pc: u64,
}

/// Which guest registers lie in the context while the row's host instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spill {
    None,
    /// This register lies in `spill[0]`.
    One(u8),
    /// An inline access is under way. The registers in the set (by number) lie in `saved`, the flags in `saved_flags` if so said. With
    /// `undo`: bytes of the known copy, whose address is in the register, that `old_value` puts back.
    Inline {
        set: u16,
        flags: bool,
        undo: Option<(u8, u8)>,
    },
    /// rcx and r11 lie in `spill[0]` and `spill[1]`.
    RcxR11,
}

/// An installed translation.
#[derive(Debug)]
pub struct Unit {
    pub pc: u64,
    pub host: u64,
    /// The stub before it, made with it for the first way in; `host` if there is none.
    pub lead_in: u64,
    pub length: u32,
    pub counter: u8,
    pub rows: Box<[Row]>,
    /// Guest address ranges it was made from.
    pub sources: Vec<(u64, u64)>,
}

impl Unit {
    /// The row whose host instruction contains `address`.
    pub fn row_at(&self, address: u64) -> Option<&Row> {
        let offset = u32::try_from(address.checked_sub(self.host)?).ok()?;
        let index = self.rows.partition_point(|row| row.host <= offset);
        self.rows.get(index.checked_sub(1)?)
    }
}

/// Why translated code came to the gate.
#[derive(Clone, Copy, Debug)]
pub enum ExitKind {
    /// Go on at `pc`. The 32-bit displacement at `patch` may be made to lead there directly, by way of a stub if something is unsettled.
    Link {
        patch: u64,
    },
    /// A counter went negative. `undo`: give back what was subtracted, the transfers have not happened yet.
    /// `flags_dirty`: the status flags were overwritten; they are dead, but not what the guest would see.
    Limit {
        undo: u8,
        flags_dirty: bool,
    },
    /// As `Limit`, for an indirect branch: the target is in rcx, the spilled rcx and r11 in the context.
    LimitIndirect,
    SystemCall {
        length: u8,
    },
    Nondeterministic {
        what: Nondeterministic,
        register: u8,
        size: u8,
        length: u8,
    },
    /// `body`: host address that executes the instruction with the address given.
    SharedBefore {
        site: u32,
        body: u64,
    },
    SharedAfter {
        site: u32,
        next: u64,
        body: u64,
    },
    /// An inline access has happened, but its record does not fit the log.
    SharedDropped {
        next: u64,
    },
    /// xsave or a variant, or xgetbv.
    VectorState {
        site: u32,
    },
    /// The host performs the instruction. `transfers`: how many it is, if it is performed.
    SharedWhole {
        site: u32,
        transfers: u8,
    },
    /// A watched access is about to happen at `pc`; go on at `next`.
    Watch {
        site: u32,
        next: u64,
    },
    Breakpoint,
    /// int3 has run: `pc` is behind it.
    Trap,
    Unsupported {
        what: &'static str,
    },
    Undecodable,
    /// The end of a unit that is not linked, by the conditional branch at that address if it is one: nothing special at `pc`.
    Unlinked {
        conditional: Option<u64>,
    },
    /// As `Unlinked`, for the indirect branch at `from`: the target is in rcx, the spilled rcx and r11 in the context.
    UnlinkedIndirect {
        from: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Exit {
    pub kind: ExitKind,
    /// What the guest's rip is to be.
    pub pc: u64,
    /// As in [`Row`].
    pub unsettled: i8,
    pub counter: u8,
}
