//! Vector registers as a host sees them that performs a gather or scatter, or must know which elements a masked move touches.
//!
//! The registers stay in the processor; a [`Vectors`] is a copy of all of them, taken and put back by xsave and xrstor.

use alloc::vec::Vec;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use crate::context::Context;
use crate::site::{Site, register_value};
use crate::vector;

/// The widest register, bytes.
pub const REGISTER_BYTES: usize = 64;

/// Where an image in the standard format has the parts of the registers.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    size: usize,
    /// Bits 128 to 255 of registers 0 to 15; bits 256 to 511 of those; registers 16 to 31; mask registers.
    parts: [usize; 4],
}

const PARTS: [u32; 4] = [2, 6, 7, 5];
const LOW: usize = 160;

impl Layout {
    /// Asks the processor, which takes microseconds.
    pub fn of_processor() -> Self {
        Self { size: vector::image_size(), parts: PARTS.map(|index| vector::component(index).0) }
    }

    /// Bytes of an image.
    pub fn size(self) -> usize {
        self.size
    }

    /// Where the 16-byte pieces of a register lie, lowest first, as far as the processor has them.
    fn pieces(self, register: usize) -> impl Iterator<Item = usize> {
        let [high, top, new, _] = self.parts;
        (0..4)
            .map(move |piece| match (register, piece) {
                (16.., _) => new + 64 * (register - 16) + 16 * piece,
                (_, 0) => LOW + 16 * register,
                (_, 1) => high + 16 * register,
                _ => top + 32 * register + 16 * (piece - 2),
            })
            .map(move |at| if at + 16 <= self.size && at >= LOW { at } else { usize::MAX })
            .take_while(|&at| at != usize::MAX)
    }
}

/// See the module's head.
pub struct Vectors {
    image: Vec<u8>,
    layout: Layout,
}

impl Vectors {
    pub fn save(layout: Layout) -> Self {
        Self { image: vector::save_all(layout.size), layout }
    }

    /// Makes this the processor's state.
    pub fn load(&mut self) -> bool {
        vector::mark_all_valid(&mut self.image);
        vector::load(&self.image)
    }

    pub fn register(&self, number: usize) -> [u8; REGISTER_BYTES] {
        let mut value = [0; REGISTER_BYTES];
        for (piece, at) in value.chunks_exact_mut(16).zip(self.layout.pieces(number)) {
            piece.copy_from_slice(&self.image[at..at + 16]);
        }
        value
    }

    pub fn set_register(&mut self, number: usize, value: &[u8; REGISTER_BYTES]) {
        for (piece, at) in value.chunks_exact(16).zip(self.layout.pieces(number)) {
            self.image[at..at + 16].copy_from_slice(piece);
        }
    }

    pub fn mask(&self, number: usize) -> u64 {
        let at = self.layout.parts[3] + 8 * number;
        self.image.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(core::array::from_fn(|index| bytes[index])))
    }

    pub fn set_mask(&mut self, number: usize, value: u64) {
        let at = self.layout.parts[3] + 8 * number;
        if let Some(bytes) = self.image.get_mut(at..at + 8) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// One element that a gather or scatter touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub number: usize,
    pub address: u64,
}

/// A gather or scatter, taken apart.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// The register it loads or stores.
    pub register: usize,
    /// How the lanes are selected; an instruction that is done leaves the mask zero.
    pub mask: Mask,
    /// Bytes of an element.
    pub size: usize,
    /// All lanes, selected or not.
    pub count: usize,
    /// The selected ones.
    pub selected: Vec<Lane>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// A mask register.
    Bits(usize),
    /// The sign bits of a vector register's elements.
    Signs(usize),
}

fn vector_number(register: Register) -> usize {
    register.full_register().number()
}

fn element(value: &[u8], index: usize, size: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&value[index * size..(index + 1) * size]);
    u64::from_le_bytes(bytes)
}

impl Mask {
    fn of(instruction: &Instruction, index_of_register: u32) -> Self {
        match instruction.op_mask() {
            Register::None => Self::Signs(vector_number(instruction.op_register(index_of_register))),
            mask => Self::Bits(mask.number()),
        }
    }

