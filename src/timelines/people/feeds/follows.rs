//! The timelines that a user follows, at the user.
//!
//! Owns: the rows of follows, and `feed.follow`, `.unfollow`, `.following`. Promises: a follow is of one incarnation of
//! its timeline and has a number of its own, so that what the relay brings back of an older one does not count. Must
//! not: know followers; the relay writes them at the timeline.

use std::sync::{Arc, OnceLock};

use crate::timeline::{Error, Target, Timelines};
use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ids::TableId;
use tideline_base::ordered::Reader;
use tideline_model::access::Asker;
use tideline_table as table;
use tideline_table::{
    Action, Batch, Kept, Malformed, Purpose, ReadError, RowPage, Source, Txn, View, changed_rows,
    columns, delete, load, put, read_row, record, scan_all,
};

use super::super::tables::{FOLLOWS, Home, last_text};
use super::super::{People, SMALL_BYTES};

/// How many timelines a user may follow.
const FOLLOWS_MAX: u64 = 10_000;

/// A timeline that a user follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// Its ID.
    pub timeline: String,
    /// Which of its name.
    pub incarnation: u64,
    /// Tells this follow from earlier ones of the user; rises.
    pub number: u64,
    /// The first sequence in the feed.
    pub from: u64,
    /// Messages from here on come into the user's inbox, if the timeline's go there; [`u64::MAX`] = the timeline does
    /// not know the follower yet.
    pub inbox_from: u64,
}

columns! { Follow {
    "$from" always: from,
    "$inbox": inbox_from = u64::MAX,
    "$inc" always: incarnation,
    "$number" always: number,
} }

const WHAT: &str = "not a follow";

impl Follow {
    /// A user's follow of this timeline.
    pub(in super::super) fn of(timeline: String, row: &[u8]) -> Result<Follow, Malformed> {
        Ok(Follow {
            timeline,
            ..Follow::decode(row)?
        })
    }

    pub(in super::super) fn load(
        rows: &impl Source,
        home: &Home,
        timeline: &str,
    ) -> Result<Option<Follow>, ReadError> {
        let decode = |value: &[u8]| Follow::of(timeline.to_owned(), value);
        load(rows, &home.follow_key(timeline), WHAT, decode)
    }

    fn store(&self, txn: &mut Txn<'_>, home: &Home, action: Action) {
        let now = txn.now_ms().cast_signed();
        let entry = put(txn, home.follow_key(&self.timeline), self.encode(), now);
        record(txn, FOLLOWS, action, entry, 1);
    }
}

/// Begins to follow, unless the user does. Gives the first sequence in the feed.
fn follow(
    txn: &mut Txn<'_>,
    home: &Home,
    timeline: String,
    (incarnation, from): (u64, u64),
) -> Result<u64, ReadError> {
    if let Some(follow) = Follow::load(txn, home, &timeline)?
        && follow.incarnation >= incarnation
    {
        return Ok(follow.from);
    }
    let follow = Follow {
        timeline,
        incarnation,
        number: Timelines::place_of(txn),
        from,
        inbox_from: u64::MAX,
    };
    follow.store(txn, home, Action::Put);
    Ok(from)
}

/// Ends a follow; `false` if there was none.
fn unfollow(txn: &mut Txn<'_>, home: &Home, timeline: &str) -> Result<bool, ReadError> {
    if Follow::load(txn, home, timeline)?.is_none() {
        return Ok(false);
    }
    let entry = delete(txn, home.follow_key(timeline));
    record(txn, FOLLOWS, Action::Delete, entry, 1);
    Ok(true)
}

