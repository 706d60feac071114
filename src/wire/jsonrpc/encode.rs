//! From answers and pushes to the bytes of one frame or HTTP body.
//!
//! Owns: the outermost objects of what the server says. Promises: can't fail. Must not: bound sizes; what fills a page
//! counts `Message::encoded_bytes_max`, and `batch.rs` the room of an array.

use bytes::Bytes;
use serde::Serialize;

use crate::dialect::Id;
use crate::failure::Failure;
use crate::methods::Reply;
use crate::push::Push;

/// How objects become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON text.
    Json,
    /// MessagePack, the same objects.
    MessagePack,
}

/// The version that every object says.
const VERSION: &str = "2.0";

/// Appends the answer to a call; [`Id::Null`] if the call's id could not be made out.
pub(super) fn answer(
    out: &mut Vec<u8>,
    id: &Id,
    answer: Result<&Reply, &Failure>,
    encoding: Encoding,
) {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a Id,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a Reply>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Failure>,
    }
    let object = Answer {
        jsonrpc: VERSION,
        id,
        result: answer.ok(),
        error: answer.err(),
    };
    append(out, &object, encoding);
}

/// Encodes a push.
pub(super) fn push(push: &Push<'_>, encoding: Encoding) -> Bytes {
    #[derive(Serialize)]
    struct Notification<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        params: &'a Push<'a>,
    }
    let object = Notification {
        jsonrpc: VERSION,
        method: push.name(),
        params: push,
    };
    let mut out = Vec::with_capacity(256);
    append(&mut out, &object, encoding);
    Bytes::from(out)
}

/// Appends the begin of an array of so many items.
pub(super) fn array_begin(out: &mut Vec<u8>, items: usize, encoding: Encoding) {
    match (
        encoding,
        u32::try_from(items).expect("a batch has few members"),
    ) {
        (Encoding::Json, _) => out.push(b'['),
        (Encoding::MessagePack, few @ 0..=15) => out.push(0x90 | few as u8),
        (Encoding::MessagePack, many) => {
            out.push(0xdd);
            out.extend_from_slice(&many.to_be_bytes());
        }
    }
}

/// Appends what is between two items of an array.
pub(super) fn array_next(out: &mut Vec<u8>, encoding: Encoding) {
    if encoding == Encoding::Json {
        out.push(b',');
    }
}

/// Appends the end of an array.
pub(super) fn array_end(out: &mut Vec<u8>, encoding: Encoding) {
    if encoding == Encoding::Json {
        out.push(b']');
    }
}

/// Appends anything of ours.
pub(super) fn append(out: &mut Vec<u8>, object: &impl Serialize, encoding: Encoding) {
    match encoding {
        Encoding::Json => serde_json::to_writer(out, object)
            .expect("our types have text names, and memory takes all bytes"),
        Encoding::MessagePack => object
            .serialize(&mut rmp_serde::Serializer::new(out).with_struct_map())
            .expect("our types have known lengths, and memory takes all bytes"),
    }
}
