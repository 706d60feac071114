//! The 8-bit checksums of PlainBuffer: CRC with polynomial 0x07, beginning at 0, nothing reflected or inverted.
//!
//! Owns: what a cell's and a row's checksum cover. Promises: the decoder and the encoder count with the same code. Must
//! not: read or write buffers.

/// The table of a byte, and of a byte with one to seven zero bytes behind it: eight bytes at a time then need no result
/// of each other, where one at a time each waits for the one before.
const TABLES: [[u8; 256]; 8] = tables();

const fn tables() -> [[u8; 256]; 8] {
    let mut tables = [[0u8; 256]; 8];
    let mut index = 0;
    while index < 256 {
        // The index is below 256, so nothing is cut.
        #[allow(clippy::cast_possible_truncation)]
        let mut rest = index as u8;
        let mut bit = 0;
        while bit < 8 {
            rest = (rest << 1) ^ (if rest & 0x80 == 0 { 0 } else { 0x07 });
            bit += 1;
        }
        tables[0][index] = rest;
        index += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        let mut index = 0;
        while index < 256 {
            tables[behind][index] = tables[0][tables[behind - 1][index] as usize];
            index += 1;
        }
        behind += 1;
    }
    tables
}

/// A checksum under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checksum(u8);

impl Checksum {
    /// With more bytes.
    #[must_use]
    pub(super) fn with(self, bytes: &[u8]) -> Checksum {
        let at = |behind: usize, byte: u8| TABLES[behind][usize::from(byte)];
        let (eights, rest) = bytes.as_chunks();
        let eight = |sum: u8, [a, b, c, d, e, f, g, h]: &[u8; 8]| {
            let first = at(7, sum ^ a) ^ at(6, *b) ^ at(5, *c) ^ at(4, *d);
            first ^ at(3, *e) ^ at(2, *f) ^ at(1, *g) ^ at(0, *h)
        };
        let sum = eights.iter().fold(self.0, eight);
        Checksum(rest.iter().fold(sum, |sum, byte| at(0, sum ^ byte)))
    }

    /// The checksum of what was added.
    pub(super) fn value(self) -> u8 {
        self.0
    }

    /// A cell's: name, variant (without the length before it), timestamp, operation. On the wire the operation comes
    /// before the timestamp, here after it.
    pub(super) fn of_cell(
        name: &[u8],
        variant: Option<&[u8]>,
        timestamp: Option<[u8; 8]>,
        operation: Option<u8>,
    ) -> u8 {
        let mut sum = Checksum::default().with(name);
        if let Some(variant) = variant {
            sum = sum.with(variant);
        }
        if let Some(timestamp) = timestamp {
            sum = sum.with(&timestamp);
        }
        if let Some(operation) = operation {
            sum = sum.with(&[operation]);
        }
        sum.value()
    }

    /// A row's, given that of its cells' checksums.
    pub(super) fn of_row(self, delete_marker: bool) -> u8 {
        self.with(&[u8::from(delete_marker)]).value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_check_value() {
        assert_eq!(Checksum::default().with(b"123456789").value(), 0xf4);
    }

    #[test]
    fn eight_at_a_time_is_one_at_a_time() {
        let bytes: Vec<u8> = (0..60_u8).map(|index| index.wrapping_mul(167)).collect();
        for begin in 0..20 {
            for end in begin..bytes.len() {
                let bytes = &bytes[begin..end];
                let alone = |sum: Checksum, byte: &u8| sum.with(&[*byte]);
                let slow = bytes.iter().fold(Checksum(0x5a), alone);
                assert_eq!(Checksum(0x5a).with(bytes).value(), slow.value());
            }
        }
    }
}
