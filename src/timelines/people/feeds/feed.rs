//! A user's feed: the messages of the timelines that they follow, from their inbox or from the timelines themselves.
//!
//! Owns: `feed.range`, and the rule where a message is taken from. Promises: the pages of a feed are what sorting all
//! messages would give, each once, wherever they come from and whatever is switched meanwhile; messages are read at
//! their timelines, so that edits show at once; the work of a call is bounded. Must not: write anything, or show what
//! the user may not read.
//!
//! A message is taken from the inbox if its sequence is at or above both numbers `inbox_from`, the timeline's and the
//! follow's; else from its timeline, whatever the inbox says. A message that was once taken from its timeline is never
//! left to an inbox that it does not reach: both numbers are the head's next one when they are set, so only messages
//! that come later are above them. A page goes on behind the last message of the one before by its place (time,
//! timeline, sequence), which is the same wherever it comes from.
//!
//! Entries of the inbox lie in the order of their times, which are not before those of their messages. So what has not
//! been looked at is not newer than the last entry that was.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::timeline::{
    AskNewest, Columns, Error, FeedKey, FeedMessage, Pulse, Range, StoredEntry, Stretch, Timelines,
};
use tideline_base::ids::PartitionId;
use tideline_model::access::Asker;

use super::super::People;
use super::super::cursor::{Older, Read};

/// Asks for a page of a user's feed.
#[derive(Clone, Debug)]
pub struct FeedRange {
    /// Whose.
    pub asker: Asker,
    /// `next` of the page before.
    pub before: Option<String>,
    /// Messages at most; at least one.
    pub limit: usize,
    /// Bytes of JSON at most, about; one message is returned all the same.
    pub bytes_max: usize,
}

/// A page of a feed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeedPage {
    /// Newest first.
    pub messages: Vec<FeedMessage>,
    /// Where the next page begins; `None` = that was all.
    pub next: Option<String>,
}

/// How far back feeds go: as long as entries stay in inboxes.
const KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Entries and messages that one call looks at, about.
const LOOKED_MAX: usize = if cfg!(test) { 8 } else { 4_096 };
/// Entries of the inbox that are read together.
const ENTRIES: usize = if cfg!(test) { 3 } else { 64 };
/// What is younger may still be on its way into the inbox, ms: the next page looks for it.
const ARRIVING_MS: u64 = 10_000;

/// The inbox's entries from the newest on.
const FROM_HEAD: u64 = u64::MAX;

/// Timelines of a feed, as memory knows them. In the order of their IDs.
pub(in super::super) struct Sources {
    /// With their incarnations.
    timelines: Arc<[(String, u64)]>,
    all: Vec<Source>,
}

/// What of a timeline belongs to a feed, and where it is.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Source {
    /// The lowest sequence.
    pub(in super::super) from: u64,
    /// From here on messages are taken from the inbox.
    pub(in super::super) inbox_from: u64,
    /// The timeline's last sequence.
    pub(in super::super) head: u64,
    /// The time of that, ms.
    pub(in super::super) last_at: u64,
}

impl Source {
    /// Nothing of the timeline belongs to the feed.
    const NONE: Source = Source {
        from: u64::MAX,
        inbox_from: u64::MAX,
        head: 0,
        last_at: 0,
    };
}

impl Sources {
    /// Of timelines in the order of their IDs.
    #[cfg(test)]
    pub(in super::super) fn new(all: impl IntoIterator<Item = (String, u64, Source)>) -> Sources {
        let (timelines, all): (Vec<_>, Vec<_>) = all
            .into_iter()
            .map(|(timeline, incarnation, source)| ((timeline, incarnation), source))
            .unzip();
        Sources {
            timelines: timelines.into(),
            all,
        }
    }

    fn find(&self, timeline: &str) -> Result<usize, usize> {
        self.timelines
            .binary_search_by(|(one, _)| one.as_str().cmp(timeline))
    }

    /// What is to be read at the timelines themselves.
    fn stretches(&self) -> impl Iterator<Item = Stretch> {
        self.all.iter().enumerate().filter_map(|(at, source)| {
            let last = source.head.min(source.inbox_from.saturating_sub(1));
            (source.from <= last).then(|| Stretch {
                from: source.from,
                first: FeedKey::new(source.last_at, at, last),
            })
        })
    }

