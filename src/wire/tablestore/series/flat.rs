//! A reader of FlatBuffers.
//!
//! Owns: tables, slots and vectors of such a buffer. Promises: any bytes give values or a refusal, without `unsafe`;
//! nothing is read outside of the buffer. Parts of a buffer may lie in several places of it, so what is read out is
//! bounded by the callers. Must not: know a schema.

#![allow(clippy::little_endian_bytes)] // the format is not ours

use super::super::failure::Failure;

/// Why it can't be read.
fn broken() -> Failure {
    Failure::invalid("Cannot deserialize the rows data.")
}

/// A table in a buffer.
#[derive(Clone, Copy)]
pub(super) struct Table<'b> {
    buffer: &'b [u8],
    at: usize,
}

/// A vector in a buffer.
#[derive(Clone, Copy)]
pub(super) struct Vector<'b> {
    buffer: &'b [u8],
    at: usize,
    len: usize,
}

fn bytes<const N: usize>(buffer: &[u8], at: usize) -> Result<[u8; N], Failure> {
    let end = at.checked_add(N).ok_or_else(broken)?;
    let read = buffer.get(at..end).and_then(|read| read.try_into().ok());
    read.ok_or_else(broken)
}

/// The place that an offset at `at` points to.
fn pointed(buffer: &[u8], at: usize) -> Result<usize, Failure> {
    let offset = u32::from_le_bytes(bytes(buffer, at)?);
    let to = usize::try_from(offset)
        .ok()
        .and_then(|offset| at.checked_add(offset));
    to.filter(|to| *to < buffer.len()).ok_or_else(broken)
}

impl<'b> Table<'b> {
    /// The table that a buffer begins with.
    pub(super) fn root(buffer: &'b [u8]) -> Result<Table<'b>, Failure> {
        let at = pointed(buffer, 0)?;
        Ok(Table { buffer, at })
    }

    /// Where the value of a slot lies; `None` = it is not there.
    fn slot(&self, slot: usize) -> Result<Option<usize>, Failure> {
        let back = i64::from(i32::from_le_bytes(bytes(self.buffer, self.at)?));
        let slots = i64::try_from(self.at).unwrap_or(i64::MAX) - back;
        let slots = usize::try_from(slots).map_err(|_| broken())?;
        let len = usize::from(u16::from_le_bytes(bytes(self.buffer, slots)?));
        let at = 4 + 2 * slot;
        if at + 2 > len {
            return Ok(None);
        }
        match usize::from(u16::from_le_bytes(bytes(self.buffer, slots + at)?)) {
            0 => Ok(None),
            offset => Ok(Some(self.at + offset)),
        }
    }

    pub(super) fn i64(&self, slot: usize) -> Result<i64, Failure> {
        match self.slot(slot)? {
            Some(at) => Ok(i64::from_le_bytes(bytes(self.buffer, at)?)),
            None => Ok(0),
        }
    }

    pub(super) fn table(&self, slot: usize) -> Result<Option<Table<'b>>, Failure> {
        let buffer = self.buffer;
        let table = |at| {
            Ok(Table {
                buffer,
                at: pointed(buffer, at)?,
            })
        };
        self.slot(slot)?.map(table).transpose()
    }

    /// A text; one that is not there is empty.
    pub(super) fn text(&self, slot: usize) -> Result<&'b str, Failure> {
        match self.slot(slot)? {
            Some(at) => text(self.buffer, at),
            None => Ok(""),
        }
    }

    /// A vector whose items take so many bytes; one that is not there is empty.
    pub(super) fn vector(&self, slot: usize, item_bytes: usize) -> Result<Vector<'b>, Failure> {
        match self.slot(slot)? {
            Some(at) => Vector::at(self.buffer, at, item_bytes),
            None => Ok(Vector {
                buffer: self.buffer,
                at: 0,
                len: 0,
            }),
        }
    }
}

/// What an offset points to: a text.
fn text(buffer: &[u8], at: usize) -> Result<&str, Failure> {
    let text = Vector::at(buffer, at, 1)?.bytes();
    std::str::from_utf8(text).map_err(|_| broken())
}

impl<'b> Vector<'b> {
    fn at(buffer: &'b [u8], at: usize, item_bytes: usize) -> Result<Vector<'b>, Failure> {
        let at = pointed(buffer, at)?;
        let len = u32::from_le_bytes(bytes(buffer, at)?);
        let len = usize::try_from(len).map_err(|_| broken())?;
        let at = at + 4;
        let end = len
            .checked_mul(item_bytes)
            .and_then(|all| at.checked_add(all));
        match end.is_some_and(|end| end <= buffer.len()) {
            true => Ok(Vector { buffer, at, len }),
            false => Err(broken()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All of a vector of bytes.
    pub(super) fn bytes(&self) -> &'b [u8] {
        &self.buffer[self.at..self.at + self.len]
    }

    /// Where an item lies.
    fn item(&self, index: usize, item_bytes: usize) -> Result<usize, Failure> {
        match index < self.len {
            true => Ok(self.at + index * item_bytes),
            false => Err(broken()),
        }
    }

    pub(super) fn table(&self, index: usize) -> Result<Table<'b>, Failure> {
        let at = pointed(self.buffer, self.item(index, 4)?)?;
        Ok(Table {
            buffer: self.buffer,
            at,
        })
    }

    pub(super) fn text(&self, index: usize) -> Result<&'b str, Failure> {
        text(self.buffer, self.item(index, 4)?)
    }

    pub(super) fn u8(&self, index: usize) -> Result<u8, Failure> {
        let [byte] = bytes(self.buffer, self.item(index, 1)?)?;
        Ok(byte)
    }

    /// Eight bytes: an integer or a double.
    pub(super) fn word(&self, index: usize) -> Result<[u8; 8], Failure> {
        bytes(self.buffer, self.item(index, 8)?)
    }
}
