//! Messages that members have hidden from themselves.
//!
//! Owns: `message.hide` and `message.hidden`, their rows, and the form in which those messages reach the member that
//! hid them. Promises: a hide counts for one membership only; what a user has hidden comes to them without its entry,
//! by any read of messages; hiding twice changes nothing. Must not: touch the message, or show anybody else what was
//! hidden.
//!
//! ```text
//! hide            $own: the message is the member's own; else no column
//! hide by number  $seq                                                   numbers are given in order from 1 on
//! ```

use std::collections::BTreeMap;

pub use tideline_model::timelines::Hidden;
use tideline_model::{Direction, ValueRef};
use tideline_table::{ReadError, Row, RowWriter, Source, Txn, View, damaged, put, scan};

use super::super::members::{MemberRow, Reader};
use super::super::rows::stored::{change_row, changed_sequence};
use super::super::write::{Site, version};
use super::super::{Error, Message, Target};
use super::gone::Of;
use super::keys::number_behind;
use super::own_marks::put_marks;
use super::senders;

/// Messages that a member can hide.
const HIDES_MAX: u64 = 10_000;
const OWN: &str = "$own";

impl Site {
    /// Hides messages from a member. Gives how many were not hidden before.
    pub(in super::super) fn hide(
        &self,
        txn: &mut Txn<'_>,
        target: &Target,
        sequences: &[u64],
    ) -> Result<u64, Error> {
        let user = target.asker.user();
        let (name, head, reader) = self.enter(txn, target)?;
        let (floor, mut member) = (reader.floor, reader.member.ok_or(Error::NotAMember)?);
        let me = (user, member.joined);
        let rows = name.hide_rows(head.incarnation, me);
        let time = version(txn.now_ms());
        let mut hidden = 0;
        for sequence in sequences {
            let key = rows.clone().number(*sequence);
            if !(floor..=head.last).contains(sequence) || txn.row(&key)?.is_some() {
                continue;
            }
            let mut row = RowWriter::new(8);
            if senders::is_of(txn, (&name, &head), user, *sequence)? {
                row.put(OWN, ValueRef::Boolean(true));
            }
            put(txn, key, row, time);
            hidden += 1;
            let number = name
                .hide_numbers(head.incarnation, me)
                .number(member.hides + hidden);
            put(txn, number, change_row(*sequence), time);
        }
        let actual = member.hides + hidden;
        if actual > HIDES_MAX {
            return Err(Error::TooMany {
                field: "sequences",
                limit: HIDES_MAX,
                actual,
            });
        }
        if hidden > 0 {
            member.hides = actual;
            put_marks(txn, &name, &head, user, &member);
        }
        Ok(hidden)
    }

    /// What a member has hidden, behind the `after`-th.
    pub(in super::super) fn hidden(
        &self,
        view: &View,
        target: &Target,
        after: u64,
        limit: usize,
    ) -> Result<Hidden, Error> {
        let (name, head, reader) = self.enter(view, target)?;
        let (floor, member) = (reader.floor, reader.member.ok_or(Error::NotAMember)?);
        let numbers = name.hide_numbers(head.incarnation, (target.asker.user(), member.joined));
        let from = numbers.clone().number(after.saturating_add(1));
        let (mut sequences, mut last) = (Vec::new(), after);
        for row in scan(
            view,
            &from,
            &numbers.clone().above_all(),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            let damaged = |_| damaged(&key, "not a hide's number");
            let sequence = changed_sequence(&value).map_err(damaged)?;
            if sequence < floor {
                continue;
            }
            if sequences.len() == limit {
                let next = Some(last);
                return Ok(Hidden { sequences, next });
            }
            sequences.push(sequence);
            last = number_behind(&numbers, &key).map_err(damaged)?;
        }
        let next = None;
        Ok(Hidden { sequences, next })
    }
}

/// What a member has hidden above a sequence, and whether it is their own.
pub(super) fn above(
    rows: &impl Source,
    (name, head): Of<'_>,
    (user, member): (&str, &MemberRow),
    low: u64,
) -> Result<BTreeMap<u64, bool>, ReadError> {
    if member.hides == 0 {
        return Ok(BTreeMap::new());
    }
    let of_member = name.hide_rows(head.incarnation, (user, member.joined));
    let from = of_member.clone().number(low + 1);
    let to = of_member.clone().above_all();
    let hide = |row: Result<(bytes::Bytes, bytes::Bytes), ReadError>| {
        let (key, value) = row?;
        let own = Row::parse(&value).and_then(|row| row.column(OWN));
        match (number_behind(&of_member, &key), own) {
            (Ok(sequence), Ok(own)) => Ok((sequence, own.is_some())),
            _ => Err(damaged(&key, "not a hide")),
        }
    };
    scan(rows, &from, &to, Direction::Forward)
        .map(hide)
        .collect()
}

/// Whether the reader has hidden a message.
pub(in super::super) fn is_hidden(
    rows: &impl Source,
    (name, head): Of<'_>,
    (user, reader): (&str, &Reader),
    sequence: u64,
) -> Result<bool, ReadError> {
    let Some(member) = reader.member.as_ref().filter(|member| member.hides > 0) else {
        return Ok(false);
    };
    let of_member = name.hide_rows(head.incarnation, (user, member.joined));
    Ok(rows.row(&of_member.number(sequence))?.is_some())
}

/// Takes the entries of messages that the reader has hidden.
pub(in super::super) fn mask<'m>(
    rows: &impl Source,
    of: Of<'_>,
    (user, reader): (&str, &Reader),
    messages: impl IntoIterator<Item = &'m mut Message>,
) -> Result<(), ReadError> {
    let Some(member) = reader.member.as_ref().filter(|member| member.hides > 0) else {
        return Ok(());
    };
    let mut messages: Vec<_> = messages.into_iter().collect();
    let Some(lowest) = messages.iter().map(|message| message.sequence).min() else {
        return Ok(());
    };
    let hides = above(rows, of, (user, member), lowest - 1)?;
    for message in &mut messages {
        if hides.contains_key(&message.sequence) {
            message.hide();
            message.reactions = None;
            message.pinned = false;
        }
    }
    Ok(())
}
