//! A user's conversations: lists and syncs of them, what the relay writes there, and in this file the writes of their
//! rows at the user.
//!
//! Owns: which membership a row is of, and what of it is the user's own. Promises: a row that a newer membership has
//! written is not taken back by an older one, unless the relay begins anew; what is the user's own never shows in
//! another membership. Must not: decide that a membership has ended; the timeline does.

pub(super) mod conversation_row;
pub(super) mod filter;
pub(super) mod hidden;
pub(super) mod list;
pub(super) mod lists;
pub(super) mod memberships;
pub(super) mod own_side;
pub(super) mod sync;

use crate::timeline::{self, Columns, Error, MemberRow};
use tideline_base::entry::EntryKind;
use tideline_model::json_bytes;
use tideline_table::{
    self as table, DropContext, Entry, ReadError, Source, Txn, View, put, read_row, scan_all,
};

use super::cursor::CURSOR_MS_MAX;
use super::tables::{Home, last_text};
use conversation_row::{ConversationRow, Marks, Membership};
use memberships::Mine;

/// Bytes of a user's own attributes of one conversation, as compact JSON.
const ATTRIBUTES_BYTES_MAX: u64 = 16 << 10;

/// What the relay found of a membership.
#[derive(Clone, Debug)]
pub(super) struct Relayed {
    pub(super) incarnation: u64,
    /// `None` = it has ended.
    pub(super) member: Option<Joined>,
    /// Whether it counts whatever is there: rows of another history may seem newer.
    pub(super) is_anew: bool,
}

/// A membership as the relay saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    joined: u64,
    joined_at: u64,
    marks: Marks,
}

impl Joined {
    pub(super) fn of(member: &MemberRow) -> Joined {
        Joined {
            joined: member.joined,
            joined_at: member.joined_at,
            marks: Marks::of(member),
        }
    }
}

pub(super) fn load(
    rows: &impl Source,
    home: &Home,
    timeline: &str,
) -> Result<Option<ConversationRow>, ReadError> {
    let key = home.conversation_key(timeline);
    table::load(rows, &key, WHAT, ConversationRow::decode)
}

/// All of a user's.
pub(super) fn all(view: &View, home: &Home) -> Result<Mine, ReadError> {
    let mut mine = Mine::default();
    for row in scan_all(view, &home.conversations()) {
        read_row(&row?, WHAT, |columns, value| {
            mine.set(&last_text(columns)?, &ConversationRow::decode(value)?);
            Ok(())
        })?;
    }
    Ok(mine)
}

const WHAT: &str = "not a conversation";

fn store(txn: &mut Txn<'_>, home: &Home, timeline: &str, mut row: ConversationRow) {
    row.position = txn.position().0;
    let now = txn.now_ms().cast_signed();
    put(txn, home.conversation_key(timeline), row.encode(), now);
}

/// Writes what the relay found.
pub(super) fn relay(
    txn: &mut Txn<'_>,
    home: &Home,
    timeline: &str,
    relayed: &Relayed,
) -> Result<(), ReadError> {
    let found = load(txn, home, timeline)?;
    let Some(joined) = relayed.member else {
        let is_it = |row: &ConversationRow| {
            row.membership.incarnation <= relayed.incarnation && row.removed == 0
        };
        if let Some(row) = found.filter(is_it) {
            end(txn, home, timeline, row);
        }
        return Ok(());
    };
    let membership = Membership {
        incarnation: relayed.incarnation,
        joined: joined.joined,
    };
    let row = match found {
        Some(row) if row.membership == membership => {
            if row.marks == joined.marks && row.removed == 0 {
                return Ok(());
            }
            ConversationRow {
                had_others: row.had_others || row.marks.role != joined.marks.role,
                marks: joined.marks,
                removed: 0,
                ..row
            }
        }
        Some(row) if row.membership > membership && !relayed.is_anew => return Ok(()),
        _ => ConversationRow::new(membership, joined.joined_at, joined.marks),
    };
    store(txn, home, timeline, row);
    Ok(())
}

/// Marks a membership as ended.
fn end(txn: &mut Txn<'_>, home: &Home, timeline: &str, row: ConversationRow) {
    let removed = txn.now_ms().max(1);
    store(txn, home, timeline, ConversationRow { removed, ..row });
}

/// Marks a membership as ended of which the timeline does not know any more, if it is still the one.
pub(super) fn mark_ended(
    txn: &mut Txn<'_>,
    home: &Home,
    timeline: &str,
    membership: Membership,
) -> Result<(), Error> {
    match load(txn, home, timeline)? {
        Some(row) if row.membership == membership && row.removed == 0 => {
            end(txn, home, timeline, row);
        }
        _ => {}
    }
    Ok(())
}

/// Whether a merge may drop a row: of a membership that ended so long ago that no cursor counts any more.
pub(super) fn is_over(entry: &Entry, context: &DropContext<'_>) -> bool {
    let ended = match entry.kind {
        EntryKind::Put => ConversationRow::decode(&entry.value).map_or(0, |row| row.removed),
        _ => 0,
    };
    ended > 0 && ended.saturating_add(KEPT_MS) <= context.now_ms
}

/// A day more than cursors count: clocks differ.
const KEPT_MS: u64 = CURSOR_MS_MAX + 24 * 60 * 60 * 1_000;

/// What the user changes of their side.
#[derive(Clone, Debug)]
pub(super) enum OwnChange {
    /// Attributes are merged into what is there.
    Attributes { set: Columns, remove: Vec<String> },
    /// Off the list until a message comes above this.
    Hide { head: u64 },
}

impl OwnChange {
    /// About what it holds in the queue.
    pub(super) fn bytes(&self) -> usize {
        match self {
            OwnChange::Attributes { set, .. } => json_bytes(set),
            OwnChange::Hide { .. } => 0,
        }
    }
}

/// Changes the user's own side of a membership that the timeline has just confirmed. Gives the attributes.
pub(super) fn change_own(
    txn: &mut Txn<'_>,
    home: &Home,
    timeline: &str,
    (incarnation, member): (u64, &MemberRow),
    change: OwnChange,
) -> Result<Columns, Error> {
    let membership = Membership {
        incarnation,
        joined: member.joined,
    };
    let mut row = match load(txn, home, timeline)? {
        // It has ended since the timeline was asked.
        Some(row) if row.membership > membership => return Err(Error::ConversationNotFound),
        Some(row) if row.membership == membership => match row.removed {
            0 => row,
            _ => return Err(Error::ConversationNotFound),
        },
        _ => ConversationRow::new(membership, member.joined_at, Marks::of(member)),
    };
    match change {
        OwnChange::Attributes { set, remove } => merge(&mut row.attributes, set, &remove)?,
        OwnChange::Hide { head } => row.hidden = head + 1,
    }
    let attributes = row.attributes.clone();
    store(txn, home, timeline, row);
    Ok(attributes)
}

/// Merges attributes, within their limits.
fn merge(attributes: &mut Columns, set: Columns, remove: &[String]) -> Result<(), Error> {
    timeline::merge(attributes, set, remove);
    let bytes = json_bytes(attributes);
    timeline::check_limits([
        ("attribute_names_max", NAMES_MAX, attributes.len()),
        ("attributes_bytes_max", ATTRIBUTES_BYTES_MAX, bytes),
    ])
}

/// Names of attributes of one conversation.
const NAMES_MAX: u64 = 128;
