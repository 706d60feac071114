//! What a conversation shows of its timeline, and what a user's list is ordered by.
//!
//! Owns: the reads behind `conversation.list`, `.sync`, `.count`, `.get` at the timelines. Promises: what is shown of
//! one timeline is of one view; a user that is no member any more sees nothing; what memory knows of heads costs no
//! read. Must not: know what lies at the user.

use std::collections::{BTreeMap, HashMap};

use tideline_base::entry::EntryKind;
use tideline_base::ids::PartitionId;
use tideline_model::access::{Asker, Membership, Right, Rights};
use tideline_model::json_bytes;
use tideline_table::{ReadError, RowPage, Source, View, page};

use super::super::growth;
use super::super::marks::look_up_own;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::tables::{MEMBERS, Name};
use super::super::time::shown;
use super::super::unread::{Unread, mask, unread};
use super::super::write::Site;
use super::super::{Error, Message, TimelineInfo, Timelines};
use super::admit::Reader;
use super::membership::{MemberChange, member};
use super::row::MemberRow;

/// What memory knows of a timeline that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Which of its name it is.
    pub incarnation: u64,
    /// The last sequence, 0 if none.
    pub head: u64,
    /// Timestamp of the last message, 0 if none, ms.
    pub last_at: u64,
    /// Where in its partition's log the head was last written; 0 = nobody is a member.
    pub position: u64,
    /// The lowest readable sequence.
    pub floor: u64,
    /// Messages from here on are in inboxes; [`u64::MAX`] = none are.
    pub inbox_from: u64,
}

impl Pulse {
    fn of(head: &HeadRow) -> Pulse {
        Pulse {
            incarnation: head.incarnation,
            head: head.last,
            last_at: head.last_at,
            position: if head.members > 0 { head.position } else { 0 },
            floor: head.floor,
            inbox_from: if head.inbox_from > 0 {
                head.inbox_from
            } else {
                u64::MAX
            },
        }
    }
}

/// What a member's conversation shows of its timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The timeline, its floor the member's own.
    pub info: TimelineInfo,
    /// Which of its name.
    pub incarnation: u64,
    /// The last message that the member may see.
    pub last_message: Option<Message>,
    /// How many members there are.
    pub members_count: u64,
    /// The user's membership.
    pub member: MemberRow,
    /// What the member has not read.
    pub unread: Unread,
}

impl Conversation {
    /// About the most bytes that this takes as JSON.
    #[must_use]
    pub fn json_bytes_max(&self) -> usize {
        let message = self.last_message.as_ref();
        let message = message.map_or(0, Message::json_bytes_max);
        512 + 2 * self.info.timeline.len()
            + json_bytes(&self.info.meta)
            + json_bytes(&self.member.attributes)
            + self.member.role.len() * 2
            + message
    }
}

/// What became of a conversation that was to be shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Looked {
    /// It is shown.
    Shown(Box<Conversation>),
    /// The user is a member, and may not read it.
    Hidden,
    /// The user is no member, or there is no such timeline.
    NoMember,
}

/// Whether a member may read their conversation.
fn may_read(asker: &Asker, name: &Name, member: &MemberRow) -> bool {
    let membership = Membership {
        role: Some(&member.role),
        members_only: false,
    };
    asker.rights(name.id(), membership).has(Right::Read)
}

/// Timelines that are read from one view.
const TIMELINES_PER_VIEW: usize = 64;

impl Timelines {
    /// The pulses of those of `names` that `matter`, by their index and in its order; `None` = no such timeline.
    pub async fn pulses(
        &self,
        names: &[&str],
        matter: impl Fn(usize, PartitionId, Option<Pulse>) -> bool,
    ) -> Result<Vec<(usize, Option<Pulse>)>, Error> {
        let mut found = Vec::new();
        for (partition, indexes) in self.indexes_by_partition(names) {
            let name = |at: usize| names[indexes[at]];
            let matters = |at: usize, head: Option<&HeadRow>| {
                matter(indexes[at], partition, head.map(Pulse::of))
            };
            let heads = self
                .head_rows(partition, indexes.len(), name, matters)
                .await?;
            let pulse =
                |(at, head): (usize, Option<HeadRow>)| (indexes[at], head.as_ref().map(Pulse::of));
            found.extend(heads.into_iter().map(pulse));
        }
        found.sort_unstable_by_key(|(index, _)| *index);
        Ok(found)
    }

    /// What a user's conversations show of these timelines, in their order. `columns`:
    /// of the last message.
    pub async fn conversations(
        &self,
        asker: &Asker,
        names: &[&str],
        columns: Option<&[String]>,
    ) -> Result<Vec<Looked>, Error> {
        let mut found: Vec<Looked> = Vec::new();
        found.resize_with(names.len(), || Looked::NoMember);
        for (partition, indexes) in self.indexes_by_partition(names) {
            for part in indexes.chunks(TIMELINES_PER_VIEW) {
                let wanted: Vec<String> = part.iter().map(|at| names[*at].to_owned()).collect();
                let (site, asker) = (self.site(partition), asker.clone());
                let columns = columns.map(<[String]>::to_vec);
                let read = self.read(partition, move |view| {
                    let one = |name| site.conversation(view, name, &asker, columns.as_deref());
                    wanted.into_iter().map(one).collect::<Result<Vec<_>, _>>()
                });
                for (at, one) in part.iter().zip(read.await?) {
                    found[*at] = one;
                }
            }
        }
        Ok(found)
    }

