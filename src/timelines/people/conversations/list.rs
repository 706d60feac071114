//! A user's conversations: what memory knows of them in order, and what a page shows of each.
//!
//! Owns: `conversation.list`, `.count`, `.get`. Promises: pinned first, then the newest activity; only what is shown is
//! read, at the timelines, so that a membership that has ended never shows; a page ends at its bytes. Must not: decide
//! what is new since a moment; `sync.rs` does.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::timeline::{Columns, Conversation, Error, Looked, Pulse};
use tideline_base::ids::PartitionId;
use tideline_model::access::Asker;
use tideline_model::json_bytes;
pub use tideline_model::people::Count;
use tideline_table::{Purpose, View};

use super::super::cursor::{Behind, Read, Since};
use super::super::tables::Home;
use super::super::{People, SMALL_BYTES, direct};
use super::conversation_row::{ConversationRow, Membership, has_all};
use super::filter::{Filter, asks_the_row, fits as fits_row};
use super::memberships::{Entry, Mine};
use crate::people::conversations;

/// A user's own view of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// What the timeline says.
    pub conversation: Conversation,
    /// The user's own.
    pub attributes: Columns,
    /// Off the list until a message comes.
    pub hidden: bool,
    /// Whether only mentions count now.
    muted: bool,
}

impl Shown {
    /// The newest activity: the last message, or the user's joining; ms.
    #[must_use]
    pub fn last_at(&self) -> u64 {
        let message = self.conversation.info.last_at.unwrap_or(0);
        message.max(self.conversation.member.joined_at)
    }

    /// The other user of a direct conversation, if its ID says so.
    #[must_use]
    pub fn peer(&self, user: &str) -> Option<String> {
        direct::peer_of(&self.conversation.info.timeline, user)
    }

    pub(in super::super) fn json_bytes_max(&self) -> usize {
        self.conversation.json_bytes_max() + json_bytes(&self.attributes)
    }
}

/// Asks for a page of a user's list.
#[derive(Clone, Debug)]
pub struct ListConversations {
    /// Whose.
    pub asker: Asker,
    /// `next` of the page before.
    pub after: Option<String>,
    /// Conversations at most; at least one.
    pub limit: usize,
    /// Which of them.
    pub filter: Filter,
    /// Of the last messages; `None` = all.
    pub columns: Option<Vec<String>>,
    /// Bytes of JSON at most, about; one conversation is returned all the same.
    pub bytes_max: usize,
}

/// A page of a user's list.
#[derive(Clone, Debug)]
pub struct ListedConversations {
    /// In order.
    pub conversations: Vec<Shown>,
    /// Where the next page begins; `None` = that was all.
    pub next: Option<String>,
    /// From where a sync goes on that is to tell what moves meanwhile.
    pub cursor: String,
}

/// Conversations whose rows are looked through for one page.
const SCANNED_MAX: usize = 2_000;
/// Conversations with news that a count looks at.
const COUNTED_MAX: usize = 1_000;
/// Conversations that are read together.
pub(super) const CHUNK: usize = 64;

/// A conversation on the list, as memory knows it.
#[derive(Clone, Copy)]
struct Ranked<'m> {
    name: &'m str,
    order: (Reverse<bool>, Reverse<u64>),
    has_news: bool,
}

