//! People: what lies at a user, in the partition of their inbox.
//!
//! Owns: the tables whose first key column is `$inbox/USER`, and the rules of their rows. Promises: a write touches the
//! user's partition only, in one batch. Must not: know JSON-RPC or sockets, or check what the gateway can check without
//! the store.

mod check;
mod conversations;
mod cursor;
mod devices;
mod direct;
mod feeds;
#[cfg(feature = "faults")]
pub(crate) mod fuzz;
mod tables;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

use crate::relay::{self, Relay, Target};
use crate::timeline::{Columns, Error, Limits, MemberRow, RELAYS, Timelines};
use tideline_base::ids::{PartitionId, Position, TableId};
use tideline_model::access::Asker;
use tideline_table::{
    BuiltInTables, Catalog, DropContext, Entry, Kept, Looked, Memory, Owner, Partitions, Purpose,
    ReadError, Rules, TableRules, Txn, View, owner_of_text,
};

use conversations::OwnChange;
use conversations::lists::Lists;
use conversations::memberships::Mine;
use cursor::{Ends, Issuer};
use devices::places::Places;
use feeds::followers::Followers;
use feeds::inboxes::Inboxes;
use tables::Home;

pub use check::dump::{DumpedPerson, StoredConversation, dump_people};
pub use check::verify::{Changed, Report, StoredPartition, StoredPeople, VerifiedPeople};
pub use conversations::filter::Filter;
pub use conversations::list::{Count, ListConversations, ListedConversations, Shown};
pub use conversations::own_side::{OwnPosition, OwnSide};
pub use conversations::sync::{SyncConversations, SyncedConversations};
pub use devices::device::SyncDevice;
pub use devices::positions::{DEVICES_MAX, SetPositions};
pub use devices::stored::{Device, DevicePosition, Place};
pub use feeds::feed::{FeedPage, FeedRange};
pub use feeds::follows::{Follow, Followed};
pub use feeds::jobs::Jobs;

/// A user's membership, as its timeline has just confirmed it.
pub struct Own {
    home: Home,
    timeline: String,
    incarnation: u64,
    member: MemberRow,
    head: u64,
}

/// What lies at the users of a data directory. Cheap to clone.
///
/// Writes queue when they are called and resolve when they are on disk; a dropped future loses the answer, not the
/// write.
#[derive(Clone)]
pub struct People {
    partitions: Partitions,
    timelines: Timelines,
    memberships: Arc<Memory<Arc<Mine>>>,
    places: Arc<Memory<Arc<Places>>>,
    followed: Arc<Memory<Arc<Followed>>>,
    relay: Relay,
}

impl People {
    /// The relay's targets of people, and the long work that one of them leaves.
    #[must_use]
    pub fn targets(
        partitions: &Partitions,
        timelines: &Timelines,
    ) -> (Vec<Arc<dyn Target>>, Arc<Jobs>) {
        let (all, known) = (|| partitions.clone(), || timelines.clone());
        let jobs = Jobs::new(all(), known());
        let targets: Vec<Arc<dyn Target>> = vec![
            Arc::new(Lists::new(all())),
            Arc::new(Inboxes::new(all(), known(), Arc::clone(&jobs))),
            Arc::new(Followers::new(all(), known())),
        ];
        (targets, jobs)
    }

    /// The people on these partitions.
    #[must_use]
    pub fn new(partitions: Partitions, timelines: Timelines, relay: Relay) -> People {
        People {
            memberships: Arc::new(Memory::new(&partitions, MEMBERSHIPS_MAX)),
            places: Arc::new(Memory::new(&partitions, PLACES_MAX)),
            followed: Arc::new(Memory::new(&partitions, FOLLOWS_KEPT_MAX)),
            partitions,
            timelines,
            relay,
        }
    }

    /// The row rules that the partitions must be opened with: those of timelines and users; `catalog` knows the users'
    /// tables.
    #[must_use]
    pub fn rules(limits: &Limits, catalog: Catalog) -> Arc<dyn Rules> {
        let timelines = Timelines::built_in(limits);
        Arc::new(TableRules::new(
            Arc::new(PeopleTables { timelines }),
            catalog,
        ))
    }

