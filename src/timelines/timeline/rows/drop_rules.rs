//! When rows of timelines have expired, for the merges of the store below.
//!
//! Owns: the marks that a head row sets on the rows of its timeline. Promises: a row has expired only because a head
//! row says so: the timeline was deleted, it is of an earlier incarnation, it is below the floor, its ID is no longer
//! remembered. No head row, or one that can't be read, means keep; head rows and metas never expire. Must not: look at
//! the clock itself.

use tideline_base::entry::EntryKind;
use tideline_base::ids::TableId;
use tideline_table::{BuiltInTables, DropContext, Entry, Malformed, Owner, owner_of_text};

use super::super::Limits;
use super::super::growth;
use super::super::marks;
use super::super::members::change_row::ChangeRow;
use super::super::time::{Due, Kind, ScheduledRow};
use super::super::unread;
use super::head::HeadRow;
use super::stored::{IdRow, changed_sequence};
use super::tables::{
    CHANGES, DUE, FOLLOWERS, FORKS, GONE, HEADS, HIDES, HIDES_BY_NUMBER, IDS, MARKS,
    MEMBER_CHANGES, MEMBERS, MENTIONS, MESSAGES, METAS, Name, OPEN, PARTS, PINS, POLICIES,
    REACTION_SUMS, REACTIONS, SCHEDULED, SENDERS, SETTINGS, STREAMS, incarnation_of,
};

/// How long message IDs are remembered.
#[derive(Clone, Copy, Debug)]
pub(in crate::timeline) struct Window {
    ms: u64,
    count: u64,
}

impl Window {
    pub(in crate::timeline) fn new(limits: &Limits) -> Window {
        Window {
            ms: limits.message_id_window_ms,
            count: limits.message_id_window_count,
        }
    }

    /// Whether an ID still counts: its message is younger than the window, or among the newest of its timeline. Time
    /// and head only rise, so what does not count never counts again.
    pub(in crate::timeline) fn remembers(&self, id: &IdRow, last: u64, now_ms: u64) -> bool {
        id.scheduled().is_some()
            || id.timestamp.saturating_add(self.ms) > now_ms
            || id.sequence.saturating_add(self.count) > last
    }
}

/// What timelines know about their rows.
pub(in crate::timeline) struct TimelineTables {
    pub(in crate::timeline) window: Window,
}

impl BuiltInTables for TimelineTables {
    fn is_over(
        &self,
        table: TableId,
        columns: &[u8],
        entry: &Entry,
        context: &DropContext<'_>,
    ) -> bool {
        self.marked(table, columns, entry, context).unwrap_or(false)
    }

    fn is_looked_up(&self, table: TableId) -> bool {
        matches!(
            table,
            HEADS
                | METAS
                | IDS
                | SETTINGS
                | MEMBERS
                | FOLLOWERS
                | REACTIONS
                | REACTION_SUMS
                | STREAMS
        )
    }

    fn owner(&self, table: TableId, columns: &[u8]) -> Option<Owner> {
        match table {
            DUE => owner_of_text(Due::of(columns).ok()?.name.as_bytes()),
            POLICIES => Some(Owner::Each),
            HEADS | METAS | SCHEDULED | FORKS => owner_of_text(columns),
            table if is_of_incarnation(table) => owner_of_text(columns),
            _ => None,
        }
    }
}

