//! Records made of tagged fields: metadata, and the heads of files.
//!
//! ```text
//! field   0 2 tag   2 2 zero   4 4 length   8 value, zeroes up to a multiple of 8
//! ```
//!
//! T1. A reader skips tags that it does not know, so a field can be added without a new version.
//! T2. No tag stands twice. A required one that is missing is an error that names it; an optional one gets its type's default.
//! T3. A value is exactly as long as its length says; a longer or shorter one is an error.

use crate::event::{EndReason, REGISTERS_BYTES, decode_registers, encode_registers};
use crate::wire::{Cursor, DecodeError, Expected, padded};
use crate::{Registers, Time};
use alloc::string::String;
use alloc::vec::Vec;

/// Longer lists are refused: an item takes more memory than room in the file. No command line has as many arguments.
const MAX_ITEMS: usize = 1 << 20;

/// A tagged record that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TagError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("the required field {0} is missing")]
    Missing(&'static str),
}

/// A value that a field can hold.
pub(crate) trait Field: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads the value; the cursor holds nothing else.
    fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError>;

    /// Whether there is no value, and so no field if it is optional.
    fn is_absent(&self) -> bool {
        false
    }
}

/// A value made of fixed parts, so that there can be lists of it.
pub(crate) trait Item: Sized {
    fn put_item(&self, out: &mut Vec<u8>);
    fn get_item(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError>;
}

impl<T: Item> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put_item(out));
    }

    fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let mut items = Vec::new();
        while !cursor.is_empty() {
            if items.len() == MAX_ITEMS {
                return Err(cursor.error_here(name, Expected::AtMost(MAX_ITEMS as u64), MAX_ITEMS as u64 + 1));
            }
            items.push(T::get_item(cursor, name)?);
        }
        Ok(items)
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! number_fields {
    ($($ty:ident)*) => { $(
        impl Field for $ty {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
                cursor.array(name).map(|bytes| $ty::from_le_bytes(*bytes))
            }
        }
    )* };
}
number_fields!(u32 u64 i32);

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|value| value.put(out));
    }

    fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        T::get(cursor, name).map(Some)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl Field for [u8; 16] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        cursor.array(name).copied()
    }
}

/// A string of bytes: a path, a name, a register image.
impl Field for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        Ok(cursor.bytes(cursor.left() as u64, name)?.to_vec())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let start = *cursor;
        let bytes = cursor.bytes(cursor.left() as u64, name)?;
        match core::str::from_utf8(bytes) {
            Ok(text) => Ok(text.into()),
            Err(error) => {
                let found = bytes.get(error.valid_up_to()).copied().unwrap_or(0);
                Err(start.error_here(name, Expected::OneOf("UTF-8 text"), found.into()))
            }
        }
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// Strings that hold no zero byte, such as arguments: each is followed by one.
impl Item for Vec<u8> {
    fn put_item(&self, out: &mut Vec<u8>) {
        out.extend(self.iter().copied().filter(|byte| *byte != 0));
        out.push(0);
    }

    fn get_item(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let mut ahead = *cursor;
        let rest = ahead.bytes(cursor.left() as u64, name)?;
        let Some(len) = rest.iter().position(|byte| *byte == 0) else {
            return Err(ahead.error_here(name, Expected::OneOf("a zero byte behind the last string"), 0));
        };
        let bytes = cursor.bytes(len as u64, name)?.to_vec();
        cursor.bytes(1, name)?;
        Ok(bytes)
    }
}

impl Field for Time {
    fn put(&self, out: &mut Vec<u8>) {
        self.bbcount.put(out);
        self.pc.put(out);
    }

    fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        Ok(Time { bbcount: cursor.u64(name)?, pc: cursor.u64(name)? })
    }
}

impl Field for Registers {
    fn put(&self, out: &mut Vec<u8>) {
        let bytes: [u8; REGISTERS_BYTES] = encode_registers(self);
        out.extend_from_slice(&bytes);
    }

    fn get(cursor: &mut Cursor<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        decode_registers(cursor)
    }
}

impl Field for EndReason {
    fn put(&self, out: &mut Vec<u8>) {
        self.raw().put(out);
    }

    fn get(cursor: &mut Cursor<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let raw = cursor.u32(name)?;
        Self::from_raw(raw).ok_or_else(|| cursor.error_before(4, name, Expected::OneOf("an end reason (1 to 7)"), raw.into()))
    }
}

/// Appends one field.
pub(crate) fn put_field(tag: u16, value: &impl Field, out: &mut Vec<u8>) {
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    value.put(out);
    let len = out.len() - length_at - 4;
    // Records are bounded far below 4 GiB (`FileWriter` refuses longer ones).
    out[length_at..length_at + 4].copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    let padding = padded(len as u64).unwrap_or(len as u64) - len as u64;
    out.extend_from_slice(&[0; 8][..padding as usize]);
}

/// The tag at the cursor and its value.
pub(crate) fn next_field<'a>(cursor: &mut Cursor<'a>) -> Result<(u16, Cursor<'a>), DecodeError> {
    let tag = cursor.u16("tag")?;
    let reserved = cursor.u16("reserved")?;
    if reserved != 0 {
        return Err(cursor.error_before(2, "reserved", Expected::Exactly(0), reserved.into()));
    }
    let len = cursor.u32("field length")?;
    let offset = cursor.offset();
    let value = cursor.padded_bytes(len.into(), "field value")?;
    Ok((tag, Cursor::new(value, offset)))
}

/// Declares a record: its struct, and how it is written and read.
macro_rules! tagged_record {
    (
        $(#[$meta:meta])*
        pub struct $record:ident {
            $($(#[$fmeta:meta])* $need:ident $tag:literal $field:ident: $ty:ty = $default:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $record { $($(#[$fmeta])* pub $field: $ty,)* }

        impl Default for $record {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $record {
            /// Writes all fields.
            pub(crate) fn encode(&self) -> alloc::vec::Vec<u8> {
                let mut out = alloc::vec::Vec::new();
                $(
                    if $crate::tagged::tagged_record!(@is_required $need) || !$crate::tagged::Field::is_absent(&self.$field) {
                        $crate::tagged::put_field($tag, &self.$field, &mut out);
                    }
                )*
                out
            }

            /// Reads all fields that this version knows.
            pub(crate) fn decode(bytes: &[u8]) -> Result<Self, $crate::tagged::TagError> {
                let mut record = Self::default();
                let mut seen = 0u64;
                let mut cursor = $crate::wire::Cursor::new(bytes, 0);
                while !cursor.is_empty() {
                    let start = cursor;
                    let (tag, mut value) = $crate::tagged::next_field(&mut cursor)?;
                    match tag {
                        $($tag => {
                            if seen & (1 << $tag) != 0 {
                                let once = $crate::wire::Expected::OneOf(concat!("only one field ", stringify!($field)));
                                return Err(start.error_here("tag", once, tag.into()).into());
                            }
                            seen |= 1 << $tag;
                            record.$field = $crate::tagged::Field::get(&mut value, stringify!($field))?;
                            value.expect_end(stringify!($field))?;
                        })*
                        _ => {}
                    }
                }
                $($crate::tagged::tagged_record!(@$need seen $tag $field);)*
                Ok(record)
            }
        }
    };
    (@is_required required) => { true };
    (@is_required optional) => { false };
    (@required $seen:ident $tag:literal $field:ident) => {
        if $seen & (1 << $tag) == 0 {
            return Err($crate::tagged::TagError::Missing(stringify!($field)));
        }
    };
    (@optional $seen:ident $tag:literal $field:ident) => {};
}
pub(crate) use tagged_record;
