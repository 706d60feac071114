//! Timelines: messages in gapless order, their meta, idempotence, changes, sync positions.
//!
//! Owns: what PROTOCOL calls promises 1 to 7. Must not: know JSON-RPC or sockets.

mod message;

use std::future::Future;
use std::sync::Arc;

use crate::ids::{Clock, PartitionId};
use crate::partition::{Batch, Partitions, Rules};

pub use message::{
    Append, AppendOne, Appended, Changed, Columns, EntryLimits, Error, Head, Limits, List, Listed,
    Message, Meta, Page, Range, Resume, ResumeState, Sender, SyncPosition, SyncState, Synced,
    TimelineEvent, TimelineInfo, UpdateMessage, UpdateMeta,
};

/// All timelines of a data directory. Cheap to clone.
///
/// Writes queue when they are called (the order of calls is the order of effects) and resolve when they are on disk; a
/// dropped future loses the answer, not the write. Reads show everything that was answered before they were called.
#[derive(Clone)]
pub struct Timelines {}

impl Timelines {
    /// The timelines on these partitions. `clock` is for the IDs that the server makes; times of messages are the log's.
    #[must_use]
    pub fn new(_partitions: Partitions, _limits: Limits, _clock: Arc<Clock>) -> Timelines {
        todo!()
    }

    /// The row rules that the partitions must be opened with.
    #[must_use]
    pub fn rules(_limits: &Limits) -> Arc<dyn Rules> {
        todo!()
    }

    /// Appends one or more messages, all or none. Also gives the timeline's epoch.
    pub fn append(
        &self,
        _append: Append,
    ) -> impl Future<Output = Result<(Vec<Appended>, String), Error>> + Send + use<> {
        async { todo!() }
    }

    /// Makes a timeline; `false` if it stood already (its meta stays as it is).
    pub fn create(
        &self,
        _timeline: String,
        _meta: Option<Meta>,
        _epoch: Option<String>,
    ) -> impl Future<Output = Result<(TimelineInfo, bool), Error>> + Send + use<> {
        async { todo!() }
    }

    /// Merges columns into a timeline's meta. Gives the whole new meta and its version.
    pub fn update(
        &self,
        _update: UpdateMeta,
    ) -> impl Future<Output = Result<(Meta, u64), Error>> + Send + use<> {
        async { todo!() }
    }

    /// Deletes a timeline; `false` if there was none.
    pub fn delete(
        &self,
        _timeline: String,
        _epoch: Option<String>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        async { todo!() }
    }

    /// Gives up the messages below `before`. Gives the floor after it.
    pub fn trim(
        &self,
        _timeline: String,
        _before: u64,
        _epoch: Option<String>,
    ) -> impl Future<Output = Result<u64, Error>> + Send + use<> {
        async { todo!() }
    }

    /// Edits a message. Gives its new form.
    pub fn update_message(
        &self,
        _update: UpdateMessage,
    ) -> impl Future<Output = Result<Message, Error>> + Send + use<> {
        async { todo!() }
    }

    /// Makes a message a tombstone; `false` if it was one already.
    pub fn delete_message(
        &self,
        _timeline: String,
        _sequence: u64,
        _epoch: Option<String>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        async { todo!() }
    }

    /// What stands about a timeline.
    pub async fn get(
        &self,
        _timeline: &str,
        _epoch: Option<String>,
    ) -> Result<TimelineInfo, Error> {
        todo!()
    }

    /// The timelines of all partitions in the order of their names.
    pub async fn list(&self, _list: List) -> Result<Listed, Error> {
        todo!()
    }

    /// One message, also a tombstone.
    pub async fn get_message(
        &self,
        _timeline: &str,
        _sequence: u64,
        _epoch: Option<String>,
    ) -> Result<Message, Error> {
        todo!()
    }

    /// A page of messages.
    pub async fn range(&self, _range: Range) -> Result<Page, Error> {
        todo!()
    }

    /// What comes after a reader's position, and what changed behind it.
    pub async fn resume(&self, _resume: Resume) -> Result<Changed, Error> {
        todo!()
    }

    /// Those of `positions` that have news or are not of their timeline's history, beginning at index `start` and going
    /// round. `limit` is per timeline; ends when about `bytes_max` are reached, and then says `true`: those not shown may
    /// have news too.
    pub async fn sync(
        &self,
        _positions: Vec<SyncPosition>,
        _limit: usize,
        _bytes_max: usize,
        _start: usize,
    ) -> Result<(Vec<Synced>, bool), Error> {
        todo!()
    }

    /// The head of a timeline, from memory where it can be; `None` if there is no such timeline.
    pub async fn head(&self, _timeline: &str) -> Result<Option<Head>, Error> {
        todo!()
    }

    /// What a committed batch did, one event per timeline that it touched, from the batch alone. The feed's tailer calls it
    /// for every batch of a partition in order; it also keeps the heads in memory up to date (see [`Timelines::note`]).
    pub fn events(&self, _partition: PartitionId, _batch: &Batch) -> Vec<TimelineEvent> {
        todo!()
    }

    /// Brings the heads in memory up to a batch, for a follower that does not want its events.
    pub fn note(&self, _partition: PartitionId, _batch: &Batch) {
        todo!()
    }
}