impl TimelineTables {
    fn marked(
        &self,
        table: TableId,
        columns: &[u8],
        entry: &Entry,
        context: &DropContext<'_>,
    ) -> Result<bool, Malformed> {
        match table {
            SCHEDULED if entry.kind == EntryKind::Put => {
                return Ok(ScheduledRow::decode(&entry.value)?.is_forgotten(context.now_ms));
            }
            DUE => return is_void(columns, context),
            table if !is_of_incarnation(table) => return Ok(false),
            _ => {}
        }
        let (incarnation, mut rest) = incarnation_of(columns)?;
        let name = Name::of(columns)?;
        let Some(head) = (context.read)(name.head_key().as_bytes()) else {
            return Ok(false);
        };
        let head = HeadRow::decode(&head)?;
        // A later incarnation than the head's would be news that the head read here has not: keep.
        if incarnation != head.incarnation {
            return Ok(incarnation < head.incarnation);
        }
        if head.dropped {
            return Ok(true);
        }
        let sequence = match table {
            MESSAGES | REACTIONS | REACTION_SUMS | PINS | PARTS | OPEN => Some(rest.u64()),
            // The one that the floor lies behind is where what is kept begins.
            MARKS => Some(rest.u64().map(|sequence| sequence + 1)),
            SENDERS | MENTIONS => Some(rest.skip().and_then(|_| rest.u64())),
            HIDES => Some(
                rest.skip()
                    .and_then(|_| rest.skip())
                    .and_then(|_| rest.u64()),
            ),
            GONE => Some(unread::last_of_node(rest)),
            _ => None,
        };
        if let Some(sequence) = sequence {
            let sequence = sequence?;
            let is_taken = || {
                let sums = name.reaction_sums_key(incarnation, sequence);
                let sums = (context.read)(sums.as_bytes());
                sums.is_some_and(|sums| marks::is_gone(&sums) == Ok(true))
            };
            // A message is closed for good, and what its row holds then is all.
            let is_whole = || {
                let message = name.message_key(incarnation, sequence);
                let message = (context.read)(message.as_bytes());
                message.is_some_and(|message| growth::is_closed(&message) == Ok(true))
            };
            return Ok(sequence < head.floor
                || (table == REACTIONS && is_taken())
                || (table == PARTS && is_whole()));
        }
        match table {
            MEMBER_CHANGES if entry.kind == EntryKind::Put => {
                ChangeRow::is_over(&entry.value, context.now_ms)
            }
            CHANGES | HIDES_BY_NUMBER if entry.kind == EntryKind::Put => {
                Ok(changed_sequence(&entry.value)? < head.floor)
            }
            IDS if entry.kind == EntryKind::Put => {
                let id = IdRow::decode(&entry.value)?;
                Ok(!self.window.remembers(&id, head.last, context.now_ms))
            }
            _ => Ok(false),
        }
    }
}

/// Whether a due row leads to what is gone. One of a scheduled message is deleted with it.
fn is_void(columns: &[u8], context: &DropContext<'_>) -> Result<bool, Malformed> {
    let due = Due::of(columns)?;
    if due.kind() == Kind::Deliver {
        return Ok(false);
    }
    let Some(head) = (context.read)(due.name.head_key().as_bytes()) else {
        return Ok(false);
    };
    let head = HeadRow::decode(&head)?;
    let (incarnation, mut rest) = due.incarnation()?;
    if incarnation != head.incarnation || head.dropped {
        return Ok(incarnation <= head.incarnation);
    }
    Ok(due.kind() != Kind::Trim && rest.u64()? < head.floor)
}

