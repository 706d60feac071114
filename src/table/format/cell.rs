//! The bytes of attribute cells: what rows, deltas and directories are made of.
//!
//! Owns: the cell encoding and the variable-length integers in it; both are part of the format on disk. Promises: one
//! pass to write, no allocation to read, a cell is skipped without looking into its value; columns that are not in
//! order are damage; arbitrary bytes never panic. Must not: know what a row or a delta means.
//!
//! ```text
//! cell    = tag, [name length, name], [version - base], payload
//! tag     = kind (low 4 bits) | 10 same column as the cell before | 20 has its own version
//! kind    = 1 string  2 integer  3 double  4 false  5 true  6 binary  7 JSON      in deltas only: E delete one version  F delete all
//! payload = string, binary, JSON: length, bytes;  integer: zigzag number;  double: 8 bytes;  else nothing
//! ```
//! Lengths and numbers are in groups of 7 bits, the most significant first, all but the last with bit 80, as few as
//! possible.

use tideline_model::ValueRef;

use super::super::Malformed;

const KIND: u8 = 0x0f;
const SAME_COLUMN: u8 = 0x10;
const OWN_VERSION: u8 = 0x20;

const STRING: u8 = 1;
const INTEGER: u8 = 2;
const DOUBLE: u8 = 3;
const FALSE: u8 = 4;
const TRUE: u8 = 5;
const BINARY: u8 = 6;
const JSON: u8 = 7;
const DELETE_ONE: u8 = 0x0e;
const DELETE_ALL: u8 = 0x0f;

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Content<'a> {
    /// The version has this value.
    Put(ValueRef<'a>),
    /// The version is gone.
    DeleteOne,
    /// All versions of the column are gone; the cell's version means nothing.
    DeleteAll,
}

/// A cell as it is read.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RawCell<'a> {
    pub(in super::super) name: &'a str,
    pub(in super::super) version: i64,
    pub(in super::super) content: Content<'a>,
}

/// Appends a cell. `own_version` is the version less the base, `None` = the base itself.
pub(in super::super) fn push_cell(
    out: &mut Vec<u8>,
    name: Option<&str>,
    own_version: Option<u64>,
    content: Content<'_>,
) {
    let mut tag = kind_of(content);
    if name.is_none() {
        tag |= SAME_COLUMN;
    }
    if own_version.is_some() {
        tag |= OWN_VERSION;
    }
    out.push(tag);
    if let Some(name) = name {
        push_bytes(out, name.as_bytes());
    }
    if let Some(version) = own_version {
        push_number(out, version);
    }
    match content {
        Content::Put(ValueRef::String(text) | ValueRef::Json(text)) => {
            push_bytes(out, text.as_bytes());
        }
        Content::Put(ValueRef::Binary(bytes)) => push_bytes(out, bytes),
        Content::Put(ValueRef::Integer(number)) => push_number(out, zigzag(number)),
        Content::Put(ValueRef::Double(number)) => {
            out.extend_from_slice(&number.to_bits().to_be_bytes());
        }
        Content::Put(ValueRef::Boolean(_)) | Content::DeleteOne | Content::DeleteAll => {}
    }
}

