//! Order-preserving key encoding: typed columns to bytes whose bytewise order is the order of the values.
//!
//! Owns: the bytes of a key column; they are part of the format on disk. Promises: every encoded column ends itself, so
//! that columns follow each other and compare column by column; strings and binaries order bytewise (shorter first),
//! integers signed; each value has exactly one encoding, and decoding accepts no other; arbitrary bytes never panic.
//! INF_MIN sorts below and INF_MAX above everything in their column: they are bounds of ranges, never part of a row's
//! key. Must not: know tables.
//!
//! ```text
//! column  = INF_MIN | integer | string | binary | INF_MAX
//! INF_MIN = 02          INF_MAX = F0
//! integer = 20+n, then the n low bytes of the value, n minimal (0 has n = 0); negative: 20-n, then those of value - 1
//! string  = 30, then the bytes with 00 as 00 FF, then 00 01
//! binary  = 31, then the same
//! ```

use std::borrow::Cow;
use std::num::TryFromIntError;

const INF_MIN: u8 = 0x02;
const INTEGER_ZERO: u8 = 0x20;
const STRING: u8 = 0x30;
const BINARY: u8 = 0x31;
const INF_MAX: u8 = 0xf0;

const ESCAPE: u8 = 0x00;
const ESCAPED_NUL: u8 = 0xff;
const END: u8 = 0x01;

