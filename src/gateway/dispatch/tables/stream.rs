//! The stream family: opening a reader of changes, and named cursors.
//!
//! Owns: the calls behind these methods. Promises: they are for back ends: a caller that has named a user may see only
//! some of the timelines, and is refused. Must not: follow; the session does.

use std::sync::Arc;

use super::super::shape::size;
use super::super::{BUSY_RETRY_MS, Caller, NO_RIGHT, Shared, Started, Work};
use tideline_model::Error;
use tideline_model::access::Right;
use tideline_table::{Cursor, FollowError, Followed};
use tideline_timelines::feed::{Begin, ChangeReader};
use tideline_wire::tables::stream;
use tideline_wire::{Failure, Reason, Reply};

/// Opens a reader.
pub(crate) async fn open(shared: &Shared, request: stream::Open) -> Result<ChangeReader, Failure> {
    let followed = match (request.table, request.timelines) {
        (Some(table), _) => Followed::Table(table),
        (None, prefix) => Followed::Timelines(prefix.unwrap_or_default()),
    };
    let tables = &shared.tablestore.tables;
    let begin = match (request.position, request.from) {
        (Some(position), _) => Begin::At(tables.read_position(&position).map_err(refusal)?),
        (None, Some(stream::From::Start)) => Begin::Start,
        (None, _) => Begin::Now,
    };
    let of = (tables, &shared.timelines);
    let reader = ChangeReader::open(of, followed, &begin, request.cursor.as_deref()).await;
    reader.map_err(refusal)
}

pub(in super::super) fn commit(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: stream::Commit,
) -> Started {
    back_end(caller)?;
    let tables = shared.tablestore.tables.clone();
    Ok(caller.in_line(async move {
        let places = tables.read_position(&request.position).map_err(refusal)?;
        let moved = tables.commit_cursor(&request.cursor, places, request.force);
        Ok(Reply::StreamCommit(stream::Committed {
            moved: moved.await.map_err(refusal)?,
        }))
    }))
}

pub(in super::super) fn forget(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: stream::Forget,
) -> Started {
    back_end(caller)?;
    let tables = shared.tablestore.tables.clone();
    Ok(caller.in_line(async move {
        let forgotten = tables.forget_cursor(&request.cursor).await;
        Ok(Reply::StreamForget(stream::Forgotten {
            forgotten: forgotten.map_err(refusal)?,
        }))
    }))
}

pub(in super::super) fn cursors(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: stream::Cursors,
) -> Started {
    back_end(caller)?;
    let shared = Arc::clone(shared);
    Ok(Work::Read(Box::pin(async move {
        let tables = &shared.tablestore.tables;
        let store = |error: Error| refusal(error.into());
        let mut all = tables.all_cursors().await.map_err(store)?;
        all.retain(|cursor| {
            request
                .after
                .as_ref()
                .is_none_or(|after| cursor.name > *after)
        });
        // Positions are long.
        let limit = size(request.limit).min(PAGE_CURSORS_MAX);
        let next = (all.len() > limit).then(|| all[limit - 1].name.clone());
        let mut cursors = Vec::new();
        for cursor in all.into_iter().take(limit) {
            let lag = tables
                .lag(&cursor.followed, &cursor.places)
                .await
                .map_err(store)?;
            let lost = tables.check_places(&cursor.places).is_err();
            let position = tables.position_text(&cursor.places);
            cursors.push(told((cursor, position), lag, lost, shared.clock.now_ms()));
        }
        Ok(Reply::StreamCursors(stream::CursorsPage { cursors, next }))
    })))
}

fn told(
    (cursor, position): (Cursor, String),
    (behind, since): (u64, Option<u64>),
    lost: bool,
    now_ms: u64,
) -> stream::Cursor {
    let (timelines, table) = source(cursor.followed);
    stream::Cursor {
        cursor: cursor.name,
        timelines,
        table,
        position,
        committed_at: cursor.committed_at,
        behind,
        lag_ms: since.map_or(0, |since| now_ms.saturating_sub(since)),
        lost,
    }
}

/// The prefix of timelines, or the table.
pub(in super::super) fn source(followed: Followed) -> (Option<String>, Option<String>) {
    match followed {
        Followed::Timelines(prefix) => (Some(prefix), None),
        Followed::Table(table) => (None, Some(table)),
    }
}

/// Refuses a caller that has named a user.
pub(crate) fn back_end(caller: &Caller) -> Result<(), Failure> {
    match caller.asker.claim() {
        Some(claim) if claim.everywhere().has(Right::Admin) => Ok(()),
        Some(_) => Err(Failure::new(Reason::Forbidden).saying(NO_RIGHT)),
        None if caller.asker.user().is_empty() => Ok(()),
        None => Err(Failure::new(Reason::Forbidden).saying(FOR_BACK_ENDS)),
    }
}

const FOR_BACK_ENDS: &str =
    "streams show all timelines, so they are for back ends: not where a user is named";

/// Cursors of a page: a position may have 4 KiB, and a page fits into a frame.
const PAGE_CURSORS_MAX: usize = 100;

/// Why changes can't be followed, as a refusal.
pub(in super::super) fn refusal(error: FollowError) -> Failure {
    match error {
        FollowError::TableNotFound => Failure::new(Reason::TableNotFound).about("table"),
        FollowError::NoStream => Reason::NoStream.into(),
        FollowError::WrongPosition => {
            Failure::invalid("position", "not a position that was given for this source")
        }
        FollowError::PositionLost => Reason::PositionLost.into(),
        FollowError::CursorNotFound => Failure::new(Reason::CursorNotFound).about("cursor"),
        FollowError::CursorOfOthers => {
            Failure::invalid("cursor", "the cursor of this name is of another source")
        }
        FollowError::TooManyCursors(limit) => Failure::new(Reason::TooMany)
            .about("cursor")
            .over(limit as u64, limit as u64 + 1),
        FollowError::Store(error) => match error {
            Error::Busy => Failure::new(Reason::Busy).retry_after(BUSY_RETRY_MS),
            Error::StorageFull => Reason::StorageFull.into(),
            Error::OutcomeUnknown => Reason::OutcomeUnknown.into(),
            Error::ShuttingDown => Reason::ShuttingDown.into(),
            Error::Unavailable(why) => {
                tracing::warn!(why, "changes can't be read");
                Reason::Unavailable.into()
            }
            _ => Reason::InternalError.into(),
        },
    }
}
