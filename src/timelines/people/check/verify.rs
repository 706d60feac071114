//! What must hold between what lies at users and the timelines that it is of.
//!
//! Owns: these rules, and which changes of a log the relay may not have derived yet. Promises: each contradiction is
//! reported with its place; a difference that the relay may still mend is not reported. Must not: write.

use std::collections::{HashMap, HashSet};

use crate::relay::stored_cursors;
use crate::timeline::{MemberRow, StoredTimelines, Timelines, followings, memberships};
use tideline_base::ids::{PartitionId, Position};
use tideline_table::{Batch, Malformed, Map, Origin, ReadError, View};

use super::super::conversations;
use super::super::conversations::conversation_row::{ConversationRow, Marks, Membership};
use super::super::conversations::lists;
use super::super::devices::stored::{DeviceRow, PlaceRow};
use super::super::feeds::{followers, follows};
use super::super::tables::{CONVERSATIONS, DEVICES, Home, POSITIONS};
use super::dump::{all, read};

/// What was found at users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifiedPeople {
    /// Conversations, also such that have ended.
    pub conversations: u64,
    /// Positions of devices.
    pub positions: u64,
    /// Entries of inboxes.
    pub entries: u64,
}

/// Where a check writes what it finds.
pub struct Report<'r> {
    /// Takes a contradiction: the server is at fault, or the disk.
    pub problem: &'r mut dyn FnMut(String),
    /// Takes what is odd but may be a client's doing.
    pub note: &'r mut dyn FnMut(String),
}

/// A partition as a check needs it.
pub struct StoredPartition<'v> {
    /// Which.
    pub id: PartitionId,
    /// All of its rows.
    pub view: &'v View,
    /// The end of its log.
    pub last: Position,
    /// What the batches of its log changed.
    pub changed: &'v Changed,
}

/// The members, follows and followers that the batches of a log changed, as far back as it reaches.
#[derive(Debug, Default)]
pub struct Changed {
    pub(in super::super) first: Option<Position>,
    /// By timeline and user, where they changed last.
    members: HashMap<(String, String), Position>,
    /// The same of follows.
    pub(in super::super) follows: HashMap<(String, String), Position>,
    /// The same of new followers.
    pub(in super::super) followers: HashMap<(String, String), Position>,
}

impl Changed {
    /// Takes the next batch in.
    ///
    /// # Errors
    /// If a record or row of the batch can't be read.
    pub fn take(&mut self, batch: &Batch) -> Result<(), Malformed> {
        self.first.get_or_insert(batch.position);
        for change in memberships(batch, |_| true)? {
            let of = (change.timeline, change.user);
            self.members.insert(of, batch.position);
        }
        for change in follows::changes(batch)? {
            let of = (change.timeline, change.user);
            self.follows.insert(of, batch.position);
        }
        for change in followings(batch)? {
            let of = (change.timeline, change.user);
            self.followers.insert(of, batch.position);
        }
        Ok(())
    }
}

/// All partitions of a data directory.
pub struct StoredPeople<'v> {
    pub(in super::super) partitions: Vec<StoredPartition<'v>>,
    pub(in super::super) timelines: Vec<StoredTimelines<'v>>,
    origin: Origin,
    map: &'v Map,
    /// By target, source and destination: up to where the source's log was derived from; absent = it can't be said.
    derived: HashMap<(u32, usize, usize), Position>,
}