    /// A user's membership in a timeline, with its incarnation and head; `None` = there is none, or they may not read
    /// it.
    pub async fn membership(
        &self,
        asker: &Asker,
        timeline: &str,
    ) -> Result<Option<(u64, MemberRow, u64)>, Error> {
        let (name, asker) = (Name::new(timeline), asker.clone());
        let read = move |view: &View| membership(view, &name, &asker);
        self.read(self.place(timeline), read).await
    }

    /// As [`Timelines::membership`], behind the writes that were queued before.
    pub fn membership_in_turn(
        &self,
        asker: &Asker,
        timeline: &str,
    ) -> impl Future<Output = Result<Option<(u64, MemberRow, u64)>, Error>> + Send + use<> {
        let (name, asker) = (Name::new(timeline), asker.clone());
        self.read_in_turn(timeline, move |txn, _| membership(txn, &name, &asker))
    }

    /// The partition of a timeline's rows.
    #[must_use]
    pub fn partition_of(&self, timeline: &str) -> PartitionId {
        self.place(timeline)
    }

    /// Members of a partition's timelines that exist, from a key's columns on, and where the next page begins. Each is
    /// as if it had just joined.
    pub fn member_page(
        view: &View,
        from: Option<&[u8]>,
        limit: usize,
    ) -> Result<RowPage<MemberChange>, ReadError> {
        let read = |columns: &[u8], value: &[u8]| member(columns, EntryKind::Put, value);
        let (mut members, next) = page(view, MEMBERS, (from, limit), "not a member", read)?;
        let mut current: HashMap<String, Option<u64>> = HashMap::new();
        for member in &members {
            if !current.contains_key(&member.timeline) {
                let head = HeadRow::existing(view, &Name::new(&member.timeline))?;
                let incarnation = head.map(|head| head.incarnation);
                current.insert(member.timeline.clone(), incarnation);
            }
        }
        members.retain(|member| current[&member.timeline] == Some(member.incarnation));
        Ok((members, next))
    }

    pub(in super::super) fn indexes_by_partition(
        &self,
        names: &[&str],
    ) -> BTreeMap<PartitionId, Vec<usize>> {
        let mut parts: BTreeMap<PartitionId, Vec<usize>> = BTreeMap::new();
        for (index, name) in names.iter().enumerate() {
            parts.entry(self.place(name)).or_default().push(index);
        }
        parts
    }
}

fn membership(
    rows: &impl Source,
    name: &Name,
    asker: &Asker,
) -> Result<Option<(u64, MemberRow, u64)>, Error> {
    let Some(head) = HeadRow::existing(rows, name)? else {
        return Ok(None);
    };
    let member = MemberRow::load(rows, name, &head, asker.user())?;
    let member = member.filter(|member| may_read(asker, name, member));
    Ok(member.map(|member| (head.incarnation, member, head.last)))
}

impl Site {
    fn conversation(
        &self,
        view: &View,
        timeline: String,
        asker: &Asker,
        columns: Option<&[String]>,
    ) -> Result<Looked, Error> {
        let user = asker.user();
        let name = Name::new(&timeline);
        let Some(head) = HeadRow::existing(view, &name)? else {
            return Ok(Looked::NoMember);
        };
        let Some(member) = MemberRow::load(view, &name, &head, user)? else {
            return Ok(Looked::NoMember);
        };
        if !may_read(asker, &name, &member) {
            return Ok(Looked::Hidden);
        }
        let unread = unread(view, &name, &head, (user, &member))?;
        let reader = Reader {
            floor: head.floor.max(member.floor()),
            member: Some(member.clone()),
            rights: Rights::NONE,
        };
        let sees = reader.sees(head);
        let last_message = match sees.holds(head.last) {
            true => {
                let message = last_message(view, &name, &sees, columns)?;
                let mut message = shown(message, &self.time);
                look_up_own(view, (&name, &sees), user, [&mut message])?;
                mask(view, (&name, &sees), (user, &reader), [&mut message])?;
                Some(message)
            }
            false => None,
        };
        Ok(Looked::Shown(Box::new(Conversation {
            info: self.info(view, timeline, &sees)?,
            incarnation: head.incarnation,
            last_message,
            members_count: u64::from(head.members),
            member,
            unread,
        })))
    }
}

fn last_message(
    view: &View,
    name: &Name,
    head: &HeadRow,
    columns: Option<&[String]>,
) -> Result<Message, ReadError> {
    let mut message = stored::load(view, name, head, head.last, columns)?;
    growth::look_up(view, name, head, &mut message, columns)?;
    Ok(message)
}