    /// Sets positions of a device: forward only, unless the call says otherwise. Gives what is stored now of the
    /// timelines that were named.
    pub fn set_positions(
        &self,
        set: SetPositions,
    ) -> impl Future<Output = Result<Vec<DevicePosition>, Error>> + Send + use<> {
        let (home, bytes) = (Home::new(&set.user), set.bytes());
        self.submit(Purpose::Adds, home, bytes, move |txn, home| {
            devices::positions::set(txn, home, set)
        })
    }

    /// Positions of a device behind a timeline's name, in the order of names, and whether that was all. About
    /// `bytes_max` of them, at least one if there is one.
    pub async fn positions(
        &self,
        user: &str,
        device: String,
        after: Option<String>,
        bytes_max: usize,
    ) -> Result<(Vec<DevicePosition>, bool), Error> {
        self.read(Home::new(user), move |view, home, now_ms| {
            devices::positions::list(view, home, &device, after.as_deref(), bytes_max, now_ms)
        })
        .await
    }

    /// A user's devices, in the order of their names.
    pub async fn devices(&self, user: &str) -> Result<Vec<Device>, Error> {
        self.read(Home::new(user), move |view, home, now_ms| {
            Ok(devices::positions::live(view, home, now_ms)?)
        })
        .await
    }

    /// Removes a device and its positions; `false` if there was none.
    pub fn remove_device(
        &self,
        user: &str,
        device: String,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let home = Home::new(user);
        self.submit(Purpose::MakesRoom, home, SMALL_BYTES, move |txn, home| {
            Ok(devices::positions::remove(txn, home, &device)?)
        })
    }

    /// Whether members of a timeline may be changed now: the relay is not too far behind.
    #[must_use]
    pub fn has_room(&self, timeline: &str) -> bool {
        self.relay.has_room(self.timelines.partition_of(timeline))
    }

    /// Where the log of a timeline's partition ends now: behind every change that was answered before.
    #[must_use]
    pub fn end_of(&self, timeline: &str) -> (PartitionId, Position) {
        let partition = self.timelines.partition_of(timeline);
        (partition, self.partitions.tail(partition).position())
    }

    /// Waits until a user's list shows what these partitions had committed up to there. Cancel-safe.
    pub async fn lists_reached(&self, user: &str, ends: &[(PartitionId, Position)]) {
        let destination = self.place(&Home::new(user));
        for (source, position) in ends {
            let reached = self.relay.reached(
                conversations::lists::KIND.number,
                *source,
                destination,
                *position,
            );
            if !reached.await {
                return;
            }
        }
    }

    /// Asks a timeline for the user's membership, behind the writes that were queued there before.
    pub fn own(
        &self,
        asker: &Asker,
        timeline: &str,
    ) -> impl Future<Output = Result<Own, Error>> + Send + use<> {
        let asked = self.timelines.membership_in_turn(asker, timeline);
        let (home, timeline) = (Home::new(asker.user()), timeline.to_owned());
        async move {
            let found = asked.await?;
            let (incarnation, member, head) = found.ok_or(Error::ConversationNotFound)?;
            Ok(Own {
                home,
                timeline,
                incarnation,
                member,
                head,
            })
        }
    }

    /// Changes the user's own attributes of a conversation. Gives all of them.
    pub fn update_attributes(
        &self,
        own: Own,
        set: Columns,
        remove: Vec<String>,
    ) -> impl Future<Output = Result<Columns, Error>> + Send + use<> {
        self.change_own(own, OwnChange::Attributes { set, remove })
    }

