//! Timelines: messages in gapless order, their meta, idempotence, changes, sync positions.
//!
//! Owns: what PROTOCOL calls promises 1 to 7. Promises: a write takes effect in the order of the calls and is answered
//! when it is on disk; a read shows everything that was answered before it was called. Must not: know JSON-RPC or
//! sockets, or check what the gateway can check without the store (names, sizes, ranges of numbers).

mod call;
mod changes;
mod check;
mod error;
mod event;
mod follow;
#[cfg(feature = "faults")]
pub(crate) mod fuzz;
mod growth;
mod inbox;
mod marks;
mod members;
mod read;
mod rows;
mod streams;
mod time;
mod traces;
mod unread;
mod write;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::{Arc, OnceLock};

use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_model::access::CurrentRules;
use tideline_table::{
    Batch, BuiltInTables, Catalog, Partitions, Purpose, Rules, TableRules, Txn, View,
};

use follow::heads::Heads;
use rows::drop_rules::{TimelineTables, Window};
use rows::epoch::Epochs;
use time::Time;
use traces::Traces;
use write::Site;
use write::make_ids::IdMaker;

pub use call::{
    Append, AppendOne, Appended, EntryLimits, Limits, List, Listed, Page, Range, Target,
    TimelineInfo, UpdateMessage, UpdateMeta,
};
#[cfg(test)]
pub(crate) use changes::PLANTED_PAGE_BYTES;
pub use changes::{ChangesPage, TimelineChange, What};
pub use check::dump::{Dumped, StoredName, StoredTimelines};
pub use check::losses::Losses;
pub use check::mend::Mend;
pub use check::verify::Verified;
pub use error::Error;
pub use event::{Burial, Columns, Head, Message, Meta, Sender, Standing, TimelineEvent};
pub use growth::{Extend, Extended, Finish, Finished, Grew, Growth, OPEN_MAX, PARTS_MAX};
pub use inbox::{
    EachEntry, FollowerChange, Inbox, InboxEntry, InboxWriter, Post, Recipients, StoredEntry,
    followings, posts,
};
pub use marks::{Pinned, React, ReactionPage, ReactionsOf};
pub(crate) use members::INBOX;
pub use members::{
    AddMembers, Configured, Conversation, Create, DEFAULT_ROLE, DIRECT, FAN_OUT_MEMBERS_MAX,
    ListMembers, ListedMembers, Looked, Member, MemberChange, MemberRow, MembersChanged, NewMember,
    NextMembers, Policies, Policy, Pulse, RemoveMembers, Settings, SettingsPatch, UpdateMember,
    memberships,
};
pub use read::admit_many::Roles;
pub use read::at_numbers::Doors;
pub use read::newest::{AskNewest, FeedKey, FeedMessage, Newest, Stretch};
pub use read::position::{
    Admission, Changed, NONE_YET, Resume, ResumeState, SyncAsker, SyncPosition, SyncState, Synced,
};
pub use read::prefixes::{Behind, Level, LevelEntry, LevelPage};
pub use rows::stored_tables::stored_tables;
pub use rows::tables::{
    CONVERSATIONS, FOLLOWERS, MEMBERS, MESSAGE_TABLE, META_TABLE, POSTS, RELAYS,
};
pub use streams::{
    Content, FORKS_MAX, Fork, Inherited, Life, NewStream, PRODUCERS_MAX, Producer, Stream,
    StreamAppend, StreamAppended, StreamPlace, StreamRefused,
};
pub use tideline_model::timelines::{
    Edit, EditBy, FanOut, Open, Outcome, Reaction, Reactions, Retention,
};
pub use time::{Done, ListScheduled, Refused, Scheduled, Timer};
pub use unread::{Cleared, Hidden, ReadMark, ReadState, Receipt, Receipts, Unread};
pub use write::append::Prepared;
pub use write::create::{Made, Part};
pub use write::{check_limits, merge};

/// All timelines of a data directory. Cheap to clone.
///
/// Writes queue when they are called (the order of calls is the order of effects) and resolve when they are on disk; a
/// dropped future loses the answer, not the write. Reads show everything that was answered before they were called.
#[derive(Clone)]
pub struct Timelines {
    inner: Arc<Inner>,
}

struct Inner {
    partitions: Partitions,
    epochs: Arc<Epochs>,
    window: Window,
    policies: Policies,
    heads: Heads,
    ids: IdMaker,
    time: Arc<Time>,
    room: Arc<Room>,
    traces: Arc<Traces>,
    rules: Arc<OnceLock<Arc<CurrentRules>>>,
}

