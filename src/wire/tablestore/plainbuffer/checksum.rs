//! The 8-bit checksums of PlainBuffer: CRC with polynomial 0x07, beginning at 0, nothing reflected or inverted.
//!
//! Owns: what a cell's and a row's checksum cover. Promises: the decoder and the encoder count with the same code. Must
//! not: read or write buffers.

const TABLE: [u8; 256] = table();

const fn table() -> [u8; 256] {
    let mut table = [0u8; 256];
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
        table[index] = rest;
        index += 1;
    }
    table
}

/// A checksum under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checksum(u8);

impl Checksum {
    /// With more bytes.
    #[must_use]
    pub(super) fn with(self, bytes: &[u8]) -> Checksum {
        let next = |sum: u8, byte: &u8| TABLE[usize::from(sum ^ byte)];
        Checksum(bytes.iter().fold(self.0, next))
    }

    /// The checksum of what was added.
    pub(super) fn value(self) -> u8 {
        self.0
    }

    /// A cell's: name, variant (without the length before it), timestamp, operation. On the wire the operation stands
    /// before the timestamp; here it comes after.
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
}
