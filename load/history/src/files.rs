//! Histories in files.
//!
//! Owns: reading them: what is stored first, then the events of all files in the order of time. Promises: each file is
//! read twice and never held; a last line without an end, as a killed process leaves it, is left out and counted. Must
//! not: pass over a line that it does not understand.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use memchr::memmem;
use serde::Deserialize;

use crate::checker::Checker;
use crate::record::{Conversation, Event, Final, Member, Message};
use crate::report::{HistoryError, Place, Report};
use crate::stored::Stored;

/// A longer line is none of ours.
const LINE_MAX: u64 = 64 << 20;
/// Checks a history whose records are in these files; clients of several processes may each have one, if they have one
/// clock. Blocks.
pub fn check_files(paths: &[impl AsRef<Path>]) -> Result<Report, HistoryError> {
    let mut stored = Stored::new();
    for (number, path) in paths.iter().enumerate() {
        let path = path.as_ref();
        stored.report.files.push(path.display().to_string());
        let mut lines = Lines::open(path, number as u32)?;
        while lines.next()? {
            if !lines.is_event() {
                let record = lines.stored()?;
                let taken = record.map_or(Ok(()), |record| stored.take(&record, lines.place));
                taken.map_err(|error| lines.wrong(error))?;
            } else if memmem::find(&lines.line, b"\"edit\"").is_some() {
                stored.expect(&lines.event()?);
            }
        }
        stored.report.looked("torn lines", u64::from(lines.is_torn));
    }
    if stored.is_empty() {
        return Err(HistoryError::NoFinal);
    }
    let mut checker = Checker::new(stored);
    let mut files = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let mut lines = Lines::open(path.as_ref(), number as u32)?;
        let event = lines.next_event()?;
        files.extend(event.map(|event| (event, lines)));
    }
    let time = |(event, _): &(Event, Lines)| event.0;
    while let Some(at) = (0..files.len()).min_by_key(|at| time(&files[*at])) {
        let (event, lines) = &mut files[at];
        let taken = checker.event(event, lines.place);
        taken.map_err(|error| lines.wrong(error))?;
        match lines.next_event()? {
            Some(next) => *event = next,
            None => drop(files.swap_remove(at)),
        }
    }
    Ok(checker.end())
}

/// The lines of a file, one at a time.
struct Lines {
    name: String,
    file: BufReader<File>,
    line: Vec<u8>,
    place: Place,
    is_torn: bool,
}

impl Lines {
    fn open(path: &Path, number: u32) -> Result<Lines, HistoryError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| HistoryError::File(name.clone(), error))?;
        Ok(Lines {
            name,
            file: BufReader::with_capacity(1 << 16, file),
            line: Vec::new(),
            place: Place {
                file: number,
                line: 0,
            },
            is_torn: false,
        })
    }

    /// Goes on to the next line, if there is one.
    fn next(&mut self) -> Result<bool, HistoryError> {
        self.line.clear();
        self.place.line += 1;
        let read = (&mut self.file)
            .take(LINE_MAX)
            .read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| HistoryError::File(self.name.clone(), error))?;
        if read as u64 == LINE_MAX {
            return Err(self.wrong(format_args!("longer than {LINE_MAX} bytes")));
        }
        self.is_torn = read > 0 && self.line.last() != Some(&b'\n');
        Ok(read > 0 && !self.is_torn)
    }

    fn is_event(&self) -> bool {
        self.line.starts_with(b"[")
    }

    fn next_event(&mut self) -> Result<Option<Event>, HistoryError> {
        while self.next()? {
            if self.is_event() {
                return self.event().map(Some);
            }
        }
        Ok(None)
    }

    fn event(&self) -> Result<Event, HistoryError> {
        serde_json::from_slice(&self.line).map_err(|error| self.wrong(error))
    }

    /// What a line of a dump says, if a rule needs it.
    fn stored(&self) -> Result<Option<Final>, HistoryError> {
        #[derive(Deserialize)]
        struct Dumped {
            timeline: Option<String>,
            user: Option<String>,
            partition: Option<u64>,
            head: Option<u64>,
            floor: Option<u64>,
            message: Option<Message>,
            member: Option<Member>,
            conversations: Option<Vec<Conversation>>,
        }
        let read = serde_json::from_slice::<Dumped>(&self.line);
        let line = read.map_err(|error| self.wrong(error))?;
        Ok(match line {
            Dumped {
                timeline: Some(timeline),
                message: Some(message),
                ..
            } => Some(Final::Message { timeline, message }),
            Dumped {
                timeline: Some(timeline),
                member: Some(member),
                ..
            } => Some(Final::Member { timeline, member }),
            Dumped {
                timeline: Some(timeline),
                head: Some(head),
                floor,
                ..
            } => {
                let floor = floor.unwrap_or(1);
                Some(Final::Timeline {
                    timeline,
                    head,
                    floor,
                })
            }
            Dumped {
                user: Some(user),
                conversations: Some(conversations),
                ..
            } => Some(Final::Conversations {
                user,
                conversations,
            }),
            Dumped {
                timeline: None,
                user: None,
                partition: None,
                ..
            } => {
                return Err(self.wrong("neither an event nor a line of a dump"));
            }
            _ => None,
        })
    }

    fn wrong(&self, what: impl ToString) -> HistoryError {
        HistoryError::Line(self.name.clone(), self.place.line, what.to_string())
    }
}
