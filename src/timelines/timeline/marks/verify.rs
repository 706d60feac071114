//! What must hold between reactions, pins and their messages.
//!
//! Owns: these rules. Promises: each contradiction is reported with its place. Must not: write.

use std::collections::BTreeMap;

use tideline_model::Direction;
use tideline_table::{Key, ReadError, View, damaged, scan};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::{Name, REACTIONS};
use super::super::{Message, Reaction};
use super::pins::{PINS_MAX, pins_of};
use super::reactions::{LOOKED_FOR_MAX, parts};
use super::row::{Sums, added_by};
use tideline_model::timelines::reaction::told_of;

/// A timeline's marks while its messages are walked, in order.
pub(in super::super) struct Marks<'v> {
    view: &'v View,
    name: Name,
    head: HeadRow,
    pins: u64,
}

impl<'v> Marks<'v> {
    pub(in super::super) fn new(view: &'v View, name: &Name, head: &HeadRow) -> Marks<'v> {
        Marks {
            view,
            name: name.clone(),
            head: *head,
            pins: 0,
        }
    }

    /// Holds a message against its pin and the rows of its reactions.
    pub(in super::super) fn check(
        &mut self,
        message: &Message,
        problem: &mut dyn FnMut(String),
    ) -> Result<(), ReadError> {
        let sequence = message.sequence;
        let key = self.name.pin_key(self.head.incarnation, sequence);
        let is_listed = self.view.get(key.as_bytes())?.is_some();
        self.pins += u64::from(is_listed);
        if is_listed != message.pinned {
            problem(format!(
                "message {sequence} says pinned = {}, the list of pins {is_listed}",
                message.pinned
            ));
        }
        if message.pinned && message.entry.is_none() {
            problem(format!("message {sequence} is pinned and has no entry"));
        }
        if !self.head.has_reactions() {
            return Ok(());
        }
        let Some(shown) = &message.reactions else {
            return self.check_none(message, problem);
        };
        if message.entry.is_none() {
            problem(format!("message {sequence} has reactions and no entry"));
        }
        let stored = stored(self.view, &self.name, &self.head, sequence)?;
        let names = shown.by_name.iter().map(|sum| sum.name.as_str());
        if !names.eq(stored.keys().map(String::as_str)) {
            problem(format!(
                "the sums of reactions to message {sequence} have other names than the reactions"
            ));
        }
        for sum in &shown.by_name {
            let users = stored.get(&sum.name).map_or(&[][..], Vec::as_slice);
            if !is_sum(sum, users) {
                problem(format!(
                    "the sum of reactions {:?} to message {sequence} is not that of the {} users",
                    sum.name,
                    users.len()
                ));
            }
        }
        Ok(())
    }

    /// Holds a message without reactions against the rows.
    fn check_none(
        &self,
        message: &Message,
        problem: &mut dyn FnMut(String),
    ) -> Result<(), ReadError> {
        let sequence = message.sequence;
        let key = self.name.reaction_sums_key(self.head.incarnation, sequence);
        let sums = self.view.get(key.as_bytes())?;
        let is_gone = match &sums {
            None => false,
            Some(value) => {
                let sums = Sums::decode(value);
                sums.map_err(|_| damaged(key.as_bytes(), "not sums of reactions"))?
                    .is_none()
            }
        };
        if is_gone && message.entry.is_some() {
            problem(format!(
                "the reactions to message {sequence} are said to go, but it has an entry"
            ));
        }
        if !is_gone && !stored(self.view, &self.name, &self.head, sequence)?.is_empty() {
            problem(format!("message {sequence} has reactions without a sum"));
        }
        Ok(())
    }

    /// After the last message.
    pub(in super::super) fn end(self, problem: &mut dyn FnMut(String)) -> Result<(), ReadError> {
        let mut pins = 0;
        for pin in pins_of(self.view, &self.name, &self.head, 0) {
            pin?;
            pins += 1;
        }
        if pins != self.pins {
            problem(format!("{} pins lead to no message", pins - self.pins));
        }
        if pins > PINS_MAX as u64 {
            problem(format!("{pins} messages are pinned, more than {PINS_MAX}"));
        }
        let of = || self.name.rows_of(REACTIONS, self.head.incarnation);
        let from = match self.head.has_reactions() {
            true => of().number(self.head.last + 1),
            false => of().below_all(),
        };
        let stray = scan(self.view, &from, &of().above_all(), Direction::Forward).count();
        if stray > 0 {
            problem(format!("{stray} reactions are to no message"));
        }
        Ok(())
    }
}

/// All reactions to a message: the users of each, newest first.
pub(in super::super) fn stored(
    view: &View,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
) -> Result<BTreeMap<String, Vec<String>>, ReadError> {
    let all = || Key::new(REACTIONS, name.as_bytes(), 32).number(head.incarnation);
    let (from, to) = (all().number(sequence), all().number(sequence + 1));
    let mut found: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for row in scan(view, &from, &to, Direction::Forward) {
        let (key, value) = row?;
        let (_, reaction, user) = parts(name, &key)?;
        let change = added_by(&value).map_err(|_| damaged(&key, "not a reaction"))?;
        found.entry(reaction).or_default().push((change, user));
    }
    let newest_first = |mut users: Vec<(u64, String)>| {
        users.sort_unstable_by(|a, b| b.cmp(a));
        users.into_iter().map(|(_, user)| user).collect()
    };
    let found = found.into_iter();
    Ok(found
        .map(|(name, users)| (name, newest_first(users)))
        .collect())
}

/// Whether a sum tells of these users, newest first.
fn is_sum(sum: &Reaction, users: &[String]) -> bool {
    let told = sum.users.len();
    // Of a crowd it may tell of fewer.
    let is_enough = told == told_of(sum.count) || sum.count > LOOKED_FOR_MAX;
    sum.count == users.len() as u64 && is_enough && users.starts_with(&sum.users)
}
