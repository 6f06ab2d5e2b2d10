//! The header's fixed words: composed once by the process that creates the log, compared by everyone who opens it.
use crate::layout::*;

/// Words that never change once the log has its name.
pub(crate) const FIXED_WORDS: usize = (HDR_CHECKSUM / 8) as usize + 1;
/// The same in bytes.
#[cfg(any(test, all(feature = "std", not(target_os = "none"))))]
pub(crate) const FIXED_BYTES: usize = FIXED_WORDS * 8;

/// What a header says that does not follow from the file's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub uuid: [u8; 16],
    pub created_tsc: u64,
    pub created_ns: u64,
    pub tsc_hz: u64,
}

/// A header that is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// The field that is wrong, in words of `docs/shmem-format.md`.
    pub field: &'static str,
    /// Where it is, bytes from the start of the file.
    pub offset: u64,
    /// What it should be.
    pub expected: u64,
    /// What it is.
    pub found: u64,
}

impl core::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let HeaderError { field, offset, expected, found } = self;
        write!(f, "{field} (at byte {offset}): expected {expected:#x}, found {found:#x}")
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// FNV-1a 64 of words, as little-endian bytes.
fn checksum(words: &[u64]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for word in words {
        for byte in word.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

impl Header {
    pub fn words(&self, layout: &Layout) -> [u64; FIXED_WORDS] {
        let mut words = [0; FIXED_WORDS];
        let mut put = |at: u64, word: u64| {
            if let Some(slot) = words.get_mut((at / 8) as usize) {
                *slot = word;
            }
        };
        put(HDR_MAGIC, MAGIC);
        put(HDR_VERSION, pair(VERSION, HEADER_BYTES as u32));
        put(HDR_FILE_SIZE, layout.size);
        let uuid = u128::from_le_bytes(self.uuid);
        put(HDR_UUID, uuid as u64);
        put(HDR_UUID + 8, (uuid >> 64) as u64);
        put(HDR_KINDS, pair(CLOCK_KIND_LINES, TIME_KIND_TSC));
        put(HDR_UNITS, pair(SLOT_BYTES as u32, BLOCK_BYTES as u32));
        put(HDR_FLAGS, 0);
        for (index, section) in layout.sections.iter().enumerate() {
            put(HDR_SECTIONS + index as u64 * 16, section.offset);
            put(HDR_SECTIONS + index as u64 * 16 + 8, section.count);
        }
        put(HDR_CREATED_TSC, self.created_tsc);
        put(HDR_CREATED_NS, self.created_ns);
        put(HDR_TSC_HZ, self.tsc_hz);
        let sum = checksum(words.split_last().map_or(&[], |(_, rest)| rest));
        if let Some(last) = words.last_mut() {
            *last = sum;
        }
        words
    }

    /// Compares with what a log of `layout` must say, field by field, the most telling first.
    pub fn check(found: &[u64; FIXED_WORDS], layout: &Layout) -> Result<Header, HeaderError> {
        let word = |at: u64| found.get((at / 8) as usize).copied().unwrap_or(0);
        let uuid = u128::from(word(HDR_UUID)) | u128::from(word(HDR_UUID + 8)) << 64;
        let header = Header {
            uuid: uuid.to_le_bytes(),
            created_tsc: word(HDR_CREATED_TSC),
            created_ns: word(HDR_CREATED_NS),
            tsc_hz: word(HDR_TSC_HZ),
        };
        let expected = header.words(layout);
        for (index, (&expected, &found)) in expected.iter().zip(found).enumerate() {
            if expected != found {
                return Err(mismatch(index as u64 * 8, expected, found));
            }
        }
        Ok(header)
    }
}

fn mismatch(offset: u64, expected: u64, found: u64) -> HeaderError {
    let Some(names) = names_of_halves(offset) else {
        return HeaderError { field: field_name(offset), offset, expected, found };
    };
    let half = if expected as u32 != found as u32 { 0 } else { 1 };
    let part = |word: u64| word >> (32 * half) & 0xffff_ffff;
    let field = if half == 0 { names.0 } else { names.1 };
    HeaderError { field, offset: offset + 4 * half, expected: part(expected), found: part(found) }
}

/// Of a word that holds two fields.
fn names_of_halves(offset: u64) -> Option<(&'static str, &'static str)> {
    match offset {
        HDR_VERSION => Some(("version", "size of the header")),
        HDR_KINDS => Some(("kind of clock", "kind of time")),
        HDR_UNITS => Some(("slot size", "block size")),
        _ => None,
    }
}

fn field_name(offset: u64) -> &'static str {
    const SECTIONS: [[&str; 2]; 7] = [
        ["offset of the line clocks", "number of line clocks"],
        ["offset of the recordings", "number of recordings"],
        ["offset of the objects", "number of objects"],
        ["offset of the mappings", "number of mappings"],
        ["offset of the sites", "number of sites"],
        ["offset of the block headers", "number of block headers"],
        ["offset of the blocks", "number of blocks"],
    ];
    match offset {
        HDR_MAGIC => "magic",
        HDR_FILE_SIZE => "file size",
        HDR_FLAGS => "feature flags",
        HDR_CHECKSUM => "checksum",
        HDR_SECTIONS..HDR_CREATED_TSC => {
            let index = (offset - HDR_SECTIONS) / 8;
            SECTIONS.get((index / 2) as usize).and_then(|names| names.get((index % 2) as usize)).unwrap_or(&"section")
        }
        _ => "header",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_field_is_named() {
        let layout = Layout::for_size(1 << 20).unwrap();
        let header = Header { uuid: [7; 16], created_tsc: 1, created_ns: 2, tsc_hz: 3 };
        let words = header.words(&layout);
        assert_eq!(Header::check(&words, &layout), Ok(header));
        let checked = [HDR_MAGIC, HDR_VERSION, HDR_FILE_SIZE, HDR_KINDS, HDR_UNITS, HDR_FLAGS, HDR_CHECKSUM]
            .into_iter()
            .chain((HDR_SECTIONS..HDR_CREATED_TSC).step_by(8));
        for offset in checked {
            let (mut broken, word) = (words, words[offset as usize / 8]);
            broken[offset as usize / 8] ^= 0x100;
            let error = Header::check(&broken, &layout).unwrap_err();
            let mask = if names_of_halves(offset).is_some() { 0xffff_ffff } else { u64::MAX };
            assert_eq!((error.offset, error.expected, error.found), (offset, word & mask, (word ^ 0x100) & mask));
            assert_ne!(error.field, "header");
        }
        for (offset, field) in [(HDR_VERSION, "size of the header"), (HDR_KINDS, "kind of time"), (HDR_UNITS, "block size")] {
            let (mut broken, word) = (words, words[offset as usize / 8]);
            broken[offset as usize / 8] ^= 1 << 40;
            let error = Header::check(&broken, &layout).unwrap_err();
            assert_eq!(error, HeaderError { field, offset: offset + 4, expected: word >> 32, found: (word >> 32) ^ 0x100 });
        }
        // Fields of free content are held by the checksum.
        for offset in [HDR_UUID, HDR_UUID + 8, HDR_CREATED_TSC, HDR_CREATED_NS, HDR_TSC_HZ] {
            let mut broken = words;
            broken[offset as usize / 8] ^= 1;
            assert_eq!(Header::check(&broken, &layout).unwrap_err().field, "checksum");
        }
    }
}
