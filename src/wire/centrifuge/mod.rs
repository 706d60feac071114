//! The Centrifuge client protocol, in JSON or protobuf: what SDKs of Centrifugo and centrifuge say and hear.
//!
//! Owns: its messages, frames, numbers, and how a publication is kept. Promises: any bytes end in a command or in
//! [`Malformed`]; encoding can't fail; a push that it has no words for is empty and is not sent. Must not: know
//! sessions; those take commands one by one (`gateway/session/centrifuge/`), so [`Dialect::decode`] is not asked.

mod api;
mod codes;
mod commands;
mod deltas;
mod emulation;
mod fossil;
mod framing;
mod payload;
mod publication;
mod replies;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::dialect::{Dialect, Frames, Id};
use super::failure::Failure;
use super::messages::entry::Integers;
use super::methods;
use super::push;

pub(crate) use api::*;
pub(crate) use codes::{Code, Disconnect, rpc_error};
pub(crate) use commands::*;
pub(crate) use deltas::{FOSSIL, push as deltas};
pub(crate) use emulation::EmulationRequest;
pub(crate) use framing::{Commands, ENCODINGS, Encoding};
pub(crate) use publication::{ANONYMOUS, check_append, check_channel, columns, message_id, shown};
pub(crate) use replies::*;

/// The protocol in one encoding.
#[derive(Clone, Copy, Debug)]
pub struct Centrifuge {
    encoding: Encoding,
    /// Its subscriptions take deltas.
    with_deltas: bool,
}

/// Those of [`ENCODINGS`], in that order; then those of subscriptions that take deltas.
pub(crate) static DIALECTS: [&dyn Dialect; 4] = {
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

/// What is kept with a command until it is answered.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: u32,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// `{}`, if it is taken.
    Publish,
    /// The native answer.
    Rpc,
    /// What was put here.
    Own(Mutex<Option<Reply>>),
}

impl Ticket {
    pub(crate) fn publish(id: u32) -> Arc<Ticket> {
        let answer = Answer::Publish;
        Arc::new(Ticket { id, answer })
    }

    pub(crate) fn rpc(id: u32) -> Arc<Ticket> {
        let answer = Answer::Rpc;
        Arc::new(Ticket { id, answer })
    }

    /// For an answer that is given by [`Ticket::give`].
    pub(crate) fn own(id: u32) -> Arc<Ticket> {
        let answer = Answer::Own(Mutex::default());
        Arc::new(Ticket { id, answer })
    }

    /// The answer; its id is this command's.
    pub(crate) fn give(&self, reply: Reply) {
        if let Answer::Own(place) = &self.answer {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        }
    }

    fn reply(&self, answer: Result<&methods::Reply, &Failure>) -> Reply {
        let reply = match (&self.answer, answer) {
            (Answer::Own(place), _) => {
                let given = place.lock().unwrap_or_else(PoisonError::into_inner).take();
                given.unwrap_or_else(|| Reply::refused(Code::Internal))
            }
            (Answer::Publish, Ok(_)) => Reply {
                publish: Some(Empty {}),
                ..Reply::default()
            },
            (Answer::Publish, Err(failure)) => Reply::refused(Code::of(failure.reason)),
            (Answer::Rpc, Ok(answer)) => {
                let text = serde_json::to_vec(answer).expect("a result, into memory");
                let data = Bytes::from(text);
                Reply {
                    rpc: Some(RpcResult { data }),
                    ..Reply::default()
                }
            }
            (Answer::Rpc, Err(failure)) => Reply::refused(rpc_error(failure)),
        };
        Reply {
            id: self.id,
            ..reply
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
        if let Some(ticket) = id.ticket::<Ticket>() {
            self.encoding.append(out, &ticket.reply(answer), true);
        }
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
