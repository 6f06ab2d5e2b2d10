//! Little-endian numbers in byte slices, for everything that encodes or decodes part of a recording.
//!
//! Bytes that come from outside are hostile. [`Cursor`] is the only way they are read here: each step names the field it wants, is
//! checked against what is left, and fails with a [`DecodeError`] that says where, what was expected and what was found. No step
//! panics and none allocates.

use core::fmt;

/// Everything in a recording starts at a multiple of this.
pub(crate) const ALIGN: usize = 8;

/// What a field should have held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// This very number.
    Exactly(u64),
    /// No less than this.
    AtLeast(u64),
    /// No more than this.
    AtMost(u64),
    /// A multiple of this.
    MultipleOf(u64),
    /// One of the values that these words describe.
    OneOf(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Exactly(n) => write!(f, "{n:#x}"),
            Expected::AtLeast(n) => write!(f, "at least {n:#x}"),
            Expected::AtMost(n) => write!(f, "at most {n:#x}"),
            Expected::MultipleOf(n) => write!(f, "a multiple of {n:#x}"),
            Expected::OneOf(text) => f.write_str(text),
        }
    }
}

/// Bytes that are not what the format says, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x}: {field}: expected {expected}, found {found:#x}")]
pub struct DecodeError {
    /// Where the field starts, from the start of the log or section that was being read.
    pub offset: u64,
    /// The field's name as in `docs/undo-format.md`.
    pub field: &'static str,
    pub expected: Expected,
    pub found: u64,
}

/// `n` rounded up to [`ALIGN`], or nothing if that does not fit.
#[inline]
pub(crate) const fn padded(n: u64) -> Option<u64> {
    match n.checked_add(ALIGN as u64 - 1) {
        Some(sum) => Some(sum & !(ALIGN as u64 - 1)),
        None => None,
    }
}

/// Reads fields one after the other from bytes that nobody vouches for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Offset of `bytes[0]` in whatever the errors should speak of.
    offset: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], offset: u64) -> Self {
        Self { bytes, offset }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The error of a field that ended just before the cursor and was `size` bytes long.
    pub(crate) fn error_before(&self, size: u64, field: &'static str, expected: Expected, found: u64) -> DecodeError {
        DecodeError { offset: self.offset.saturating_sub(size), field, expected, found }
    }

    /// The error of a field that starts at the cursor.
    pub(crate) fn error_here(&self, field: &'static str, expected: Expected, found: u64) -> DecodeError {
        self.error_before(0, field, expected, found)
    }

    /// The next `len` bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, len: u64, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let split = usize::try_from(len).ok().and_then(|len| self.bytes.split_at_checked(len));
        let Some((taken, rest)) = split else {
            return Err(self.error_here(field, Expected::AtLeast(len), self.bytes.len() as u64));
        };
        self.bytes = rest;
        self.offset = self.offset.saturating_add(len);
        Ok(taken)
    }

    /// The next `len` bytes; also steps over the padding behind them, which must be there and zero.
    #[inline]
    pub(crate) fn padded_bytes(&mut self, len: u64, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let Some(total) = padded(len) else {
            return Err(self.error_here(field, Expected::AtMost(self.bytes.len() as u64), len));
        };
        let all = self.bytes(total, field)?;
        // `len <= total <= all.len()`, so this cannot fail.
        let Some((taken, padding)) = usize::try_from(len).ok().and_then(|len| all.split_at_checked(len)) else {
            return Err(self.error_here(field, Expected::AtMost(all.len() as u64), len));
        };
        match padding.iter().find(|byte| **byte != 0) {
            Some(byte) => Err(self.error_before(padding.len() as u64, "padding", Expected::Exactly(0), u64::from(*byte))),
            None => Ok(taken),
        }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<&'a [u8; N], DecodeError> {
        match self.bytes.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.bytes = rest;
                self.offset = self.offset.saturating_add(N as u64);
                Ok(taken)
            }
            None => Err(self.error_here(field, Expected::AtLeast(N as u64), self.bytes.len() as u64)),
        }
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array(field).map(|bytes| u16::from_le_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(|bytes| u32::from_le_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.array(field).map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The bytes that are left must be none.
    pub(crate) fn expect_end(&self, field: &'static str) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(self.error_here(field, Expected::Exactly(0), left as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_stops_at_the_end_and_names_the_field() {
        let mut cursor = Cursor::new(&[1, 0, 2, 0, 0, 0, 9], 100);
        assert_eq!(cursor.u16("a"), Ok(1));
        assert_eq!(cursor.u32("b"), Ok(2));
        assert_eq!(cursor.u64("c"), Err(DecodeError { offset: 106, field: "c", expected: Expected::AtLeast(8), found: 1 }));
        assert_eq!(cursor.left(), 1);
        assert!(cursor.expect_end("rest").is_err());
    }

    #[test]
    fn absurd_lengths_do_not_overflow() {
        let mut cursor = Cursor::new(&[0; 16], u64::MAX - 4);
        assert!(cursor.bytes(u64::MAX, "x").is_err());
        assert!(cursor.padded_bytes(u64::MAX, "x").is_err());
        assert!(cursor.padded_bytes(u64::MAX - 7, "x").is_err());
        assert!(cursor.padded_bytes(9, "x").is_ok());
    }

    #[test]
    fn padding_must_be_zero() {
        let mut cursor = Cursor::new(&[7, 7, 7, 0, 0, 5, 0, 0], 0);
        assert_eq!(cursor.padded_bytes(3, "x"), Err(DecodeError { offset: 3, field: "padding", expected: Expected::Exactly(0), found: 5 }));
    }

    #[test]
    fn an_error_reads_like_a_sentence() {
        let error = DecodeError { offset: 64, field: "size", expected: Expected::AtLeast(48), found: 3 };
        assert_eq!(std::format!("{error}"), "offset 0x40: size: expected at least 0x30, found 0x3");
    }
}