/// Stores from which sequence on a timeline's messages come into the inbox: the timeline knows the follow of this
/// number now. `is_anew`: messages below may be missing there, so a higher sequence replaces the stored one.
pub(in super::super) fn confirm(
    txn: &mut Txn<'_>,
    home: &Home,
    timeline: &str,
    (number, inbox_from): (u64, u64),
    is_anew: bool,
) -> Result<(), ReadError> {
    let Some(mut follow) = Follow::load(txn, home, timeline)? else {
        return Ok(());
    };
    let is_news = follow.inbox_from == u64::MAX || (is_anew && follow.inbox_from < inbox_from);
    if follow.number == number && is_news {
        follow.inbox_from = inbox_from;
        follow.store(txn, home, Action::Update);
    }
    Ok(())
}

/// What became of a user's follow.
pub(in super::super) struct FollowChange {
    pub(in super::super) user: String,
    pub(in super::super) timeline: String,
    /// `None` = it has ended.
    pub(in super::super) follow: Option<Follow>,
}

/// The follows that a batch began or ended, in order.
pub(in super::super) fn changes(batch: &Batch) -> Result<Vec<FollowChange>, Malformed> {
    let mut found = Vec::new();
    for (action, columns, entry) in changed_rows(batch, FOLLOWS)? {
        if action != Action::Update {
            let value = (entry.kind == EntryKind::Put).then_some(entry.value);
            found.push(change_of(columns, value)?);
        }
    }
    Ok(found)
}

/// All follows of a partition as if they had just begun, from a key's columns on, and where the next page begins.
pub(in super::super) fn page(
    view: &View,
    from: Option<&[u8]>,
    limit: usize,
) -> Result<RowPage<FollowChange>, ReadError> {
    table::page(view, FOLLOWS, (from, limit), WHAT, |columns, value| {
        change_of(columns, Some(value))
    })
}

fn change_of(columns: &[u8], value: Option<&[u8]>) -> Result<FollowChange, Malformed> {
    let mut reader = Reader::new(columns);
    let inbox = reader.string()?;
    let timeline = reader.string()?.into_owned();
    let user = Home::user_of(&inbox).ok_or(Malformed)?.to_owned();
    let follow = value.map(|value| Follow::of(timeline.clone(), value));
    Ok(FollowChange {
        user,
        timeline,
        follow: follow.transpose()?,
    })
}

/// All follows of a user.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    all: Vec<Follow>,
    /// Their IDs and incarnations, once somebody asked for them.
    names: OnceLock<Arc<[(String, u64)]>>,
}

impl Followed {
    /// In the order of names.
    #[must_use]
    pub fn all(&self) -> &[Follow] {
        &self.all
    }

    /// Their IDs, and which of its name each is; in the same order.
    pub(in super::super) fn names(&self) -> Arc<[(String, u64)]> {
        let name = |follow: &Follow| (follow.timeline.clone(), follow.incarnation);
        let names = || self.all.iter().map(name).collect();
        Arc::clone(self.names.get_or_init(names))
    }

    fn set(&mut self, follow: Follow) {
        match self.find(&follow.timeline) {
            Ok(at) => self.all[at] = follow,
            Err(at) => self.all.insert(at, follow),
        }
    }

    fn find(&self, timeline: &str) -> Result<usize, usize> {
        self.all
            .binary_search_by(|follow| follow.timeline.as_str().cmp(timeline))
    }
}

impl Kept for Followed {
    fn owner(table: TableId, columns: &[u8]) -> Option<&[u8]> {
        match table {
            FOLLOWS => Reader::new(columns).skip().ok(),
            _ => None,
        }
    }

    fn rows(&self) -> usize {
        self.all.len()
    }

    fn take(&mut self, _: TableId, columns: &[u8], entry: KeyedEntry<'_>) -> Result<(), Malformed> {
        let timeline = last_text(columns)?;
        self.names = OnceLock::new();
        match entry.kind {
            EntryKind::Put => self.set(Follow::of(timeline, entry.value)?),
            EntryKind::Tombstone => {
                if let Ok(at) = self.find(&timeline) {
                    self.all.remove(at);
                }
            }
            EntryKind::Delta => return Err(Malformed),
        }
        Ok(())
    }
}

