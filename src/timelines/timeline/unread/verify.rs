//! Members and the rows that their unread counts are made from, held against the messages.
//!
//! Owns: these checks. Promises: whatever could make a count wrong is reported: a row that is missing, left over or
//! says something else than the messages do. Must not: read rows through what writes them, but for their formats.

use std::collections::{BTreeMap, HashMap};

use tideline_base::ids::TableId;
use tideline_base::ordered::Malformed;
use tideline_model::Direction;
use tideline_table::{ReadError, Rows, View, damaged, scan, scan_all, split_key};

use super::super::check::dump::StoredTimelines;
use super::super::members::MemberRow;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::stored::changed_sequence;
use super::super::rows::tables::{GONE, MEMBERS, MENTIONS, Name, SENDERS, incarnation_of};
use super::gone::{self, Counts, LEVELS, Of};
use super::{hides, mentions, senders};

type Problem<'p> = &'p mut dyn FnMut(String);

impl StoredTimelines<'_> {
    /// Checks the members of a timeline and what they count.
    pub(in super::super) fn check_members(
        &self,
        timeline: &str,
        head: &HeadRow,
        problem: Problem<'_>,
    ) -> Result<(), ReadError> {
        let name = Name::new(timeline);
        let of = (&name, head);
        check_counted(self.view, of, problem)?;
        check_positions(self.view, of, problem)
    }
}

/// What the rows must be.
#[derive(Default)]
struct Expected {
    /// The ordinals of the senders' last messages.
    ordinals: HashMap<String, u64>,
    senders: u64,
    mentions: u64,
    gone: BTreeMap<(String, u8, u64), Counts>,
}

fn check_counted(view: &View, of: Of<'_>, problem: Problem<'_>) -> Result<(), ReadError> {
    let (name, head) = of;
    let key = |sequence| name.message_key(head.incarnation, sequence);
    let (from, to) = (key(head.floor), key(head.counted() + 1));
    let mut expected = Expected::default();
    if from < to {
        for row in scan(view, &from, &to, Direction::Forward) {
            let (key, value) = row?;
            let sequence = name.number_of(&key);
            let sequence = sequence.map_err(|_| damaged(&key, "not a message's key"))?;
            let message = stored::outline(&value).map_err(|_| damaged(&key, "not a message"))?;
            expected.take(view, of, (sequence, &message), problem)?;
        }
    }
    for (what, table, expected) in [
        ("senders", SENDERS, expected.senders),
        ("mentions", MENTIONS, expected.mentions),
    ] {
        let mut found = 0;
        for row in rows_of(view, of, table) {
            let (key, _) = row?;
            let sequence = sequence_of(&key).map_err(|_| damaged(&key, "not a message's row"))?;
            found += u64::from(sequence >= head.floor);
        }
        if found != expected {
            problem(format!("{found} rows of {what} instead of {expected}"));
        }
    }
    check_gone(view, of, expected.gone, problem)
}

/// The sequence in the key of a sender's or a mention's row.
fn sequence_of(key: &[u8]) -> Result<u64, Malformed> {
    let (_, columns) = split_key(key).ok_or(Malformed)?;
    let (_, mut rest) = incarnation_of(columns)?;
    rest.skip()?;
    rest.u64()
}

