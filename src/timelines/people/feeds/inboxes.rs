//! The relay's target for inboxes: from messages at timelines to entries in the inboxes of their recipients.
//!
//! Owns: which message leads to which write, and what is left to the jobs. Promises: what a message leads to in one
//! partition is one effect, however many get it; a message for many is a job there, and so is what comes behind a job
//! of its timeline. Must not: know the relay's steps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::relay::{Anew, CannotDerive, Derived, Kind, Target};
use crate::timeline::{Inbox, InboxEntry, InboxWriter, POSTS, Post, Timelines, posts};
use tideline_base::ids::{PartitionId, Position};
use tideline_base::metrics::Counter;
use tideline_table::{Batch, Map, Partitions, ReadError, Txn, View};

use super::super::conversations::lists::confirmed;
use super::jobs::{ENTRY_BYTES, Job, Jobs};

/// The target: it follows the log's messages that go into inboxes.
pub(in super::super) struct Inboxes {
    partitions: Partitions,
    timelines: Timelines,
    jobs: Arc<Jobs>,
    lately: Mutex<Lately>,
}

const KIND: Kind = Kind {
    number: 2,
    name: "inboxes",
    tables: &[POSTS],
};
/// A message that more get is a job. Tests have few users.
const INLINE_MAX: usize = if cfg!(test) { 2 } else { 1_000 };
/// Followers in a page of what is made anew.
const PAGE_FOLLOWERS: usize = 1_000;
/// Recipients of all timelines that are remembered.
const LATELY_MAX: usize = 1 << 18;

/// The inboxes of one partition that get a message.
type Part = (PartitionId, Arc<[Inbox]>);

/// The recipients of messages of a timeline's incarnation at a member version; `None` = more than a few.
type Remembered = Option<Arc<[Part]>>;

/// What was found out about recipients lately. It never changes as long as there are the same partitions.
#[derive(Default)]
struct Lately {
    of: Option<Arc<Map>>,
    found: HashMap<(String, u64, u64), Remembered>,
    count: usize,
}

impl Lately {
    fn of(map: &Arc<Map>) -> Lately {
        Lately {
            of: Some(Arc::clone(map)),
            ..Lately::default()
        }
    }
}

impl Inboxes {
    /// On these partitions; `jobs` does the long work.
    pub(in super::super) fn new(
        partitions: Partitions,
        timelines: Timelines,
        jobs: Arc<Jobs>,
    ) -> Inboxes {
        Inboxes {
            partitions,
            timelines,
            jobs,
            lately: Mutex::default(),
        }
    }

    fn parts(&self, view: &View, post: &Post) -> Result<Remembered, ReadError> {
        let key = (post.timeline.clone(), post.incarnation, post.version);
        let map = self.partitions.map();
        let lately = || self.lately(&map);
        if let Some(found) = lately().found.get(&key) {
            return Ok(found.clone());
        }
        let page = Timelines::recipients(view, post, None, INLINE_MAX + 1)?;
        let few = page.next.is_none() && page.users.len() <= INLINE_MAX;
        let found = few.then(|| self.by_partition(&page.users));
        let mut lately = lately();
        if lately.count > LATELY_MAX {
            *lately = Lately::of(&map);
        }
        lately.count += page.users.len() + 8;
        lately.found.insert(key, found.clone());
        Ok(found)
    }

    fn lately(&self, map: &Arc<Map>) -> MutexGuard<'_, Lately> {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        if !lately.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, map)) {
            *lately = Lately::of(map);
        }
        lately
    }

    fn by_partition(&self, users: &[String]) -> Arc<[Part]> {
        let mut parts: HashMap<PartitionId, Vec<Inbox>> = HashMap::new();
        for user in users {
            let partition = self.timelines.partition_of(&Timelines::inbox_of(user));
            parts.entry(partition).or_default().push(Inbox::of(user));
        }
        let part = |(partition, inboxes): (_, Vec<Inbox>)| (partition, inboxes.into());
        parts.into_iter().map(part).collect()
    }

    fn few(&self, job: &Arc<Job>, entry: &InboxEntry, (to, inboxes): &Part, place: u64) -> Derived {
        let few = Few {
            writer: self.timelines.inbox_writer(*to),
            jobs: Arc::clone(&self.jobs),
            to: *to,
            job: Arc::clone(job),
            entry: entry.clone(),
            inboxes: Arc::clone(inboxes),
            entries: self.jobs.entries(*to),
        };
        Derived {
            destination: *to,
            place,
            bytes: ENTRY_BYTES * inboxes.len(),
            effect: Box::new(move |txn: &mut Txn<'_>| few.write(txn)),
        }
    }

    fn many(&self, job: &Arc<Job>, destination: PartitionId, place: u64) -> Derived {
        let (jobs, job) = (Arc::clone(&self.jobs), Arc::clone(job));
        Derived {
            destination,
            place,
            bytes: ENTRY_BYTES,
            effect: Box::new(move |txn: &mut Txn<'_>| {
                jobs.add(txn, destination, &job);
                Ok(())
            }),
        }
    }
}

/// Entries that are written at once.
struct Few {
    writer: InboxWriter,
    jobs: Arc<Jobs>,
    to: PartitionId,
    job: Arc<Job>,
    entry: InboxEntry,
    inboxes: Arc<[Inbox]>,
    entries: Counter,
}

impl Few {
    fn write(&self, txn: &mut Txn<'_>) -> Result<(), ReadError> {
        if self.jobs.has_of(txn, self.to, &self.job)? {
            self.jobs.add(txn, self.to, &self.job);
            return Ok(());
        }
        let mut entry = self.entry.clone();
        for inbox in self.inboxes.iter() {
            self.writer.put(txn, inbox, &mut entry)?;
        }
        self.entries.increment(self.inboxes.len() as u64);
        Ok(())
    }
}

impl Target for Inboxes {
    fn kind(&self) -> Kind {
        KIND
    }

    fn derive(
        &self,
        source: PartitionId,
        batch: &Batch,
        view: &View,
        out: &mut Vec<Derived>,
    ) -> Result<(), CannotDerive> {
        for (place, post) in (0u64..).zip(posts(batch)?) {
            let parts = self.parts(view, &post)?;
            let entry = self.timelines.inbox_entry(&post);
            let job = Arc::new(Job { source, post });
            match parts {
                Some(parts) => {
                    out.extend(parts.iter().map(|part| self.few(&job, &entry, part, place)));
                }
                None => {
                    let all = self.partitions.ids();
                    out.extend(all.map(|to| self.many(&job, to, place)));
                }
            }
        }
        Ok(())
    }

    /// Nobody knows which entries are there: from here on feeds read their sources again for what was before.
    fn anew(
        &self,
        _: PartitionId,
        _: Position,
        view: &View,
        from: Option<&[u8]>,
    ) -> Result<Anew, ReadError> {
        let (followers, next) = Timelines::follower_page(view, from, PAGE_FOLLOWERS)?;
        let derived = followers.into_iter();
        let derived = derived.map(|change| confirmed(&self.partitions, change, 0, true));
        Ok(Anew::page(derived, next))
    }
}
