//! What has changed in a user's conversations since they last asked.
//!
//! Owns: `conversation.sync`. Promises: a cursor is taken before anything is looked at, so nothing is left out: what
//! comes meanwhile is above it, and comes again; with nothing new no store is read. Must not: wait.

use crate::timeline::{Columns, Error, Pulse};
use tideline_base::ids::{PartitionId, Position};
use tideline_model::access::Asker;

use super::super::People;
use super::super::cursor::{CURSOR_MS_MAX, Ends, Read, Since};
use super::super::tables::Home;
use super::list::{CHUNK, Found, Shown};

/// Asks for what has changed.
#[derive(Clone, Debug)]
pub struct SyncConversations {
    /// Whose.
    pub asker: Asker,
    /// Of the last sync or list; `None` = all come.
    pub cursor: Option<String>,
    /// Conversations at most; at least one.
    pub limit: usize,
    /// Of the last messages; `None` = all.
    pub columns: Option<Vec<String>>,
    /// Bytes of JSON at most, about.
    pub bytes_max: usize,
}

/// What has changed.
#[derive(Clone, Debug)]
pub struct SyncedConversations {
    /// In the order of names.
    pub conversations: Vec<Shown>,
    /// Those that are none any more.
    pub removed: Vec<String>,
    /// What to ask with next.
    pub cursor: String,
    /// This is all, up to now.
    pub done: bool,
    /// The cursor counts for nothing: all come.
    pub reset: bool,
}

impl SyncedConversations {
    /// Whether there is anything in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conversations.is_empty() && self.removed.is_empty() && self.done && !self.reset
    }
}

impl Since {
    /// For a client that knows everything up to now.
    pub(in super::super) fn from_now(people: &People) -> Since {
        Since {
            made_at: people.timelines.now_ms(),
            since: people.ends(),
            ..Since::default()
        }
    }
}

impl People {
    /// What has changed since a cursor.
    pub async fn sync(&self, sync: SyncConversations) -> Result<SyncedConversations, Error> {
        let SyncConversations {
            asker,
            cursor,
            limit,
            columns,
            bytes_max,
        } = sync;
        let user = asker.user();
        let (mut since, reset) = self.since(user, cursor.as_deref())?;
        let now = self.ends();
        if since.until.is_empty() {
            since.until.clone_from(&now);
        }
        let names = self.changed(user, &since).await?;
        let (mut conversations, mut removed) = (Vec::new(), Vec::new());
        let (mut room, mut count, mut is_full) = (bytes_max, 0, false);
        let any = Columns::new();
        for chunk in names.chunks(CHUNK) {
            let current = chunk.iter().filter(|one| !one.is_ended);
            let asked: Vec<&str> = current.map(|one| one.name.as_str()).collect();
            let shown = self.shown(&asker, &asked, columns.as_deref(), &any);
            let mut shown = shown.await?.into_iter();
            for one in chunk {
                let found = if one.is_ended { None } else { shown.next() };
                let bytes = match &found {
                    Some(Found::Shown(shown)) => shown.json_bytes_max(),
                    _ => one.name.len() * 2 + 8,
                };
                if count == limit || (bytes > room && count > 0) {
                    is_full = true;
                    break;
                }
                (count, room) = (count + 1, room.saturating_sub(bytes));
                match found {
                    Some(Found::Shown(shown)) => conversations.push(*shown),
                    // A client that begins with nothing need not hear what is gone.
                    _ if since.is_all => {}
                    // Nor does a user hear of a conversation that they could never read.
                    Some(Found::Unfit) if !one.had_other_roles => {}
                    _ => removed.push(one.name.clone()),
                }
                since.after.clone_from(&one.name);
            }
            if is_full {
                break;
            }
        }
        let next = if is_full {
            since.clone()
        } else {
            Since {
                made_at: self.timelines.now_ms(),
                since: std::mem::take(&mut since.until),
                ..Since::default()
            }
        };
        Ok(SyncedConversations {
            conversations,
            removed,
            cursor: next.text(self.issuer(user)),
            done: !is_full,
            reset,
        })
    }

    /// Since when a client asks; whether that is not what it meant.
    fn since(&self, user: &str, cursor: Option<&str>) -> Result<(Since, bool), Error> {
        let now = self.timelines.now_ms();
        let all = Since {
            made_at: now,
            is_all: true,
            since: self
                .partitions
                .ids()
                .map(|id| (id, Position::ZERO))
                .collect(),
            ..Since::default()
        };
        let Some(text) = cursor else {
            return Ok((all, false));
        };
        match Since::read(self.issuer(user), text) {
            Read::Wrong => Err(Error::WrongCursor("cursor")),
            Read::Here(since) if since.made_at.saturating_add(CURSOR_MS_MAX) > now => Ok(self
                .as_of_now(since)
                .map_or((all, true), |since| (since, false))),
            Read::Here(_) | Read::Elsewhere => Ok((all, true)),
        }
    }

    /// What a cursor says of the partitions that there are now; `None` = it does not know them all.
    fn as_of_now(&self, since: Since) -> Option<Since> {
        let map = self.partitions.map();
        let of_now = |known: &Ends| -> Option<Ends> {
            let known = map.inherited(|id| known.get(&id).copied());
            let place = |id| Some((id, known.get(&id).copied()?));
            map.ids().map(place).collect()
        };
        let until = match since.until.is_empty() {
            true => Ends::new(),
            false => of_now(&since.until)?,
        };
        let of = of_now(&since.since)?;
        Some(Since {
            since: of,
            until,
            ..since
        })
    }

    /// Conversations with something above the cursor, behind its name, in the order of names.
    async fn changed(&self, user: &str, since: &Since) -> Result<Vec<Changed>, Error> {
        // A partition that was born since this call began has only news.
        let of = |partition| since.since.get(&partition).copied().unwrap_or_default();
        let own = of(self.place(&Home::new(user)));
        let mine = self.mine(user).await?;
        let behind = mine.iter().filter(|(name, _)| *name > since.after.as_str());
        let mut changed = Vec::new();
        let mut quiet = Vec::new();
        for (name, entry) in behind {
            let is_new = since.is_all || entry.position > own.0;
            match (is_new, entry.is_ended()) {
                (true, is_ended) if !(is_ended && since.is_all) => changed.push(Changed {
                    name: name.to_owned(),
                    is_ended,
                    had_other_roles: entry.had_other_roles(),
                }),
                (false, false) => quiet.push(name),
                _ => {}
            }
        }
        let matter = |_: usize, partition: PartitionId, pulse: Option<Pulse>| {
            pulse.is_none_or(|pulse| pulse.position == 0 || pulse.position > of(partition).0)
        };
        for (at, _) in self.timelines.pulses(&quiet, matter).await? {
            changed.push(Changed {
                name: quiet[at].to_owned(),
                is_ended: false,
                had_other_roles: false,
            });
        }
        changed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(changed)
    }
}

/// A conversation with something new.
struct Changed {
    name: String,
    /// The row at the user says that it has ended.
    is_ended: bool,
    /// The row has changed, and the user had another role before, in which they could perhaps read there.
    had_other_roles: bool,
}