impl People {
    /// A page of a user's list.
    pub async fn list(&self, list: ListConversations) -> Result<ListedConversations, Error> {
        let ListConversations {
            asker,
            after,
            limit,
            filter,
            columns,
            bytes_max,
        } = list;
        let user = asker.user();
        let cursor = Since::from_now(self).text(self.issuer(user));
        let behind = match after.map(|text| Behind::read(self.issuer(user), &text)) {
            None => None,
            Some(Read::Here(behind)) => Some(behind),
            Some(Read::Elsewhere | Read::Wrong) => return Err(Error::WrongCursor("after")),
        };
        let mine = self.mine(user).await?;
        let mut ranked = self.ranked(&mine).await?;
        if filter.unread == Some(true) {
            ranked.retain(|one| one.has_news);
        }
        ranked.sort_unstable_by_key(|one| (one.order, one.name));
        let first = behind.map_or(0, |behind| {
            let order = (Reverse(behind.pinned), Reverse(behind.activity));
            let key = (order, behind.timeline.as_str());
            ranked.partition_point(|one| (one.order, one.name) <= key)
        });
        let (mut shown, mut room, mut reached) = (Vec::new(), bytes_max, first);
        'page: while reached < ranked.len().min(first + SCANNED_MAX) && shown.len() < limit {
            let count = CHUNK.min(limit - shown.len());
            let chunk: Vec<&str> = ranked[reached..]
                .iter()
                .take(count)
                .map(|one| one.name)
                .collect();
            let read = self.shown(&asker, &chunk, columns.as_deref(), &filter.attributes);
            for one in read.await? {
                if let Found::Shown(one) = one
                    && filter.muted.is_none_or(|muted| muted == one.muted)
                    && filter
                        .unread
                        .is_none_or(|unread| unread == (one.conversation.unread.unread > 0))
                {
                    let bytes = one.json_bytes_max();
                    if bytes > room && !shown.is_empty() {
                        break 'page;
                    }
                    room = room.saturating_sub(bytes);
                    shown.push(*one);
                }
                reached += 1;
            }
        }
        let next = (reached < ranked.len()).then(|| {
            let last = &ranked[reached - 1];
            let behind = Behind {
                pinned: last.order.0.0,
                activity: last.order.1.0,
                timeline: last.name.to_owned(),
            };
            behind.text(self.issuer(user))
        });
        Ok(ListedConversations {
            conversations: shown,
            next,
            cursor,
        })
    }

    /// Counts what the list holds.
    pub async fn count(&self, asker: &Asker, filter: Filter) -> Result<Count, Error> {
        let mine = self.mine(asker.user()).await?;
        let mut ranked = self.ranked(&mine).await?;
        let names = ranked.iter().map(|one| one.name).collect();
        let hidden = self.hidden(asker, names).await?;
        ranked.retain(|one| !hidden.contains(one.name));
        if asks_the_row(&filter) {
            let names: Vec<&str> = ranked.iter().map(|one| one.name).collect();
            let fits = self.that_fit(asker.user(), &names, &filter).await?;
            let mut fits = fits.into_iter();
            ranked.retain(|_| fits.next().unwrap_or(false));
        }
        let mut count = Count::default();
        let news: Vec<&str> = ranked
            .iter()
            .filter(|one| one.has_news)
            .map(|one| one.name)
            .collect();
        count.more = news.len() > COUNTED_MAX;
        let mut gone = 0;
        for chunk in news[..news.len().min(COUNTED_MAX)].chunks(CHUNK) {
            for one in self.shown(asker, chunk, Some(&[]), &Columns::new()).await? {
                let Found::Shown(one) = one else {
                    gone += 1;
                    continue;
                };
                let unread = one.conversation.unread;
                let counts = if one.muted {
                    unread.mentions
                } else {
                    unread.unread
                };
                count.unread_conversations += u64::from(counts > 0);
                count.unread += counts;
                count.mentions += unread.mentions;
            }
        }
        let listed = ranked.len() as u64 - gone;
        count.conversations = match filter.unread {
            None => listed,
            Some(true) => count.unread_conversations,
            Some(false) => listed - count.unread_conversations,
        };
        if filter.unread == Some(false) {
            (count.unread_conversations, count.unread, count.mentions) = (0, 0, 0);
        }
        Ok(count)
    }

    /// One conversation.
    pub async fn conversation(&self, asker: &Asker, timeline: &str) -> Result<Shown, Error> {
        let found = self
            .shown(asker, &[timeline], None, &Columns::new())
            .await?;
        match found.into_iter().next() {
            Some(Found::Shown(one)) => Ok(*one),
            _ => Err(Error::ConversationNotFound),
        }
    }

    /// The timelines of a user's conversations.
    pub async fn names(&self, user: &str) -> Result<Vec<String>, Error> {
        let mine = self.mine(user).await?;
        Ok(mine.current().map(|(name, _)| name.to_owned()).collect())
    }

    /// What memory, or else the store, knows of a user's conversations.
    pub(in super::super) async fn mine(&self, user: &str) -> Result<Arc<Mine>, Error> {
        let home = Home::new(user);
        let read = |view: &View, home: &Home, _| conversations::all(view, home);
        self.kept(&self.memberships, (&home, home.column()), read)
            .await
    }

    /// What is on the list, as memory knows it, in no order.
    async fn ranked<'m>(&self, mine: &'m Mine) -> Result<Vec<Ranked<'m>>, Error> {
        let current: Vec<(&str, &Entry)> = mine.current().collect();
        let names: Vec<&str> = current.iter().map(|(name, _)| *name).collect();
        let matter = |at: usize, _: PartitionId, pulse: Option<Pulse>| {
            pulse.is_some_and(|pulse| current[at].1.is_listed(&pulse))
        };
        let pulses = self.timelines.pulses(&names, matter).await?;
        let rank = |(at, pulse): (usize, Option<Pulse>)| {
            let ((name, entry), pulse) = (current[at], pulse?);
            let activity = pulse.last_at.max(entry.joined_at);
            Some(Ranked {
                name,
                order: (Reverse(entry.is_pinned()), Reverse(activity)),
                has_news: pulse.head > entry.read,
            })
        };
        Ok(pulses.into_iter().filter_map(rank).collect())
    }

    /// Reads conversations at the user and at their timelines, in order. Marks those that have ended.
    pub(in super::super) async fn shown(
        &self,
        asker: &Asker,
        names: &[&str],
        columns: Option<&[String]>,
        attributes: &Columns,
    ) -> Result<Vec<Found>, Error> {
        let user = asker.user();
        let rows = self.rows(user, names).await?;
        let fits = |row: &Option<ConversationRow>| has_all(row.as_ref(), attributes);
        let wanted: Vec<&str> = names
            .iter()
            .zip(&rows)
            .filter_map(|(name, row)| fits(row).then_some(*name))
            .collect();
        let found = self
            .timelines
            .conversations(asker, &wanted, columns)
            .await?;
        let (mut found, now_ms) = (found.into_iter(), self.timelines.now_ms());
        let mut shown = Vec::with_capacity(names.len());
        for (name, row) in names.iter().zip(rows) {
            if !fits(&row) {
                shown.push(Found::Unfit);
                continue;
            }
            let conversation = match found.next() {
                Some(Looked::Shown(conversation)) => *conversation,
                Some(Looked::Hidden) => {
                    shown.push(Found::Unfit);
                    continue;
                }
                Some(Looked::NoMember) | None => {
                    if let Some(row) = row.filter(|row| row.removed == 0) {
                        self.mark_ended(user, name, row.membership);
                    }
                    shown.push(Found::Ended);
                    continue;
                }
            };
            let membership = Membership {
                incarnation: conversation.incarnation,
                joined: conversation.member.joined,
            };
            let own = row
                .filter(|row| row.membership == membership)
                .unwrap_or_default();
            shown.push(Found::Shown(Box::new(Shown {
                hidden: conversation.info.head < own.hidden,
                muted: own.is_muted(now_ms),
                attributes: own.attributes,
                conversation,
            })));
        }
        Ok(shown)
    }

    /// Marks a membership of which its timeline does not know any more, so that all of the user's devices hear of it.
    /// Nobody waits for the write: if it fails, as on a full disk, the next call that meets the membership repeats it.
    fn mark_ended(&self, user: &str, timeline: &str, membership: Membership) {
        let (home, timeline) = (Home::new(user), timeline.to_owned());
        let marked = self.submit(Purpose::Adds, home, SMALL_BYTES, move |txn, home| {
            conversations::mark_ended(txn, home, &timeline, membership)
        });
        drop(marked);
    }

    async fn rows(
        &self,
        user: &str,
        names: &[&str],
    ) -> Result<Vec<Option<ConversationRow>>, Error> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.read(Home::new(user), move |view, home, _| {
            let row = |name: &String| conversations::load(view, home, name);
            Ok(names.iter().map(row).collect::<Result<Vec<_>, _>>()?)
        })
        .await
    }

    async fn that_fit(
        &self,
        user: &str,
        names: &[&str],
        filter: &Filter,
    ) -> Result<Vec<bool>, Error> {
        let now_ms = self.timelines.now_ms();
        let mut fits = Vec::with_capacity(names.len());
        for chunk in names.chunks(COUNTED_MAX) {
            let rows = self.rows(user, chunk).await?;
            fits.extend(
                rows.iter()
                    .map(|row| fits_row(filter, row.as_ref(), now_ms)),
            );
        }
        Ok(fits)
    }
}

/// What became of one that was to be shown: it is not, if its attributes are others or the user may not read it.
pub(in super::super) enum Found {
    Shown(Box<Shown>),
    Unfit,
    Ended,
}