/// One decoded column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column<'a> {
    /// Below every value.
    InfMin,
    /// A signed integer.
    Integer(i64),
    /// UTF-8 text.
    String(Cow<'a, str>),
    /// Bytes.
    Binary(Cow<'a, [u8]>),
    /// Above every value.
    InfMax,
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A number that its place does not hold.
impl From<TryFromIntError> for Malformed {
    fn from(_: TryFromIntError) -> Malformed {
        Malformed
    }
}

/// Appends the bound below every value.
pub fn push_inf_min(out: &mut Vec<u8>) {
    out.push(INF_MIN);
}

/// Appends the bound above every value.
pub fn push_inf_max(out: &mut Vec<u8>) {
    out.push(INF_MAX);
}

/// Appends a signed integer.
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    if value >= 0 {
        return push_u64(out, value.unsigned_abs());
    }
    // value - 1 in n bytes: among equal n the order is that of the unsigned bytes, and more bytes mean a smaller
    // number.
    let magnitude = value.unsigned_abs();
    let length = significant(magnitude);
    out.push(INTEGER_ZERO - length);
    let low = (!magnitude).to_be_bytes();
    out.extend_from_slice(&low[8 - usize::from(length)..]);
}

/// Appends an unsigned integer, a sequence for example; orders with the signed ones.
pub fn push_u64(out: &mut Vec<u8>, value: u64) {
    let length = significant(value);
    out.push(INTEGER_ZERO + length);
    out.extend_from_slice(&value.to_be_bytes()[8 - usize::from(length)..]);
}

/// Appends a text.
pub fn push_string(out: &mut Vec<u8>, value: &str) {
    out.push(STRING);
    push_escaped(out, value.as_bytes());
}

/// Appends the bound below every text from these bytes on; it is no column.
pub fn push_text_from(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(STRING);
    push_escaped(out, bytes);
    out.truncate(out.len() - 2);
}

/// Appends bytes.
pub fn push_binary(out: &mut Vec<u8>, value: &[u8]) {
    out.push(BINARY);
    push_escaped(out, value);
}

/// How many bytes a text or binary of `length` without NULs takes.
#[must_use]
pub const fn text_bytes(length: usize) -> usize {
    length + 3
}

/// The most bytes that an integer takes.
pub const INTEGER_BYTES_MAX: usize = 9;

fn significant(value: u64) -> u8 {
    let bytes = (64 - value.leading_zeros()).div_ceil(8);
    u8::try_from(bytes).expect("a u64 has at most eight bytes")
}

fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut rest = bytes;
    // Nearly no text has any, and to see that is quicker than to look for the place.
    while rest.contains(&ESCAPE)
        && let Some(nul) = rest.iter().position(|&byte| byte == ESCAPE)
    {
        out.extend_from_slice(&rest[..nul]);
        out.extend_from_slice(&[ESCAPE, ESCAPED_NUL]);
        rest = &rest[nul + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[ESCAPE, END]);
}

/// Reads encoded columns one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the first of `bytes` on.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What was not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next column, whatever its type.
    pub fn column(&mut self) -> Result<Column<'a>, Malformed> {
        let column = match *self.rest.first().ok_or(Malformed)? {
            INF_MIN => self.bound(Column::InfMin),
            INF_MAX => self.bound(Column::InfMax),
            STRING => Column::String(self.string()?),
            BINARY => Column::Binary(self.binary()?),
            _ => Column::Integer(self.i64()?),
        };
        Ok(column)
    }

    /// The next column, a signed integer.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        let tag = *self.rest.first().ok_or(Malformed)?;
        if tag >= INTEGER_ZERO {
            return Ok(i64::try_from(self.u64()?)?);
        }
        let length = INTEGER_ZERO - tag;
        let magnitude = !self.integer(length, u64::MAX)?;
        if significant(magnitude) != length || magnitude > i64::MIN.unsigned_abs() {
            return Err(Malformed);
        }
        Ok(0i64.wrapping_sub_unsigned(magnitude))
    }

    /// The next column, an integer that is not negative.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        let tag = *self.rest.first().ok_or(Malformed)?;
        let length = tag.checked_sub(INTEGER_ZERO).ok_or(Malformed)?;
        let value = self.integer(length, 0)?;
        if significant(value) == length {
            Ok(value)
        } else {
            Err(Malformed)
        }
    }

    /// The next column, a text.
    pub fn string(&mut self) -> Result<Cow<'a, str>, Malformed> {
        match self.escaped(STRING)? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).ok(),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).ok(),
        }
        .ok_or(Malformed)
    }

    /// The next column, bytes.
    pub fn binary(&mut self) -> Result<Cow<'a, [u8]>, Malformed> {
        self.escaped(BINARY)
    }

    /// Skips a column without decoding it; returns its bytes. It finds no more than the column's length: what it skips
    /// may still be malformed inside.
    pub fn skip(&mut self) -> Result<&'a [u8], Malformed> {
        let whole = self.rest;
        let length = match *whole.first().ok_or(Malformed)? {
            INF_MIN | INF_MAX => 1,
            STRING | BINARY => 1 + end_of_text(&whole[1..])? + 2,
            tag if tag.abs_diff(INTEGER_ZERO) <= 8 => 1 + usize::from(tag.abs_diff(INTEGER_ZERO)),
            _ => return Err(Malformed),
        };
        let (column, rest) = whole.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(column)
    }

    fn bound(&mut self, bound: Column<'a>) -> Column<'a> {
        self.rest = &self.rest[1..];
        bound
    }

    /// The bytes of an integer, with `above` for the bytes that are not there.
    fn integer(&mut self, length: u8, above: u64) -> Result<u64, Malformed> {
        let length = usize::from(length);
        let mut bytes = above.to_be_bytes();
        let low = self.rest.get(1..=length).ok_or(Malformed)?;
        let place = 8usize.checked_sub(length).ok_or(Malformed)?;
        bytes[place..].copy_from_slice(low);
        self.rest = &self.rest[1 + length..];
        Ok(u64::from_be_bytes(bytes))
    }

    fn escaped(&mut self, tag: u8) -> Result<Cow<'a, [u8]>, Malformed> {
        let (&first, body) = self.rest.split_first().ok_or(Malformed)?;
        if first != tag {
            return Err(Malformed);
        }
        let end = end_of_text(body)?;
        self.rest = &body[end + 2..];
        let escaped = &body[..end];
        if !escaped.contains(&ESCAPE) {
            return Ok(Cow::Borrowed(escaped));
        }
        let mut bytes = Vec::with_capacity(escaped.len());
        let mut rest = escaped;
        while let Some(nul) = rest.iter().position(|&byte| byte == ESCAPE) {
            bytes.extend_from_slice(&rest[..=nul]);
            rest = &rest[nul + 2..];
        }
        bytes.extend_from_slice(rest);
        Ok(Cow::Owned(bytes))
    }
}

