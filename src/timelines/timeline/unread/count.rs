//! How much a member has not read.
//!
//! Owns: the formula (see [`super`] for why it holds), and the way around it near to the head. Promises: both give the
//! same count. Must not: write.

use std::collections::BTreeMap;

use tideline_base::faults::is_named;
use tideline_model::Direction;
use tideline_table::{ReadError, Source, damaged, scan};

use super::super::members::MemberRow;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::tables::Name;
use super::gone::{ALL, Leaves};
use super::{gone, hides, mentions, senders};

/// What a member has not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Messages above what the member has read and can see; own, hidden and deleted ones do not count.
    pub unread: u64,
    /// Those of them that mention the member, up to [`MENTIONS_MAX`].
    pub mentions: u64,
}

/// More mentions are not counted.
const MENTIONS_MAX: u64 = 100;
/// So near to the head the messages themselves are read. Tests use the formula earlier.
const NEAR: u64 = if cfg!(test) { 4 } else { 64 };
/// But no more than so many bytes of them.
const NEAR_BYTES: usize = 64 << 10;

/// Counts what a member has not read.
pub(in super::super) fn unread(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    (user, member): (&str, &MemberRow),
) -> Result<Unread, ReadError> {
    let low = member.read.max(head.floor.max(member.floor()) - 1);
    let all = head.last.saturating_sub(low);
    if all == 0 {
        return Ok(Unread::default());
    }
    let of = (name, head);
    let hides = hides::above(rows, of, (user, member), low)?;
    if all <= NEAR
        && let Some(unread) = near(rows, of, user, (low, &hides))?
    {
        return Ok(unread);
    }
    let own = senders::above(rows, of, user, low)?;
    let gone = gone::above(rows, of, ALL, low)?;
    let own_gone = match own {
        0 => 0,
        _ => gone::above(rows, of, user, low)?,
    };
    let mut leaves = Leaves::new(rows, of);
    let mut hidden = 0;
    for (sequence, own) in &hides {
        if !own && !leaves.has(*sequence)? {
            hidden += 1;
        }
    }
    let mut mentioned = 0;
    for sequence in mentions::above(rows, of, user, low) {
        mentioned += u64::from(!hides.contains_key(&sequence?));
        if mentioned == MENTIONS_MAX {
            break;
        }
    }
    let counted = (all + own_gone).checked_sub(own + gone + hidden);
    Ok(Unread {
        unread: counted
            .ok_or_else(|| damaged(name.head_key().as_bytes(), "more rows than messages"))?,
        mentions: mentioned,
    })
}

/// The same from the messages; `None` if they are too large for it.
fn near(
    rows: &impl Source,
    (name, head): gone::Of<'_>,
    user: &str,
    (low, hides): (u64, &BTreeMap<u64, bool>),
) -> Result<Option<Unread>, ReadError> {
    let key = |sequence| name.message_key(head.incarnation, sequence);
    let (from, to) = (key(low + 1), key(head.last + 1));
    let (mut unread, mut bytes) = (Unread::default(), 0);
    for row in scan(rows, &from, &to, Direction::Forward) {
        let (key, value) = row?;
        bytes += value.len();
        if bytes > NEAR_BYTES {
            return Ok(None);
        }
        let sequence = name.number_of(&key);
        let sequence = sequence.map_err(|_| damaged(&key, "not a message's key"))?;
        let message = stored::outline(&value).map_err(|_| damaged(&key, "not a message"))?;
        if message.deleted
            || (message.sender == user && !is_named("own_unread"))
            || hides.contains_key(&sequence)
        {
            continue;
        }
        unread.unread += 1;
        let names = message.mentions.map(mentions::named_in);
        if names.is_some_and(|names| mentions::is_of(&names, user)) {
            unread.mentions += 1;
        }
    }
    Ok(Some(unread))
}
