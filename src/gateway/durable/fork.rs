//! What a fork takes over of its source.
//!
//! Owns: the copy. Promises: bytes and sequences are those of the source; where an append is cut, what is left of it is
//! one append. Must not: write.

use bytes::Bytes;
use hyper::StatusCode;

use super::super::dispatch::refusal;
use super::super::dispatch::shape::page_bytes;
use super::super::entrance::admitted::Does;
use super::{Asked, Known, Refused, bad};
use tideline_timelines::timeline::{AppendOne, Fork, Inherited, Message};
use tideline_wire::durable::{Part, bytes_of, entry};
use tideline_wire::{Method, Reason};

/// A source, and what of it a fork begins with.
pub(super) struct Source {
    pub(super) known: Known,
    pub(super) inherited: Inherited,
    pub(super) messages: Vec<AppendOne>,
}

/// Messages that a fork may take over.
const MESSAGES_MAX: u64 = 10_000;

impl Asked {
    /// Reads what a fork begins with.
    pub(super) async fn inherit(&self, fork: Fork, tag: u64) -> Result<Source, Refused> {
        let source = self.about(fork.source.clone());
        let known = match source.known(Method::MessageRange).await {
            Err(failure) if failure.reason == Reason::TimelineNotFound => {
                let gone = "the source is deleted, and is kept for its forks only";
                return Err(match source.is_held().await? {
                    true => Refused::Says(StatusCode::CONFLICT, gone),
                    false => failure.into(),
                });
            }
            known => known?,
        };
        let after = fork.after.unwrap_or(known.head);
        if after > known.head || (fork.sub > 0 && after == known.head) {
            return bad("the source has nothing at this offset");
        }
        if fork.after.is_some() {
            known.check_of(after, tag)?;
        }
        if after + 1 < known.floor {
            let why = "what is before this offset is not kept any more";
            return Err(Refused::Says(StatusCode::GONE, why));
        }
        let is_json = known.is_json();
        let more = match is_json {
            true => fork.sub,
            false => fork.sub.min(1),
        };
        let end = after.saturating_add(more);
        if end > known.head {
            return bad("the append at this offset has no such sub-offset");
        }
        if end + 1 - known.floor > MESSAGES_MAX {
            let why = "a fork takes over up to 10,000 messages";
            return Err(Refused::Says(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        let mut all = source.between(&known, end).await?;
        if all.iter().any(|one| one.open.is_some()) {
            let why = "a message of the source still grows; fork it when that is whole";
            return Err(Refused::Says(StatusCode::CONFLICT, why));
        }
        self.cut(&mut all, after, &fork, is_json)?;
        let now_ms = self.shared.clock.now_ms();
        let is_deleted = |one: &&Message| one.entry.is_none();
        let deleted = all.iter().filter(is_deleted).map(|one| one.sequence);
        let inherited = Inherited {
            fork,
            first: known.floor,
            deleted: deleted.collect(),
        };
        let copy = |one: Message| AppendOne {
            entry: one.entry.unwrap_or_default(),
            message_id: Some(one.message_id).filter(|id| Part::of(id).is_some()),
            expires_in_ms: one.expires_at.map(|at| at.saturating_sub(now_ms).max(1)),
            ..AppendOne::default()
        };
        Ok(Source {
            known,
            inherited,
            messages: all.into_iter().map(copy).collect(),
        })
    }

    /// The messages of a source from its floor to the end of the copy.
    async fn between(&self, known: &Known, end: u64) -> Result<Vec<Message>, Refused> {
        let mut all: Vec<Message> = Vec::new();
        while (all.len() as u64) < end + 1 - known.floor {
            let from = known.floor + all.len() as u64;
            let page = self.range(known, from, Some(end + 1)).await?;
            let page = page.map_err(refusal)?;
            let bytes: usize = all.iter().map(Message::json_bytes_max).sum();
            if page.head.floor > known.floor || page.messages.is_empty() {
                let why = "the source was trimmed meanwhile; try again";
                return Err(Refused::Says(StatusCode::CONFLICT, why));
            }
            if bytes > page_bytes(&self.shared.options.limits) {
                let why = "the source is too large to be forked";
                return Err(Refused::Says(StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            all.extend(page.messages);
        }
        Ok(all)
    }

    /// Makes the messages behind `after` those that the sub-offset says, and of an append that is cut a shorter one.
    fn cut(
        &self,
        all: &mut [Message],
        after: u64,
        fork: &Fork,
        is_json: bool,
    ) -> Result<(), Refused> {
        let beyond = "the append at this offset has no such sub-offset";
        if fork.sub > 0 {
            let Some(next) = all.iter_mut().find(|one| one.sequence == after + 1) else {
                return bad(beyond);
            };
            if is_json {
                let part = Part::of(&next.message_id);
                let left = part.map_or(1, |part| part.count - part.number + 1);
                if next.entry.is_none() || fork.sub > left {
                    return bad(beyond);
                }
            } else {
                let data = bytes_of(next).unwrap_or_default();
                let Some(data) = usize::try_from(fork.sub)
                    .ok()
                    .and_then(|sub| data.get(..sub))
                else {
                    return bad(beyond);
                };
                let limits = &self.shared.options.limits;
                let data = Bytes::copy_from_slice(data);
                next.entry = Some(entry(&self.name, data, false, limits)?);
            }
        }
        let last = all.last().and_then(|last| Part::of(&last.message_id));
        let Some((append, count)) = last.map(|last| (last.append.to_owned(), last.number)) else {
            return Ok(());
        };
        for one in all.iter_mut().rev() {
            match Part::of(&one.message_id) {
                Some(part) if part.append == append => {
                    one.message_id = Part { count, ..part }.to_string();
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Whether the name of a stream that is gone is kept for its forks. `false` for a caller that may not read it.
    pub(super) async fn is_held(&self) -> Result<bool, Refused> {
        let asker = self.caller.asking(Method::MessageRange);
        if !asker.reads_by_name(self.name.as_bytes()) {
            return Ok(false);
        }
        self.has_forks().await
    }

    /// Whether the stream is gone, and forks of it live. For callers that have the right to learn it.
    pub(super) async fn has_forks(&self) -> Result<bool, Refused> {
        let looking = self.shared.timelines.has_forks(self.name.clone());
        let looked = self.admitted.perform(Does::Changes, looking).await?;
        Ok(looked.map_err(refusal)?)
    }
}
