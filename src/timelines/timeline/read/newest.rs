//! The newest messages of many timelines, as a feed shows them.
//!
//! Owns: their order, and what of each timeline is read for a page. Promises: a page is what sorting all messages would
//! begin with, without tombstones and what the user has hidden or may not see; a timeline is read only if none of the
//! messages that were found so far is surely newer; the place in a long one is found by halving, because times never
//! fall within a timeline. Must not: know which user follows what, or keep a view while it waits for another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use tideline_base::ids::PartitionId;
use tideline_model::access::Asker;
use tideline_table::View;

use super::super::members::Reader;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::time::{shown, timestamp};
use super::super::unread;
use super::super::write::Site;
use super::super::write::edit::load_whole;
use super::super::{Error, Timelines};

/// Where a message is among those of many timelines: newest first, then by timeline, then the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedKey {
    at: Reverse<u64>,
    timeline: usize,
    sequence: Reverse<u64>,
}

impl FeedKey {
    /// Before every message.
    pub const FIRST: FeedKey = FeedKey::new(u64::MAX, 0, u64::MAX);

    /// That of a message: its timestamp, which of the timelines, and its sequence.
    #[must_use]
    pub const fn new(timestamp: u64, timeline: usize, sequence: u64) -> FeedKey {
        FeedKey {
            at: Reverse(timestamp),
            timeline,
            sequence: Reverse(sequence),
        }
    }

    /// The message's time, ms.
    #[must_use]
    pub fn timestamp(&self) -> u64 {
        self.at.0
    }

    /// Which of the timelines.
    #[must_use]
    pub fn timeline(&self) -> usize {
        self.timeline
    }

    /// The message's number there.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence.0
    }
}

/// Consecutive messages of a timeline that belong to a feed.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The lowest sequence.
    pub from: u64,
    /// The key of the last of them, or one before that; its sequence is that of the last.
    pub first: FeedKey,
}

/// Asks for the newest messages of stretches.
#[derive(Clone, Debug)]
pub struct AskNewest {
    /// The asker; tombstones and what it may not see are left out.
    pub asker: Asker,
    /// The timelines, in the order of their IDs, and which of its name each is. Places count in this list.
    pub timelines: Arc<[(String, u64)]>,
    /// Which of their messages.
    pub stretches: Vec<Stretch>,
    /// Only messages behind this key.
    pub behind: FeedKey,
    /// Only messages up to this key; `None` = all.
    pub until: Option<FeedKey>,
    /// Only messages from this time on, ms.
    pub since_ms: u64,
    /// Messages at most.
    pub limit: usize,
    /// About so many bytes of JSON at most, or one message.
    pub bytes_max: usize,
}

pub use tideline_model::timelines::FeedMessage;

/// The newest messages.
#[derive(Clone, Debug, Default)]
pub struct Newest {
    /// In order.
    pub messages: BTreeMap<FeedKey, FeedMessage>,
    /// Up to here they are all; `None` = there are no more.
    pub until: Option<FeedKey>,
    /// How many messages were looked at.
    pub looked: usize,
}