impl Expected {
    /// Checks the rows of one message.
    fn take(
        &mut self,
        view: &View,
        of: Of<'_>,
        (sequence, message): (u64, &stored::Outline<'_>),
        problem: Problem<'_>,
    ) -> Result<(), ReadError> {
        let (name, head) = of;
        let sender = message.sender;
        if !sender.is_empty() {
            self.senders += 1;
            let key = name.sender_rows(head.incarnation, sender).number(sequence);
            let row = view.get(key.as_bytes())?;
            let row = row.map(|row| senders::ordinal_of(key.as_bytes(), &row));
            match row.transpose()? {
                None => problem(format!("message {sequence} has no row of its sender")),
                Some(ordinal) => {
                    let before = self.ordinals.insert(sender.to_owned(), ordinal);
                    if before.is_some_and(|before| before + 1 != ordinal) {
                        problem(format!(
                            "message {sequence} has another ordinal than the next"
                        ));
                    }
                }
            }
        }
        if message.deleted {
            for set in gone::sets(sender) {
                for level in 0..LEVELS {
                    let (block, child) = gone::place(sequence, level);
                    let counts = self.gone.entry((set.to_owned(), level, block));
                    counts.or_default().add(child);
                }
            }
            return Ok(());
        }
        for user in message.mentions.map(mentions::named_in).unwrap_or_default() {
            if mentions::is_own(&user, sender) {
                continue;
            }
            self.mentions += 1;
            let key = name.mention_rows(head.incarnation, &user).number(sequence);
            if view.get(key.as_bytes())?.is_none() {
                problem(format!(
                    "message {sequence} has no row of its mention of {user:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Holds the trees against those that the messages make. What is below the floor may be anything.
fn check_gone(
    view: &View,
    of: Of<'_>,
    mut expected: BTreeMap<(String, u8, u64), Counts>,
    problem: Problem<'_>,
) -> Result<(), ReadError> {
    let (_, head) = of;
    for row in rows_of(view, of, GONE) {
        let (key, value) = row?;
        let (set, level, block) = node_of(&key).map_err(|_| damaged(&key, "not a node's key"))?;
        let found = gone::decoded(level, &key, &value)?;
        let at = (set, level, block);
        let wanted = expected.remove(&at).unwrap_or_default();
        let (set, ..) = at;
        let differs = |child: &u8| {
            let first = (block << 8 | u64::from(*child)) << (8 * level);
            let (found, wanted) = (found.at(*child), wanted.at(*child));
            found < wanted || (first.max(1) >= head.floor && found > wanted)
        };
        if (0..=u8::MAX).any(|child| differs(&child)) {
            problem(format!(
                "tombstones of {set:?}: block {block} of level {level} is wrong"
            ));
        }
    }
    for (set, level, block) in expected.into_keys() {
        problem(format!(
            "tombstones of {set:?}: block {block} of level {level} is missing"
        ));
    }
    Ok(())
}

fn node_of(key: &[u8]) -> Result<(String, u8, u64), Malformed> {
    let (_, columns) = split_key(key).ok_or(Malformed)?;
    let (_, mut rest) = incarnation_of(columns)?;
    let (set, level, block) = (rest.string()?, rest.u64()?, rest.u64()?);
    let level = u8::try_from(level).ok().filter(|level| *level < LEVELS);
    Ok((set.into_owned(), level.ok_or(Malformed)?, block))
}

/// Checks how far the members have come, and what they have hidden.
fn check_positions(view: &View, of: Of<'_>, problem: Problem<'_>) -> Result<(), ReadError> {
    let (name, head) = of;
    let mut count = 0;
    for row in rows_of(view, of, MEMBERS) {
        count += 1;
        let (user, member) = MemberRow::named(&row?)?;
        let is_in_order = member.read <= member.received
            && member.received.max(member.cleared) <= head.last
            && member.joined.max(member.version) <= head.member_version;
        if !is_in_order {
            problem(format!(
                "member {user:?} is further than the head, or out of order"
            ));
        }
        let me = (user.as_str(), member.joined);
        let low = head.floor - 1;
        let mut hides = hides::above(view, of, (&user, &member), low)?;
        for row in scan_all(view, &name.hide_numbers(head.incarnation, me)) {
            let (key, value) = row?;
            let sequence = changed_sequence(&value);
            let sequence = sequence.map_err(|_| damaged(&key, "not a hide's number"))?;
            if sequence < head.floor {
                continue;
            }
            let own = senders::is_of(view, of, &user, sequence)?;
            if hides.remove(&sequence) != Some(own) {
                problem(format!(
                    "what member {user:?} hid at {sequence} is not in its place"
                ));
            }
        }
        for sequence in hides.into_keys() {
            problem(format!(
                "what member {user:?} hid at {sequence} has no number"
            ));
        }
    }
    if count != u64::from(head.members) {
        problem(format!("{count} members instead of {}", head.members));
    }
    Ok(())
}

/// The rows of a timeline in a table.
fn rows_of<'v>(view: &'v View, (name, head): Of<'_>, table: TableId) -> Rows<'v> {
    scan_all(view, &name.rows_of(table, head.incarnation))
}