    /// The key of a message that an entry of the inbox names, if it is to be taken from there.
    fn key_of(&self, timelines: &Timelines, entry: Columns) -> Option<FeedKey> {
        let entry = StoredEntry::read(entry)?;
        let at = self.find(&entry.timeline).ok()?;
        let source = &self.all[at];
        let is_its = entry.sequence >= source.inbox_from.max(source.from)
            && timelines.is_epoch(&entry.epoch, &entry.timeline, self.timelines[at].1);
        is_its.then_some(FeedKey::new(entry.timestamp, at, entry.sequence))
    }
}

/// What was looked at of an inbox.
struct Entries {
    /// The next one, downwards; `None` = that was all.
    next: Option<u64>,
    /// When the last one that was looked at came, ms.
    came_at: u64,
    /// Those whose messages are not given yet, and their sequences.
    waiting: BTreeMap<FeedKey, u64>,
    looked: usize,
}

impl Entries {
    /// What comes before this key is known; `None` = everything is.
    fn known(&self) -> Option<FeedKey> {
        self.next?;
        Some(FeedKey::new(self.came_at, 0, u64::MAX))
    }

    /// The first of those that wait, as far as they are known, and up to where that is all there is.
    fn first(&self, count: usize) -> (Vec<FeedKey>, Option<FeedKey>) {
        let known = self.known();
        let is_known = |key: &&FeedKey| known.is_none_or(|known| **key <= known);
        let keys = self.waiting.keys().take_while(is_known).take(count);
        let keys: Vec<FeedKey> = keys.copied().collect();
        let until = match keys.last() {
            Some(last) if keys.len() == count => Some(*last),
            _ => known,
        };
        (keys, until)
    }

    /// What is up to a key has been given.
    fn pass(&mut self, key: FeedKey) {
        self.waiting.retain(|waiting, _| *waiting > key);
    }

    /// Where the next page goes on.
    fn rest(&self) -> u64 {
        let highest = self.waiting.values().max().copied();
        highest.or(self.next).unwrap_or(0)
    }
}

impl People {
    /// A page of a user's feed.
    pub async fn feed(&self, range: FeedRange) -> Result<FeedPage, Error> {
        let followed = self.follows(range.asker.user()).await?;
        let follows = followed.all();
        let names: Vec<&str> = follows.iter().map(|one| one.timeline.as_str()).collect();
        let matter = |at: usize, _: PartitionId, pulse: Option<Pulse>| {
            pulse.is_some_and(|pulse| pulse.incarnation == follows[at].incarnation)
        };
        let pulses = self.timelines.pulses(&names, matter).await?;
        let mut all = vec![Source::NONE; follows.len()];
        for (at, pulse) in pulses {
            let (follow, Some(pulse)) = (&follows[at], pulse) else {
                continue;
            };
            all[at] = Source {
                from: follow.from.max(pulse.floor),
                inbox_from: follow.inbox_from.max(pulse.inbox_from),
                head: pulse.head,
                last_at: pulse.last_at,
            };
        }
        let timelines = followed.names();
        self.merged(&Sources { timelines, all }, range).await
    }