impl<'v> StoredPeople<'v> {
    /// `partitions`: all that `map` has, in its order.
    #[must_use]
    pub fn new(
        partitions: Vec<StoredPartition<'v>>,
        origin: Origin,
        map: &'v Map,
    ) -> StoredPeople<'v> {
        let timelines = partitions.iter();
        let timelines = timelines.map(|one| StoredTimelines::new(one.view, origin));
        StoredPeople {
            timelines: timelines.collect(),
            partitions,
            origin,
            map,
            derived: HashMap::new(),
        }
    }

    /// Checks the relay's cursors, conversations against memberships, and devices.
    pub fn verify(&mut self, report: &mut Report<'_>) -> Result<VerifiedPeople, ReadError> {
        let mut found = VerifiedPeople::default();
        self.check_cursors(report)?;
        for source in 0..self.partitions.len() {
            self.check_members(source, report)?;
        }
        for id in 0..self.partitions.len() {
            let shown = self.partitions[id].id;
            let mut within = |what| (report.problem)(format!("partition {shown}, {what}"));
            found.conversations += self.check_conversations(id, &mut within)?;
            found.positions += self.check_devices(id, report)?;
        }
        found.entries = self.check_feeds(report)?;
        Ok(found)
    }

    /// Checks that no cursor is beyond the log that it is in, and notes where the targets are.
    fn check_cursors(&mut self, report: &mut Report<'_>) -> Result<(), ReadError> {
        let history = self.origin.history.to_string();
        let (mut found, mut of_others) = (HashMap::new(), HashSet::new());
        for (destination, partition) in self.partitions.iter().enumerate() {
            let shown = partition.id;
            for cursor in stored_cursors(partition.view)? {
                let (target, source, at) = (cursor.target, cursor.source, cursor.position);
                let Some(number) = self.index(source) else {
                    if self.map.was(source) {
                        continue; // it has ended, and so has the route
                    }
                    (report.problem)(format!(
                        "partition {shown}: a relay cursor of target {target} is in the log of partition {source}, \
                         which does not exist"
                    ));
                    continue;
                };
                let log = &self.partitions[number];
                let route = (target, number, destination);
                if cursor.history != history {
                    of_others.insert(route);
                } else if at > log.last {
                    (report.problem)(format!(
                        "partition {shown}: the relay cursor of target {target} is at {at} of partition {source}, \
                         whose log ends at {}",
                        log.last
                    ));
                } else {
                    found.insert(route, at);
                }
            }
        }
        for (source, log) in self.partitions.iter().enumerate() {
            // What its parents' logs led to was done before it began.
            let begins = self
                .map
                .share(log.id)
                .map_or(Position(1), |share| share.begins);
            let before = Position(begins.0 - 1);
            for destination in 0..self.partitions.len() {
                for target in [lists::KIND.number, followers::KIND.number] {
                    let route = (target, source, destination);
                    // Without a cursor of any history nothing was derived yet. Where the log does not reach back to
                    // the cursor everything will be made anew.
                    let begin = (!of_others.contains(&route)).then_some(before);
                    let first = log.changed.first;
                    let reaches = |at: &Position| {
                        *at >= log.last || first.is_some_and(|first| first <= at.next())
                    };
                    let at = found.get(&route).copied().or(begin);
                    self.derived
                        .extend(at.filter(reaches).map(|at| (route, at)));
                }
            }
        }
        Ok(())
    }

    /// Whether a target may still have to bring a source's change at this position to a destination; `None` = the
    /// source's log has no such change any more.
    pub(in super::super) fn is_pending(
        &self,
        target: u32,
        (source, destination): (usize, usize),
        changed: Option<&Position>,
    ) -> bool {
        let at = self.derived.get(&(target, source, destination));
        at.is_none_or(|at| changed.is_some_and(|changed| changed > at))
    }

    /// Whether the relay may still have to bring a change of a member to the user.
    fn is_member_pending(&self, route: (usize, usize), timeline: &str, user: &str) -> bool {
        let of = (timeline.to_owned(), user.to_owned());
        let changed = self.partitions[route.0].changed.members.get(&of);
        self.is_pending(lists::KIND.number, route, changed)
    }

    /// Which of the partitions has a key.
    pub(in super::super) fn place_of(&self, key: &str) -> usize {
        let owner = self.map.place(key.as_bytes());
        self.index(owner).expect("all live partitions are there")
    }

    fn index(&self, id: PartitionId) -> Option<usize> {
        self.partitions.iter().position(|one| one.id == id)
    }

    /// Each member of a partition's timelines has the conversation that the member's row leads to.
    fn check_members(&self, source: usize, report: &mut Report<'_>) -> Result<(), ReadError> {
        let mut from: Option<Vec<u8>> = None;
        loop {
            let view = self.partitions[source].view;
            let (members, next) = Timelines::member_page(view, from.as_deref(), MEMBERS_AT_ONCE)?;
            for one in members {
                let Some(member) = one.row else { continue };
                let (timeline, user) = (one.timeline.as_str(), one.user.as_str());
                let home = Home::new(user);
                let destination = self.place_of(home.name());
                if self.is_member_pending((source, destination), timeline, user) {
                    continue;
                }
                let row = conversations::load(self.partitions[destination].view, &home, timeline)?;
                if let Some(what) = differs(row.as_ref(), one.incarnation, &member) {
                    let shown = self.partitions[destination].id;
                    (report.problem)(format!(
                        "partition {shown}, user {user:?}: the conversation with {timeline:?} {what}"
                    ));
                }
            }
            from = next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    /// Each conversation that has not ended is of a membership, or of a timeline that is gone.
    fn check_conversations(
        &self,
        id: usize,
        problem: &mut dyn FnMut(String),
    ) -> Result<u64, ReadError> {
        let mut count = 0;
        let partition = &self.partitions[id];
        for row in all(partition.view, CONVERSATIONS) {
            count += 1;
            let ([user, timeline], row) = read(&row?, ConversationRow::decode)?;
            let mut problem = |what: &str| {
                problem(format!(
                    "user {user:?}: the conversation with {timeline:?} {what}"
                ));
            };
            if self.place_of(Home::new(&user).name()) != id {
                problem("is not where the user's rows are");
            }
            if row.position > partition.last.0 {
                problem("was written beyond the end of the log");
            }
            let source = self.place_of(&timeline);
            let Membership {
                incarnation,
                joined,
            } = row.membership;
            let name = match self.timelines[source].name(&timeline)? {
                Some(name) if name.incarnation >= incarnation => name,
                _ => {
                    problem("is of a timeline that never was");
                    continue;
                }
            };
            // What a timeline that is gone has left is cleared up when somebody looks at it.
            if name.incarnation > incarnation || !name.exists {
                continue;
            }
            if row.hidden > name.head.head + 1 {
                problem("is hidden from beyond the timeline's head");
            }
            let member = self.timelines[source].member(&timeline, &user)?;
            let stays = member.is_some_and(|member| member.joined >= joined);
            if row.removed == 0 && !stays && !self.is_member_pending((source, id), &timeline, &user)
            {
                problem("has not ended, and the user is no member");
            }
        }
        Ok(count)
    }

    /// Each position is of a device that counts it, and of an epoch.
    fn check_devices(&self, id: usize, report: &mut Report<'_>) -> Result<u64, ReadError> {
        let StoredPartition { id, view, .. } = &self.partitions[id];
        let now_ms = tideline_base::clock::Clock::system().now_ms();
        let mut found: HashMap<[String; 2], u64> = HashMap::new();
        let mut count = 0;
        for row in all(view, POSITIONS) {
            let ([user, device, timeline], place) = read(&row?, PlaceRow::read)?;
            count += 1;
            let at = format!(
                "partition {id}, user {user:?}, device {device:?}: the position in {timeline:?}"
            );
            *found.entry([user, device]).or_default() += 1;
            if place.epoch.is_empty() {
                (report.problem)(format!("{at} has no epoch"));
            }
            let source = self.place_of(&timeline);
            let Some(name) = self.timelines[source].name(&timeline)? else {
                continue;
            };
            let head = name.head;
            let changes_after = place.changes_after.unwrap_or_default();
            let is_beyond = place.after > head.head || changes_after > head.change_head;
            if name.exists && place.epoch == head.epoch && is_beyond {
                (report.note)(format!(
                    "{at} is beyond the head {}: a client said so, or the timeline has lost its end",
                    head.head
                ));
            }
        }
        for row in all(view, DEVICES) {
            let (name, row): ([String; 2], _) = read(&row?, DeviceRow::decode)?;
            let stored = found.remove(&name).unwrap_or_default();
            // Of one that is gone merges drop the positions.
            if stored != row.count && !row.is_gone(now_ms) {
                let [user, device] = name;
                (report.problem)(format!(
                    "partition {id}, user {user:?}, device {device:?}: {stored} positions instead of {}",
                    row.count
                ));
            }
        }
        let mut strays: Vec<_> = found.into_keys().collect();
        strays.sort_unstable();
        for [user, device] in strays {
            (report.problem)(format!(
                "partition {id}, user {user:?}: there are positions of {device:?}, which is no device"
            ));
        }
        Ok(count)
    }
}

/// What a conversation's row says else than the membership does.
fn differs(
    row: Option<&ConversationRow>,
    incarnation: u64,
    member: &MemberRow,
) -> Option<&'static str> {
    let membership = Membership {
        incarnation,
        joined: member.joined,
    };
    match row {
        None => Some("is missing"),
        Some(row) if row.membership != membership => Some("is of another membership"),
        Some(row) if row.removed > 0 => Some("has ended, and the user is a member"),
        Some(row) => {
            let mut said = Marks::of(member);
            if row.marks.role == 0 {
                // Rows of earlier versions have no role.
                said.role = 0;
            }
            (row.marks != said).then_some("says something else than the member's row")
        }
    }
}

/// Members that are read together.
const MEMBERS_AT_ONCE: usize = 1_000;