    /// One bit for each element of `size` bytes.
    fn bits(self, vectors: &Vectors, size: usize) -> u64 {
        match self {
            Self::Bits(number) => vectors.mask(number),
            Self::Signs(number) => {
                let value = vectors.register(number);
                (0..REGISTER_BYTES / size).map(|index| (element(&value, index, size) >> (8 * size - 1)) << index).sum()
            }
        }
    }
}

/// What a gather or scatter at [`Site`] touches.
pub fn lanes(site: &Site, context: &Context, vectors: &Vectors) -> Option<Lanes> {
    let instruction = &site.instruction;
    let memory = (0..instruction.op_count()).find(|&index| instruction.op_kind(index) == OpKind::Memory)?;
    // A gather's destination is its first operand, a scatter's source its second.
    let register = instruction.op_register(if memory == 0 { 1 } else { 0 });
    let size = instruction.memory_size().size();
    let index_size = if instruction.is_vsib64() { 8 } else { 4 };
    if !register.is_vector_register() || ![4, 8].contains(&size) {
        return None;
    }
    let count = (register.size() / size).min(instruction.memory_index().size() / index_size);
    let mask = Mask::of(instruction, 2);
    let bits = mask.bits(vectors, size);
    let address = |number| {
        instruction.virtual_address(memory, 0, |register, _, _| {
            Some(if register.is_vector_register() {
                let index = element(&vectors.register(vector_number(register)), number, index_size);
                if index_size == 4 { index as u32 as i32 as i64 as u64 } else { index }
            } else {
                register_value(context, register)
            })
        })
    };
    let selected = (0..count).filter(|&number| bits >> number & 1 != 0).map(|number| Some(Lane { number, address: address(number)? }));
    Some(Lanes { register: vector_number(register), mask, size, count, selected: selected.collect::<Option<_>>()? })
}

/// The ranges (offset, length) of its operand that a masked move touches. `None`: all of it.
pub fn masked_ranges(site: &Site, vectors: &Vectors) -> Option<Vec<(u64, u64)>> {
    let instruction = &site.instruction;
    let stores = instruction.op0_kind() == OpKind::Memory;
    if !site.masked || site.size == 0 || !(stores || is_masked_load(instruction)) {
        return None;
    }
    let size = match instruction.memory_size().element_size() {
        0 => return None,
        size => size,
    };
    let count = site.size as usize / size;
    let all = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    let bits = Mask::of(instruction, 1).bits(vectors, size) & all;
    if is_packing(instruction.mnemonic()) {
        let length = u64::from(bits.count_ones()) * size as u64;
        return Some(if length == 0 { Vec::new() } else { alloc::vec![(0, length)] });
    }
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for offset in (0..count).filter(|&index| bits >> index & 1 != 0).map(|index| (index * size) as u64) {
        match ranges.last_mut() {
            Some((start, length)) if *start + *length == offset => *length += size as u64,
            _ => ranges.push((offset, size as u64)),
        }
    }
    Some(ranges)
}

/// Reads of which the elements that are not selected are not touched. (Others, masked arithmetic say, may need all.)
fn is_masked_load(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    is_packing(instruction.mnemonic())
        || matches!(
            instruction.mnemonic(),
            Vmaskmovps
                | Vmaskmovpd
                | Vpmaskmovd
                | Vpmaskmovq
                | Vmovdqu8
                | Vmovdqu16
                | Vmovdqu32
                | Vmovdqu64
                | Vmovdqa32
                | Vmovdqa64
                | Vmovups
                | Vmovupd
                | Vmovaps
                | Vmovapd
        )
}

/// Moves between the selected elements and as many neighbouring ones in memory.
fn is_packing(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Vpcompressb
            | Vpcompressw
            | Vpcompressd
            | Vpcompressq
            | Vcompressps
            | Vcompresspd
            | Vpexpandb
            | Vpexpandw
            | Vpexpandd
            | Vpexpandq
            | Vexpandps
            | Vexpandpd
    )
}

impl Vectors {
    /// Ends a gather: the lanes in `values` (number, bytes) are loaded, what lies above all lanes and the mask become zero.
    pub fn finish_gather(&mut self, lanes: &Lanes, values: &[(usize, [u8; 8])]) {
        let mut register = self.register(lanes.register);
        register[lanes.count * lanes.size..].fill(0);
        for (number, bytes) in values {
            register[number * lanes.size..][..lanes.size].copy_from_slice(&bytes[..lanes.size]);
        }
        self.set_register(lanes.register, &register);
        self.finish_scatter(lanes);
    }