/// Where the terminator of an escaped text begins.
fn end_of_text(body: &[u8]) -> Result<usize, Malformed> {
    let mut at = 0;
    loop {
        at += body[at..]
            .iter()
            .position(|&byte| byte == ESCAPE)
            .ok_or(Malformed)?;
        match body.get(at + 1) {
            Some(&END) => return Ok(at),
            Some(&ESCAPED_NUL) => at += 2,
            _ => return Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Appends a column of any kind.
    fn push(out: &mut Vec<u8>, column: &Column<'_>) {
        match column {
            Column::InfMin => push_inf_min(out),
            Column::Integer(value) => push_i64(out, *value),
            Column::String(value) => push_string(out, value),
            Column::Binary(value) => push_binary(out, value),
            Column::InfMax => push_inf_max(out),
        }
    }

    /// A column in the model's order: the derived one of this enum.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Typed<T> {
        Min,
        Of(T),
        Max,
    }

    type Row = (Typed<String>, Typed<i64>, Typed<Vec<u8>>);

    fn typed<T: std::fmt::Debug + Clone + 'static>(
        value: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = Typed<T>> {
        prop_oneof![
            1 => Just(Typed::Min),
            8 => value.prop_map(Typed::Of),
            1 => Just(Typed::Max),
        ]
    }

    fn integers() -> impl Strategy<Value = i64> {
        let near = (0u32..64, -2i64..=2, any::<bool>()).prop_map(|(bit, by, negative)| {
            let power = (1i64 << bit).wrapping_add(by);
            if negative {
                power.wrapping_neg()
            } else {
                power
            }
        });
        prop_oneof![any::<i64>(), near, -3i64..3]
    }

    fn rows() -> impl Strategy<Value = Row> {
        let text = prop_oneof![any::<String>(), "[\0\u{1}ab\u{ff}]{0,4}"];
        let bytes = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..6),
            proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255)], 0..5),
        ];
        (typed(text), typed(integers()), typed(bytes))
    }

    fn encode(row: &Row) -> Vec<u8> {
        let mut out = Vec::new();
        match &row.0 {
            Typed::Min => push_inf_min(&mut out),
            Typed::Of(text) => push_string(&mut out, text),
            Typed::Max => push_inf_max(&mut out),
        }
        match &row.1 {
            Typed::Min => push_inf_min(&mut out),
            Typed::Of(number) => push_i64(&mut out, *number),
            Typed::Max => push_inf_max(&mut out),
        }
        match &row.2 {
            Typed::Min => push_inf_min(&mut out),
            Typed::Of(bytes) => push_binary(&mut out, bytes),
            Typed::Max => push_inf_max(&mut out),
        }
        out
    }

    proptest! {
        #[test]
        fn bytes_order_as_the_values_do(a in rows(), b in rows()) {
            prop_assert_eq!(encode(&a).cmp(&encode(&b)), a.cmp(&b));
        }

        #[test]
        fn columns_come_back(row in rows()) {
            let bytes = encode(&row);
            let (mut reader, mut skipper) = (Reader::new(&bytes), Reader::new(&bytes));
            let mut again = Vec::new();
            for _ in 0..3 {
                let column = reader.column().unwrap();
                let start = again.len();
                push(&mut again, &column);
                prop_assert_eq!(skipper.skip().unwrap(), &again[start..]);
            }
            prop_assert!(reader.rest().is_empty() && skipper.rest().is_empty());
            prop_assert_eq!(again, bytes);
        }

        #[test]
        fn unsigned_integers_order_and_come_back(a: u64, b in 0u64..100_000, c in integers()) {
            for (a, b) in [(a, b), (a, a / 2), (b, b / 3)] {
                let (mut left, mut right) = (Vec::new(), Vec::new());
                push_u64(&mut left, a);
                push_u64(&mut right, b);
                prop_assert_eq!(left.cmp(&right), a.cmp(&b));
                prop_assert_eq!(Reader::new(&left).u64(), Ok(a));
                prop_assert_eq!(Reader::new(&left).i64().ok(), i64::try_from(a).ok());
                let mut signed = Vec::new();
                push_i64(&mut signed, c);
                prop_assert_eq!(signed.cmp(&left), i128::from(c).cmp(&i128::from(a)));
            }
        }

        #[test]
        fn arbitrary_bytes_decode_to_one_form_or_not_at_all(
            bytes in proptest::collection::vec(any::<u8>(), 0..24),
            tag in prop_oneof![0x17u8..0x2a, 0x2fu8..0x33, any::<u8>()],
            zeros in 0usize..4,
        ) {
            let mut input = vec![tag];
            input.extend(std::iter::repeat_n(if tag < 0x20 { 0xff } else { 0 }, zeros));
            input.extend(bytes);
            let mut reader = Reader::new(&input);
            while let Ok(column) = reader.column() {
                let mut again = Vec::new();
                push(&mut again, &column);
                let read = input.len() - reader.rest().len();
                prop_assert_eq!(&input[read - again.len()..read], &again[..]);
            }
            let mut skipper = Reader::new(&input);
            while skipper.skip().is_ok() {}
            let _ = (Reader::new(&input).u64(), Reader::new(&input).i64());
            let _ = (Reader::new(&input).string(), Reader::new(&input).binary());
        }
    }

    #[test]
    fn the_bytes_are_the_documented_ones() {
        let mut out = Vec::new();
        push_i64(&mut out, 0);
        push_i64(&mut out, 255);
        push_i64(&mut out, -1);
        push_i64(&mut out, -256);
        push_i64(&mut out, i64::MIN);
        push_string(&mut out, "");
        push_binary(&mut out, b"a\0");
        let expected = [
            &[0x20, 0x21, 0xff, 0x1f, 0xfe, 0x1e, 0xfe, 0xff, 0x18][..],
            &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 0x00, 0x01, 0x31, b'a', 0x00, 0xff, 0x00, 0x01],
        ]
        .concat();
        assert_eq!(out, expected);
    }
}