impl People {
    /// Whether a user may follow one timeline more, or follows it already.
    pub async fn may_follow(&self, user: &str, timeline: &str) -> Result<(), Error> {
        let follows = self.follows(user).await?;
        let count = follows.all.len() as u64;
        if count >= FOLLOWS_MAX && follows.find(timeline).is_err() {
            return Err(Error::TooMany {
                field: "timeline",
                limit: FOLLOWS_MAX,
                actual: count + 1,
            });
        }
        Ok(())
    }

    /// Has a user follow a timeline that was found with this incarnation and head, beginning with its last `copy`
    /// messages. Gives the first sequence in the feed; of one that they follow already, that of then.
    pub fn follow(
        &self,
        user: &str,
        timeline: &str,
        (incarnation, head): (u64, u64),
        copy: u64,
    ) -> impl Future<Output = Result<u64, Error>> + Send + use<> {
        let from = (head + 1).saturating_sub(copy).max(1);
        let (home, timeline) = (Home::new(user), timeline.to_owned());
        self.submit(Purpose::Adds, home, SMALL_BYTES, move |txn, home| {
            Ok(follow(txn, home, timeline, (incarnation, from))?)
        })
    }

    /// Has a user follow a timeline no longer; `false` if they did not.
    pub fn unfollow(
        &self,
        user: &str,
        timeline: &str,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let (home, timeline) = (Home::new(user), timeline.to_owned());
        self.submit(Purpose::MakesRoom, home, SMALL_BYTES, move |txn, home| {
            Ok(unfollow(txn, home, &timeline)?)
        })
    }

    /// All timelines that a user follows, in the order of their names; also those that were deleted or made again
    /// since.
    pub async fn follows(&self, user: &str) -> Result<Arc<Followed>, Error> {
        let home = Home::new(user);
        self.kept(&self.followed, (&home, home.column()), all).await
    }

    /// A page of the timelines that a user follows and may read, behind a name, and where the next page begins.
    pub async fn following(
        &self,
        asker: &Asker,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Follow>, Option<String>), Error> {
        let all = self.follows(asker.user()).await?;
        let behind = |follow: &&Follow| after.is_none_or(|after| follow.timeline.as_str() > after);
        let mut page: Vec<Follow> = Vec::new();
        for follow in all.all.iter().filter(behind) {
            if self.is_shown(asker, &follow.timeline).await? {
                page.push(follow.clone());
            }
            if page.len() > limit {
                break;
            }
        }
        let more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| more);
        let next = next.map(|follow| follow.timeline.clone());
        Ok((page, next))
    }

    /// Whether a timeline's name may be shown to its follower. Without `[auth]` it may: the follower has named it.
    async fn is_shown(&self, asker: &Asker, timeline: &str) -> Result<bool, Error> {
        if asker.claim().is_none() {
            return Ok(true);
        }
        let asker = asker.clone();
        let target = Target {
            asker,
            ..Target::from(timeline)
        };
        match self.timelines.admission(target).await {
            Ok(_) => Ok(true),
            Err(Error::TimelineNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn all(view: &View, home: &Home, _: u64) -> Result<Followed, ReadError> {
    let read = |columns: &[u8], value: &[u8]| Follow::of(last_text(columns)?, value);
    let rows = scan_all(view, &home.follows());
    Ok(Followed {
        all: rows
            .map(|row| read_row(&row?, WHAT, read))
            .collect::<Result<_, _>>()?,
        names: OnceLock::new(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn follows_come_back(numbers in any::<[u32; 4]>(), confirmed: bool, bytes: Vec<u8>) {
            let [incarnation, number, from, inbox_from] = numbers.map(u64::from);
            let inbox_from = if confirmed { inbox_from } else { u64::MAX };
            let timeline = "room".to_owned();
            let follow = Follow { timeline, incarnation, number, from, inbox_from };
            let value = follow.encode().finish(7);
            prop_assert_eq!(Follow::of("room".to_owned(), &value), Ok(follow));
            let _ = Follow::decode(&bytes).is_ok();
        }
    }
}
