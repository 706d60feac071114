//! What timelines lose with rows that can't be read, and what becomes of them.
//!
//! Owns: this rule. Promises: afterwards each timeline is one that could be there without any damage: it is trimmed to
//! behind what it lost, its meta is empty, or it is deleted; whatever it shows is right, and its numbers are not used
//! again. Must not: know which timelines are near a loss (`losses.rs` does), or take what it does not know for whole.
//!
//! What is lost is between two keys. Where messages were, the keys say which; where rows were that belong to unknown
//! messages, all messages go; where the head, the settings, or members were, the timeline goes.

use std::fmt;

use tideline_base::faults;
use tideline_base::ids::{PartitionId, Position};
use tideline_table::{Gap, ReadError, Source, Txn, View, delete, put};

use super::super::growth;
use super::super::members::settings_row::SettingsRow;
use super::super::rows::head::{HAS_SETTINGS, HAS_STREAM, HeadRow};
use super::super::rows::stored::MetaRow;
use super::super::rows::tables::{
    CHANGES, FOLLOWERS, GONE, HEADS, HIDES, HIDES_BY_NUMBER, IDS, MARKS, MEMBER_CHANGES, MEMBERS,
    MENTIONS, MESSAGES, METAS, Name, OPEN, PARTS, PINS, REACTION_SUMS, REACTIONS, SENDERS,
    SETTINGS, STREAMS,
};
use super::super::write::{made_at, put_head, version};
use super::super::{Error, Timelines};
use tideline_table::Purpose;

/// What is left of a name's rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    /// The head of before the part of the log that the image does not cover.
    pub(super) head: Option<HeadRow>,
    pub(super) incarnation: u64,
    pub(super) members: u32,
    pub(super) followers: u32,
    pub(super) scheduled: bool,
}

impl Left {
    /// Whether so many rows of a timeline are all that there were.
    fn has(&self, head: &HeadRow, rows: u32, counted: fn(&HeadRow) -> u32) -> bool {
        let then = self
            .head
            .filter(|then| then.incarnation == head.incarnation);
        let rows = if self.incarnation == head.incarnation {
            rows
        } else {
            0
        };
        then.is_some_and(|then| counted(&then) == rows)
    }
}

/// What becomes of a timeline.
pub struct Mend {
    name: Name,
    timeline: String,
    head: Option<HeadRow>,
    /// Messages that are lost, from one to another.
    lost: Vec<(u64, u64)>,
    /// All below it go.
    floor: u64,
    /// The meta is lost.
    meta: bool,
    /// IDs of messages may be lost.
    pub(super) ids: bool,
    /// What is lost that it can't be without.
    gone: Option<&'static str>,
}

impl Mend {
    /// Of a timeline, if it was there when the image covered so much: one that began behind it has lost nothing.
    pub(super) fn new(view: &View, name: &[u8], covered: Position) -> Mend {
        let name = Name::of(name).expect("it was read from a key");
        let head = HeadRow::load(view, &name);
        let was_there = |head: &HeadRow| made_at(head.incarnation) <= covered;
        Mend {
            timeline: name.text().unwrap_or_default(),
            gone: head.is_err().then_some("its head"),
            name,
            head: head.ok().flatten().filter(was_there),
            lost: Vec::new(),
            floor: 0,
            meta: false,
            ids: false,
        }
    }

    /// Whether there is something to do, and not only to say.
    #[must_use]
    pub fn is_change(&self) -> bool {
        if faults::is_named("loss_unsettled") {
            return false;
        }
        self.gone.is_some() || self.meta || self.head.is_some_and(|head| head.floor < self.floor)
    }

    /// Takes in what a gap means to the timeline.
    pub(super) fn lose(&mut self, view: &View, gap: &Gap, left: &Left) {
        let Some(head) = self.head.filter(|head| !head.dropped) else {
            return;
        };
        let table = gap.table;
        match table {
            HEADS => return,
            METAS => {
                let meta = view.row(&self.name.meta_key());
                self.meta |= !matches!(meta, Ok(Some(_)));
                return;
            }
            _ => {}
        }
        let Some((from, to)) = self.numbers(gap, &head) else {
            return;
        };
        match table {
            MESSAGES => {
                let (from, to) = (from.max(head.floor), to.min(head.last));
                if from <= to {
                    self.lost.push((from, to));
                    self.floor = self.floor.max(to + 1);
                }
            }
            // Several of them lie at a message.
            REACTIONS if !head.has_reactions() => {}
            OPEN if head.open == 0 => {}
            // The text of one that is closed is in its row.
            PARTS => self.lose_parts(view, &head, (from, to)),
            REACTIONS | REACTION_SUMS | PINS | MARKS | OPEN => {
                let to = to
                    .saturating_add(u64::from(table == REACTIONS))
                    .min(head.last);
                if head.floor <= to {
                    self.floor = self.floor.max(to + 1);
                }
            }
            CHANGES if head.change < from => {}
            SENDERS | MENTIONS | HIDES | HIDES_BY_NUMBER | GONE if head.counted() == 0 => {}
            CHANGES | SENDERS | MENTIONS | HIDES | HIDES_BY_NUMBER | GONE => {
                self.floor = self.floor.max(head.last + 1);
            }
            IDS => {
                self.ids = true;
                if left.scheduled {
                    self.gone = Some("IDs of messages that are scheduled");
                }
            }
            SETTINGS if head.flags & HAS_SETTINGS != 0 => {
                let row = view.row(&self.name.settings_key(head.incarnation));
                let row = row.ok().flatten().map(|row| SettingsRow::decode(&row));
                if !matches!(row, Some(Ok(_))) {
                    self.gone = Some("its settings");
                }
            }
            STREAMS if head.flags & HAS_STREAM != 0 => {
                self.gone = Some("what it knows of its producers");
            }
            MEMBERS if !left.has(&head, left.members, |then| then.members) => {
                self.gone = Some("members");
            }
            FOLLOWERS if !left.has(&head, left.followers, |then| then.followers) => {
                self.gone = Some("followers");
            }
            MEMBER_CHANGES if from <= head.member_version => {
                self.gone = Some("changes of members");
            }
            _ => {}
        }
    }