    /// Ends a scatter: the mask becomes zero.
    pub fn finish_scatter(&mut self, lanes: &Lanes) {
        match lanes.mask {
            Mask::Bits(number) => self.set_mask(number, 0),
            Mask::Signs(number) => self.set_register(number, &[0; REGISTER_BYTES]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, InstructionInfoFactory};

    fn vectors() -> Vectors {
        let layout = Layout { size: 2696, parts: [576, 1152, 1664, 1088] };
        Vectors { image: alloc::vec![0; layout.size], layout }
    }

    fn site(bytes: &[u8]) -> Site {
        Site::analyse(&Decoder::new(64, bytes, 0).decode(), &mut InstructionInfoFactory::new()).unwrap()
    }

    #[test]
    fn registers_are_put_together_from_their_parts() {
        let mut vectors = vectors();
        for number in [0, 5, 15, 16, 31] {
            let value = core::array::from_fn(|index| (index * 3 + number) as u8);
            vectors.set_register(number, &value);
            assert_eq!(vectors.register(number), value, "{number}");
        }
        assert_eq!(vectors.register(5)[0], 5, "not overwritten by another");
    }

    #[test]
    fn a_gather_touches_its_selected_lanes() {
        // vpgatherdd xmm0, [rax + xmm1 * 4], xmm2
        let gather = site(&[0xc4, 0xe2, 0x69, 0x90, 0x04, 0x88]);
        let mut vectors = vectors();
        let words = |words: [i32; 4]| core::array::from_fn(|index| if index < 16 { words[index / 4].to_le_bytes()[index % 4] } else { 9 });
        vectors.set_register(1, &words([1, -1, 5, 7]));
        vectors.set_register(2, &words([-1, i32::MIN, 0, -5]));
        // SAFETY: a context is plain numbers.
        let mut context: Context = unsafe { core::mem::zeroed() };
        context.gpr[0] = 0x1000;
        let lanes = lanes(&gather, &context, &vectors).unwrap();
        let selected: Vec<_> = lanes.selected.iter().map(|lane| (lane.number, lane.address)).collect();
        assert_eq!(selected, [(0, 0x1004), (1, 0xffc), (3, 0x101c)]);
        assert_eq!((lanes.count, lanes.size, lanes.register, lanes.mask), (4, 4, 0, Mask::Signs(2)));
        vectors.finish_gather(&lanes, &[(1, [7; 8])]);
        assert_eq!(vectors.register(0)[..9], [0, 0, 0, 0, 7, 7, 7, 7, 0]);
        assert_eq!(vectors.register(2), [0; 64]);
    }

    #[test]
    fn masked_moves_touch_ranges() {
        let mut vectors = vectors();
        vectors.set_mask(1, 0b1110_0011);
        // vmovdqu8 [rdi]{k1}, zmm0
        let store = site(&[0x62, 0xf1, 0x7f, 0x49, 0x7f, 0x07]);
        assert_eq!(masked_ranges(&store, &vectors).unwrap(), [(0, 2), (5, 3)]);
        // vpcompressd [rdi]{k1}, zmm0
        let compress = site(&[0x62, 0xf2, 0x7d, 0x49, 0x8b, 0x07]);
        assert_eq!(masked_ranges(&compress, &vectors).unwrap(), [(0, 20)]);
        // vpmaskmovd ymm0, ymm1, [rdi]
        let load = site(&[0xc4, 0xe2, 0x75, 0x8c, 0x07]);
        let mut mask = [0; 64];
        (mask[7], mask[31]) = (0x80, 0xff);
        vectors.set_register(1, &mask);
        assert_eq!(masked_ranges(&load, &vectors).unwrap(), [(4, 4), (28, 4)]);
        // vmovdqu32 zmm0, [rdi]
        assert_eq!(masked_ranges(&site(&[0x62, 0xf1, 0x7e, 0x48, 0x6f, 0x07]), &vectors), None);
    }
}
