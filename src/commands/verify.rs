//! `tideline verify DATA`: is everything in a data directory whole, with itself and with what it promises?
//!
//! Owns: the order of the checks and the report. Promises: changes nothing; every problem is one line with its place;
//! exit code 0 only if there is none; what may be a client's doing is a note, and no problem.
//! Must not: be run beside a server (the directory's lock sees to it).

use std::io::{self, Write};
use std::path::Path;

use super::remote::RemoteError;
use super::restore::checked;
use crate::clock::Clock;
use crate::credentials::verify_stored;
use crate::ids::{HistoryId, PartitionId};
use crate::partition::{
    Inspected, Inspection, OpenError, accept_copy, is_acceptance_under_way, is_copy,
};
use crate::people::{Changed, People, Report, StoredPartition, StoredPeople, VerifiedPeople};
use crate::search::{StoredSource, VerifiedSearch, verify_search};
use crate::table::{Batch, Catalog, Indexed, verify_indexes};
use crate::timeline::{Limits, StoredTimelines, Verified, stored_tables};

/// Checks a data directory, or the one in a backup, and writes what it finds. `true` = no problem.
pub fn verify(
    data: &Path,
    is_backup: bool,
    limits: &Limits,
    out: &mut dyn Write,
) -> Result<bool, VerifyError> {
    let catalog = Catalog::default();
    let rules = People::rules(limits, catalog.clone());
    let inspection = Inspection::open(data, rules).map_err(VerifyError::Open)?;
    note_copy(data, out)?;
    // The tables say which of users' rows may have gone. If these can't be read, the check says so again.
    if let Ok(home) = inspection.partition(inspection.map().home(), false, &mut drop) {
        let _ = catalog.load(&home.view);
    }
    let mut problems = inspection.surplus().map_err(VerifyError::Open)?;
    tell(&problems, out)?;
    let mut total = Verified::default();
    let (mut stored, mut indexed) = (Vec::new(), Indexed::default());
    for id in inspection.map().ids() {
        let before = problems.len();
        let mut problem = |text: String| problems.push(text);
        match check_partition(&inspection, id, &catalog, &mut problem) {
            Ok((inspected, changed, found, of_indexes)) => {
                total.add(found);
                indexed.rows += of_indexes.rows;
                indexed.index_rows += of_indexes.index_rows;
                report(&inspected, out)?;
                stored.push((inspected, changed));
            }
            Err(text) => problems.push(format!("partition {id}: {text}")),
        }
        tell(&problems[before..], out)?;
        // Whatever the next partition does to this process, this one is reported.
        out.flush()?;
    }
    check_ended(&inspection, &mut problems, out)?;
    // What lies at users is held against all partitions.
    if stored.len() == inspection.map().ids().len() {
        let (before, mut notes) = (problems.len(), Vec::new());
        let people = check_people(&inspection, is_backup, &stored, (&mut problems, &mut notes));
        for note in notes {
            writeln!(out, "NOTE {note}")?;
        }
        tell(&problems[before..], out)?;
        if total.members + total.scheduled + people.conversations + people.positions > 0 {
            writeln!(
                out,
                "{} members, {} scheduled messages, {} conversations, {} device positions, {} inbox entries",
                total.members,
                total.scheduled,
                people.conversations,
                people.positions,
                people.entries
            )?;
        }
        // A backup has none.
        if !is_backup {
            check_search(&inspection, (data, &catalog), &stored, &mut problems, out)?;
        }
    }
    if indexed != Indexed::default() {
        let Indexed { rows, index_rows } = indexed;
        writeln!(
            out,
            "{rows} rows of tables with indexes, {index_rows} rows of indexes"
        )?;
    }
    writeln!(
        out,
        "{} timelines, {} messages, {} message IDs, {} problems",
        total.timelines,
        total.messages,
        total.message_ids,
        problems.len()
    )?;
    Ok(problems.is_empty())
}

fn tell(problems: &[String], out: &mut dyn Write) -> io::Result<()> {
    problems
        .iter()
        .try_for_each(|problem| writeln!(out, "PROBLEM {problem}"))
}

fn note_copy(data: &Path, out: &mut dyn Write) -> Result<(), VerifyError> {
    if is_copy(data).map_err(VerifyError::Open)? {
        let path = data.to_owned();
        writeln!(out, "NOTE {}", OpenError::Copy { path })?;
    }
    Ok(())
}

/// Does what `tideline verify` does: `data` is a data directory or a backup.
pub fn verified(data: &Path, limits: &Limits, out: &mut dyn Write) -> Result<(), RemoteError> {
    // Of one in a bucket the checksums are all that is held against something.
    let Some((data, is_backup)) = checked(data, out)? else {
        return Ok(());
    };
    match verify(&data, is_backup, limits, out)? {
        true => Ok(()),
        false => Err("the data directory is damaged".into()),
    }
}

/// Has a plain copy of a served directory count as a directory of its own, if nothing of it is damaged. What is no copy
/// stays as it is.
pub fn accept(data: &Path, limits: &Limits, out: &mut dyn Write) -> Result<(), RemoteError> {
    if !is_copy(data)? {
        return Ok(());
    }
    // An acceptance that was interrupted had verified it.
    if !is_acceptance_under_way(data) && !verify(data, false, limits, out)? {
        return Err("the copy is damaged, and is not served".into());
    }
    let rules = People::rules(limits, Catalog::default());
    let history = accept_copy(data, &rules)?;
    let shown = data.display();
    writeln!(out, "{shown} is accepted, with the new history {history}")?;
    Ok(out.flush()?)
}