    /// Loses the messages of which parts may be lost.
    fn lose_parts(&mut self, view: &View, head: &HeadRow, (from, to): (u64, u64)) {
        let last = to.saturating_add(1).min(head.last);
        let open = growth::open_between(view, &self.name, head, (from, last));
        if let Some(last) = open.map_or(Some(last), |open| open.last().copied()) {
            self.floor = self.floor.max(last + 1);
        }
    }

    /// The first and the last number behind the incarnation that a gap can have; `None` = it has none of the timeline.
    fn numbers(&self, gap: &Gap, head: &HeadRow) -> Option<(u64, u64)> {
        let of = self.name.rows_of(gap.table, head.incarnation);
        let (below, above) = (of.clone().below_all(), of.clone().above_all());
        if gap.to[..] <= *below.as_bytes() || gap.from[..] > *above.as_bytes() {
            return None;
        }
        let number = |key: &[u8]| {
            let number = key
                .starts_with(of.as_bytes())
                .then(|| self.name.number_of(key).ok());
            let number = number.flatten()?;
            Some((number, of.numbered(number).as_bytes() == key))
        };
        let from = match number(&gap.from) {
            Some((number, false)) => number.saturating_add(1),
            Some((number, true)) => number,
            None => 0,
        };
        let to = match number(&gap.to) {
            Some((number, true)) => number.saturating_sub(1),
            Some((number, false)) => number,
            None => u64::MAX,
        };
        Some((from, to))
    }

    fn store(&self, txn: &mut Txn<'_>) -> Result<(), ReadError> {
        let now = txn.now_ms();
        match self.head {
            Some(mut head) if self.gone.is_none() => {
                head.floor = head.floor.max(self.floor);
                growth::recount(txn, &self.name, &mut head)?;
                put_head(txn, &self.name, &head);
                if self.meta {
                    // Above every version that it can have had.
                    let row = MetaRow {
                        version: now,
                        created_at: now,
                        updated_at: now,
                        ..MetaRow::default()
                    };
                    put(txn, self.name.meta_key(), row.encode(), version(now));
                }
            }
            _ => {
                let place = Timelines::place_of(txn);
                let incarnation = self.head.map_or(place, |head| head.incarnation);
                put_head(txn, &self.name, &HeadRow::dropped(incarnation));
                delete(txn, self.name.meta_key());
            }
        }
        Ok(())
    }
}

impl fmt::Display for Mend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "timeline {:?}: ", self.timeline)?;
        if let Some(what) = self.gone {
            return write!(out, "{what} can't be read: it is deleted");
        }
        let mut parts: Vec<String> = Vec::new();
        let floor = self.head.map_or(1, |head| head.floor);
        if self.floor > floor {
            let mut lost = self.lost.clone();
            lost.sort_unstable();
            lost.dedup();
            let lost: Vec<String> = lost
                .iter()
                .map(|(from, to)| format!("{from} to {to}"))
                .collect();
            parts.push(match lost.is_empty() {
                true => "rows of its messages can't be read".to_owned(),
                false => format!("messages {} can't be read", lost.join(", ")),
            });
            parts.push(format!(
                "it begins with message {} instead of {floor}",
                self.floor
            ));
        }
        if self.meta {
            parts.push("its meta can't be read, and is empty".to_owned());
        }
        if self.ids {
            parts.push("IDs of messages may be forgotten".to_owned());
        }
        out.write_str(&parts.join("; "))
    }
}

impl Timelines {
    /// Writes what becomes of a timeline of a partition.
    pub fn mend(
        &self,
        partition: PartitionId,
        mend: Mend,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.submit(Purpose::MakesRoom, partition, 0, move |txn, _| {
            Ok(mend.store(txn)?)
        })
    }
}
