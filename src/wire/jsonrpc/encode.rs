//! From replies, failures and pushes to the bytes of one frame or HTTP body.
//!
//! Owns: the outermost objects of what the server says. Promises: can't fail; one call, one buffer, and the bytes can
//! be shared by all connections of the same encoding. Must not: bound sizes; who fills a page counts
//! `Message::encoded_bytes_max`.

use bytes::Bytes;
use serde::Serialize;

use super::{Dialect, Encoding, Id};
use crate::wire::entry::with_integers;
use crate::wire::failure::Failure;
use crate::wire::push::Push;
use crate::wire::reply::Reply;

/// The version that every object says.
const VERSION: &str = "2.0";

/// Encodes the result of a call.
#[must_use]
pub fn reply(id: &Id, result: &Reply, encoding: Encoding) -> Bytes {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a Id,
        result: &'a Reply,
    }
    encode(
        &Answer {
            jsonrpc: VERSION,
            id,
            result,
        },
        encoding,
    )
}

/// Encodes the failure of a call; [`Id::Null`] if the call's id could not be made out.
#[must_use]
pub fn failure(id: &Id, error: &Failure, dialect: Dialect) -> Bytes {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a Id,
        error: &'a Failure,
    }
    let encoding = Encoding {
        dialect,
        ..Encoding::default()
    };
    encode(
        &Answer {
            jsonrpc: VERSION,
            id,
            error,
        },
        encoding,
    )
}

/// Encodes a push.
#[must_use]
pub fn push(push: &Push, encoding: Encoding) -> Bytes {
    #[derive(Serialize)]
    struct Notification<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        params: &'a Push,
    }
    encode(
        &Notification {
            jsonrpc: VERSION,
            method: push.name(),
            params: push,
        },
        encoding,
    )
}

/// Puts the encoded answers of a batch into one array. Notifications have none; if there is none at all, send nothing.
#[must_use]
pub fn batch(answers: &[Bytes], dialect: Dialect) -> Bytes {
    let inner: usize = answers.iter().map(|answer| answer.len() + 1).sum();
    let mut out = Vec::with_capacity(inner + 5);
    match dialect {
        Dialect::Json => {
            out.push(b'[');
            for (index, answer) in answers.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(answer);
            }
            out.push(b']');
        }
        Dialect::MessagePack => {
            super::msgpack::array_header(&mut out, answers.len());
            for answer in answers {
                out.extend_from_slice(answer);
            }
        }
    }
    Bytes::from(out)
}

/// Anything of ours, as bytes.
pub(super) fn encode(frame: &impl Serialize, encoding: Encoding) -> Bytes {
    let mut out = Vec::with_capacity(256);
    with_integers(encoding.integers, || match encoding.dialect {
        Dialect::Json => {
            serde_json::to_writer(&mut out, frame)
                .expect("our types have text names, and memory takes all bytes");
        }
        Dialect::MessagePack => {
            let mut writer = rmp_serde::Serializer::new(&mut out).with_struct_map();
            frame
                .serialize(&mut writer)
                .expect("our types have known lengths, and memory takes all bytes");
        }
    });
    Bytes::from(out)
}