/// Reads the logs that partitions which have ended left for readers of streams.
fn check_ended(
    inspection: &Inspection,
    problems: &mut Vec<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for share in inspection.map().shares().filter(|share| share.keeps_log) {
        let (id, ends) = (share.id, share.ends.unwrap_or_default());
        match inspection.ended_log(share) {
            Ok((frames, bytes)) => writeln!(
                out,
                "partition {id}, which has ended: log {frames} batches, {bytes} bytes, to {ends}"
            )?,
            Err(error) => {
                problems.push(format!("partition {id}, which has ended: {error}"));
                writeln!(out, "PROBLEM partition {id}, which has ended: {error}")?;
            }
        }
    }
    Ok(())
}

/// Why a check could not be made.
#[derive(Debug)]
pub enum VerifyError {
    /// The directory can't be opened at all.
    Open(OpenError),
    /// The report can't be written.
    Output(io::Error),
}

impl std::fmt::Display for VerifyError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VerifyError::Open(error) => write!(out, "{error}"),
            VerifyError::Output(error) => write!(out, "cannot write the report: {error}"),
        }
    }
}

impl std::error::Error for VerifyError {}

impl From<io::Error> for VerifyError {
    fn from(error: io::Error) -> VerifyError {
        VerifyError::Output(error)
    }
}

fn check_partition(
    inspection: &Inspection,
    id: PartitionId,
    catalog: &Catalog,
    problem: &mut dyn FnMut(String),
) -> Result<(Inspected, Changed, Verified, Indexed), String> {
    let inspected = inspection
        .partition(id, true, problem)
        .map_err(|error| error.to_string())?;
    let timelines = StoredTimelines::new(&inspected.view, inspection.origin());
    let mut problem = |text: String| problem(format!("partition {id}, {text}"));
    let found = timelines
        .verify(&mut problem)
        .map_err(|error| error.to_string())?;
    let now = Clock::system().now_ms().cast_signed();
    let indexed = verify_indexes(catalog, &inspected.view, now, &mut problem)
        .map_err(|error| error.to_string())?;
    verify_stored(&inspected.view, &mut problem).map_err(|error| error.0)?;
    let mut changed = Changed::default();
    let read = inspection.log(&inspected, &mut |batch| {
        if changed.take(batch).is_err() {
            let position = batch.position;
            problem(format!(
                "batch {position}: a change of members can't be read"
            ));
        }
    });
    read.map_err(|error| error.to_string())?;
    Ok((inspected, changed, found, indexed))
}

/// Search indexes are held against what all partitions show.
fn check_search(
    inspection: &Inspection,
    (data, catalog): (&Path, &Catalog),
    stored: &[(Inspected, Changed)],
    problems: &mut Vec<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let read = |inspected: &Inspected, each: &mut dyn FnMut(&Batch)| {
        let read = inspection.log(inspected, each);
        read.map_err(|error| error.to_string())
    };
    let logs: Vec<_> = stored
        .iter()
        .map(|(inspected, _)| move |each: &mut dyn FnMut(&Batch)| read(inspected, each))
        .collect();
    let sources = stored
        .iter()
        .zip(&logs)
        .map(|((inspected, _), log)| StoredSource {
            id: inspected.partition,
            view: &inspected.view,
            log,
        });
    let sources: Vec<_> = sources.collect();
    let now = Clock::system().now_ms().cast_signed();
    let history = inspection.origin().history;
    let before = problems.len();
    let found = verify_search(
        (data, history),
        (&catalog.searched(), &stored_tables(inspection.origin())),
        &sources,
        now,
        &mut |problem| {
            problems.push(problem);
        },
    );
    tell(&problems[before..], out)?;
    match found {
        VerifiedSearch {
            indexes: 0,
            unfinished: 0,
            ..
        } => Ok(()),
        VerifiedSearch {
            indexes,
            documents,
            rows,
            unfinished,
        } => writeln!(
            out,
            "{indexes} search indexes, {documents} documents of {rows} rows and messages, {unfinished} indexes not whole yet"
        ),
    }
}

/// In a backup each partition is as of a moment of its own. So what the relay has derived in one may be ahead of what
/// it is derived from in another; a restore has it made anew, as in any other history.
fn check_people(
    inspection: &Inspection,
    is_backup: bool,
    stored: &[(Inspected, Changed)],
    (problems, notes): (&mut Vec<String>, &mut Vec<String>),
) -> VerifiedPeople {
    let partitions = stored.iter().map(|(inspected, changed)| StoredPartition {
        id: inspected.partition,
        view: &inspected.view,
        last: inspected.last,
        changed,
    });
    let (mut origin, map) = (inspection.origin(), inspection.map());
    if is_backup {
        origin.history = HistoryId::random();
    }
    let mut people = StoredPeople::new(partitions.collect(), origin, map);
    let found = people.verify(&mut Report {
        problem: &mut |problem| problems.push(problem),
        note: &mut |note| notes.push(note),
    });
    found.unwrap_or_else(|error| {
        problems.push(error.to_string());
        VerifiedPeople::default()
    })
}

fn report(inspected: &Inspected, out: &mut dyn Write) -> io::Result<()> {
    let Inspected {
        partition,
        frames,
        log_bytes,
        last,
        covered,
        ..
    } = inspected;
    writeln!(
        out,
        "partition {partition}: log {frames} batches, {log_bytes} bytes, to {last}; image to {covered}, {} runs, {} rows; \
         {} keys of the log compared with the image",
        inspected.runs, inspected.rows, inspected.compared
    )?;
    if inspected.torn_bytes > 0 {
        writeln!(
            out,
            "partition {partition}: {} bytes of a batch that was never acknowledged; the next start cuts them",
            inspected.torn_bytes
        )?;
    }
    Ok(())
}
