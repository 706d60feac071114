//! The recipients of a message: the members and followers at its place in the log.
//!
//! Owns: that rule. Promises: the answer is the same whenever it is asked, as long as member changes are kept: users
//! that had joined before the message and had not left before it. Must not: hold more than a page.

use std::collections::BTreeSet;

use tideline_base::ids::TableId;
use tideline_model::Direction;
use tideline_table::{ReadError, View, damaged, number_in, scan, scan_behind};

use super::super::Timelines;
use super::super::members::change_row::ChangeRow;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{FOLLOWERS, MEMBERS, Name};
use super::follower::user_of;
use super::post::Post;

/// Some of the users that get a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipients {
    /// In the order of their names.
    pub users: Vec<String>,
    /// Behind which name the others are; `None` = these were the last.
    pub next: Option<String>,
}

/// The column of members' and followers' rows that says since which member version they are.
const JOINED: &str = "$joined";

impl Timelines {
    /// The users that get a message of a timeline, from a view of its partition at or behind the message: of up to
    /// `limit` members and as many followers behind the name `after`. Nobody if the timeline was deleted since.
    pub fn recipients(
        view: &View,
        post: &Post,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Recipients, ReadError> {
        let name = Name::new(&post.timeline);
        let head = HeadRow::existing(view, &name)?;
        let Some(head) = head.filter(|head| head.incarnation == post.incarnation) else {
            return Ok(Recipients::default());
        };
        let mut users = BTreeSet::new();
        let mut end: Option<String> = None;
        for (table, count) in [(MEMBERS, head.members), (FOLLOWERS, head.followers)] {
            if count == 0 {
                continue;
            }
            let page = Page {
                view,
                name: &name,
                post,
                after,
                limit,
            };
            if let Some(reached) = page.read(table, &mut users)? {
                end = Some(match end {
                    Some(end) => end.min(reached),
                    None => reached,
                });
            }
        }
        add_those_who_left(view, (&name, &head), post, &mut users)?;
        let is_in_page = |user: &String| {
            after.is_none_or(|after| user.as_str() > after)
                && end.as_ref().is_none_or(|end| user <= end)
        };
        Ok(Recipients {
            users: users.into_iter().filter(is_in_page).collect(),
            next: end,
        })
    }
}

struct Page<'a> {
    view: &'a View,
    name: &'a Name,
    post: &'a Post,
    after: Option<&'a str>,
    limit: usize,
}

impl Page<'_> {
    /// Adds the users of a table that had joined. Gives the last name that was looked at, if there are more.
    fn read(
        &self,
        table: TableId,
        users: &mut BTreeSet<String>,
    ) -> Result<Option<String>, ReadError> {
        let all = self.name.rows_of(table, self.post.incarnation);
        let mut reached = None;
        for (count, row) in scan_behind(self.view, &all, self.after).enumerate() {
            if count == self.limit {
                return Ok(reached);
            }
            let (key, value) = row?;
            let user = user_of(&key)?;
            let joined =
                number_in(&value, JOINED).map_err(|_| damaged(&key, "not a member or follower"))?;
            reached = Some(user.clone());
            if joined <= self.post.version {
                users.insert(user);
            }
        }
        Ok(None)
    }
}

fn add_those_who_left(
    view: &View,
    (name, head): (&Name, &HeadRow),
    post: &Post,
    users: &mut BTreeSet<String>,
) -> Result<(), ReadError> {
    let key = |version| name.member_change_key(head.incarnation, version);
    let (from, to) = (key(post.version + 1), key(head.member_version + 1));
    for row in scan(view, &from, &to, Direction::Forward) {
        let (key, value) = row?;
        let change = ChangeRow::decode(&value);
        let change = change.map_err(|_| damaged(&key, "not a member change"))?;
        if change.has_left() && change.left.joined <= post.version {
            users.insert(if change.user.is_empty() {
                change.follower
            } else {
                change.user
            });
        }
    }
    Ok(())
}