    /// A page of what these sources have.
    pub(in super::super) async fn merged(
        &self,
        sources: &Sources,
        range: FeedRange,
    ) -> Result<FeedPage, Error> {
        let (mut behind, inbox) = self.start(sources, &range)?;
        let mut page = FeedPage::default();
        if sources.all.is_empty() {
            return Ok(page);
        }
        let mut entries = Entries {
            next: Some(inbox).filter(|from| *from > 0),
            came_at: u64::MAX,
            waiting: BTreeMap::new(),
            looked: 0,
        };
        let (mut room, mut looked) = (range.bytes_max, 0);
        loop {
            // One more than is given, to know whether that was all.
            let wanted = range.limit - page.messages.len() + 1;
            let inbox = (&range.asker, sources);
            self.look(inbox, &mut entries, behind, wanted).await?;
            let (keys, until) = entries.first(wanted);
            let single = |key: FeedKey| Stretch {
                from: key.sequence(),
                first: key,
            };
            let asked = AskNewest {
                asker: range.asker.clone(),
                timelines: Arc::clone(&sources.timelines),
                stretches: keys
                    .into_iter()
                    .map(single)
                    .chain(sources.stretches())
                    .collect(),
                behind,
                until,
                since_ms: self.timelines.now_ms().saturating_sub(KEPT_MS),
                limit: wanted,
                bytes_max: room,
            };
            let newest = self.timelines.newest(asked).await?;
            looked += newest.looked;
            for (key, message) in newest.messages {
                let bytes = message.json_bytes_max();
                let is_full = bytes > room && !page.messages.is_empty();
                if is_full || page.messages.len() == range.limit {
                    page.next = Some(self.next(sources, range.asker.user(), behind, &mut entries));
                    return Ok(page);
                }
                room = room.saturating_sub(bytes);
                page.messages.push(message);
                behind = key;
            }
            let Some(until) = newest.until else {
                return Ok(page);
            };
            behind = until;
            entries.pass(behind);
            if looked + entries.looked >= LOOKED_MAX {
                page.next = Some(self.next(sources, range.asker.user(), behind, &mut entries));
                return Ok(page);
            }
        }
    }

    /// Behind which key a page begins, and from which entry of the inbox on.
    fn start(&self, sources: &Sources, range: &FeedRange) -> Result<(FeedKey, u64), Error> {
        let Some(before) = &range.before else {
            return Ok((FeedKey::FIRST, FROM_HEAD));
        };
        match Older::read(self.issuer(range.asker.user()), before) {
            Read::Here(older) => {
                let (at, sequence) = match sources.find(&older.timeline) {
                    Ok(at) => (at, older.sequence),
                    // It is not followed any more: before the next one that is.
                    Err(at) => (at, u64::MAX),
                };
                Ok((FeedKey::new(older.timestamp, at, sequence), older.inbox))
            }
            Read::Elsewhere | Read::Wrong => Err(Error::WrongCursor("before")),
        }
    }

    /// The text for the page behind a key.
    fn next(
        &self,
        sources: &Sources,
        user: &str,
        behind: FeedKey,
        entries: &mut Entries,
    ) -> String {
        entries.pass(behind);
        let is_young = behind.timestamp().saturating_add(ARRIVING_MS) > self.timelines.now_ms();
        let older = Older {
            timestamp: behind.timestamp(),
            timeline: sources.timelines[behind.timeline()].0.clone(),
            sequence: behind.sequence(),
            inbox: if is_young { FROM_HEAD } else { entries.rest() },
        };
        older.text(self.issuer(user))
    }

    /// Looks at entries of the inbox until the first ones behind a key are known, or enough were looked at.
    async fn look(
        &self,
        (asker, sources): (&Asker, &Sources),
        entries: &mut Entries,
        behind: FeedKey,
        wanted: usize,
    ) -> Result<(), Error> {
        while let Some(from) = entries.next
            && entries.first(wanted).0.len() < wanted
        {
            // A call that ends early must have come further.
            let is_further = entries.known().is_some_and(|known| known > behind);
            if entries.looked >= LOOKED_MAX && is_further {
                break;
            }
            let read = self.timelines.range(Range {
                // Their own; what its entries name is decided where it is read.
                asker: Asker::believed(asker.user()),
                timeline: Timelines::inbox_of(asker.user()),
                from: Some(from),
                to: None,
                limit: ENTRIES.max(wanted),
                bytes_max: usize::MAX,
                backward: true,
                columns: None,
                epoch: None,
            });
            let page = match read.await {
                Ok(page) => page,
                Err(Error::TimelineNotFound) => {
                    entries.next = None;
                    break;
                }
                Err(error) => return Err(error),
            };
            entries.looked += page.messages.len();
            entries.next = page.next;
            for message in page.messages {
                entries.came_at = message.timestamp;
                if let Some(entry) = message.entry
                    && let Some(key) = sources.key_of(&self.timelines, entry)
                    && key > behind
                {
                    entries.waiting.insert(key, message.sequence);
                }
            }
        }
        Ok(())
    }
}
