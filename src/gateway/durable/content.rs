//! What a request appends: its body, taken apart into messages.
//!
//! Owns: how a body becomes a batch. Promises: a body that is wrong in itself, and for this stream too, is refused for
//! the stream's sake. Must not: append.

use bytes::Bytes;

use super::{Asked, Refused, bad};
use tideline_timelines::timeline::StreamAppend;
use tideline_wire::durable::{Part, entry, kind, messages};
use tideline_wire::messages::message;
use tideline_wire::{Entry, Method};

impl Asked {
    /// What a POST appends.
    pub(super) fn content(
        &self,
        bytes: Vec<u8>,
        is_json: bool,
        closes: bool,
    ) -> Result<message::AppendBatch, Refused> {
        match bytes.is_empty() {
            true if closes => return Ok(self.nothing()),
            true => return bad("there is nothing to append"),
            false => {}
        }
        let parts = self.taken_apart(bytes, is_json)?;
        if parts.is_empty() {
            return bad("an empty array appends nothing");
        }
        self.batch(parts, is_json)
    }

    /// Decides about a POST whose content is wrong in itself. Usually `why` is the answer. If the stream is not there
    /// for this caller, that is the answer. If the stream is closed or of another type, the commit says so: it gets a
    /// batch without messages.
    pub(super) async fn not_taken(
        &self,
        asked: &StreamAppend,
        why: Refused,
    ) -> Result<message::AppendBatch, Refused> {
        let known = self.known(Method::MessageAppend).await?;
        let stream = kind(&known.content_type);
        let is_other = asked.content.as_ref().is_some_and(|it| it.kind != stream);
        let is_closed = known.closed && asked.content.is_some();
        match is_other || is_closed {
            true => Ok(self.nothing()),
            false => Err(why),
        }
    }

    /// Messages of one commit.
    pub(super) fn batch(
        &self,
        parts: Vec<Bytes>,
        is_json: bool,
    ) -> Result<message::AppendBatch, Refused> {
        let limits = &self.shared.options.limits;
        let mut batch = self.nothing();
        let count = parts.len() as u64;
        // A message alone needs no ID that says of which append it is.
        let append = match count {
            0 | 1 => String::new(),
            _ => uuid::Uuid::new_v4().simple().to_string(),
        };
        for (number, data) in (1..).zip(parts) {
            let part = Part {
                append: &append,
                number,
                count,
            };
            batch.messages.push(message::BatchMessage {
                entry: Entry::from(entry(&self.name, data, is_json, limits)?),
                message_id: (count > 1).then(|| part.to_string()),
                open: None,
                expires_in_ms: None,
            });
        }
        Ok(tideline_wire::checked(batch, limits)?)
    }

    pub(super) fn taken_apart(&self, body: Vec<u8>, is_json: bool) -> Result<Vec<Bytes>, Refused> {
        if body.is_empty() {
            return Ok(Vec::new());
        }
        if !is_json {
            return Ok(vec![Bytes::from(body)]);
        }
        let max = self.shared.options.limits.batch_messages_max;
        let messages = messages(&body, usize::try_from(max).unwrap_or(usize::MAX));
        messages.map_or_else(|| bad("the body is not JSON"), Ok)
    }
}
