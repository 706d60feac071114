//! Lengths and counts: groups of 7 bits, the lowest first, all but the last with bit 80.
//!
//! Owns: these bytes. Promises: reading them never panics. Must not: know what they count.

use bytes::BufMut;

/// Bytes that one takes at most.
pub(crate) const VARINT_BYTES_MAX: usize = 5;

/// Reads a varint and passes it; `None` if there is none.
#[inline]
pub(crate) fn varint_at(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(value).ok();
        }
    }
    None
}

pub(crate) fn varint_bytes(value: usize) -> usize {
    let bits = (usize::BITS - value.leading_zeros()).max(1) as usize;
    bits.div_ceil(7)
}

pub(crate) fn put_varint(out: &mut impl BufMut, mut value: usize) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}
