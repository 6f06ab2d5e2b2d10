//! The small types that writer and reader share.

/// What an access does to the memory. The discriminants are bits of the file format: 1 reads, 2 writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    Read = 1,
    Write = 2,
    /// One instruction that does both, atomically or not: `lock xadd`, `cmpxchg`, `add [mem], reg`.
    ReadWrite = 3,
}

impl Kind {
    #[inline(always)]
    pub const fn reads(self) -> bool {
        self as u8 & 1 != 0
    }

    #[inline(always)]
    pub const fn writes(self) -> bool {
        self as u8 & 2 != 0
    }

    /// The kind of a byte in the file; None for anything but 1, 2, 3.
    pub const fn from_bits(bits: u8) -> Option<Kind> {
        match bits {
            1 => Some(Kind::Read),
            2 => Some(Kind::Write),
            3 => Some(Kind::ReadWrite),
            _ => None,
        }
    }
}

macro_rules! index {
    ($(#[$doc:meta])* $name:ident: $low:literal..=$high:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// None if no log can have such an index.
            #[allow(clippy::manual_range_contains, unused_comparisons, clippy::absurd_extreme_comparisons)]
            #[inline(always)]
            pub const fn new(index: u32) -> Option<$name> {
                if index >= $low && index <= $high { Some($name(index)) } else { None }
            }

            /// The number as it stands in the file.
            #[inline(always)]
            pub const fn get(self) -> u32 {
                self.0
            }
        }
    };
}

index!(
    /// A recording in the log's registry.
    RecordingIndex: 0..=0xffff
);
index!(
    /// A shared memory object in the log's registry; 0 names none.
    ObjectIndex: 1..=0xffff
);
index!(
    /// A mapping of an object by a recording.
    MappingIndex: 0..=u32::MAX
);
index!(
    /// An instrumented instruction (pc, kind, length); 0 names none.
    SiteIndex: 1..=0x3fff_ffff
);

/// Where an access comes from, for the forms of commit that do not need a registered site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An instruction registered with `register_site`.
    Site(SiteIndex),
    /// An access known by its program counter alone: made by the kernel inside a system call (`by_kernel`), or by an
    /// instruction that the full site registry had no room for.
    Pc { pc: u64, by_kernel: bool },
}

/// Which part of an access a record holds. Accesses longer than [`crate::layout::MAX_PIECE_BYTES`] are logged in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Whole,
    First,
    Middle,
    Last,
}

/// A registry has no free entry, or the disk no room for it. The log counts how often that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryFull {
    /// Which registry: `recordings`, `objects`, `mappings` or `sites`.
    pub registry: &'static str,
    /// How many entries it has in this log.
    pub capacity: u64,
}

impl core::fmt::Display for RegistryFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the log's registry of {} is full ({} entries), or its disk is", self.registry, self.capacity)
    }
}

impl core::error::Error for RegistryFull {}
