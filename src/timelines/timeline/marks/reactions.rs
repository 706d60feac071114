//! Reactions: adding, taking back, listing.
//!
//! Owns: these three calls. Promises: what is so already takes no change number; a reaction writes its own row, the
//! message's sums and its change row, whatever the size of the message. Must not: touch the message's row.

use tideline_base::ordered::Malformed;
use tideline_model::access::Right;
use tideline_model::json_text_bytes;
pub use tideline_model::timelines::ReactionPage;
use tideline_model::timelines::reaction::USERS_MAX;
use tideline_model::timelines::{Reaction, Reactions};
use tideline_table::{
    Action, Key, ReadError, Txn, View, damaged, delete, put, record, scan_all, scan_behind,
};

use super::super::members::Reader;
use super::super::rows::head::{HAS_REACTIONS, HeadRow};
use super::super::rows::tables::{Name, REACTION_SUMS};
use super::super::time::shown;
use super::super::write::edit::{load, next_change};
use super::super::write::{Site, put_head, version};
use super::super::{Error, Target};
use super::of_message::is_own;
use super::row::{NAMES_MAX, Sums, added_by, reaction_row};

/// Of a reaction that more users have, the last users are not looked for among all of them.
pub(super) const LOOKED_FOR_MAX: u64 = 1_000;

/// A user's reaction to a message.
#[derive(Clone, Debug)]
pub struct React {
    /// Where; whose: never nobody's.
    pub target: Target,
    /// To which message.
    pub sequence: u64,
    /// Its name.
    pub reaction: String,
    /// Whether it is added or taken back.
    pub adds: bool,
}

/// Which reactions are to be listed.
#[derive(Clone, Debug)]
pub struct ReactionsOf {
    /// Where, and the asker.
    pub target: Target,
    /// Of which message.
    pub sequence: u64,
    /// All users of this one; `None` = all names, with their last users.
    pub reaction: Option<String>,
    /// Only users whose names are above this.
    pub after: Option<String>,
    /// Users at most (already clamped).
    pub limit: usize,
    /// Approximate bytes at most; at least one user is returned all the same.
    pub bytes_max: usize,
}

impl Site {
    /// Adds a reaction or takes it back. Gives the reactions that the message has then, as far as they may see them.
    pub(in super::super) fn react(
        &self,
        txn: &mut Txn<'_>,
        react: &React,
    ) -> Result<Vec<Reaction>, Error> {
        let React {
            target,
            sequence,
            reaction,
            adds,
        } = react;
        let (name, mut head, reader) = self.enter(txn, target)?;
        let message = load(txn, &name, &reader.sees(head), *sequence)?;
        let message = shown(message, &self.time);
        if message.entry.is_none() {
            return Err(Error::Deleted);
        }
        let mut reactions = message
            .reactions
            .map_or_else(Reactions::default, |all| *all);
        let is_known = reactions.of(reaction).is_some();
        let key = name.reaction_key(head.incarnation, *sequence, reaction, target.asker.user());
        let has = is_known && txn.get(key.as_bytes())?.is_some();
        if has == *adds {
            return told(txn, (&name, &head), react, (&reader, reactions.by_name));
        }
        if !is_known && reactions.by_name.len() == NAMES_MAX {
            return Err(Error::TooMany {
                field: "reaction",
                limit: NAMES_MAX as u64,
                actual: NAMES_MAX as u64 + 1,
            });
        }
        head.flags |= HAS_REACTIONS;
        let change = next_change(txn, &name, &mut head, (*sequence, message.change));
        let now = version(txn.now_ms());
        if *adds {
            put(txn, key, reaction_row(change), now);
            reactions.add(reaction, target.asker.user());
        } else {
            delete(txn, key);
            if let Some(lacking) = reactions.remove(reaction, target.asker.user())
                && lacking.count <= LOOKED_FOR_MAX
            {
                lacking.users = last_users(txn, &name, &head, (*sequence, reaction))?;
            }
        }
        let sums = Sums {
            change,
            by_name: reactions.by_name,
        };
        let key = name.reaction_sums_key(head.incarnation, *sequence);
        let entry = put(txn, key, sums.encode(), now);
        put_head(txn, &name, &head);
        record(txn, REACTION_SUMS, Action::Update, entry, 1);
        told(txn, (&name, &head), react, (&reader, sums.by_name))
    }

