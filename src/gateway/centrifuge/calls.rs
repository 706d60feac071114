//! What the dialect asks of timelines: publications, history and presence.
//!
//! Owns: from a channel to a timeline and back. Promises: a page of history is never empty while there is more to show;
//! a publication has all columns that its readers need. Must not: decide rights; each caller of these functions has an
//! asker.

use std::sync::Arc;

use super::super::Shared;
use super::super::dispatch::Caller;
use super::super::dispatch::shape::{self, page_bytes, size};
use tideline_model::access::{Asker, Rights};
use tideline_timelines::timeline::{Append, AppendOne, Error, Range, Target};
use tideline_wire::centrifuge::{
    Code, HistoryRequest, HistoryResult, PresenceResult, PresenceStatsResult, Published,
    StreamPosition, shown,
};
use tideline_wire::{Failure, Method};

/// The append that a publication is.
pub(crate) fn append(
    shared: &Shared,
    asker: &Asker,
    channel: &str,
    published: Published,
) -> Result<Append, Failure> {
    let (entry, message_id) = published.entry(channel, &shared.options.limits)?;
    Ok(Append {
        timeline: channel.to_owned(),
        asker: asker.needing(Method::MessageAppend.needs().rights()),
        messages: vec![AppendOne {
            entry,
            message_id,
            expires_in_ms: None,
            deliver_at: None,
            open: None,
        }],
        expect_head: None,
        create: true,
        epoch: None,
    })
}

/// Publishes; where it went.
pub(crate) async fn publish(
    shared: &Arc<Shared>,
    caller: &Caller,
    channel: &str,
    published: Published,
) -> Result<StreamPosition, Failure> {
    let append = append(shared, &caller.asker, channel, published)?;
    let prepared = shared.timelines.prepare(append, caller.trace);
    let answer = shared.timelines.append_all(vec![prepared]).await.pop();
    let answer = answer.ok_or_else(shape::missing)?;
    let (appended, epoch) = answer.map_err(super::super::dispatch::refusal)?;
    let offset = appended.first().map_or(0, |one| one.sequence);
    Ok(StreamPosition { offset, epoch })
}

/// The clients in a channel, up to so many bytes of them.
pub(crate) async fn presence(
    shared: &Shared,
    asker: &Asker,
    channel: &str,
    bytes_max: usize,
) -> Result<PresenceResult, Code> {
    let mut result = PresenceResult::default();
    if shows_presence(shared, asker, channel).await? {
        result.presence = shared.hub.presence(channel, bytes_max);
    }
    Ok(result)
}

/// How many clients and users are in a channel.
pub(crate) async fn presence_stats(
    shared: &Shared,
    asker: &Asker,
    channel: &str,
) -> Result<PresenceStatsResult, Code> {
    let (clients, users) = match shows_presence(shared, asker, channel).await? {
        true => shared.hub.presence_stats(channel),
        false => (0, 0),
    };
    let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(PresenceStatsResult {
        num_clients: number(clients),
        num_users: number(users),
    })
}

/// Whether the presence of a channel is shown. `false` = its timeline is hidden or does not exist: it is answered as a
/// channel where nobody is.
async fn shows_presence(shared: &Shared, asker: &Asker, channel: &str) -> Result<bool, Code> {
    if !asker.reads_by_name(channel.as_bytes()) {
        return Err(Code::PermissionDenied);
    }
    let admission = || shared.timelines.admission(by_anyone(asker, channel));
    let mut admitted = admission().await;
    let is_missing = matches!(admitted, Err(Error::TimelineNotFound));
    if is_missing && was_being_made(shared, asker, channel).await {
        admitted = admission().await;
    }
    match admitted {
        Ok(_) => Ok(true),
        Err(Error::TimelineNotFound) => Ok(false),
        Err(error) => Err(Code::of(super::super::dispatch::refusal(error).reason)),
    }
}

/// Whether a channel without a timeline has one now. A subscribe is answered before the timeline that it makes is on
/// disk: if somebody is subscribed, this waits until it is.
async fn was_being_made(shared: &Shared, asker: &Asker, channel: &str) -> bool {
    if !shared.hub.has(channel) {
        return false;
    }
    let written = shared
        .timelines
        .incarnation_in_turn(by_anyone(asker, channel));
    written.await.is_ok()
}

/// A timeline of a channel, for a look that needs no right but to know of it.
fn by_anyone(asker: &Asker, channel: &str) -> Target {
    Target {
        timeline: channel.to_owned(),
        epoch: None,
        asker: asker.needing(Rights::NONE),
    }
}

/// Reads publications, and where the newest is.
pub(crate) async fn history(
    shared: &Arc<Shared>,
    asker: &Asker,
    asked: HistoryRequest,
) -> Result<HistoryResult, Code> {
    let has_since = asked.since.is_some();
    let since = asked.since.unwrap_or_default();
    // Nothing is before all.
    if asked.reverse && has_since && since.offset == 0 {
        return Err(Code::BadRequest);
    }
    let limits = &shared.options.limits;
    let page_max = size(limits.page_messages_max);
    let wanted = usize::try_from(asked.limit).map_or(page_max, |limit| limit.min(page_max));
    let mut from = match (has_since, asked.reverse) {
        (false, _) => None,
        (true, false) => Some(since.offset.saturating_add(1)),
        (true, true) => Some(since.offset - 1),
    };
    let mut result = HistoryResult::default();
    let mut bytes = page_bytes(limits);
    // Each page is twice as large as the one before, so that few pages lead past many tombstones.
    let mut page_limit = wanted.max(1);
    loop {
        let is_over = wanted == 0 || from == Some(0);
        let read = || {
            shared.timelines.range(Range {
                asker: asker.needing(Method::MessageRange.needs().rights()),
                timeline: asked.channel.clone(),
                from: from.filter(|_| !is_over),
                to: None,
                limit: page_limit,
                bytes_max: bytes,
                backward: asked.reverse,
                columns: None,
                epoch: Some(since.epoch.clone()).filter(|epoch| !epoch.is_empty()),
            })
        };
        let mut page = read().await;
        let is_missing = matches!(page, Err(Error::TimelineNotFound));
        if is_missing && was_being_made(shared, asker, &asked.channel).await {
            page = read().await;
        }
        let page = match page {
            // Nothing was published there yet; a history that is named is gone.
            Err(Error::TimelineNotFound) if since.epoch.is_empty() => return Ok(result),
            Err(Error::TimelineNotFound) => return Err(Code::Unrecoverable),
            Err(error) => {
                let failure = super::super::dispatch::refusal(error);
                return Err(Code::of(failure.reason));
            }
            Ok(page) => page,
        };
        (result.epoch, result.offset) = (page.head.epoch, page.head.head);
        if is_over {
            return Ok(result);
        }
        for message in page.messages {
            if result.publications.len() == wanted {
                break;
            }
            let publication = shown(&message);
            if publication.is_some() {
                bytes = bytes.saturating_sub(message.encoded_bytes_max());
            }
            result.publications.extend(publication);
        }
        page_limit = (2 * page_limit).min(page_max);
        // Messages of which nothing is left to show do not count.
        let is_full = result.publications.len() >= wanted || bytes < NEXT_BYTES;
        match page.next {
            Some(next) if !is_full || result.publications.is_empty() => from = Some(next),
            _ => return Ok(result),
        }
    }
}

/// With less room than this a page of history ends.
const NEXT_BYTES: usize = 64 << 10;