/// Whether a partition takes messages that go into inboxes; unset = it does.
pub(in crate::timeline) type Room = OnceLock<Box<dyn Fn(PartitionId) -> bool + Send + Sync>>;

impl Timelines {
    /// The timelines on these partitions, without policies. `clock` is for the IDs that the server makes; times of
    /// messages are the log's.
    #[must_use]
    pub fn new(partitions: Partitions, limits: Limits, clock: Arc<Clock>) -> Timelines {
        Timelines::with_policies(partitions, limits, Policies::default(), clock)
    }

    /// The same with settings for timelines that have none of their own.
    #[must_use]
    pub fn with_policies(
        partitions: Partitions,
        limits: Limits,
        policies: Policies,
        clock: Arc<Clock>,
    ) -> Timelines {
        let heads = Heads::new(&partitions, limits.heads_max);
        Timelines {
            inner: Arc::new(Inner {
                epochs: Arc::new(Epochs::new(partitions.origin())),
                window: Window::new(&limits),
                policies,
                heads,
                ids: IdMaker::new(Arc::clone(&clock)),
                time: Arc::new(Time::new(clock, &partitions)),
                room: Arc::default(),
                traces: Arc::default(),
                rules: Arc::default(),
                partitions,
            }),
        }
    }

    /// Has messages that go into inboxes refused with [`tideline_table::StoreError::Busy`] while `room` says `false` of
    /// their partition. To be called once.
    pub fn refuse_posts_unless(&self, room: impl Fn(PartitionId) -> bool + Send + Sync + 'static) {
        let set = self.inner.room.set(Box::new(room));
        assert!(set.is_ok(), "called once");
    }

    /// Decides on what is due by these rules: on messages that were scheduled. To be called once, if there is `[auth]`.
    pub fn decide_by(&self, rules: Arc<CurrentRules>) {
        let set = self.inner.rules.set(rules);
        assert!(set.is_ok(), "called once");
    }

