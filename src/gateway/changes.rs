//! From what the feed brings of changes to the list that back ends get.
//!
//! Owns: which change becomes which kind; neighbours of one kind and timeline become one. Promises: borrows what the
//! changes hold, and keeps their order. Must not: decide which back ends get them.

use std::borrow::Cow;

use bytes::Bytes;

use tideline_model::ChangeKind;
use tideline_timelines::feed::{ChangeGroup, Changes, RowCell, RowChange};
use tideline_timelines::timeline::{MemberRow, Standing, TimelineChange, What};
use tideline_wire::OneValue;
use tideline_wire::push::{
    Changed, MemberChanged, Messages, Reacted, ReactedMessage, Receipt, Receipts, TimelineChanged,
};
use tideline_wire::tables::changes::{
    Change, Row, RowColumn, StreamChanges, TimelineConfigured, TimelineCreated, TimelineDeleted,
};

/// What a group tells. `table`: whose rows they are, if they are rows.
pub(super) fn told<'a>(stream: u64, group: &'a ChangeGroup, table: &'a str) -> StreamChanges<'a> {
    StreamChanges {
        stream,
        changes: list(&group.changes, table),
        position: group.position.clone(),
        more: group.is_more,
    }
}

/// Changes, in order.
fn list<'a>(changes: &'a Changes, table: &'a str) -> Vec<Change<'a>> {
    match changes {
        Changes::Timelines(changes) => {
            let mut told: Vec<Change<'_>> = Vec::new();
            for change in changes {
                let next = of_timeline(change);
                let apart = match told.last_mut() {
                    Some(before) => joined(before, next),
                    None => Some(next),
                };
                told.extend(apart);
            }
            told
        }
        Changes::Rows(changes) => {
            let row = |change| of_row(change, table);
            changes.0.iter().map(row).collect()
        }
    }
}

/// The body of a POST of changes: a JSON array.
#[must_use]
pub fn body(changes: &Changes, table: &str) -> Bytes {
    let list = list(changes, table);
    // As for frames: our types have text names, and memory takes all bytes.
    Bytes::from(serde_json::to_vec(&list).expect("our types can be written"))
}

/// Adds the next change to the one before it, if both can be one; else returns it.
fn joined<'a>(before: &mut Change<'a>, next: Change<'a>) -> Option<Change<'a>> {
    match (before, next) {
        (Change::Message(told), Change::Message(next))
            if (&told.timeline, &told.epoch) == (&next.timeline, &next.epoch) =>
        {
            told.messages.extend(next.messages);
            told.head = told.head.max(next.head);
        }
        (Change::MessageChanged(told), Change::MessageChanged(next))
            if (&told.timeline, &told.epoch) == (&next.timeline, &next.epoch) =>
        {
            told.messages.extend(next.messages);
            told.change_head = next.change_head;
        }
        (Change::Reaction(told), Change::Reaction(next))
            if (&told.timeline, &told.epoch) == (&next.timeline, &next.epoch) =>
        {
            told.messages.extend(next.messages);
            told.change_head = next.change_head;
        }
        // One change with a user's join and leave would not say which came first.
        (Change::MemberChanged(told), Change::MemberChanged(next))
            if told.timeline == next.timeline
                && told.removed.iter().all(Vec::is_empty)
                    == next.removed.iter().all(Vec::is_empty) =>
        {
            told.members
                .iter_mut()
                .for_each(|all| all.extend(next.members.iter().flatten().cloned()));
            told.removed
                .iter_mut()
                .for_each(|all| all.extend(next.removed.iter().flatten().cloned()));
            (told.version, told.members_count) = (next.version, next.members_count);
        }
        (Change::Receipt(told), Change::Receipt(next)) if told.timeline == next.timeline => {
            let more = next.receipts.into_iter().flatten();
            told.receipts.get_or_insert_default().extend(more);
        }
        (_, next) => return Some(next),
    }
    None
}

fn of_timeline(change: &TimelineChange) -> Change<'_> {
    let timeline = || Cow::from(&change.timeline);
    let epoch = || Cow::from(&change.epoch);
    match &change.what {
        What::Created {
            meta,
            version,
            created_at,
        } => Change::TimelineCreated(TimelineCreated {
            timeline: timeline(),
            epoch: epoch(),
            meta: meta.into(),
            version: *version,
            created_at: *created_at,
        }),
        What::Deleted => Change::TimelineDeleted(TimelineDeleted {
            timeline: timeline(),
            epoch: epoch(),
        }),
        What::Appended(message, head) => Change::Message(Messages {
            timeline: timeline(),
            epoch: epoch(),
            messages: vec![Cow::Borrowed(message)],
            head: *head,
        }),
        What::Changed(message) => Change::MessageChanged(Changed {
            timeline: timeline(),
            epoch: epoch(),
            messages: vec![Cow::Borrowed(message)],
            change_head: message.change,
        }),
        What::Reacted {
            sequence,
            change,
            reactions,
        } => Change::Reaction(Reacted {
            timeline: timeline(),
            epoch: epoch(),
            messages: vec![ReactedMessage {
                reactions: reactions.into(),
                sequence: *sequence,
                change: *change,
            }],
            change_head: *change,
        }),
        What::Updated { meta, version } => Change::TimelineChanged(TimelineChanged {
            timeline: timeline(),
            meta: meta.into(),
            version: *version,
        }),
        What::Configured { settings, version } => Change::TimelineConfigured(TimelineConfigured {
            timeline: timeline(),
            epoch: epoch(),
            settings: settings.with_defaults(),
            version: *version,
        }),
        What::Member {
            user,
            row,
            standing,
        } => members(timeline(), user, row.as_deref(), *standing),
        What::Read {
            user,
            read,
            received,
        } => Change::Receipt(Receipts {
            timeline: timeline(),
            receipts: Some(vec![receipt(user, *read, *received)]),
        }),
    }
}

fn members<'a>(
    timeline: Cow<'a, str>,
    user: &'a str,
    row: Option<&MemberRow>,
    standing: Standing,
) -> Change<'a> {
    let gone = row.is_none().then(|| Cow::from(user));
    let there = row.map(|row| row.clone().of(user.to_owned()));
    Change::MemberChanged(MemberChanged {
        timeline,
        members: Some(there.into_iter().collect()),
        removed: Some(gone.into_iter().collect()),
        version: standing.version,
        members_count: standing.members,
    })
}

fn receipt(user: &str, read: u64, received: u64) -> Receipt<'_> {
    Receipt {
        user: user.into(),
        read,
        received,
    }
}

fn of_row<'a>(change: &'a RowChange, table: &'a str) -> Change<'a> {
    let cells = |cells: &'a [RowCell]| cells.iter().map(column).collect();
    let row = Row {
        table: table.into(),
        timestamp: change.time_us / 1_000,
        key: (&change.key).into(),
        columns: cells(&change.cells),
        original: change.original.as_deref().map(cells),
    };
    match change.kind {
        ChangeKind::Put => Change::RowPut(row),
        ChangeKind::Update => Change::RowUpdated(row),
        ChangeKind::Delete => Change::RowDeleted(row),
    }
}

fn column(cell: &RowCell) -> RowColumn<'_> {
    RowColumn {
        name: Cow::from(&cell.name),
        version: cell.version,
        value: cell.value.as_ref().map(|value| OneValue {
            value: Cow::Borrowed(value),
        }),
    }
}
