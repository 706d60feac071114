//! What subscriptions that take deltas are sent.
//!
//! Owns: publications as such a client has them, and as it is to make them from the one before. Promises: a delta leads
//! to exactly what a whole publication would have brought; in JSON `data` is always a text, whose content is JSON or a
//! delta. Must not: know what a client has.

use bytes::Bytes;

use super::super::messages::message::Message;
use super::framing::Encoding;
use super::publication::shown;
use super::replies::{Publication, Push, Reply, SubscribeResult};
use super::{fossil, payload};
use crate::push::Messages;

/// The one kind of deltas that there is.
pub const FOSSIL: &str = "fossil";

/// A frame of messages, for clients whose newest one is `before`.
pub fn push(encoding: Encoding, messages: &Messages<'_>, before: &Message) -> Bytes {
    let mut newest = shown(before).map(|publication| encoding.plain(&publication.data));
    let shown = messages
        .messages
        .iter()
        .filter_map(|message| shown(message));
    let replies = shown.map(|mut publication| {
        let data = encoding.plain(&publication.data);
        let source = newest.replace(data.clone());
        let delta = source.and_then(|source| fossil::delta(&source, &data));
        publication.delta = delta.is_some();
        publication.data = encoding.wrapped(delta.map_or(data, Bytes::from));
        pushed(messages, publication)
    });
    encoding.frame(&replies.collect::<Vec<_>>())
}

/// The push of one publication.
pub(super) fn pushed(messages: &Messages<'_>, publication: Publication) -> Reply {
    Reply::of(Push {
        channel: messages.timeline.as_ref().to_owned(),
        publication: Some(publication),
        ..Push::default()
    })
}

impl SubscribeResult {
    /// Grants deltas.
    pub fn take_deltas(&mut self, encoding: Encoding) {
        self.delta = true;
        let publications = std::mem::take(&mut self.publications).into_iter();
        self.publications = publications.map(|one| encoding.whole(one)).collect();
    }
}

impl Encoding {
    /// A publication for clients that take deltas, but have none that it could be made from.
    pub(super) fn whole(self, mut publication: Publication) -> Publication {
        publication.data = self.wrapped(self.plain(&publication.data));
        publication
    }

    /// What the client has of a publication's data, and makes its next one from.
    fn plain(self, data: &Bytes) -> Bytes {
        match self {
            Encoding::Json => Bytes::copy_from_slice(payload::text(data).as_bytes()),
            Encoding::Protobuf => data.clone(),
        }
    }

    fn wrapped(self, data: Bytes) -> Bytes {
        match self {
            Encoding::Json => {
                let text = std::str::from_utf8(&data).expect("JSON, or a delta of JSON");
                Bytes::from(serde_json::to_vec(text).expect("a text, into memory"))
            }
            Encoding::Protobuf => data,
        }
    }
}
