//! Which timelines are near rows that are lost, and what is left of them.
//!
//! Owns: what each gap is between. Promises: a timeline of which a row is left, in the image or in the log behind it,
//! is looked at; where nothing need be left, a line says between which names. Must not: decide what becomes of a
//! timeline (`mend.rs` does).

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use tideline_base::ids::{Position, TableId};
use tideline_base::ordered::{Malformed, Reader};
use tideline_table::{Gap, View, split_key};

use super::super::INBOX;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{
    CONVERSATIONS, FOLLOWERS, FORKS, HEADS, MARKS, MEMBERS, Name, OPEN, PARTS, PINS, REACTION_SUMS,
    RELAYS, SCHEDULED, STREAMS, incarnation_of,
};
use super::mend::{Left, Mend};

/// Values of the first key column.
type Names = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// What a partition's timelines lose; made of the gaps and of the keys of all rows that are left.
pub struct Losses {
    /// Each with the names that it is between.
    gaps: Vec<(Gap, Names)>,
    covered: Position,
    names: BTreeMap<Vec<u8>, Left>,
    /// The name of the last key, and whether it is among these.
    last: (Vec<u8>, bool),
}

impl Losses {
    /// What is lost of an image that covers so much; refused is what nobody can do without.
    pub fn new(gaps: &[Gap], covered: Position) -> Result<Losses, String> {
        let names = |gap: &Gap| Some((gap.clone(), names_of(gap)?));
        let gaps: Vec<_> = gaps.iter().filter_map(names).collect();
        if let Some((gap, _)) = gaps.iter().find(|(gap, _)| !is_known(gap.table)) {
            return Err(format!(
                "rows of table {} are lost, which can't be left out; restore the newest backup: nothing was changed",
                gap.table.0
            ));
        }
        Ok(Losses {
            gaps,
            covered,
            names: BTreeMap::new(),
            last: (Vec::new(), false),
        })
    }

    /// Takes a row that is left; they come in order.
    pub fn take(&mut self, key: &[u8], value: &[u8]) {
        // A row that can't be read is found by the check that follows.
        let _ = self.note(key, value);
    }

    /// Takes a key that the log has behind the image: its timeline goes on, whatever is left of it.
    pub fn take_key(&mut self, key: &[u8]) {
        let timeline = split_key(key).filter(|(table, _)| is_of_timeline(*table));
        let name = timeline.and_then(|(_, columns)| Reader::new(columns).skip().ok());
        if let Some(name) = name.filter(|name| self.is_near(name)) {
            self.names.entry(name.to_vec()).or_default();
        }
    }

    fn is_near(&mut self, name: &[u8]) -> bool {
        if self.last.0 != name {
            let is_near = self.gaps.iter().any(|(_, names)| is_within(names, name));
            self.last = (name.to_vec(), is_near);
        }
        self.last.1
    }

    fn note(&mut self, key: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let Some((table, columns)) = split_key(key).filter(|(table, _)| is_of_timeline(*table))
        else {
            return Ok(());
        };
        let name = Reader::new(columns).skip()?;
        if !self.is_near(name) {
            return Ok(());
        }
        let left = self.names.entry(name.to_vec()).or_default();
        match table {
            HEADS => left.head = Some(HeadRow::decode(value)?),
            SCHEDULED => left.scheduled = true,
            MEMBERS | FOLLOWERS => {
                let (incarnation, _) = incarnation_of(columns)?;
                if incarnation > left.incarnation {
                    (left.members, left.followers, left.incarnation) = (0, 0, incarnation);
                }
                let is_last = u32::from(incarnation == left.incarnation);
                left.members += is_last * u32::from(table == MEMBERS);
                left.followers += is_last * u32::from(table == FOLLOWERS);
            }
            _ => {}
        }
        Ok(())
    }

    /// What becomes of the timelines that have lost something, as a view of the damaged partition shows them. Those of
    /// which that is done already are left out.
    #[must_use]
    pub fn mends(&self, view: &View) -> Vec<Mend> {
        let mut mends: BTreeMap<&[u8], Mend> = BTreeMap::new();
        for (gap, names) in &self.gaps {
            for (name, left) in self.names.range(names.clone()) {
                let new = || Mend::new(view, name, self.covered);
                let mend = mends.entry(name).or_insert_with(new);
                mend.lose(view, gap, left);
            }
        }
        let mends = mends.into_values();
        mends.filter(|mend| mend.ids || mend.is_change()).collect()
    }

    /// What is lost of which nothing is left to name it, each as a line.
    #[must_use]
    pub fn unnamed(&self) -> Vec<String> {
        let line = |(gap, names): &(Gap, Names)| match gap.table {
            HEADS => Some(format!(
                "timelines {}: heads can't be read; a timeline of which nothing else is left is gone",
                shown(names)
            )),
            CONVERSATIONS => Some(format!(
                "users {}: conversations can't be read; they are made anew without what their users had set (pins, \
                 mutes and other attributes, hidden)",
                shown(names)
            )),
            _ => None,
        };
        self.gaps.iter().filter_map(line).collect()
    }
}

/// Tables of timelines, but for due rows: their first key column is the timeline.
fn is_of_timeline(table: TableId) -> bool {
    let of_timeline = HEADS..=REACTION_SUMS;
    of_timeline.contains(&table)
        || [
            FOLLOWERS, PINS, SCHEDULED, MARKS, PARTS, OPEN, STREAMS, FORKS,
        ]
        .contains(&table)
}

/// Tables whose rows can be left out.
fn is_known(table: TableId) -> bool {
    // In another history no cursor of the relay counts.
    let is_made_anew = table == CONVERSATIONS || table == RELAYS;
    is_made_anew || (is_of_timeline(table) && table != SCHEDULED)
}

/// Between which values of the first key column a gap is; `None` = it has no key of its table.
fn names_of(gap: &Gap) -> Option<Names> {
    let of = |key: &[u8]| {
        let (table, columns) = split_key(key)?;
        let name = Reader::new(columns).skip().map(<[u8]>::to_vec);
        Some((table, name.unwrap_or_default()))
    };
    let (from, to) = (of(&gap.from)?, of(&gap.to)?);
    if from.0 > gap.table || to.0 < gap.table {
        return None;
    }
    let bound = |(table, name)| match table == gap.table {
        true => Bound::Included(name),
        false => Bound::Unbounded,
    };
    Some((bound(from), bound(to)))
}

fn is_within((from, to): &Names, name: &[u8]) -> bool {
    let (from, to) = (
        from.as_ref().map(Vec::as_slice),
        to.as_ref().map(Vec::as_slice),
    );
    RangeBounds::<[u8]>::contains(&(from, to), name)
}

/// The timelines or users that a gap is between, as text.
fn shown((from, to): &Names) -> String {
    let text = |bound: &Bound<Vec<u8>>, end: &str| match bound {
        Bound::Included(name) => {
            let name = Name::of(name).and_then(|name| name.text());
            let name = name.unwrap_or_default();
            format!("{:?}", name.strip_prefix(INBOX).unwrap_or(&name))
        }
        _ => end.to_owned(),
    };
    let (from, to) = (text(from, "the first one"), text(to, "the last one"));
    format!("from {from} to {to}")
}
