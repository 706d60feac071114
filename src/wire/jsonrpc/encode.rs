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
use crate::wire::methods::Reply;
use crate::wire::push::Push;

/// The version that every object says.
const VERSION: &str = "2.0";

/// A call's answer on its way out.
#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Reply>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
}

impl<'a> Answer<'a> {
    fn new(id: &'a Id, answer: Result<&'a Reply, &'a Failure>) -> Answer<'a> {
        Answer {
            jsonrpc: VERSION,
            id,
            result: answer.ok(),
            error: answer.err(),
        }
    }
}

/// Encodes the result of a call.
#[must_use]
pub fn reply(id: &Id, result: &Reply, encoding: Encoding) -> Bytes {
    encode(&Answer::new(id, Ok(result)), encoding)
}

/// Encodes the failure of a call; [`Id::Null`] if the call's id could not be made out.
#[must_use]
pub fn failure(id: &Id, error: &Failure, dialect: Dialect) -> Bytes {
    let encoding = Encoding {
        dialect,
        ..Encoding::default()
    };
    encode(&Answer::new(id, Err(error)), encoding)
}

/// Encodes what calls that were done together are answered, each by itself; the answers share one buffer.
#[must_use]
pub fn answers<'a>(
    answers: impl ExactSizeIterator<Item = (&'a Id, Result<Reply, Failure>)>,
    encoding: Encoding,
) -> Vec<Bytes> {
    let mut ends = Vec::with_capacity(answers.len());
    let mut out = Vec::with_capacity(answers.len() * ANSWER_BYTES);
    for (id, answer) in answers {
        encode_behind(&mut out, &Answer::new(id, answer.as_ref()), encoding);
        ends.push(out.len());
    }
    let all = Bytes::from(out);
    let mut start = 0;
    let cut = |end| all.slice(std::mem::replace(&mut start, end)..end);
    ends.into_iter().map(cut).collect()
}

/// More than most short answers take.
const ANSWER_BYTES: usize = 224;

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
    encode_behind(&mut out, frame, encoding);
    Bytes::from(out)
}

fn encode_behind(out: &mut Vec<u8>, frame: &impl Serialize, encoding: Encoding) {
    with_integers(encoding.integers, || match encoding.dialect {
        Dialect::Json => {
            serde_json::to_writer(out, frame)
                .expect("our types have text names, and memory takes all bytes");
        }
        Dialect::MessagePack => {
            let mut writer = rmp_serde::Serializer::new(out).with_struct_map();
            frame
                .serialize(&mut writer)
                .expect("our types have known lengths, and memory takes all bytes");
        }
    });
}