/// Tables whose keys have an incarnation behind the timeline: their rows end with it.
fn is_of_incarnation(table: TableId) -> bool {
    let of_messages = matches!(table, MESSAGES | MARKS | IDS | CHANGES | PARTS | OPEN);
    let of_members = matches!(table, SETTINGS | MEMBERS | MEMBER_CHANGES | FOLLOWERS);
    let of_unread = matches!(table, SENDERS | MENTIONS | HIDES | HIDES_BY_NUMBER | GONE);
    let of_marks = matches!(table, REACTIONS | REACTION_SUMS | PINS);
    of_messages || of_members || of_unread || of_marks || table == STREAMS
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::super::stored::change_row;
    use super::super::tables::id_columns;
    use super::*;
    use crate::timeline::Refused;
    use crate::timeline::time::{due_key, expiry_columns};
    use tideline_table::{Catalog, Key, TableRules};
    use tideline_table::{Reason, Rules, Verdict};

    const INCARNATION: u64 = 5;

    fn is_dropped(key: &Key, value: Vec<u8>, head: Option<HeadRow>, now_ms: u64) -> bool {
        let window = Window { ms: 100, count: 3 };
        let rules = TableRules::new(Arc::new(TimelineTables { window }), Catalog::default());
        let head_key = Name::new("room").head_key();
        let context = DropContext {
            now_ms,
            oldest: true,
            read: &|key| {
                assert_eq!(key, head_key.as_bytes());
                head.map(|head| Bytes::from(head.encode().finish(1)))
            },
        };
        let entry = Entry {
            kind: EntryKind::Put,
            value: value.into(),
        };
        rules.verdict(key.as_bytes(), &entry, &context) == Verdict::Drop(Reason::Marked)
    }

    fn head() -> HeadRow {
        HeadRow {
            last: 10,
            floor: 4,
            ..HeadRow::new(INCARNATION)
        }
    }

    #[test]
    fn messages_and_changes_go_by_floor_incarnation_and_dropped_mark() {
        let name = Name::new("room");
        for (sequence, below_floor) in [(3, true), (4, false)] {
            let message = name.message_key(INCARNATION, sequence);
            let change = name.change_key(INCARNATION, 77);
            for (key, value) in [(message, vec![]), (change, change_row(sequence).finish(1))] {
                let dropped = |head| is_dropped(&key, value.clone(), head, 0);
                assert_eq!(dropped(Some(head())), below_floor);
                assert!(!dropped(None), "no head row: keep");
                assert!(dropped(Some(HeadRow::dropped(INCARNATION))));
                assert!(dropped(Some(HeadRow::new(INCARNATION + 1))));
                assert!(!dropped(Some(HeadRow::dropped(INCARNATION - 1))));
            }
        }
    }

    #[test]
    fn members_and_pins_end_with_their_incarnation() {
        let name = Name::new("room");
        let member = name.member_key(INCARNATION, "ann");
        let pin = Key::new(PINS, name.as_bytes(), 9)
            .number(INCARNATION)
            .number(5);
        let producer = name.stream_key(INCARNATION, "p");
        for key in [member, pin, producer] {
            let dropped = |head| is_dropped(&key, vec![], Some(head), 0);
            assert!(!dropped(head()));
            assert!(dropped(HeadRow::dropped(INCARNATION)));
            assert!(dropped(HeadRow::new(INCARNATION + 1)));
        }
    }

    #[test]
    fn rows_beside_a_message_go_with_it() {
        let name = Name::new("room");
        let me = ("ann", 3);
        for (sequence, below_floor) in [(3, true), (4, false)] {
            let rows = [
                name.sender_rows(INCARNATION, "ann"),
                name.mention_rows(INCARNATION, "*"),
                name.hide_rows(INCARNATION, me),
            ];
            for key in rows.map(|rows| rows.number(sequence)) {
                assert_eq!(is_dropped(&key, vec![], Some(head()), 0), below_floor);
            }
            let number = name.hide_numbers(INCARNATION, me).number(1);
            let value = change_row(sequence).finish(1);
            assert_eq!(is_dropped(&number, value, Some(head()), 0), below_floor);
        }
        for (floor, dropped) in [(255, false), (256, true), (65_535, true), (65_536, true)] {
            let head = HeadRow {
                last: 1 << 20,
                floor,
                ..head()
            };
            for (level, dropped) in [(0, dropped), (1, floor == 65_536), (3, false)] {
                let node = name.gone_key(INCARNATION, "ann", level, 0);
                assert_eq!(
                    is_dropped(&node, vec![], Some(head), 0),
                    dropped,
                    "{level} {floor}"
                );
            }
        }
    }

    #[test]
    fn an_id_goes_only_when_it_is_both_old_and_deep() {
        let key = Name::new("room").id_key(INCARNATION, &id_columns("u", "m"));
        let id = |sequence| IdRow::encode(sequence, 1).finish(1_000);
        assert!(!is_dropped(&key, id(7), Some(head()), 1_099));
        assert!(is_dropped(&key, id(7), Some(head()), 1_100));
        assert!(!is_dropped(&key, id(8), Some(head()), 5_000));
        assert!(is_dropped(
            &key,
            id(8),
            Some(HeadRow::dropped(INCARNATION)),
            0
        ));
    }

    #[test]
    fn due_rows_go_with_what_they_lead_to_and_refused_messages_after_a_week() {
        const WEEK_MS: u64 = 7 * 86_400_000;
        let name = Name::new("room");
        let expiry = |sequence| {
            let columns = expiry_columns(INCARNATION, sequence);
            due_key(Kind::Expire, 99, &name, &columns)
        };
        let dropped = |key: &Key, head| is_dropped(key, vec![], Some(head), u64::MAX);
        assert!(dropped(&expiry(3), head()));
        assert!(!dropped(&expiry(4), head()));
        assert!(dropped(&expiry(4), HeadRow::dropped(INCARNATION)));
        assert!(dropped(&expiry(4), HeadRow::new(INCARNATION + 1)));
        assert!(!dropped(&expiry(3), HeadRow::new(INCARNATION - 1)));
        let columns = id_columns("u", "m");
        let delivery = due_key(Kind::Deliver, 99, &name, &columns);
        assert!(!dropped(&delivery, HeadRow::dropped(INCARNATION)));
        // An ID that leads to a scheduled message is remembered as long as that waits.
        let waiting = IdRow::encode(0, 1).finish(1_000);
        let id_key = name.id_key(INCARNATION, &columns);
        assert!(!is_dropped(&id_key, waiting, Some(head()), u64::MAX));
        let scheduled = |refused| {
            let row = ScheduledRow {
                deliver_at: 99,
                expires_in_ms: None,
                given: tideline_model::access::Given::default(),
                incarnation: INCARNATION,
                refused,
                entry: vec![],
            };
            row.encode().finish(1)
        };
        let is_over = |refused, now_ms| {
            let key = name.scheduled_key(&columns);
            is_dropped(&key, scheduled(refused), Some(head()), now_ms)
        };
        assert!(!is_over(None, u64::MAX));
        let refused = Some((Refused::TimelineNotFound, 100));
        assert!(!is_over(refused, 99 + WEEK_MS) && is_over(refused, 100 + WEEK_MS));
    }

    #[test]
    fn heads_metas_and_what_is_unknown_stay() {
        let name = Name::new("room");
        let dropped = Some(HeadRow::dropped(INCARNATION));
        assert!(!is_dropped(&name.head_key(), vec![], dropped, 0));
        assert!(!is_dropped(&name.meta_key(), vec![], dropped, 0));
        let unreadable = Key::new(MESSAGES, &[1, 2, 3], 0);
        assert!(!is_dropped(&unreadable, vec![], dropped, 0));
        let user = Key::new(TableId(1024), &[], 0).string("room").number(1);
        assert!(!is_dropped(&user, vec![], dropped, 0));
        let id = name.id_key(INCARNATION, &id_columns("u", "m"));
        assert!(!is_dropped(&id, vec![9], Some(head()), u64::MAX));
    }

    #[test]
    fn reactions_go_with_their_message() {
        let name = Name::new("room");
        let reaction = |at| name.reaction_keys(INCARNATION, at, "+1").string("ada");
        for (sequence, below_floor) in [(3, true), (4, false)] {
            let sums = name.reaction_sums_key(INCARNATION, sequence);
            let pin = name.pin_key(INCARNATION, sequence);
            for key in [sums, pin] {
                assert_eq!(is_dropped(&key, vec![], Some(head()), 0), below_floor);
            }
        }
        assert!(is_dropped(&reaction(3), vec![], Some(head()), 0));
        // Those of a tombstone are dropped, and its sums say so as long as it is above the floor.
        let rules = TimelineTables {
            window: Window { ms: 100, count: 3 },
        };
        let sums = name.reaction_sums_key(INCARNATION, 4);
        for (value, is_gone) in [(marks::gone(), true), (change_row(1), false)] {
            let value = value.finish(1);
            let read = |key: &[u8]| match key == sums.as_bytes() {
                true => Some(Bytes::from(value.clone())),
                false => Some(Bytes::from(head().encode().finish(1))),
            };
            let context = DropContext {
                now_ms: 0,
                oldest: true,
                read: &read,
            };
            let key = reaction(4);
            let (table, columns) = tideline_table::split_key(key.as_bytes()).unwrap();
            let entry = Entry {
                kind: EntryKind::Put,
                value: Bytes::new(),
            };
            assert_eq!(rules.is_over(table, columns, &entry, &context), is_gone);
        }
    }
}
