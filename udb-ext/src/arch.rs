//! The x86-64 register file as gdb numbers it, and the target description that tells gdb so.
//!
//! Why not a ready-made architecture: the usual ones stop at SSE. Code in any C library uses the upper halves of the vector
//! registers, and the thread pointer is needed to show thread-local variables.
//!
//! # Layout
//! A `g` packet is the registers below in this order, each in little-endian bytes, without padding:
//!
//! ```text
//! core   rax rbx rcx rdx rsi rdi rbp rsp r8 … r15 rip   17 × 8    eflags cs ss ds es fs gs   7 × 4
//! x87    st0 … st7   8 × 10    fctrl fstat ftag fiseg fioff foseg fooff fop   8 × 4
//! sse    xmm0 … xmm15   16 × 16    mxcsr   4
//! linux  orig_rax   8
//! segs   fs_base gs_base   2 × 8
//! avx    ymm0h … ymm15h   16 × 16
//! avx512 k0 … k7   8 × 8    zmm0h … zmm15h   16 × 32    xmm16 … xmm31   16 × 16    ymm16h … ymm31h   16 × 16    zmm16h … zmm31h   16 × 32
//! ```
//!
//! The last line is there only where this processor has AVX-512 (a recording replays only where all the features it knew are).

use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use gdbstub::arch::{Arch, Registers as GdbRegisters};
use replayer::Registers;

/// Marker for gdbstub: x86-64 with x87, SSE, AVX and the segment bases.
#[derive(Debug)]
pub enum X86_64 {}

impl Arch for X86_64 {
    type Usize = u64;
    type Registers = RegisterFile;
    type BreakpointKind = usize;
    type RegId = ();

    fn target_description_xml() -> Option<&'static str> {
        Some(description(avx512().is_some()))
    }
}

fn description(with_avx512: bool) -> &'static str {
    if with_avx512 {
        concat!(include_str!("target.xml"), include_str!("target-avx512.xml"), "</target>\n")
    } else {
        concat!(include_str!("target.xml"), "</target>\n")
    }
}

/// Where the components of AVX-512 lie in an xsave image of standard format: that differs from processor to processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Avx512Layout {
    opmask: usize,
    /// Upper halves of zmm0 … zmm15.
    zmm_high: usize,
    /// zmm16 … zmm31, whole.
    high_zmm: usize,
}

/// This processor's layout, if it has AVX-512.
fn avx512() -> Option<Avx512Layout> {
    static LAYOUT: OnceLock<Option<Avx512Layout>> = OnceLock::new();
    *LAYOUT.get_or_init(|| {
        // Leaf 0xd: the components there are, and for each its size (eax) and offset (ebx).
        let all = xsave::STATE_OPMASK | xsave::STATE_ZMM_HIGH | xsave::STATE_HIGH_ZMM;
        if u64::from(__cpuid_count(0xd, 0).eax) & all != all {
            return None;
        }
        let offset = |component: u64| __cpuid_count(0xd, component.trailing_zeros()).ebx as usize;
        Some(Avx512Layout {
            opmask: offset(xsave::STATE_OPMASK),
            zmm_high: offset(xsave::STATE_ZMM_HIGH),
            high_zmm: offset(xsave::STATE_HIGH_ZMM),
        })
    })
}

/// Offsets in the xsave image: legacy area, header, AVX component of the standard format.
mod xsave {
    pub const FCW: usize = 0;
    pub const FSW: usize = 2;
    pub const FTW: usize = 4;
    pub const FOP: usize = 6;
    pub const FIP: usize = 8;
    pub const FCS: usize = 12;
    pub const FDP: usize = 16;
    pub const FDS: usize = 20;
    pub const MXCSR: usize = 24;
    pub const ST: usize = 32;
    pub const XMM: usize = 160;
    pub const XSTATE_BV: usize = 512;
    pub const YMMH: usize = 576;
    pub const STATE_X87: u64 = 1;
    pub const STATE_SSE: u64 = 2;
    pub const STATE_AVX: u64 = 1 << 2;
    pub const STATE_OPMASK: u64 = 1 << 5;
    pub const STATE_ZMM_HIGH: u64 = 1 << 6;
    pub const STATE_HIGH_ZMM: u64 = 1 << 7;
}

