//! From what the feed brings of changes to what back ends are told.
//!
//! Owns: which change becomes which kind; neighbours of one kind and timeline are told together. Promises: borrows what
//! the changes hold, and keeps their order. Must not: decide who gets them.

use std::borrow::Cow;

use super::dispatch::shape::{self, shared_message, shared_reactions};
use crate::feed::{ChangeGroup, Changes, RowCell, RowChange};
use crate::model::ChangeKind;
use crate::timeline::{MemberRow, Standing, TimelineChange, What};
use crate::wire::changes::{
    Change, Row, RowColumn, StreamChanges, TimelineConfigured, TimelineCreated, TimelineDeleted,
};
use crate::wire::member::Member;
use crate::wire::push::{
    Changed, MemberChanged, Messages, Reacted, ReactedMessage, Receipt, Receipts, TimelineChanged,
};
use crate::wire::{Columns, Entry, Integers, OneValue};

/// What a group tells. `table`: whose rows they are, if they are rows.
pub(super) fn told<'a>(
    stream: u64,
    group: &'a ChangeGroup,
    table: &'a str,
    integers: Integers,
) -> StreamChanges<'a> {
    StreamChanges {
        stream,
        changes: list(&group.changes, table, integers),
        position: group.position.clone(),
        more: group.is_more,
    }
}

/// Changes, in order.
pub(super) fn list<'a>(
    changes: &'a Changes,
    table: &'a str,
    integers: Integers,
) -> Vec<Change<'a>> {
    match changes {
        Changes::Timelines(changes) => {
            let mut told = Vec::new();
            for change in changes {
                if !joins(told.last_mut(), change, integers) {
                    told.push(of_timeline(change, integers));
                }
            }
            told
        }
        Changes::Rows(changes) => {
            let row = |change| of_row(change, table, integers);
            changes.0.iter().map(row).collect()
        }
    }
}

/// Adds a change to the one told before, if they are told together.
fn joins<'a>(
    before: Option<&mut Change<'a>>,
    change: &'a TimelineChange,
    integers: Integers,
) -> bool {
    let is_here = |timeline: &str, epoch: &str| {
        *timeline == *change.timeline && (epoch.is_empty() || *epoch == *change.epoch)
    };
    match (before, &change.what) {
        (Some(Change::Message(told)), What::Appended(message, head))
            if is_here(&told.timeline, &told.epoch) =>
        {
            told.messages.push(shared_message(message, integers));
            told.head = told.head.max(*head);
        }
        (Some(Change::MessageChanged(told)), What::Changed(message))
            if is_here(&told.timeline, &told.epoch) =>
        {
            told.messages.push(shared_message(message, integers));
            told.change_head = message.change;
        }
        (
            Some(Change::Reaction(told)),
            What::Reacted {
                sequence,
                change: number,
                reactions,
            },
        ) if is_here(&told.timeline, &told.epoch) => {
            told.messages.push(ReactedMessage {
                sequence: *sequence,
                change: *number,
                reactions: shared_reactions(reactions),
            });
            told.change_head = *number;
        }
        (
            Some(Change::MemberChanged(told)),
            What::Member {
                user,
                row,
                standing,
            },
        ) if is_here(&told.timeline, "") => {
            let (MemberChanged { members, removed, .. }, row) = (&mut *told, row.as_deref());
            match (members.as_mut(), removed.as_mut(), row) {
                (Some(members), Some(removed), Some(row)) if removed.is_empty() => {
                    members.push(member(user, row, integers));
                }
                (Some(members), Some(removed), None) if members.is_empty() => {
                    removed.push(Cow::from(user));
                }
                _ => return false,
            }
            (told.version, told.members_count) = (standing.version, standing.members);
        }
        (
            Some(Change::Receipt(Receipts {
                timeline,
                receipts: Some(receipts),
            })),
            What::Read {
                user,
                read,
                received,
            },
        ) if is_here(timeline, "") => receipts.push(receipt(user, *read, *received)),
        _ => return false,
    }
    true
}

fn of_timeline(change: &TimelineChange, integers: Integers) -> Change<'_> {
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
            meta: entry(meta, integers),
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
            messages: vec![shared_message(message, integers)],
            head: *head,
        }),
        What::Changed(message) => Change::MessageChanged(Changed {
            timeline: timeline(),
            epoch: epoch(),
            messages: vec![shared_message(message, integers)],
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
                sequence: *sequence,
                change: *change,
                reactions: shared_reactions(reactions),
            }],
            change_head: *change,
        }),
        What::Updated { meta, version } => Change::TimelineChanged(TimelineChanged {
            timeline: timeline(),
            meta: entry(meta, integers),
            version: *version,
        }),
        What::Configured { settings, version } => {
            Change::TimelineConfigured(TimelineConfigured {
                timeline: timeline(),
                epoch: epoch(),
                settings: shape::settings(settings),
                version: *version,
            })
        }
        What::Member {
            user,
            row,
            standing,
        } => members(timeline(), user, row.as_deref(), *standing, integers),
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
    integers: Integers,
) -> Change<'a> {
    let gone = row.is_none().then(|| Cow::from(user));
    let there = row.map(|row| member(user, row, integers));
    Change::MemberChanged(MemberChanged {
        timeline,
        members: Some(there.into_iter().collect()),
        removed: Some(gone.into_iter().collect()),
        version: standing.version,
        members_count: standing.members,
    })
}

fn member(user: &str, row: &MemberRow, integers: Integers) -> Member {
    shape::member(user.to_owned(), row.clone(), integers)
}

fn receipt(user: &str, read: u64, received: u64) -> Receipt<'_> {
    Receipt {
        user: user.into(),
        read,
        received,
    }
}

fn entry(columns: &Columns, integers: Integers) -> Entry<'_> {
    Entry {
        columns: Cow::Borrowed(columns),
        integers,
    }
}

fn of_row<'a>(change: &'a RowChange, table: &'a str, integers: Integers) -> Change<'a> {
    let cells = |cells: &'a [RowCell]| cells.iter().map(|cell| column(cell, integers)).collect();
    let row = Row {
        table: table.into(),
        timestamp: change.time_us / 1_000,
        key: entry(&change.key, integers),
        columns: cells(&change.cells),
        original: change.original.as_deref().map(cells),
    };
    match change.kind {
        ChangeKind::Put => Change::RowPut(row),
        ChangeKind::Update => Change::RowUpdated(row),
        ChangeKind::Delete => Change::RowDeleted(row),
    }
}

fn column(cell: &RowCell, integers: Integers) -> RowColumn<'_> {
    RowColumn {
        name: Cow::from(&cell.name),
        version: cell.version,
        value: cell.value.as_ref().map(|value| OneValue {
            value: Cow::Borrowed(value),
            integers,
        }),
    }
}
