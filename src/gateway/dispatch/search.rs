//! The searches: `message.search`, `timeline.search`.
//!
//! Owns: the calls behind these methods. Promises: what is found is shown as the caller may read it, and a page fits
//! into a frame; a page's token is of use to its caller and for what they asked alone, and tells them nothing. Must
//! not: look into an index.

use std::sync::Arc;

use super::super::Shared;
use super::refusal::BUSY_RETRY_MS;
use super::shape::{page_bytes, size};
use super::{Caller, Work, refusal};
use crate::credentials::{seal_for, unseal_for};
use tideline_model::access::Asker;
use tideline_model::search::{FindOrder, InvalidSearch};
use tideline_model::{Comparator, Error};
use tideline_search::{Ask, Condition, Door, FoundPlaces, MessageAnswer, Which, Words};
use tideline_wire::search::{self, FoundMessage, FoundMessages, FoundTimelines};
use tideline_wire::tables::row_filter::Op;
use tideline_wire::{Failure, Method, Reason, Reply};

pub(super) fn messages(shared: &Arc<Shared>, caller: &Caller, asked: search::Messages) -> Work {
    let (shared, asker) = (Arc::clone(shared), caller.asking(Method::MessageSearch));
    Work::Read(Box::pin(async move {
        let of = bound_to(&asker, &asked.without_page())?;
        let ask = Ask {
            which: Which::Messages,
            words: words(asked.query.as_deref())?,
            timelines: asked.timelines,
            prefix: asked.prefix,
            sender: asked.sender,
            conditions: conditions(asked.r#where),
            from_ms: asked.from,
            to_ms: asked.to,
            order: asked.order,
            after: opened(asked.after.as_deref(), &of)?,
            limit: size(asked.limit),
        };
        let found = find(&shared, &asker, ask.clone()).await?;
        let bytes_max = page_bytes(&shared.options.limits);
        let read = shared
            .timelines
            .at_numbers(&asker, &found.places, bytes_max);
        let read = read.await.map_err(refusal)?;
        let next = found.next(read.len()).map(|token| seal_for(&token, &of));
        // Texts are taken apart for the pieces of them that are shown.
        let show = move || {
            let seen = read.into_iter().flatten();
            let shown = seen.filter_map(|message| {
                let mut shown = FoundMessage::from(message);
                let message = &shown.message;
                let entry = message.entry.as_deref().unwrap_or_default();
                // The index may be behind an edit, or behind another timeline of the name.
                let is_asked_for = ask.holds(entry, &message.sender, message.timestamp);
                is_asked_for.then(|| ask.words.found(entry)).map(|found| {
                    shown.found = found;
                    shown
                })
            });
            shown.collect::<Vec<_>>()
        };
        let shown = tokio::task::spawn_blocking(show).await;
        let messages = shown.map_err(|_| Failure::new(Reason::InternalError))?;
        Ok(Reply::MessageSearch(FoundMessages {
            messages,
            next,
            behind: found.is_behind,
        }))
    }))
}

pub(super) fn timelines(shared: &Arc<Shared>, caller: &Caller, asked: search::Timelines) -> Work {
    let (shared, asker) = (Arc::clone(shared), caller.asking(Method::TimelineSearch));
    Work::Read(Box::pin(async move {
        let of = bound_to(&asker, &asked.without_page())?;
        let ask = Ask {
            which: Which::Timelines,
            words: words(asked.query.as_deref())?,
            timelines: None,
            prefix: asked.prefix,
            sender: None,
            conditions: conditions(asked.r#where),
            from_ms: None,
            to_ms: None,
            order: FindOrder::default(),
            after: opened(asked.after.as_deref(), &of)?,
            limit: size(asked.limit),
        };
        let found = find(&shared, &asker, ask.clone()).await?;
        let bytes_max = page_bytes(&shared.options.limits);
        let names = found.places.iter().map(|(timeline, _)| timeline.clone());
        let names: Vec<String> = names.collect();
        let read = shared.timelines.by_names(&asker, &names, bytes_max);
        let read = read.await.map_err(refusal)?;
        let next = found.next(read.len()).map(|token| seal_for(&token, &of));
        let show = move || {
            let seen = read.into_iter().flatten();
            seen.filter(|info| ask.holds(&info.meta, "", info.updated_at))
                .collect::<Vec<_>>()
        };
        let shown = tokio::task::spawn_blocking(show).await;
        Ok(Reply::TimelineSearch(FoundTimelines {
            timelines: shown.map_err(|_| Failure::new(Reason::InternalError))?,
            next,
            behind: found.is_behind,
        }))
    }))
}

/// Runs a search, at the doors of its caller.
async fn find(shared: &Arc<Shared>, asker: &Asker, ask: Ask) -> Result<FoundPlaces, Failure> {
    let holder = shared.per_client.holder(asker);
    let searches = shared.tablestore.searches.of_caller(holder);
    let mut doors = shared.timelines.doors(asker);
    let door = move || -> Door {
        Box::new(move |timeline| doors.lowest(timeline).map_err(|error| format!("{error:?}")))
    };
    let found = searches.find_places(ask, door).await;
    found.map_err(|answer| match answer {
        MessageAnswer::Off => Reason::SearchOff.into(),
        MessageAnswer::Token => Failure::invalid("after", NO_TOKEN),
        MessageAnswer::NoName(at) => {
            let what = "messages can't be asked for by this name: it is not in [search] where";
            Failure::invalid(format!("where[{at}].name"), what)
        }
        MessageAnswer::Refused(Error::Search(InvalidSearch::Memory(_)) | Error::Busy) => {
            Failure::new(Reason::Busy).retry_after(BUSY_RETRY_MS)
        }
        MessageAnswer::Refused(Error::Search(_)) => {
            Failure::invalid("query", "more words than a search looks for")
        }
        MessageAnswer::Refused(error) => {
            tracing::warn!(?error, "a search of messages failed");
            Reason::Unavailable.into()
        }
    })
}

const NO_TOKEN: &str = "not a token of this search, or from before the server's last start";

fn words(query: Option<&str>) -> Result<Words, Failure> {
    Words::read(query).map_err(|most| {
        Failure::invalid("query", format!("more than {most} words"))
            .over(most as u64, most as u64 + 1)
    })
}

fn conditions(all: Vec<search::Condition>) -> Vec<Condition> {
    let all = all.into_iter().map(|one| Condition {
        name: one.name,
        comparator: match one.op {
            Op::Equal => Comparator::Equal,
            Op::NotEqual => Comparator::NotEqual,
            Op::Above => Comparator::GreaterThan,
            Op::AtLeast => Comparator::GreaterEqual,
            Op::Below => Comparator::LessThan,
            Op::AtMost => Comparator::LessEqual,
        },
        value: one.value.value.into_owned(),
    });
    all.collect()
}

/// What a token counts for: a caller and what they ask for.
fn bound_to(asker: &Asker, asked: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    let key = asker.claim().and_then(|claim| claim.identity().key());
    let bytes = serde_json::to_vec(&(asker.user(), key, asked));
    bytes.map_err(|_| Reason::InternalError.into())
}

fn opened(after: Option<&str>, of: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let token = |text| unseal_for(text, of).ok_or_else(|| Failure::invalid("after", NO_TOKEN));
    after.map(token).transpose()
}