/// Selectors of a 64-bit Linux process; they never differ.
const CS: u32 = 0x33;
const SS: u32 = 0x2b;

/// gdb's order of the general registers, as indices into [`Registers::gpr`] (which has the order of the instruction encoding).
const GDB_ORDER: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterFile {
    general: Registers,
    st: [[u8; 10]; 8],
    /// fctrl fstat ftag fiseg fioff foseg fooff fop
    x87_control: [u32; 8],
    xmm: [[u8; 16]; 16],
    mxcsr: u32,
    ymmh: [[u8; 16]; 16],
    avx512: Option<Box<Avx512>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Avx512 {
    k: [[u8; 8]; 8],
    /// Upper halves of zmm0 … zmm15.
    zmmh: [[u8; 32]; 16],
    /// zmm16 … zmm31 in three parts, lowest first.
    xmm: [[u8; 16]; 16],
    ymmh: [[u8; 16]; 16],
    high_zmmh: [[u8; 32]; 16],
}

impl Avx512 {
    fn new(image: &[u8], present: u64, layout: Avx512Layout) -> Self {
        let mut file = Avx512::default();
        if present & xsave::STATE_OPMASK != 0 {
            read_array(image, layout.opmask, &mut file.k);
        }
        if present & xsave::STATE_ZMM_HIGH != 0 {
            read_array(image, layout.zmm_high, &mut file.zmmh);
        }
        if present & xsave::STATE_HIGH_ZMM != 0 {
            let mut whole = [[0; 64]; 16];
            read_array(image, layout.high_zmm, &mut whole);
            for (index, bytes) in whole.iter().enumerate() {
                file.xmm[index].copy_from_slice(&bytes[..16]);
                file.ymmh[index].copy_from_slice(&bytes[16..32]);
                file.high_zmmh[index].copy_from_slice(&bytes[32..]);
            }
        }
        file
    }

    fn put(&self, mut put: impl FnMut(&[u8])) {
        self.k.iter().for_each(|k| put(k));
        self.zmmh.iter().for_each(|zmmh| put(zmmh));
        self.xmm.iter().chain(&self.ymmh).for_each(|part| put(part));
        self.high_zmmh.iter().for_each(|zmmh| put(zmmh));
    }
}

impl Default for RegisterFile {
    fn default() -> Self {
        RegisterFile::new(&Registers::default(), &[])
    }
}

impl RegisterFile {
    /// From the integer registers and an xsave image. Components that the image lacks, or marks as initial, have their initial values.
    pub fn new(general: &Registers, image: &[u8]) -> Self {
        RegisterFile::with_layout(general, image, avx512())
    }

    fn with_layout(general: &Registers, image: &[u8], avx512: Option<Avx512Layout>) -> Self {
        let mut file = RegisterFile {
            general: *general,
            st: [[0; 10]; 8],
            x87_control: [0x37f, 0, 0xffff, 0, 0, 0, 0, 0],
            xmm: [[0; 16]; 16],
            mxcsr: 0x1f80,
            ymmh: [[0; 16]; 16],
            avx512: None,
        };
        let present = u64_at(image, xsave::XSTATE_BV).unwrap_or(xsave::STATE_X87 | xsave::STATE_SSE);
        if present & xsave::STATE_X87 != 0 {
            file.read_x87(image);
        }
        if let Some(mxcsr) = u32_at(image, xsave::MXCSR) {
            file.mxcsr = mxcsr;
        }
        if present & xsave::STATE_SSE != 0 {
            read_array(image, xsave::XMM, &mut file.xmm);
        }
        if present & xsave::STATE_AVX != 0 {
            read_array(image, xsave::YMMH, &mut file.ymmh);
        }
        file.avx512 = avx512.map(|layout| Box::new(Avx512::new(image, present, layout)));
        file
    }

    fn read_x87(&mut self, image: &[u8]) {
        let (Some(fcw), Some(fsw), Some(fop)) = (u16_at(image, xsave::FCW), u16_at(image, xsave::FSW), u16_at(image, xsave::FOP)) else {
            return;
        };
        let mut padded = [[0u8; 16]; 8];
        read_array(image, xsave::ST, &mut padded);
        for (st, bytes) in self.st.iter_mut().zip(&padded) {
            st.copy_from_slice(&bytes[..10]);
        }
        let abridged = image.get(xsave::FTW).copied().unwrap_or(0);
        self.x87_control = [
            u32::from(fcw),
            u32::from(fsw),
            u32::from(full_tag_word(abridged, fsw, &self.st)),
            u16_at(image, xsave::FCS).map_or(0, u32::from),
            u32_at(image, xsave::FIP).unwrap_or(0),
            u16_at(image, xsave::FDS).map_or(0, u32::from),
            u32_at(image, xsave::FDP).unwrap_or(0),
            u32::from(fop),
        ];
    }
}

impl GdbRegisters for RegisterFile {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.general.rip
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        let mut put = |bytes: &[u8]| bytes.iter().for_each(|&byte| write_byte(Some(byte)));
        for index in GDB_ORDER {
            put(&self.general.gpr[index].to_le_bytes());
        }
        put(&self.general.rip.to_le_bytes());
        put(&(self.general.rflags as u32).to_le_bytes());
        for selector in [CS, SS, 0, 0, 0, 0] {
            put(&selector.to_le_bytes());
        }
        self.st.iter().for_each(|st| put(st));
        self.x87_control.iter().for_each(|word| put(&word.to_le_bytes()));
        self.xmm.iter().for_each(|xmm| put(xmm));
        put(&self.mxcsr.to_le_bytes());
        // No system call is ever to be restarted by the debugger.
        put(&u64::MAX.to_le_bytes());
        put(&self.general.fs_base.to_le_bytes());
        put(&self.general.gs_base.to_le_bytes());
        self.ymmh.iter().for_each(|ymmh| put(ymmh));
        if let Some(avx512) = &self.avx512 {
            avx512.put(put);
        }
    }

    fn gdb_deserialize(&mut self, _bytes: &[u8]) -> Result<(), ()> {
        // Only ever asked in order to write registers, and history cannot be written.
        Err(())
    }
}

