//! `tideline dump DATA [TIMELINE]`: all timelines, or one, as lines of JSON.
//!
//! Owns: the shape of a dump: per timeline one line as `timeline.get` returns it, then one line per message,
//! `{timeline, message}`, in order, and behind a message with reactions one of all users, `{timeline, sequence,
//! reactions}`. Promises: values are written as the native protocol writes them; nothing on disk is
//! changed. Must not: be run beside a server (the directory's lock sees to it).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::gateway::shape;
use crate::partition::{Inspection, OpenError, ReadError};
use crate::timeline::{Dumped, Limits, StoredTimelines, Timelines};
use crate::wire::{self, Integers};

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

/// A line of a message.
#[derive(Serialize)]
struct Line<'d> {
    timeline: &'d str,
    message: wire::message::Message<'static>,
}

/// A line of the reactions to the message before it.
#[derive(Serialize)]
struct Reactions<'d> {
    timeline: &'d str,
    sequence: u64,
    /// The users of each, newest first.
    reactions: &'d BTreeMap<String, Vec<String>>,
}

/// Writes a data directory's timelines, or the one named, to `out`.
pub fn dump(
    data: &Path,
    timeline: Option<&str>,
    limits: &Limits,
    out: &mut dyn Write,
) -> Result<(), DumpError> {
    let inspection = Inspection::open(data, Timelines::rules(limits)).map_err(DumpError::Open)?;
    let mut count = 0_u64;
    for id in inspection.ids() {
        let inspected = inspection
            .partition(id, false, &mut |_| {})
            .map_err(DumpError::Open)?;
        let timelines = StoredTimelines::new(&inspected.view, id, inspection.history());
        timelines.dump(timeline, &mut |dumped| match dumped {
            Dumped::Timeline(info) => {
                count += 1;
                line(out, &shape::info(info.clone(), Integers::Number))
            }
            Dumped::Reactions(info, sequence, reactions) => line(
                out,
                &Reactions {
                    timeline: &info.timeline,
                    sequence,
                    reactions: &reactions,
                },
            ),
            Dumped::Message(info, message) => {
                let message = shape::message(message, Integers::Number);
                line(
                    out,
                    &Line {
                        timeline: &info.timeline,
                        message,
                    },
                )
            }
        })?;
    }
    match timeline {
        Some(timeline) if count == 0 => Err(DumpError::NotFound(timeline.to_owned())),
        _ => out.flush().map_err(DumpError::Output),
    }
}

fn line(out: &mut dyn Write, value: &impl Serialize) -> Result<(), DumpError> {
    let text = serde_json::to_vec(value).map_err(|error| DumpError::Output(error.into()))?;
    out.write_all(&text)
        .and_then(|()| out.write_all(b"\n"))
        .map_err(DumpError::Output)
}
