//! Reading little-endian numbers and lengths from a buffer whose sender is not trusted.
//!
//! Owns: the place in the buffer. Promises: nothing is read beyond the end, and what is taken is a slice of the buffer,
//! so that a length claimed but not there costs nothing. Must not: know rows.

#![allow(clippy::little_endian_bytes)] // the format is not ours

use bytes::{Buf as _, Bytes};

use super::Error;

/// What is left of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    rest: Bytes,
}

impl Cursor {
    pub(super) fn new(rest: Bytes) -> Cursor {
        Cursor { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether nothing but zeros is left.
    pub(super) fn is_padding(&self) -> bool {
        self.rest.iter().all(|byte| *byte == 0)
    }

    /// The next byte, which stays.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Takes the next byte if it is this one.
    pub(super) fn skip(&mut self, tag: u8) -> bool {
        let there = self.peek() == Some(tag);
        if there {
            self.rest.advance(1);
        }
        there
    }

    /// Takes the next byte, which has to be this one.
    pub(super) fn expect(&mut self, tag: u8) -> Result<(), Error> {
        match self.skip(tag) {
            true => Ok(()),
            false => Err(Error::Malformed),
        }
    }

    /// The next `length` bytes.
    pub(super) fn take(&mut self, length: usize) -> Result<Bytes, Error> {
        if length > self.rest.len() {
            return Err(Error::Truncated);
        }
        Ok(self.rest.split_to(length))
    }

    /// An `i32` length and as many bytes.
    pub(super) fn take_counted(&mut self) -> Result<Bytes, Error> {
        let length = usize::try_from(self.i32()?).map_err(|_| Error::Malformed)?;
        self.take(length)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = *self.rest.first_chunk().ok_or(Error::Truncated)?;
        self.rest.advance(N);
        Ok(bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Error> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn f64(&mut self) -> Result<f64, Error> {
        self.array().map(f64::from_le_bytes)
    }
}
