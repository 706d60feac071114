//! Frames: messages one behind the other.
//!
//! Owns: lines of JSON, and protobuf with a length before each message. Promises: a command is decoded when it is asked
//! for, so that a frame of many costs no more than its bytes; any bytes end in a command or in [`Malformed`]. Must not:
//! know what commands mean.

use bytes::{Buf as _, Bytes};
use prost::Message as _;

use super::commands::Command;
use super::replies::Reply;
use tideline_base::decode;

/// How messages become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One line of JSON for each.
    Json,
    /// Each behind its length.
    Protobuf,
}

/// Both, in the order of [`Encoding`].
pub const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Protobuf];

/// A frame that can't be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The commands of a frame that are not taken yet.
#[derive(Debug)]
pub struct Commands {
    encoding: Encoding,
    rest: Bytes,
}

/// Each command comes with its length in bytes.
impl Iterator for Commands {
    type Item = Result<(Command, usize), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = match self.encoding {
            Encoding::Json => self.line(),
            Encoding::Protobuf => match self.delimited() {
                Some(message) => message,
                None => return Some(Err(Malformed)),
            },
        };
        let bytes = message.len();
        let command = match self.encoding {
            Encoding::Json => decode::from_slice(&message).map_err(|_| Malformed),
            Encoding::Protobuf => Command::decode(message).map_err(|_| Malformed),
        };
        Some(command.map(|command| (command, bytes)))
    }
}

impl Commands {
    /// Those of a frame, which has one at least.
    pub fn new(encoding: Encoding, frame: Bytes) -> Result<Commands, Malformed> {
        match frame.is_empty() {
            true => Err(Malformed),
            false => Ok(Commands {
                encoding,
                rest: frame,
            }),
        }
    }

    fn line(&mut self) -> Bytes {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let line = self.rest.split_to(end.unwrap_or(self.rest.len()));
        self.rest.advance(usize::from(end.is_some()));
        line
    }

    fn delimited(&mut self) -> Option<Bytes> {
        let length = prost::encoding::decode_varint(&mut self.rest).ok()?;
        let length = usize::try_from(length).ok()?;
        (length <= self.rest.len()).then(|| self.rest.split_to(length))
    }
}

impl Encoding {
    /// Appends a message; `is_first` in its frame.
    pub fn append(self, out: &mut Vec<u8>, reply: &Reply, is_first: bool) {
        match self {
            Encoding::Json => {
                if !is_first {
                    out.push(b'\n');
                }
                serde_json::to_writer(out, reply).expect("maps of texts, into memory");
            }
            Encoding::Protobuf => reply
                .encode_length_delimited(out)
                .expect("a Vec has room for all"),
        }
    }

    /// A frame of messages.
    pub fn frame<'r>(self, replies: impl IntoIterator<Item = &'r Reply>) -> Bytes {
        let mut out = Vec::with_capacity(FRAME_BYTES);
        for (index, reply) in replies.into_iter().enumerate() {
            self.append(&mut out, reply, index == 0);
        }
        Bytes::from(out)
    }
}

/// More than most short answers take.
const FRAME_BYTES: usize = 160;