    /// Whether rights are decided.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.inner.rules.get().is_some()
    }

    /// Whether writes can be committed: `false` for good once a disk failure has stopped a partition. Reads may go on.
    #[must_use]
    pub fn can_commit(&self) -> bool {
        self.inner.partitions.can_commit()
    }

    /// Waits until all that was acknowledged before this call is shown here: before an answer that no read gives.
    pub async fn proof(&self) -> Result<(), Error> {
        Ok(self.inner.partitions.proof().await?)
    }

    /// The clock that the server's own IDs are made by, ms since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.inner.time.now_ms()
    }

    /// The row rules that the partitions must be opened with, where nothing of users' tables is to be reclaimed.
    #[must_use]
    pub fn rules(limits: &Limits) -> Arc<dyn Rules> {
        Timelines::rules_with(limits, Catalog::default())
    }

    /// The row rules that the partitions must be opened with; `catalog` knows the users' tables.
    #[must_use]
    pub fn rules_with(limits: &Limits, catalog: Catalog) -> Arc<dyn Rules> {
        Arc::new(TableRules::new(Timelines::built_in(limits), catalog))
    }

    /// What timelines know about their rows, for the rules of the layers above.
    #[must_use]
    pub fn built_in(limits: &Limits) -> Arc<dyn BuiltInTables> {
        let window = Window::new(limits);
        Arc::new(TimelineTables { window })
    }

    /// Merges columns into a timeline's meta. Gives the whole new meta and its version.
    pub fn update(
        &self,
        update: UpdateMeta,
    ) -> impl Future<Output = Result<(Meta, u64), Error>> + Send + use<> {
        let bytes = SMALL_BYTES + tideline_model::json_bytes(&update.set);
        let partition = self.place(&update.timeline);
        self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.update(txn, update)
        })
    }

    /// Deletes a timeline; `false` if there was none.
    pub fn delete(
        &self,
        target: Target,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        self.make_room(target, |txn, site, target| site.delete(txn, target))
    }

    /// Gives up the messages below `before`. Gives the floor after it.
    pub fn trim(
        &self,
        target: Target,
        before: u64,
    ) -> impl Future<Output = Result<u64, Error>> + Send + use<> {
        self.make_room(target, move |txn, site, target| {
            site.trim(txn, target, before)
        })
    }

    /// Edits a message. Gives its new form.
    pub fn update_message(
        &self,
        update: UpdateMessage,
    ) -> impl Future<Output = Result<Message, Error>> + Send + use<> {
        let bytes = SMALL_BYTES + tideline_model::json_bytes(&update.set);
        let partition = self.place(&update.timeline);
        self.submit(Purpose::Adds, partition, bytes, move |txn, site| {
            site.update_message(txn, update)
        })
    }

    /// What a committed batch did: one event for each watched timeline that it touched, made from the batch alone. The
    /// feed's tailer calls this for every batch of a partition, in order. The call also brings the heads in memory up
    /// to date (see [`Timelines::note`]). Of a timeline that is not watched it reads little more than the name.
    #[must_use]
    pub fn events(
        &self,
        partition: PartitionId,
        batch: &Batch,
        is_watched: impl Fn(&str) -> bool,
    ) -> Vec<TimelineEvent> {
        self.note(partition, batch);
        let mut events = self.site(partition).events(batch, is_watched);
        for event in &mut events {
            self.mark(&event.timeline, event.appended.iter_mut());
        }
        events
    }

    /// Marks the messages of a timeline that were appended as a part of a trace, while they are new.
    pub(crate) fn mark<'m>(&self, timeline: &str, messages: impl Iterator<Item = &'m mut Message>) {
        self.inner.traces.mark(timeline, messages, || self.now_ms());
    }

    /// Brings the heads in memory up to a batch, for a follower that does not want its events.
    pub fn note(&self, partition: PartitionId, batch: &Batch) {
        self.inner.heads.note(partition, batch);
    }

    /// Queues a write at once.
    fn submit<R, F>(
        &self,
        purpose: Purpose,
        partition: PartitionId,
        bytes: usize,
        write: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&mut Txn<'_>, &Site) -> Result<R, Error> + Send + 'static,
    {
        let site = self.site(partition);
        let write = move |txn: &mut Txn<'_>| write(txn, &site);
        let partitions = &self.inner.partitions;
        let submitted = partitions.submit(purpose, partition, bytes, write);
        async move { submitted.await.map_err(Error::from) }
    }

    /// Queues writes of one partition together, each of which is done or refused for itself.
    fn submit_each<M, R, F>(
        &self,
        purpose: Purpose,
        partition: PartitionId,
        bytes: usize,
        members: Vec<M>,
        run: F,
    ) -> impl Future<Output = Vec<Result<R, Error>>> + Send + use<M, R, F>
    where
        M: Send + 'static,
        R: Send + 'static,
        F: Fn(&mut M, &mut Txn<'_>, &Site) -> Result<R, Error> + Send + 'static,
    {
        let site = self.site(partition);
        let run = move |member: &mut M, txn: &mut Txn<'_>| run(member, txn, &site);
        let partitions = &self.inner.partitions;
        let submitted = partitions.submit_all(purpose, partition, bytes, members, run);
        async move {
            let answers = submitted.await.into_iter();
            answers
                .map(|answer| answer.map(|(_, result)| result).map_err(Error::from))
                .collect()
        }
    }

    /// Queues a small write that is done also while the disk is full.
    fn make_room<R, F>(
        &self,
        target: Target,
        write: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&mut Txn<'_>, &Site, &Target) -> Result<R, Error> + Send + 'static,
    {
        let partition = self.place(&target.timeline);
        let write = move |txn: &mut Txn<'_>, site: &Site| write(txn, site, &target);
        self.submit(Purpose::MakesRoom, partition, SMALL_BYTES, write)
    }

    /// Reads one page from a fresh view.
    async fn read<R: Send + 'static>(
        &self,
        partition: PartitionId,
        read: impl FnOnce(&View) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let read = move |view: &View| Ok(read(view));
        self.inner.partitions.read(partition, read).await?
    }

    fn site(&self, partition: PartitionId) -> Site {
        Site {
            partition,
            epochs: Arc::clone(&self.inner.epochs),
            window: self.inner.window,
            policies: self.inner.policies.clone(),
            time: Arc::clone(&self.inner.time),
            room: Arc::clone(&self.inner.room),
        }
    }

    /// The partition of a timeline.
    #[must_use]
    pub fn place(&self, timeline: &str) -> PartitionId {
        self.inner.partitions.place(timeline.as_bytes())
    }

    fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.inner.partitions.ids()
    }

    fn heads(&self) -> &Heads {
        &self.inner.heads
    }
}

/// Bytes that a small write counts for in the queue, roughly.
const SMALL_BYTES: usize = 512;

/// For how many rows something was done, and a failure of the others.
type Counted = (u64, Option<Error>);

fn counted<N: Into<u64>>(answers: Vec<Result<N, Error>>) -> Counted {
    answers
        .into_iter()
        .fold((0, None), |(count, failed), answer| match answer {
            Ok(number) => (count + number.into(), failed),
            Err(error) => (count, Some(error)),
        })
}
