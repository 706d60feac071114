//! `tideline dump DATA [TIMELINE]`: all timelines, or one, as lines of JSON, and what lies at users.
//!
//! Owns: the shape of a dump. Promises: values are written as the native protocol writes them; nothing on disk is
//! changed. Must not: be run beside a server (the directory's lock sees to it).
//!
//! Of each partition, in this order: per timeline one line as `timeline.get` returns it (without policies),
//! `{timeline, member}` for each member, `{timeline, message}` for each message, in order, and behind a message with
//! reactions all of their users, `{timeline, sequence, reactions}`; then `{timeline, sender, scheduled}`. Where no
//! timeline is named, `{user, conversation}`, `{user, device}`, `{user, position}` and `{partition, relay}` follow.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::gateway::shape;
use crate::partition::{Inspected, Inspection, OpenError, ReadError, is_copy};
use crate::people::{Device, DumpedPerson, People, Place, dump_people};
use crate::relay::stored_cursors;
use crate::table::Catalog;
use crate::timeline;
use crate::timeline::{Dumped, Limits, StoredTimelines};
use crate::wire;

/// Why a dump ended early.
#[derive(Debug)]
pub enum DumpError {
    /// The directory can't be opened, or is damaged.
    Open(OpenError),
    /// A row can't be read.
    Read(ReadError),
    /// There is no such timeline.
    NotFound(String),
    /// The output went away.
    Output(io::Error),
}

impl std::fmt::Display for DumpError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DumpError::Open(error) => write!(out, "{error}"),
            DumpError::Read(error) => write!(out, "damaged data: {error}"),
            DumpError::NotFound(timeline) => write!(out, "there is no timeline {timeline:?}"),
            DumpError::Output(error) => write!(out, "cannot write: {error}"),
        }
    }
}

impl From<ReadError> for DumpError {
    fn from(error: ReadError) -> DumpError {
        DumpError::Read(error)
    }
}

/// What stands behind the name of a timeline.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum OfTimeline {
    Message(timeline::Message),
    Member(Member),
    #[serde(untagged)]
    Reactions {
        sequence: u64,
        /// The users of each, newest first.
        reactions: BTreeMap<String, Vec<String>>,
    },
    #[serde(untagged)]
    Scheduled {
        sender: String,
        scheduled: wire::messages::schedule::Scheduled,
    },
}

/// A line of a timeline.
#[derive(Serialize)]
struct Line<'d> {
    timeline: Cow<'d, str>,
    #[serde(flatten)]
    what: OfTimeline,
}

/// A member, and what only they and we know.
#[derive(Serialize)]
struct Member {
    #[serde(flatten)]
    member: timeline::Member,
    joined: u64,
    cleared: u64,
    hides: u64,
}

/// What stands behind the name of a user.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum OfUser {
    Conversation(Conversation),
    Device(Device),
    Position {
        device: String,
        timeline: String,
        #[serde(flatten)]
        place: Place,
    },
}

/// A line of a user.
#[derive(Serialize)]
struct UserLine<'d> {
    user: &'d str,
    #[serde(flatten)]
    what: OfUser,
}

/// A conversation as it is stored at its user.
#[derive(Serialize)]
struct Conversation {
    timeline: String,
    incarnation: u64,
    joined: u64,
    joined_at: u64,
    read: u64,
    cleared: u64,
    hides: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden_below: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_at: Option<u64>,
    attributes: wire::Entry<'static>,
}

/// A line of a relay's cursor.
#[derive(Serialize)]
struct RelayLine {
    partition: u16,
    relay: Cursor,
}

#[derive(Serialize)]
struct Cursor {
    target: u32,
    source: u16,
    history: String,
    position: u64,
    place: u64,
}

/// Writes a data directory's timelines, or the one named, to `out`.
pub fn dump(
    data: &Path,
    timeline: Option<&str>,
    limits: &Limits,
    out: &mut dyn Write,
) -> Result<(), DumpError> {
    let rules = People::rules(limits, Catalog::default());
    let inspection = Inspection::open(data, rules).map_err(DumpError::Open)?;
    if is_copy(data).map_err(DumpError::Open)? {
        // It is for who reads the lines, not one of them.
        let path = data.to_owned();
        let _ = writeln!(io::stderr(), "tideline: {}", OpenError::Copy { path });
    }
    let mut count = 0_u64;
    for id in inspection.map().ids() {
        let inspected = inspection
            .partition(id, false, &mut |_| {})
            .map_err(DumpError::Open)?;
        let timelines = StoredTimelines::new(&inspected.view, inspection.origin());
        timelines.dump(timeline, &mut |dumped| {
            count += u64::from(matches!(dumped, Dumped::Timeline(_)));
            of_timeline(out, dumped)
        })?;
        if timeline.is_none() {
            of_users(out, &inspected)?;
        }
    }
    match timeline {
        Some(timeline) if count == 0 => Err(DumpError::NotFound(timeline.to_owned())),
        _ => out.flush().map_err(DumpError::Output),
    }
}

fn of_timeline(out: &mut dyn Write, dumped: Dumped<'_>) -> Result<(), DumpError> {
    let (timeline, what) = match dumped {
        Dumped::Timeline(info) => return line(out, info),
        Dumped::Member(info, user, row) => {
            let member = Member {
                joined: row.joined,
                cleared: row.cleared,
                hides: row.hides,
                member: row.of(user),
            };
            (info.timeline.as_str().into(), OfTimeline::Member(member))
        }
        Dumped::Message(info, message) => {
            (info.timeline.as_str().into(), OfTimeline::Message(message))
        }
        Dumped::Reactions(info, sequence, reactions) => {
            let all = OfTimeline::Reactions {
                sequence,
                reactions,
            };
            (info.timeline.as_str().into(), all)
        }
        Dumped::Scheduled(timeline, sender, scheduled) => {
            let scheduled = shape::scheduled(scheduled);
            let one = OfTimeline::Scheduled { sender, scheduled };
            (Cow::Owned(timeline), one)
        }
    };
    line(out, &Line { timeline, what })
}

fn of_users(out: &mut dyn Write, inspected: &Inspected) -> Result<(), DumpError> {
    dump_people(&inspected.view, &mut |user, person| {
        let what = match person {
            DumpedPerson::Conversation(one) => OfUser::Conversation(Conversation {
                timeline: one.timeline,
                incarnation: one.incarnation,
                joined: one.joined,
                joined_at: one.joined_at,
                read: one.read,
                cleared: one.cleared,
                hides: one.hides,
                hidden_below: (one.hidden > 0).then_some(one.hidden),
                removed_at: (one.removed_at > 0).then_some(one.removed_at),
                attributes: one.attributes.into(),
            }),
            DumpedPerson::Device(one) => OfUser::Device(one),
            DumpedPerson::Position(device, position) => OfUser::Position {
                device,
                timeline: position.timeline,
                place: position.place,
            },
        };
        line(out, &UserLine { user, what })
    })?;
    for cursor in stored_cursors(&inspected.view)? {
        let relay = Cursor {
            target: cursor.target,
            source: cursor.source.0,
            history: cursor.history,
            position: cursor.position.0,
            place: cursor.place,
        };
        let partition = inspected.partition.0;
        line(out, &RelayLine { partition, relay })?;
    }
    Ok(())
}

fn line(out: &mut dyn Write, value: &impl Serialize) -> Result<(), DumpError> {
    let text = serde_json::to_vec(value).map_err(|error| DumpError::Output(error.into()))?;
    out.write_all(&text)
        .and_then(|()| out.write_all(b"\n"))
        .map_err(DumpError::Output)
}
