//! The reader of MessagePack: one head after the other.
//!
//! Owns: MessagePack's markers. Promises: reads nothing that is not there, allocates nothing whatever lengths are
//! claimed, never recurses. Must not: know what the values are for.

use crate::wire::failure::Failure;
use crate::wire::reason::Reason;

/// Not MessagePack.
#[derive(Debug)]
pub(super) struct Malformed(pub(super) &'static str);

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Failure {
        Failure::new(Reason::ParseError).saying(malformed.0)
    }
}

/// One value's first bytes: a whole scalar, or the length of what follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Head<'a> {
    Nil,
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Double(f64),
    Text(&'a [u8]),
    Binary(&'a [u8]),
    Extension,
    Array(u32),
    Map(u32),
}

/// Reads values from the front of some bytes.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Malformed("cut short"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("as many as were asked for"))
    }

    fn length<const N: usize>(&mut self) -> Result<usize, Malformed> {
        let bytes = self.bytes::<N>()?;
        Ok(bytes
            .iter()
            .fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn extension(&mut self, length: usize) -> Result<Head<'a>, Malformed> {
        self.take(length + 1).map(|_| Head::Extension)
    }

    /// The next value, or the header of the next array or map.
    pub(super) fn head(&mut self) -> Result<Head<'a>, Malformed> {
        let [marker] = self.bytes()?;
        Ok(match marker {
            0x00..=0x7f => Head::Integer(i64::from(marker)),
            0x80..=0x8f => Head::Map(u32::from(marker & 0x0f)),
            0x90..=0x9f => Head::Array(u32::from(marker & 0x0f)),
            0xa0..=0xbf => Head::Text(self.take(usize::from(marker & 0x1f))?),
            0xc0 => Head::Nil,
            0xc1 => return Err(Malformed("the byte 0xc1 is never used")),
            0xc2 | 0xc3 => Head::Boolean(marker == 0xc3),
            0xc4 => self
                .length::<1>()
                .and_then(|length| self.take(length))
                .map(Head::Binary)?,
            0xc5 => self
                .length::<2>()
                .and_then(|length| self.take(length))
                .map(Head::Binary)?,
            0xc6 => self
                .length::<4>()
                .and_then(|length| self.take(length))
                .map(Head::Binary)?,
            0xc7 => self
                .length::<1>()
                .and_then(|length| self.extension(length))?,
            0xc8 => self
                .length::<2>()
                .and_then(|length| self.extension(length))?,
            0xc9 => self
                .length::<4>()
                .and_then(|length| self.extension(length))?,
            0xca => Head::Double(f64::from(f32::from_be_bytes(self.bytes()?))),
            0xcb => Head::Double(f64::from_be_bytes(self.bytes()?)),
            0xcc => Head::Integer(i64::from(u8::from_be_bytes(self.bytes()?))),
            0xcd => Head::Integer(i64::from(u16::from_be_bytes(self.bytes()?))),
            0xce => Head::Integer(i64::from(u32::from_be_bytes(self.bytes()?))),
            0xcf => {
                let number = u64::from_be_bytes(self.bytes()?);
                i64::try_from(number).map_or(Head::Unsigned(number), Head::Integer)
            }
            0xd0 => Head::Integer(i64::from(i8::from_be_bytes(self.bytes()?))),
            0xd1 => Head::Integer(i64::from(i16::from_be_bytes(self.bytes()?))),
            0xd2 => Head::Integer(i64::from(i32::from_be_bytes(self.bytes()?))),
            0xd3 => Head::Integer(i64::from_be_bytes(self.bytes()?)),
            0xd4..=0xd8 => self.extension(1 << (marker - 0xd4))?,
            0xd9 => self
                .length::<1>()
                .and_then(|length| self.take(length))
                .map(Head::Text)?,
            0xda => self
                .length::<2>()
                .and_then(|length| self.take(length))
                .map(Head::Text)?,
            0xdb => self
                .length::<4>()
                .and_then(|length| self.take(length))
                .map(Head::Text)?,
            0xdc => Head::Array(u32::from(u16::from_be_bytes(self.bytes()?))),
            0xdd => Head::Array(u32::from_be_bytes(self.bytes()?)),
            0xde => Head::Map(u32::from(u16::from_be_bytes(self.bytes()?))),
            0xdf => Head::Map(u32::from_be_bytes(self.bytes()?)),
            0xe0..=0xff => Head::Integer(i64::from(marker as i8)),
        })
    }

    /// Passes over one value of any depth, without recursion.
    pub(super) fn skip(&mut self) -> Result<(), Malformed> {
        let mut left: u64 = 1;
        while left > 0 {
            left -= 1;
            // Each item takes a byte at least, so what is claimed and not there ends this soon.
            match self.head()? {
                Head::Array(items) => left += u64::from(items),
                Head::Map(pairs) => left += 2 * u64::from(pairs),
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes over one value and returns its bytes.
    pub(super) fn value(&mut self) -> Result<&'a [u8], Malformed> {
        let before = self.rest;
        self.skip()?;
        Ok(&before[..before.len() - self.rest.len()])
    }
}
