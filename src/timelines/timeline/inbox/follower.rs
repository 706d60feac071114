//! The followers of a timeline.
//!
//! Owns: their rows, and `feed.followers`. Promises: a follower begins and ends with a member version, as a member
//! does, so that the place of either in the log is one number; of two follows of a user the later one counts. Must
//! not: know what lies at the user.

use tideline_base::entry::EntryKind;
use tideline_base::ordered::Reader;
use tideline_table::{
    Action, Batch, Malformed, ReadError, RowPage, Source, Txn, View, changed_rows, columns,
    damaged, delete, load, page, put, record, scan_behind, split_key,
};

use super::super::members::change::put_change;
use super::super::members::change_row::{ChangeRow, Left};
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{FOLLOWERS, Name, incarnation_of};
use super::super::write::{Site, put_head, version};
use super::super::{Error, Target, Timelines};
use tideline_base::ids::PartitionId;

/// A user that follows a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct FollowerRow {
    /// Messages from this sequence on are theirs.
    pub(in super::super) from: u64,
    /// The member version at which they began.
    pub(in super::super) joined: u64,
    /// Which of their follows it is.
    pub(in super::super) number: u64,
}

columns! { FollowerRow {
    "$from" always: from,
    "$joined" always: joined,
    "$number" always: number,
} }

impl FollowerRow {
    pub(super) fn load(
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
        user: &str,
    ) -> Result<Option<FollowerRow>, ReadError> {
        if head.followers == 0 {
            return Ok(None);
        }
        let key = name.follower_key(head.incarnation, user);
        load(rows, &key, "not a follower", FollowerRow::decode)
    }
}

impl Site {
    /// Notes that a user follows an incarnation of a timeline since the follow of this number; `None`: nothing of its
    /// name any more.
    fn follow(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        user: &str,
        follow: Option<(u64, u64)>,
    ) -> Result<(), ReadError> {
        let found = HeadRow::load_to_write(txn, name)?;
        let Some(mut head) = found.filter(|head| !head.dropped) else {
            return Ok(());
        };
        // Of an earlier or later incarnation there is nothing to follow here.
        let follow = follow.filter(|(incarnation, _)| *incarnation == head.incarnation);
        let before = FollowerRow::load(txn, name, &head, user)?;
        if before.map(|before| before.number) == follow.map(|(_, number)| number) {
            return Ok(());
        }
        if let Some(before) = before {
            let left = Left {
                joined: before.joined,
                head: head.last,
            };
            let change = ChangeRow {
                follower: user.to_owned(),
                left,
                ..ChangeRow::default()
            };
            put_change(txn, name, &mut head, &change);
            head.followers -= 1;
        }
        let key = name.follower_key(head.incarnation, user);
        if let Some((_, number)) = follow {
            let change = ChangeRow {
                follower: user.to_owned(),
                ..ChangeRow::default()
            };
            let joined = put_change(txn, name, &mut head, &change);
            let follower = FollowerRow {
                from: head.last + 1,
                joined,
                number,
            };
            let now = version(txn.now_ms());
            let entry = put(txn, key, follower.encode(), now);
            record(txn, FOLLOWERS, Action::Put, entry, 1);
            head.followers += 1;
            self.turn_by_count(txn, name, &mut head)?;
        } else {
            let entry = delete(txn, key);
            record(txn, FOLLOWERS, Action::Delete, entry, 1);
        }
        put_head(txn, name, &head);
        Ok(())
    }

    fn followers(
        &self,
        view: &View,
        target: &Target,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<String>, u64, Option<String>), Error> {
        let (name, head, _) = self.enter(view, target)?;
        let all = name.rows_of(FOLLOWERS, head.incarnation);
        let mut users: Vec<String> = Vec::new();
        let mut next = None;
        for row in scan_behind(view, &all, after) {
            let (key, _) = row?;
            if users.len() == limit {
                next = users.last().cloned();
                break;
            }
            users.push(user_of(&key)?);
        }
        Ok((users, u64::from(head.followers), next))
    }
}

/// The user in the key of a follower or member.
pub(in super::super) fn user_of(key: &[u8]) -> Result<String, ReadError> {
    let user = split_key(key).and_then(|(_, columns)| {
        let (_, mut rest) = incarnation_of(columns).ok()?;
        Some(rest.string().ok()?.into_owned())
    });
    user.ok_or_else(|| damaged(key, "not a user's key"))
}

impl Timelines {
    /// A page of a timeline's followers, behind a user's name: in the order of names, how many they are in all, and
    /// where the next page begins.
    pub async fn followers(
        &self,
        target: Target,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<String>, u64, Option<String>), Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        self.read(partition, move |view| {
            site.followers(view, &target, after.as_deref(), limit)
        })
        .await
    }

    /// What the relay writes at a timeline of this partition when a user began to follow it, with its incarnation and
    /// the follow's number, or no longer does (`None`).
    pub fn follower(
        &self,
        partition: PartitionId,
        timeline: &str,
        user: String,
        follow: Option<(u64, u64)>,
    ) -> impl Fn(&mut Txn<'_>) -> Result<(), ReadError> + Send + Sync + use<> {
        let (site, name) = (self.site(partition), Name::new(timeline));
        move |txn| site.follow(txn, &name, &user, follow)
    }
}

/// A user that began to follow a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerChange {
    /// Which.
    pub timeline: String,
    /// The user.
    pub user: String,
    /// Which of their follows it is.
    pub number: u64,
    /// Messages from this sequence on come into their inbox.
    pub from: u64,
}

/// The followers that a batch added and that are there behind it.
///
/// # Errors
/// If a record or row of the batch can't be read.
pub fn followings(batch: &Batch) -> Result<Vec<FollowerChange>, Malformed> {
    let mut found = Vec::new();
    for (_, columns, entry) in changed_rows(batch, FOLLOWERS)? {
        if entry.kind == EntryKind::Put {
            found.push(following(columns, entry.value)?);
        }
    }
    Ok(found)
}

fn following(columns: &[u8], value: &[u8]) -> Result<FollowerChange, Malformed> {
    let timeline = Reader::new(columns).string()?;
    let (_, mut rest) = incarnation_of(columns)?;
    let user = rest.string()?;
    let follower = FollowerRow::decode(value)?;
    Ok(FollowerChange {
        timeline: timeline.into_owned(),
        user: user.into_owned(),
        number: follower.number,
        from: follower.from,
    })
}

impl Timelines {
    /// A page of the followers of a partition's timelines that exist, from a key's columns on, and where the next page
    /// begins. Each is as if they had just begun to follow: theirs is what comes behind the head.
    pub fn follower_page(
        view: &View,
        from: Option<&[u8]>,
        limit: usize,
    ) -> Result<RowPage<FollowerChange>, ReadError> {
        let read = |columns: &[u8], value: &[u8]| {
            let (incarnation, _) = incarnation_of(columns)?;
            Ok((incarnation, following(columns, value)?))
        };
        let (rows, next) = page(view, FOLLOWERS, (from, limit), "not a follower", read)?;
        let mut found = Vec::new();
        for (incarnation, mut follower) in rows {
            let head = HeadRow::existing(view, &Name::new(&follower.timeline))?;
            if let Some(head) = head.filter(|head| head.incarnation == incarnation) {
                follower.from = head.last + 1;
                found.push(follower);
            }
        }
        Ok((found, next))
    }
}
