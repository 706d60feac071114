//! All timelines of one view, from first to last, for a data directory that nobody serves.
//!
//! Owns: the walk. Promises: every timeline that exists is met once, in the order of names, with all that belongs to
//! it. Must not: write, or judge what it meets (`verify.rs` does).

use std::collections::BTreeMap;

use tideline_base::clock::Clock;
use tideline_base::ids::TableId;
use tideline_model::Direction;
use tideline_table::{Key, Origin, ReadError, Rows, View, damaged, scan, scan_all};

use super::super::growth;
use super::super::marks;
use super::super::members::settings_row::SettingsRow;
use super::super::members::{Configured, MemberRow};
use super::super::rows::epoch::Epochs;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::tables::{HEADS, MEMBERS, Name, SCHEDULED};
use super::super::time::{listed, shown};
use super::super::write::load_meta;
use super::super::{Head, Message, Scheduled, TimelineInfo};

/// The timelines of one partition as one view shows them.
pub struct StoredTimelines<'v> {
    pub(in super::super) view: &'v View,
    epochs: Epochs,
    pub(in super::super) now_ms: u64,
}

/// What a dump gives, in order: a timeline, its members, its messages; and behind all timelines what is scheduled.
pub enum Dumped<'d> {
    /// A timeline begins.
    Timeline(&'d TimelineInfo),
    /// One of its members.
    Member(&'d TimelineInfo, String, MemberRow),
    /// One of its messages.
    Message(&'d TimelineInfo, Message),
    /// All reactions to the message before: the users of each, newest first.
    Reactions(&'d TimelineInfo, u64, BTreeMap<String, Vec<String>>),
    /// A message that is to be appended to a timeline, or was refused; whose it is.
    Scheduled(String, String, Scheduled),
}

/// A name that a timeline has or once had.
#[derive(Clone, Debug)]
pub struct StoredName {
    /// Its last timeline.
    pub incarnation: u64,
    /// Whether that exists.
    pub exists: bool,
    /// Where it is.
    pub head: Head,
}

impl<'v> StoredTimelines<'v> {
    /// Those that a view of a partition shows.
    #[must_use]
    pub fn new(view: &'v View, origin: Origin) -> StoredTimelines<'v> {
        StoredTimelines {
            view,
            epochs: Epochs::new(origin),
            now_ms: Clock::system().now_ms(),
        }
    }

    /// What is known of a name; `None` = there never was such a timeline.
    pub fn name(&self, timeline: &str) -> Result<Option<StoredName>, ReadError> {
        let head = HeadRow::load(self.view, &Name::new(timeline))?;
        Ok(head.map(|head| StoredName {
            incarnation: head.incarnation,
            exists: !head.dropped,
            head: self.epochs.head(timeline, &head),
        }))
    }

    /// A member of an existing timeline.
    pub fn member(&self, timeline: &str, user: &str) -> Result<Option<MemberRow>, ReadError> {
        let name = Name::new(timeline);
        match HeadRow::existing(self.view, &name)? {
            Some(head) => MemberRow::load(self.view, &name, &head, user),
            None => Ok(None),
        }
    }

    /// Gives each timeline, or the one named, with all that belongs to it, to `each`.
    pub fn dump<E: From<ReadError>>(
        &self,
        only: Option<&str>,
        each: &mut dyn FnMut(Dumped<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let clock = Clock::system();
        for row in self.heads() {
            let (timeline, head) = row?;
            if only.is_some_and(|only| only != timeline) {
                continue;
            }
            let name = Name::new(&timeline);
            let info = self.info(timeline, &head)?;
            each(Dumped::Timeline(&info))?;
            for row in self.of_timeline((&name, &head), MEMBERS) {
                let (user, row) = MemberRow::named(&row?)?;
                each(Dumped::Member(&info, user, row))?;
            }
            for message in self.messages(&name, &head) {
                let message = shown(message?, &clock);
                let has_reactions = message.reactions.is_some();
                let sequence = message.sequence;
                each(Dumped::Message(&info, message))?;
                if has_reactions {
                    let all = marks::stored(self.view, &name, &head, sequence)?;
                    each(Dumped::Reactions(&info, sequence, all))?;
                }
            }
        }
        for row in self.all(SCHEDULED) {
            let (timeline, sender, scheduled) = listed(&row?)?;
            if only.is_none_or(|only| only == timeline) {
                each(Dumped::Scheduled(timeline, sender, scheduled))?;
            }
        }
        Ok(())
    }

    /// What is known of an existing timeline.
    pub(in super::super) fn info(
        &self,
        timeline: String,
        head: &HeadRow,
    ) -> Result<TimelineInfo, ReadError> {
        let name = Name::new(&timeline);
        let meta = load_meta(self.view, &name)?;
        let own = SettingsRow::load(self.view, &name, head)?;
        let own = Configured {
            settings: own.settings,
            version: own.version,
        };
        Ok(self.epochs.info(timeline, head, meta, own))
    }

    /// All rows of a table.
    pub(in super::super) fn all(&self, table: TableId) -> Rows<'v> {
        scan_all(self.view, &Key::new(table, &[], 1))
    }

    /// The rows of a timeline in a table.
    pub(in super::super) fn of_timeline(
        &self,
        (name, head): (&Name, &HeadRow),
        table: TableId,
    ) -> Rows<'v> {
        scan_all(self.view, &name.rows_of(table, head.incarnation))
    }

    /// Names and heads.
    pub(in super::super) fn heads(
        &self,
    ) -> impl Iterator<Item = Result<(String, HeadRow), ReadError>> + use<'v> {
        let existing = |row: Result<(bytes::Bytes, bytes::Bytes), ReadError>| {
            let named = row.and_then(|row| HeadRow::named(&row));
            match named {
                Ok((_, head)) if head.dropped => None,
                named => Some(named),
            }
        };
        self.all(HEADS).filter_map(existing)
    }

    /// Messages from floor to head, those that are there.
    pub(in super::super) fn messages(
        &self,
        name: &Name,
        head: &HeadRow,
    ) -> impl Iterator<Item = Result<Message, ReadError>> + use<'v> {
        let from = name.message_key(head.incarnation, head.floor);
        let to = name.message_key(head.incarnation, head.last + 1);
        let (name, head, view) = (name.clone(), *head, self.view);
        scan(view, &from, &to, Direction::Forward).map(move |row| {
            let (key, value) = row?;
            let sequence = name
                .number_of(&key)
                .map_err(|_| damaged(&key, "not a message's key"))?;
            let mut message = stored::message(sequence, &value, None)
                .map_err(|_| damaged(&key, "not a message"))?;
            marks::look_up(view, &name, &head, &mut message)?;
            growth::look_up(view, &name, &head, &mut message, None)?;
            Ok(message)
        })
    }
}