    /// Takes a conversation off the list until a message comes.
    pub fn hide(&self, own: Own) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let head = own.head;
        let change = self.change_own(own, OwnChange::Hide { head });
        async move { change.await.map(drop) }
    }

    fn change_own(
        &self,
        own: Own,
        change: OwnChange,
    ) -> impl Future<Output = Result<Columns, Error>> + Send + use<> {
        let bytes = SMALL_BYTES + change.bytes();
        self.submit(Purpose::Adds, own.home, bytes, move |txn, home| {
            let membership = (own.incarnation, &own.member);
            conversations::change_own(txn, home, &own.timeline, membership, change)
        })
    }

    /// What the cursors of a user are made and checked with.
    fn issuer<'i>(&'i self, user: &'i str) -> Issuer<'i> {
        Issuer {
            user,
            history: self.partitions.history(),
            seal: self.partitions.seal(),
        }
    }

    /// Where each partition's log ends.
    fn ends(&self) -> Ends {
        let end = |id| (id, self.partitions.tail(id).position());
        self.partitions.ids().map(end).collect()
    }

    /// Queues a write at a user at once.
    fn submit<R, F>(
        &self,
        purpose: Purpose,
        home: Home,
        bytes: usize,
        write: F,
    ) -> impl Future<Output = Result<R, Error>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&mut Txn<'_>, &Home) -> Result<R, Error> + Send + 'static,
    {
        let place = self.place(&home);
        let write = move |txn: &mut Txn<'_>| write(txn, &home);
        let submitted = self.partitions.submit(purpose, place, bytes, write);
        async move { submitted.await.map_err(Error::from) }
    }

    /// Reads at a user, from a fresh view.
    async fn read<R: Send + 'static>(
        &self,
        home: Home,
        read: impl FnOnce(&View, &Home, u64) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let (place, now_ms) = (self.place(&home), self.timelines.now_ms());
        let read = move |view: &View| Ok(read(view, &home, now_ms));
        self.partitions.read(place, read).await?
    }

    /// What memory, or else the store, knows of an owner's rows at a user.
    async fn kept<K: Kept + Send + Sync + 'static>(
        &self,
        memory: &Memory<Arc<K>>,
        (home, owner): (&Home, &[u8]),
        read: impl FnOnce(&View, &Home, u64) -> Result<K, ReadError> + Send + 'static,
    ) -> Result<Arc<K>, Error> {
        let partition = self.place(home);
        let mark = match memory.look(partition, |map| map.look_up(owner)) {
            Looked::Known(kept) => return Ok(kept),
            Looked::Read(mark) => mark,
        };
        let read = |view: &View, home: &Home, now_ms| Ok(read(view, home, now_ms)?);
        let kept = self.read(home.clone(), read);
        let kept = Arc::new(kept.await?);
        memory.settle(partition, owner, mark, Arc::clone(&kept));
        Ok(kept)
    }

    fn place(&self, home: &Home) -> PartitionId {
        self.partitions.place(home.name().as_bytes())
    }
}

/// Memberships of all users in memory: some 40 MB and their names.
const MEMBERSHIPS_MAX: usize = 1_000_000;
/// Positions of all devices in memory: some 24 MB, their names and epochs.
const PLACES_MAX: usize = 1_000_000;
/// Follows of all users in memory: some 30 MB and their names.
const FOLLOWS_KEPT_MAX: usize = 500_000;
/// About what a small write holds in the queue.
const SMALL_BYTES: usize = 512;

/// What people and timelines know about their rows.
struct PeopleTables {
    timelines: Arc<dyn BuiltInTables>,
}

impl BuiltInTables for PeopleTables {
    fn owner(&self, table: TableId, columns: &[u8]) -> Option<Owner> {
        match table {
            tables::CONVERSATIONS | tables::POSITIONS | tables::DEVICES | tables::FOLLOWS => {
                owner_of_text(columns)
            }
            RELAYS => Some(Owner::Each),
            feeds::jobs::JOBS => Some(Owner::Unfinished),
            _ => self.timelines.owner(table, columns),
        }
    }

    fn unite(&self, table: TableId, rows: &[Option<Bytes>]) -> Option<Bytes> {
        match table {
            RELAYS => relay::farthest(rows),
            _ => self.timelines.unite(table, rows),
        }
    }

    fn is_over(
        &self,
        table: TableId,
        columns: &[u8],
        entry: &Entry,
        context: &DropContext<'_>,
    ) -> bool {
        match table {
            tables::CONVERSATIONS => conversations::is_over(entry, context),
            _ => self.timelines.is_over(table, columns, entry, context),
        }
    }

    fn is_looked_up(&self, table: TableId) -> bool {
        matches!(
            table,
            tables::POSITIONS | tables::DEVICES | tables::CONVERSATIONS | tables::FOLLOWS
        ) || self.timelines.is_looked_up(table)
    }
}
