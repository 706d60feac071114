//! The Centrifuge client protocol, in JSON or protobuf: what SDKs of Centrifugo and centrifuge say and hear.
//!
//! Owns: its messages, frames, numbers, and how a publication is kept. Promises: any bytes end in a command or in
//! [`framing::Malformed`]; encoding can't fail; a push that it has no words for is empty and is not sent. Must not:
//! know sessions; those take commands one by one (`gateway/session/centrifuge/`), so [`Dialect::decode`] is not asked.

#[allow(missing_docs, reason = "named and explained by Centrifuge's protocol")]
mod api;
#[allow(missing_docs, reason = "named and explained by Centrifuge's protocol")]
mod codes;
#[allow(missing_docs, reason = "named and explained by Centrifuge's protocol")]
mod commands;
mod deltas;
#[allow(missing_docs, reason = "named and explained by Centrifuge's protocol")]
mod emulation;
mod fossil;
mod framing;
mod messages;
mod payload;
mod publication;
#[allow(missing_docs, reason = "named and explained by Centrifuge's protocol")]
mod replies;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::dialect::{Dialect, Frames, Id};
use super::failure::Failure;
use super::messages::entry::Integers;
use super::methods;
use super::push;

pub use api::*;
pub use codes::{Code, Disconnect, rpc_error};
pub use commands::*;
pub use deltas::{FOSSIL, push as deltas};
pub use emulation::EmulationRequest;
pub use framing::{Commands, ENCODINGS, Encoding};
pub use publication::{ANONYMOUS, Published, check_channel, message_id, shown};
pub use replies::*;

/// The protocol in one encoding.
#[derive(Clone, Copy, Debug)]
pub struct Centrifuge {
    encoding: Encoding,
    /// Its subscriptions take deltas.
    with_deltas: bool,
}

/// Those of [`ENCODINGS`], in that order; then those of subscriptions that take deltas.
pub static DIALECTS: [&dyn Dialect; 4] = {
    use Encoding::{Json, Protobuf};
    [
        &Centrifuge::new(Json, false),
        &Centrifuge::new(Protobuf, false),
        &Centrifuge::new(Json, true),
        &Centrifuge::new(Protobuf, true),
    ]
};

impl Centrifuge {
    const fn new(encoding: Encoding, with_deltas: bool) -> Centrifuge {
        Centrifuge {
            encoding,
            with_deltas,
        }
    }
}

impl Dialect for Centrifuge {
    fn subprotocol(&self) -> &'static str {
        match self.encoding {
            Encoding::Json => "centrifuge-json",
            Encoding::Protobuf => "centrifuge-protobuf",
        }
    }

    fn frames(&self) -> Frames {
        match self.encoding {
            Encoding::Json => Frames::Text,
            Encoding::Protobuf => Frames::Binary,
        }
    }

    fn answer(&self, out: &mut Vec<u8>, id: &Id, answer: Result<&methods::Reply, &Failure>) {
        let Id::Numbered { id, has_result } = *id else {
            return;
        };
        let reply = match answer {
            // As bytes it would be read once more on its way into the frame.
            Ok(answer) if has_result && self.encoding == Encoding::Json => {
                out.extend(format!(r#"{{"id":{id},"rpc":{{"data":"#).as_bytes());
                serde_json::to_writer(&mut *out, answer).expect("a result, into memory");
                out.extend(b"}}");
                return;
            }
            Ok(answer) if has_result => {
                let text = serde_json::to_vec(answer).expect("a result, into memory");
                Reply {
                    rpc: Some(RpcResult { data: text.into() }),
                    ..Reply::default()
                }
            }
            Ok(_) => Reply {
                publish: Some(Empty {}),
                ..Reply::default()
            },
            Err(failure) if has_result => Reply::refused(rpc_error(failure)),
            Err(failure) => Reply::refused(Code::of(failure.reason)),
        };
        self.encoding.append(out, &Reply { id, ..reply }, true);
    }

    fn push(&self, push: &push::Push<'_>) -> Bytes {
        match push {
            push::Push::Message(messages) => {
                let shown = messages
                    .messages
                    .iter()
                    .filter_map(|message| shown(message));
                let replies = shown.map(|publication| match self.with_deltas {
                    true => deltas::pushed(messages, self.encoding.whole(publication)),
                    false => deltas::pushed(messages, publication),
                });
                self.encoding.frame(&replies.collect::<Vec<_>>())
            }
            push::Push::SubscriptionEnded(ended) => self.encoding.frame([&Reply::of(Push {
                channel: ended.timeline.as_ref().to_owned(),
                unsubscribe: Some(ended.reason.into()),
                ..Push::default()
            })]),
            _ => Bytes::new(),
        }
    }

    /// Where there are deltas the second one is theirs.
    fn forms(&self) -> usize {
        1 + usize::from(self.with_deltas)
    }

    fn form(&self, _: Integers) -> usize {
        0
    }
}
