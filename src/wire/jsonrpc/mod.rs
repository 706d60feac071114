//! The JSON-RPC 2.0 dialect, in JSON text or MessagePack: from the bytes of one frame or HTTP body to calls, and from
//! replies, failures and pushes to bytes.
//!
//! Owns: ids, notifications, batches, and the two encodings. Promises: `decode` takes any bytes without a panic or
//! deep recursion, and whenever an id can be made out the failure carries it; encoding can't fail. Must not: know what
//! a method does; `Request` and the families do.

mod batch;
mod call;
mod decode;
mod encode;
mod envelope;
mod msgpack;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::dialect::{Call, Dialect, Frames, Id, Incoming};
use super::failure::Failure;
use super::limits::Limits;
use super::messages::entry::Integers;
use super::methods::{Reply, Request};
use super::push::Push;

pub use encode::Encoding;

/// JSON-RPC in one encoding.
#[derive(Clone, Copy, Debug)]
pub struct JsonRpc(Encoding);

/// In JSON text; that of HTTP too.
pub static JSON: JsonRpc = JsonRpc(Encoding::Json);
/// In MessagePack.
pub static MESSAGE_PACK: JsonRpc = JsonRpc(Encoding::MessagePack);
/// Both.
pub static DIALECTS: [&dyn Dialect; 2] = [&JSON, &MESSAGE_PACK];

/// What came in one frame or body.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One call, answered by one object.
    Single(Call),
    /// Calls, answered by one array (or not at all, if all of them are notifications).
    Batch(Vec<Call>),
}

/// Decodes the bytes of one frame or HTTP body.
///
/// # Errors
/// What can't be taken apart into calls at all: it is answered by one failure with the id null.
pub fn decode(encoding: Encoding, body: &[u8], limits: &Limits) -> Result<Body, Failure> {
    match encoding {
        Encoding::Json => decode::decode(body, limits),
        Encoding::MessagePack => msgpack::decode(body, limits),
    }
}

/// The request of a method by its name, with parameters as JSON text, that came by another dialect.
///
/// # Errors
/// No such method, or what is wrong with the parameters.
pub fn by_name(method: &str, params: &[u8], limits: &Limits) -> Result<Request, Failure> {
    let text = std::str::from_utf8(params).ok();
    let text = text.and_then(|text| tideline_base::decode::from_str::<&RawValue>(text).ok());
    let Some(text) = text.map(RawValue::get) else {
        return Err(Failure::invalid("params", "not JSON"));
    };
    decode::depth_within(text, limits)?;
    call::request(method, text, call::Asked::Alone, limits)
}

impl Dialect for JsonRpc {
    fn subprotocol(&self) -> &'static str {
        match self.0 {
            Encoding::Json => "tideline.v1.json",
            Encoding::MessagePack => "tideline.v1.msgpack",
        }
    }

    fn frames(&self) -> Frames {
        match self.0 {
            Encoding::Json => Frames::Text,
            Encoding::MessagePack => Frames::Binary,
        }
    }

    fn decode(&self, bytes: &[u8], limits: &Limits) -> Result<Incoming, Failure> {
        Ok(match decode(self.0, bytes, limits)? {
            Body::Single(call) => Incoming::One(call),
            Body::Batch(mut calls) => {
                let array = batch::Array::new(&mut calls, self.0, limits);
                Incoming::Batch(calls, Box::new(array))
            }
        })
    }

    fn answer(&self, out: &mut Vec<u8>, id: &Id, answer: Result<&Reply, &Failure>) {
        encode::answer(out, id, answer, self.0);
    }

    fn push(&self, push: &Push<'_>) -> Bytes {
        encode::push(push, self.0)
    }

    fn forms(&self) -> usize {
        2
    }

    fn form(&self, integers: Integers) -> usize {
        match integers {
            Integers::Number => 0,
            Integers::Text => 1,
        }
    }
}

/// Text ids are at most this long.
const ID_BYTES_MAX: usize = 64;