/// Appends cells that were cut off in front, the first one with its column's name.
pub(in super::super) fn push_cut(
    out: &mut Vec<u8>,
    name: &str,
    cells: &[u8],
) -> Result<(), Malformed> {
    let (&tag, rest) = cells.split_first().ok_or(Malformed)?;
    out.push(tag & !SAME_COLUMN);
    if tag & SAME_COLUMN != 0 {
        push_bytes(out, name.as_bytes());
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn kind_of(content: Content<'_>) -> u8 {
    match content {
        Content::Put(ValueRef::String(_)) => STRING,
        Content::Put(ValueRef::Integer(_)) => INTEGER,
        Content::Put(ValueRef::Double(_)) => DOUBLE,
        Content::Put(ValueRef::Boolean(false)) => FALSE,
        Content::Put(ValueRef::Boolean(true)) => TRUE,
        Content::Put(ValueRef::Binary(_)) => BINARY,
        Content::Put(ValueRef::Json(_)) => JSON,
        Content::DeleteOne => DELETE_ONE,
        Content::DeleteAll => DELETE_ALL,
    }
}

/// Walks cells without copying.
#[derive(Clone)]
pub(in super::super) struct Cells<'a> {
    input: Input<'a>,
    base: i64,
    name: Option<&'a str>,
}

impl<'a> Cells<'a> {
    pub(in super::super) fn new(cells: &'a [u8], base: i64) -> Cells<'a> {
        Cells {
            input: Input(cells),
            base,
            name: None,
        }
    }

    /// Bytes that were not read yet.
    pub(in super::super) fn rest(&self) -> usize {
        self.input.0.len()
    }

    /// The next cell, or `None` at the end.
    pub(in super::super) fn next_cell(&mut self) -> Result<Option<RawCell<'a>>, Malformed> {
        let Some((&tag, rest)) = self.input.0.split_first() else {
            return Ok(None);
        };
        self.input.0 = rest;
        let name = if tag & SAME_COLUMN == 0 {
            let name = self.input.text()?;
            // The same again: what was picked of two stretches of a wide row may be of one column.
            if self.name.is_some_and(|before| before > name) {
                return Err(Malformed);
            }
            name
        } else {
            self.name.ok_or(Malformed)?
        };
        let after_base = if tag & OWN_VERSION == 0 {
            0
        } else {
            self.input.number()?
        };
        let version = self.base.checked_add_unsigned(after_base);
        let content = match tag & !(SAME_COLUMN | OWN_VERSION) {
            STRING => Content::Put(ValueRef::String(self.input.text()?)),
            INTEGER => Content::Put(ValueRef::Integer(unzigzag(self.input.number()?))),
            DOUBLE => {
                let (bits, rest) = self.input.0.split_first_chunk().ok_or(Malformed)?;
                self.input.0 = rest;
                Content::Put(ValueRef::Double(f64::from_bits(u64::from_be_bytes(*bits))))
            }
            FALSE => Content::Put(ValueRef::Boolean(false)),
            TRUE => Content::Put(ValueRef::Boolean(true)),
            BINARY => Content::Put(ValueRef::Binary(self.input.bytes()?)),
            JSON => Content::Put(ValueRef::Json(self.input.text()?)),
            DELETE_ONE => Content::DeleteOne,
            DELETE_ALL => Content::DeleteAll,
            _ => return Err(Malformed),
        };
        self.name = Some(name);
        Ok(Some(RawCell {
            name,
            version: version.ok_or(Malformed)?,
            content,
        }))
    }

    /// Skips cells up to the first of the column `name`, without looking into their values; the cells come in the order
    /// of their names. `None` = no such column.
    pub(in super::super) fn seek(&mut self, name: &str) -> Result<Option<RawCell<'a>>, Malformed> {
        loop {
            let before = self.clone();
            let Some((&tag, rest)) = self.input.0.split_first() else {
                return Ok(None);
            };
            self.input.0 = rest;
            if tag & SAME_COLUMN == 0 {
                let bytes = self.input.bytes()?;
                match bytes.cmp(name.as_bytes()) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => {
                        *self = before;
                        return self.next_cell();
                    }
                    std::cmp::Ordering::Greater => {
                        *self = before;
                        return Ok(None);
                    }
                }
            }
            if tag & OWN_VERSION != 0 {
                self.input.number()?;
            }
            self.input.skip_payload(tag & KIND)?;
        }
    }
}

/// Bytes that are taken from the front.
#[derive(Clone)]
pub(in super::super) struct Input<'a>(pub(in super::super) &'a [u8]);

impl<'a> Input<'a> {
    pub(in super::super) fn number(&mut self) -> Result<u64, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        if first == 0x80 {
            return Err(Malformed); // a leading group of zeros: not the shortest form
        }
        let mut number = u64::from(first & 0x7f);
        loop {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            if number >> 57 != 0 {
                return Err(Malformed);
            }
            number = number << 7 | u64::from(byte & 0x7f);
            if byte < 0x80 {
                return Ok(number);
            }
        }
    }

    pub(in super::super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(in super::super) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    fn skip_payload(&mut self, kind: u8) -> Result<(), Malformed> {
        match kind {
            STRING | BINARY | JSON => self.bytes().map(|_| ()),
            INTEGER => self.number().map(|_| ()),
            DOUBLE => {
                self.0 = self.0.get(8..).ok_or(Malformed)?;
                Ok(())
            }
            FALSE | TRUE | DELETE_ONE | DELETE_ALL => Ok(()),
            _ => Err(Malformed),
        }
    }
}

/// Appends a number in 7-bit groups.
pub(in super::super) fn push_number(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        return out.push(number as u8);
    }
    let groups = (64 - number.leading_zeros()).div_ceil(7);
    for group in (1..groups).rev() {
        out.push((number >> (7 * group)) as u8 | 0x80);
    }
    out.push(number as u8 & 0x7f);
}

/// Appends a length and bytes.
pub(in super::super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_have_one_form(number: u64, bits in 0u32..64, bytes in any::<[u8; 11]>()) {
            for number in [number, number >> bits] {
                let mut out = Vec::new();
                push_number(&mut out, number);
                let mut input = Input(&out);
                prop_assert_eq!(input.number(), Ok(number));
                prop_assert!(input.0.is_empty());
            }
            let mut input = Input(&bytes);
            if let Ok(number) = input.number() {
                let mut out = Vec::new();
                push_number(&mut out, number);
                prop_assert_eq!(&bytes[..bytes.len() - input.0.len()], &out[..]);
            }
        }

        #[test]
        fn zigzag_comes_back(number: i64) {
            prop_assert_eq!(unzigzag(zigzag(number)), number);
        }
    }
}
