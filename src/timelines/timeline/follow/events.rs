//! What a committed batch did to timelines, for its subscribers.
//!
//! Owns: reading events out of a batch's entries and change records. Promises: the batch alone is enough; one event per
//! watched timeline that it touched; rows of the others are not decoded. Must not: read the store.

use std::collections::HashMap;

use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::ordered::Reader;
use tideline_table::{Action, Batch, Change, Malformed, split_key};

use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::stored::MetaRow;
use super::super::rows::tables::{
    CONVERSATIONS, HEADS, MESSAGES, METAS, REACTION_SUMS, SETTINGS, incarnation_of,
};
use super::super::write::Site;
use super::super::{TimelineEvent, Timelines};

impl Timelines {
    /// What is watched of a user's own side, which is no timeline: a name that none can have.
    #[must_use]
    pub fn own_side(user: &str) -> String {
        format!("\u{1}$inbox/{user}")
    }
}

impl Site {
    pub(in super::super) fn events(
        &self,
        batch: &Batch,
        is_watched: impl Fn(&str) -> bool,
    ) -> Vec<TimelineEvent> {
        let mut touched = Touched {
            events: Vec::new(),
            incarnations: Vec::new(),
            by_name: HashMap::new(),
        };
        for entry in batch.entries() {
            match split_key(entry.key) {
                Some((HEADS, name)) => {
                    log_if_malformed(self.head(entry, name, &is_watched, &mut touched), batch);
                }
                Some((CONVERSATIONS, columns)) => {
                    log_if_malformed(touched.own_side(columns, &is_watched), batch);
                }
                _ => {}
            }
        }
        if touched.events.is_empty() {
            return Vec::new();
        }
        for record in batch.changes() {
            log_if_malformed(touched.take(batch, record), batch);
        }
        for event in &mut touched.events {
            event.changed.sort_unstable();
            event.changed.dedup();
            if let (Some(first), Some(last)) = (event.appended.first(), event.appended.last()) {
                // What the batch appended is there in its newest form already.
                let fresh = first.sequence..=last.sequence;
                event.changed.retain(|sequence| !fresh.contains(sequence));
            }
        }
        touched.events
    }

    /// Begins the event of a head row's timeline, if that is watched.
    fn head<'b>(
        &self,
        entry: KeyedEntry<'_>,
        name: &'b [u8],
        is_watched: impl Fn(&str) -> bool,
        touched: &mut Touched<'b>,
    ) -> Result<(), Malformed> {
        let timeline = Reader::new(name).string()?;
        if !is_watched(&timeline) {
            return Ok(());
        }
        let head = match entry.kind {
            EntryKind::Put => Some(HeadRow::decode(entry.value)?),
            EntryKind::Tombstone => None,
            EntryKind::Delta => return Err(Malformed),
        };
        let head = head.filter(|head| !head.dropped);
        touched.incarnations.push(head);
        touched.by_name.insert(name, touched.events.len());
        touched.events.push(TimelineEvent {
            head: head.map(|head| self.epochs.head(&timeline, &head)),
            timeline: timeline.into_owned(),
            members: head.map(|head| head.membership()).unwrap_or_default(),
            ..TimelineEvent::default()
        });
        Ok(())
    }
}

/// The watched timelines of a batch while their events are collected.
struct Touched<'b> {
    events: Vec<TimelineEvent>,
    /// The head of each event; `None` = deleted.
    incarnations: Vec<Option<HeadRow>>,
    /// By encoded name. Whatever is written to a timeline, its head row is in the same batch.
    by_name: HashMap<&'b [u8], usize>,
}

impl Touched<'_> {
    /// The event of a user's own side, if it is watched.
    fn own_side(
        &mut self,
        columns: &[u8],
        is_watched: impl Fn(&str) -> bool,
    ) -> Result<(), Malformed> {
        let inbox = Reader::new(columns).string()?;
        let name = format!("\u{1}{inbox}");
        let is_new = |event: &TimelineEvent| event.timeline != name;
        if is_watched(&name) && self.events.last().is_none_or(is_new) {
            self.incarnations.push(None);
            self.events.push(TimelineEvent {
                timeline: name,
                ..TimelineEvent::default()
            });
        }
        Ok(())
    }

    fn take(&mut self, batch: &Batch, record: &[u8]) -> Result<(), Malformed> {
        let change = Change::decode(record)?;
        for entry in batch.entries_in(change.indexes()).ok_or(Malformed)? {
            match change.table {
                MESSAGES => self.message(entry, change.action)?,
                REACTION_SUMS => self.with_event(entry, |event| event.reacted = true)?,
                SETTINGS => self.with_event(entry, |event| event.configured = true)?,
                METAS if entry.kind == EntryKind::Put => {
                    let (_, name) = split_key(entry.key).ok_or(Malformed)?;
                    let version = MetaRow::decode(entry.value)?.version;
                    if let Some(event) = self.by_name.get(name) {
                        self.events[*event].meta_version = Some(version);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Changes the event of the timeline that a row begins with, if it has one.
    fn with_event(
        &mut self,
        entry: KeyedEntry<'_>,
        change: impl FnOnce(&mut TimelineEvent),
    ) -> Result<(), Malformed> {
        let (_, columns) = split_key(entry.key).ok_or(Malformed)?;
        let name = Reader::new(columns).skip()?;
        if let Some(event) = self.by_name.get(name) {
            change(&mut self.events[*event]);
        }
        Ok(())
    }

    fn message(&mut self, entry: KeyedEntry<'_>, action: Action) -> Result<(), Malformed> {
        let (_, columns) = split_key(entry.key).ok_or(Malformed)?;
        let name = Reader::new(columns).skip()?;
        let Some(index) = self.by_name.get(name).copied() else {
            return Ok(());
        };
        let (incarnation, mut rest) = incarnation_of(columns)?;
        let sequence = rest.u64()?;
        // The batch may have deleted the timeline afterwards, or trimmed the message away.
        let is_there = self.incarnations[index]
            .is_some_and(|head| head.incarnation == incarnation && head.holds(sequence));
        if !is_there {
            return Ok(());
        }
        let event = &mut self.events[index];
        match action {
            Action::Put => event
                .appended
                .push(stored::message(sequence, entry.value, None)?),
            Action::Update | Action::Delete => event.changed.push(sequence),
        }
        Ok(())
    }
}

fn log_if_malformed(result: Result<(), Malformed>, batch: &Batch) {
    if result.is_err() {
        let position = batch.position.0;
        tracing::error!(
            position,
            "a committed batch has a row or record that can't be read"
        );
    }
}
