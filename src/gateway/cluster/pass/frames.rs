//! Where the frames of a WebSocket begin and end, as its server sends them.
//!
//! Owns: reading their heads (RFC 6455, 5.2). Promises: memory of a head's size, however the bytes come; it says that a
//! frame may be put in only where one ends. Must not: look at what is in a frame.

use tideline_wire::centrifuge::Disconnect;

/// See the file's opening.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEAD_BYTES_MAX],
    /// Bytes of the head that have come.
    has: usize,
    /// Bytes of the frame's rest that are to come.
    left: u64,
    /// The server has closed.
    is_closed: bool,
}

impl Frames {
    /// Bytes that were sent on.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while let Some(&byte) = bytes.first() {
            if self.left > 0 {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX);
                let here = here.min(bytes.len());
                bytes = &bytes[here..];
                self.left -= here as u64;
                continue;
            }
            self.head[self.has] = byte;
            self.has += 1;
            bytes = &bytes[1..];
            if let Some(left) = self.rest() {
                self.is_closed |= self.head[0] & OPCODE == CLOSE;
                (self.has, self.left) = (0, left);
            }
        }
    }

    /// Whether the server's goodbye may be put in here.
    pub(super) fn is_open(&self) -> bool {
        self.has == 0 && self.left == 0 && !self.is_closed
    }

    /// How much follows the head; `None` = it is not whole.
    fn rest(&self) -> Option<u64> {
        let head = self.head.get(..self.has)?;
        let (&[_, second], behind) = head.split_first_chunk::<2>()?;
        let (bytes, length) = match second & LENGTH {
            126 => (2, None),
            127 => (8, None),
            length => (0, Some(u64::from(length))),
        };
        // A server masks nothing; its clients end a connection where it does.
        let masked = if second & MASKED == 0 { 0 } else { 4 };
        let written = behind.get(..bytes)?;
        let number = |all: &[u8]| all.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let length = length.unwrap_or_else(|| number(written));
        (behind.len() == bytes).then(|| length.saturating_add(masked))
    }
}

/// A server's frame that closes.
pub(super) fn close(why: &Disconnect) -> Vec<u8> {
    let reason = &why.reason.as_bytes()[..why.reason.len().min(REASON_BYTES_MAX)];
    // It is at most 125.
    let length = u8::try_from(2 + reason.len()).unwrap_or(2);
    let [high, low] = why.code.to_be_bytes();
    let mut frame = vec![FINAL | CLOSE, length, high, low];
    frame.extend_from_slice(reason);
    frame
}

const HEAD_BYTES_MAX: usize = 10;
const REASON_BYTES_MAX: usize = 123;
const FINAL: u8 = 0x80;
const OPCODE: u8 = 0x0f;
const CLOSE: u8 = 0x08;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;

#[cfg(test)]
mod tests {
    use super::*;
    use tideline_wire::Close;

    #[test]
    fn a_goodbye_fits_between_frames_only() {
        let frame = |opcode: u8, length: usize| {
            let mut bytes = vec![0x80 | opcode];
            match length {
                0..126 => bytes.push(length as u8),
                126..65_536 => {
                    bytes.push(126);
                    bytes.extend((length as u16).to_be_bytes());
                }
                _ => {
                    bytes.push(127);
                    bytes.extend((length as u64).to_be_bytes());
                }
            }
            bytes.resize(bytes.len() + length, 0xff);
            bytes
        };
        for step in [1, 2, 3, 7, 1_000, 100_000] {
            let mut frames = Frames::default();
            assert!(frames.is_open());
            for length in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
                for opcode in [1, 2, 0, 9] {
                    let bytes = frame(opcode, length);
                    let mut sent = 0;
                    for piece in bytes.chunks(step) {
                        frames.pass(piece);
                        sent += piece.len();
                        assert_eq!(frames.is_open(), sent == bytes.len(), "{length} {step}");
                    }
                }
            }
            let two = [frame(1, 3), frame(2, 300)].concat();
            frames.pass(&two);
            assert!(frames.is_open());
            let goodbye = close(&Disconnect::of(Close::Draining));
            frames.pass(&goodbye);
            assert!(!frames.is_open(), "closed");
        }
        let bytes = close(&Disconnect {
            code: 4002,
            reason: "draining".into(),
        });
        assert_eq!(bytes, b"\x88\x0a\x0f\xa2draining");
        let long = "x".repeat(200).into();
        let bytes = close(&Disconnect {
            code: 1000,
            reason: long,
        });
        assert_eq!((bytes.len(), bytes[1]), (127, 125));
    }
}