    /// The reactions to a message, or all users of one.
    pub(in super::super) fn reactions(
        &self,
        view: &View,
        of: &ReactionsOf,
    ) -> Result<ReactionPage, Error> {
        let target = &of.target;
        let (name, head, reader) = self.enter(view, target)?;
        let message = load(view, &name, &reader.sees(head), of.sequence)?;
        let message = shown(message, &self.time);
        if message.entry.is_none() {
            return Err(Error::Deleted);
        }
        let mut reactions = message
            .reactions
            .map_or_else(Reactions::default, |all| *all);
        for reaction in &mut reactions.by_name {
            let of_message = (of.sequence, &*reaction);
            reaction.mine = is_own(view, (&name, &head), of_message, target.asker.user())?;
        }
        let Some(asked) = &of.reaction else {
            return Ok(ReactionPage {
                reactions: reactions.by_name,
                next: None,
            });
        };
        let Some(sum) = reactions.of(asked) else {
            return Ok(ReactionPage {
                reactions: Vec::new(),
                next: None,
            });
        };
        let all = name.reaction_keys(head.incarnation, of.sequence, asked);
        let (mut users, mut bytes, mut is_cut) = (Vec::new(), of.bytes_max, false);
        for row in scan_behind(view, &all, of.after.as_deref()) {
            let (key, _) = row?;
            let user = user_of(&name, &key)?;
            let size = json_text_bytes(&user) + 1;
            is_cut = users.len() == of.limit || (size > bytes && !users.is_empty());
            if is_cut {
                break;
            }
            bytes = bytes.saturating_sub(size);
            users.push(user);
        }
        Ok(ReactionPage {
            next: users.last().filter(|_| is_cut).cloned(),
            reactions: vec![Reaction {
                users,
                ..sum.clone()
            }],
        })
    }
}

/// The answer to the user that reacts: without `read` only their own reaction.
fn told(
    txn: &Txn<'_>,
    of: (&Name, &HeadRow),
    react: &React,
    (reader, mut by_name): (&Reader, Vec<Reaction>),
) -> Result<Vec<Reaction>, Error> {
    let user = react.target.asker.user();
    if !reader.rights.has(Right::Read) {
        let own = Reaction {
            name: react.reaction.clone(),
            count: 1,
            users: vec![user.to_owned()],
            mine: false,
        };
        return Ok(react.adds.then_some(own).into_iter().collect());
    }
    for reaction in &mut by_name {
        reaction.mine = is_own(txn, of, (react.sequence, &*reaction), user)?;
    }
    Ok(by_name)
}

/// The last users of a reaction, newest first.
fn last_users(
    txn: &Txn<'_>,
    name: &Name,
    head: &HeadRow,
    (sequence, reaction): (u64, &str),
) -> Result<Vec<String>, ReadError> {
    let all = name.reaction_keys(head.incarnation, sequence, reaction);
    let mut users = Vec::new();
    for row in scan_all(txn, &all) {
        let (key, value) = row?;
        let change = added_by(&value).map_err(|_| damaged(&key, "not a reaction"))?;
        users.push((change, user_of(name, &key)?));
    }
    users.sort_unstable_by(|a, b| b.cmp(a));
    users.truncate(USERS_MAX);
    Ok(users.into_iter().map(|(_, user)| user).collect())
}

/// Whose reaction the row of a key is.
pub(super) fn user_of(name: &Name, key: &[u8]) -> Result<String, ReadError> {
    let (_, _, user) = parts(name, key)?;
    Ok(user)
}

/// The sequence, the name of the reaction and the user in a key.
pub(super) fn parts(name: &Name, key: &[u8]) -> Result<(u64, String, String), ReadError> {
    let read = || {
        let mut columns = name.behind_incarnation(key)?;
        let (sequence, reaction) = (columns.u64()?, columns.string()?);
        Ok((
            sequence,
            reaction.into_owned(),
            columns.string()?.into_owned(),
        ))
    };
    read().map_err(|_: Malformed| damaged(key, "not a reaction's key"))
}

impl Name {
    pub(super) fn reaction_key(
        &self,
        incarnation: u64,
        sequence: u64,
        reaction: &str,
        user: &str,
    ) -> Key {
        self.reaction_keys(incarnation, sequence, reaction)
            .string(user)
    }
}