/// The x87 tag word from its abridged form in an xsave image: two bits a register (valid, zero, special, empty), by physical number.
fn full_tag_word(abridged: u8, status: u16, st: &[[u8; 10]; 8]) -> u16 {
    let top = usize::from(status >> 11 & 7);
    (0..8).fold(0, |word, physical| {
        let tag = if abridged & 1 << physical == 0 {
            3
        } else {
            let value = &st[(physical + 8 - top) % 8];
            let exponent = u16::from_le_bytes([value[8], value[9]]) & 0x7fff;
            let fraction_zero = value[..8].iter().all(|&byte| byte == 0);
            match (exponent, fraction_zero) {
                (0, true) => 1,
                (1..=0x7ffe, _) if value[7] & 0x80 != 0 => 0,
                _ => 2,
            }
        };
        word | tag << (2 * physical)
    })
}

fn read_array<const SIZE: usize, const COUNT: usize>(image: &[u8], offset: usize, into: &mut [[u8; SIZE]; COUNT]) {
    for (slot, bytes) in into.iter_mut().zip(image.get(offset..).unwrap_or(&[]).chunks_exact(SIZE)) {
        slot.copy_from_slice(bytes);
    }
}

fn u16_at(image: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(image.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(image: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(image.get(offset..offset + 4)?.try_into().ok()?))
}

fn u64_at(image: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(image.get(offset..offset + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(file: &RegisterFile) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.gdb_serialize(|byte| bytes.push(byte.unwrap()));
        bytes
    }

    /// Sum of the sizes of all `<reg>`s in the description, bytes.
    fn described_size(avx512: bool) -> usize {
        description(avx512).split("bitsize=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<usize>().unwrap() / 8).sum()
    }

    #[test]
    fn packet_is_as_long_as_the_description_says() {
        for layout in [None, Some(LAYOUT)] {
            let file = RegisterFile::with_layout(&Registers::default(), &[], layout);
            assert_eq!(bytes_of(&file).len(), described_size(layout.is_some()));
        }
    }

    const LAYOUT: Avx512Layout = Avx512Layout { opmask: 832, zmm_high: 896, high_zmm: 1408 };

    #[test]
    fn the_widest_registers_come_in_parts() {
        let mut image = vec![0u8; LAYOUT.high_zmm + 16 * 64];
        image[xsave::XSTATE_BV] = (xsave::STATE_OPMASK | xsave::STATE_ZMM_HIGH | xsave::STATE_HIGH_ZMM) as u8;
        image[LAYOUT.opmask + 8..][..8].fill(1);
        image[LAYOUT.zmm_high + 2 * 32..][..32].fill(2);
        let zmm17 = LAYOUT.high_zmm + 64;
        image[zmm17..][..16].fill(3);
        image[zmm17 + 16..][..16].fill(4);
        image[zmm17 + 32..][..32].fill(5);
        let file = Avx512::new(&image, u64::from(image[xsave::XSTATE_BV]), LAYOUT);
        assert_eq!((file.k[1], file.zmmh[2], file.xmm[1], file.ymmh[1], file.high_zmmh[1]), ([1; 8], [2; 32], [3; 16], [4; 16], [5; 32]));
        assert_eq!(Avx512::new(&image, 0, LAYOUT), Avx512::default());
        for length in 0..image.len() {
            Avx512::new(&image[..length], u64::MAX, LAYOUT);
        }
    }

    #[test]
    fn general_registers_are_in_gdb_order() {
        let mut general = Registers { rip: 0x1234, fs_base: 0x77, ..Registers::default() };
        for (index, value) in general.gpr.iter_mut().enumerate() {
            *value = index as u64;
        }
        let bytes = bytes_of(&RegisterFile::new(&general, &[]));
        let word = |n: usize| u64::from_le_bytes(bytes[n * 8..n * 8 + 8].try_into().unwrap());
        // rax rbx rcx rdx rsi rdi rbp rsp
        assert_eq!((0..8).map(word).collect::<Vec<_>>(), [0, 3, 1, 2, 6, 7, 5, 4]);
        assert_eq!(word(16), 0x1234);
    }

    #[test]
    fn vector_state_comes_from_the_image_only_where_present() {
        let mut image = vec![0u8; 576 + 256];
        image[xsave::XMM..xsave::XMM + 256].fill(0x11);
        image[xsave::YMMH..].fill(0x22);
        image[xsave::XSTATE_BV] = (xsave::STATE_SSE | xsave::STATE_AVX) as u8;
        let file = RegisterFile::new(&Registers::default(), &image);
        assert_eq!((file.xmm[15], file.ymmh[15]), ([0x11; 16], [0x22; 16]));
        image[xsave::XSTATE_BV] = xsave::STATE_SSE as u8;
        let file = RegisterFile::new(&Registers::default(), &image);
        assert_eq!((file.xmm[0], file.ymmh[0]), ([0x11; 16], [0; 16]));
        // A truncated image is no panic.
        for length in 0..image.len() {
            RegisterFile::new(&Registers::default(), &image[..length]);
        }
    }

    #[test]
    fn tag_word_is_expanded() {
        let mut st = [[0u8; 10]; 8];
        st[0][7] = 0x80;
        st[0][8..].copy_from_slice(&0x3fffu16.to_le_bytes());
        // One value pushed: top is 7, so st0 is physical register 7 (valid); the rest is empty.
        assert_eq!(full_tag_word(0x80, 7 << 11, &st), 0x3fff);
        assert_eq!(full_tag_word(0, 0, &st), 0xffff);
    }
}