impl Newest {
    /// What is behind this key was not read.
    fn ends_at(&mut self, until: Option<FeedKey>) {
        self.until = match (self.until, until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Messages that are looked at in one view.
const LOOKED_MAX: usize = if cfg!(test) { 5 } else { 4_096 };

impl Timelines {
    /// The newest messages of stretches of many timelines.
    pub async fn newest(&self, asked: AskNewest) -> Result<Newest, Error> {
        let mut parts: BTreeMap<PartitionId, Vec<Stretch>> = BTreeMap::new();
        for stretch in &asked.stretches {
            let (timeline, _) = &asked.timelines[stretch.first.timeline];
            parts
                .entry(self.place(timeline))
                .or_default()
                .push(*stretch);
        }
        let first = |part: &[Stretch]| part.iter().map(|stretch| stretch.first).min();
        let mut parts: Vec<_> = parts
            .into_iter()
            .map(|(partition, part)| (first(&part), partition, part))
            .collect();
        parts.sort_unstable_by_key(|(first, ..)| *first);
        let mut newest = Newest {
            until: asked.until,
            ..Newest::default()
        };
        for (first, partition, stretches) in parts {
            if first > newest.until && newest.until.is_some() {
                continue;
            }
            let part = AskNewest {
                stretches,
                until: newest.until,
                ..asked.without_stretches()
            };
            let site = self.site(partition);
            let read = self.read(partition, move |view| Walk::new(&site, view, &part).run());
            let mut found = read.await?;
            newest.messages.append(&mut found.messages);
            newest.looked += found.looked;
            newest.ends_at(found.until);
            while newest.messages.len() > asked.limit {
                newest.messages.pop_last();
            }
            if newest.messages.len() == asked.limit {
                newest.ends_at(newest.messages.last_key_value().map(|(key, _)| *key));
            }
        }
        if let Some(until) = newest.until {
            newest.messages.retain(|key, _| *key <= until);
        }
        Ok(newest)
    }

    /// Whether an epoch is that of a timeline's incarnation.
    #[must_use]
    pub fn is_epoch(&self, epoch: &str, timeline: &str, incarnation: u64) -> bool {
        self.inner.epochs.is(epoch, timeline, incarnation)
    }
}

impl AskNewest {
    fn without_stretches(&self) -> AskNewest {
        AskNewest {
            asker: self.asker.clone(),
            timelines: Arc::clone(&self.timelines),
            stretches: Vec::new(),
            ..*self
        }
    }
}

/// A timeline that the user may read.
struct Readable {
    name: Name,
    /// With the user's own floor.
    head: HeadRow,
    reader: Reader,
}

/// A walk through the stretches of one partition.
struct Walk<'v> {
    site: &'v Site,
    view: &'v View,
    asked: &'v AskNewest,
    /// What is left, by the key of its last message or one before that; and whether it is that of the message.
    queue: BTreeMap<FeedKey, (Stretch, bool)>,
    /// By timeline; `None` = the user sees nothing of it, or it is another by now.
    readable: HashMap<usize, Option<Readable>, RandomState>,
}

impl<'v> Walk<'v> {
    fn new(site: &'v Site, view: &'v View, asked: &'v AskNewest) -> Walk<'v> {
        let whole = |stretch: &Stretch| (stretch.first, (*stretch, false));
        Walk {
            site,
            view,
            asked,
            queue: asked.stretches.iter().map(whole).collect(),
            readable: HashMap::default(),
        }
    }

    fn run(mut self) -> Result<Newest, Error> {
        let (mut newest, mut bytes) = (Newest::default(), 0);
        while let Some((key, (stretch, is_found))) = self.queue.pop_first() {
            let is_behind = self.asked.until.is_some_and(|until| key > until);
            if is_behind || key.timestamp() < self.asked.since_ms {
                break;
            }
            if !is_found {
                if let Some(first) = self.last_of(stretch)? {
                    self.queue
                        .insert(first, (Stretch { first, ..stretch }, true));
                }
                continue;
            }
            if stretch.from < key.sequence() {
                let first = FeedKey::new(key.timestamp(), key.timeline, key.sequence() - 1);
                self.queue
                    .insert(first, (Stretch { first, ..stretch }, false));
            }
            newest.looked += 1;
            if let Some(message) = self.message(key)? {
                bytes += message.json_bytes_max();
                newest.messages.insert(key, message);
            }
            let is_full = newest.messages.len() >= self.asked.limit || bytes > self.asked.bytes_max;
            if is_full || newest.looked >= LOOKED_MAX {
                newest.until = Some(key);
                break;
            }
        }
        Ok(newest)
    }

    /// The key of the last message of a stretch that is behind the key asked for.
    fn last_of(&mut self, stretch: Stretch) -> Result<Option<FeedKey>, Error> {
        let (view, behind, timeline) = (self.view, self.asked.behind, stretch.first.timeline);
        let Some(Readable { name, head, .. }) = self.readable(timeline)? else {
            return Ok(None);
        };
        let key = |sequence| {
            let at = timestamp(view, name, head, sequence)?;
            Ok::<_, Error>(FeedKey::new(at, timeline, sequence))
        };
        let mut low = stretch.from.max(head.floor);
        let (lowest, last) = (low, stretch.first.sequence().min(head.last));
        if last < low {
            return Ok(None);
        }
        let first = key(last)?;
        if first > behind {
            return Ok(Some(first));
        }
        // Mostly it is near the end: by steps that double from there, then by halving.
        let (mut high, mut step) = (last, 1);
        while low < high {
            let middle = high.saturating_sub(step).max(low + (high - low) / 2);
            if key(middle)? > behind {
                low = middle + 1;
            } else {
                high = middle;
                step *= 2;
            }
        }
        (low > lowest).then(|| key(low - 1)).transpose()
    }

    fn readable(&mut self, timeline: usize) -> Result<Option<&Readable>, Error> {
        if !self.readable.contains_key(&timeline) {
            let found = self.open(timeline)?;
            self.readable.insert(timeline, found);
        }
        Ok(self.readable[&timeline].as_ref())
    }

    fn open(&self, timeline: usize) -> Result<Option<Readable>, Error> {
        let (id, incarnation) = &self.asked.timelines[timeline];
        let name = Name::new(id);
        let head = HeadRow::existing(self.view, &name)?;
        let Some(head) = head.filter(|head| head.incarnation == *incarnation) else {
            return Ok(None);
        };
        match self.site.reader(self.view, &name, &head, &self.asked.asker) {
            Ok(reader) => Ok(Some(Readable {
                head: reader.sees(head),
                name,
                reader,
            })),
            Err(Error::TimelineNotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The message with a key as the user sees it; `None` if they don't.
    fn message(&mut self, key: FeedKey) -> Result<Option<FeedMessage>, Error> {
        let (view, site, asked) = (self.view, self.site, self.asked);
        let Some(Readable { name, head, reader }) = self.readable(key.timeline)? else {
            return Ok(None);
        };
        let message = load_whole(view, name, head, key.sequence())?;
        let message = shown(message, &site.time);
        let reader = (asked.asker.user(), reader);
        if message.entry.is_none()
            || unread::is_hidden(view, (name, head), reader, message.sequence)?
        {
            return Ok(None);
        }
        let timeline = &asked.timelines[key.timeline].0;
        Ok(Some(FeedMessage {
            timeline: timeline.clone(),
            epoch: site.epochs.text(timeline, head.incarnation),
            message,
        }))
    }
}
