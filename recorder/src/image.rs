//! The library's file as it lies in memory. It is made to need nothing else: its relocations are its own address and, at most, a place
//! for errno.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSegment, ObjectSymbol, RelocationFlags, RelocationTarget, elf};

pub struct Image {
    bytes: Vec<u8>,
    /// (place, addend): the sum of base and addend stands there.
    relative: Vec<(usize, u64)>,
    /// Where the address of the function `__errno_location` stands.
    errno: Vec<usize>,
    code: Vec<(u64, u64)>,
    /// The addend of the one initialiser.
    constructor: u64,
}

impl Image {
    pub fn read(path: &Path) -> Result<Self> {
        let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&file).with_context(|| format!("{} is not a library of ours", path.display()))
    }

    fn parse(file: &[u8]) -> Result<Self> {
        let elf: ElfFile64<Endianness> = ElfFile64::parse(file)?;
        let end = elf.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or(0);
        let mut bytes = vec![0; usize::try_from(end)?];
        let mut code = Vec::new();
        for segment in elf.segments() {
            let data = segment.data()?;
            let at = usize::try_from(segment.address())?;
            bytes.get_mut(at..at + data.len()).context("a segment lies outside the image")?.copy_from_slice(data);
        }
        let endian = elf.endian();
        let mut constructors = 0..0u64;
        for header in elf.elf_program_headers() {
            if header.p_type(endian) == elf::PT_LOAD && header.p_flags(endian) & elf::PF_X != 0 {
                let start = header.p_vaddr(endian) & !0xfff;
                code.push((start, (header.p_vaddr(endian) + header.p_memsz(endian)).next_multiple_of(4096) - start));
            }
            for entry in header.dynamic(endian, file)?.unwrap_or(&[]) {
                match u32::try_from(entry.d_tag.get(endian)) {
                    Ok(elf::DT_INIT_ARRAY) => constructors.start = entry.d_val.get(endian),
                    Ok(elf::DT_INIT_ARRAYSZ) => constructors.end = entry.d_val.get(endian),
                    _ => {}
                }
            }
        }
        let (mut relative, mut errno) = (Vec::new(), Vec::new());
        for (place, relocation) in elf.dynamic_relocations().into_iter().flatten() {
            let place = usize::try_from(place)?;
            bytes.get(place..place + 8).context("a relocation lies outside the image")?;
            match (relocation.flags(), relocation.target()) {
                (RelocationFlags::Elf { r_type: elf::R_X86_64_RELATIVE }, _) => relative.push((place, relocation.addend().cast_unsigned())),
                (RelocationFlags::Elf { r_type: elf::R_X86_64_GLOB_DAT }, RelocationTarget::Symbol(symbol)) => {
                    let name =
                        elf.dynamic_symbol_table().map(|table| object::ObjectSymbolTable::symbol_by_index(&table, symbol)).transpose()?;
                    let name = name.as_ref().map(ObjectSymbol::name).transpose()?;
                    if name != Some("__errno_location") {
                        bail!("it needs {name:?}");
                    }
                    errno.push(place);
                }
                (flags, _) => bail!("a relocation of another kind: {flags:?}"),
            }
        }
        let constructor = relative.iter().find(|(place, _)| *place as u64 == constructors.start).map(|&(_, addend)| addend);
        match (constructor, constructors.end) {
            (Some(constructor), 8) => Ok(Self { bytes, relative, errno, code, constructor }),
            _ => bail!("it does not have exactly one initialiser"),
        }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What lies in memory at `base`.
    pub fn at(&self, base: u64, errno_location: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let relative = self.relative.iter().map(|&(place, addend)| (place, base.wrapping_add(addend)));
        for (place, value) in relative.chain(self.errno.iter().map(|&place| (place, errno_location))) {
            bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    pub fn constructor(&self, base: u64) -> u64 {
        base + self.constructor
    }

    /// Pages to be made executable: (offset, length).
    pub fn code(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.code.iter().copied()
    }
}
