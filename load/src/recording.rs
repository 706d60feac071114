//! The history of a run: what its clients did and saw, and the judgement of it.
//!
//! Owns: the file. Promises: a call is in it before it is sent, so that the history of a run that was killed can be
//! checked beside `tideline dump`; a file that nobody asked for is kept if something is wrong. Must not: judge; that is
//! `tideline_history`.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use serde::Serialize;
use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};
use tideline_history::{
    Call, Digest, Event, Final, HistoryError, Message, Report, What, Writer, check_files,
};
use tokio::task::spawn_blocking;

use crate::client::rpc;
use crate::client::rpc::{Client, Refusal};
use crate::exit::{Stop, Verdict};
use crate::outcome::report;
use crate::run::Run;
use crate::run::tally;

/// Flags of profiles that record.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct Recorded {
    /// Write what was sent, answered, pushed and stored into this file, for `check`
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) history: Option<PathBuf>,
}

/// Arguments of `check`.
#[derive(Clone, Debug, clap::Args)]
pub struct Check {
    /// Files with records; lines of `tideline dump` say what is stored
    #[arg(required = true)]
    histories: Vec<PathBuf>,
}

/// Checks the history in these files and says what is wrong. Blocks.
pub fn check(arguments: &Check) -> Result<Verdict, Stop> {
    let report = check_files(&arguments.histories)?;
    report::say(&report.to_string());
    Ok(Verdict::of(report.total() == 0, true))
}

impl From<HistoryError> for Stop {
    fn from(error: HistoryError) -> Stop {
        match error {
            HistoryError::File(..) => Stop::Own(error.to_string()),
            _ => Stop::Usage(error.to_string()),
        }
    }
}

/// A history that is being written.
pub(crate) struct Recording {
    out: RefCell<Writer<File>>,
    path: PathBuf,
    temporary: RefCell<Option<TempPath>>,
    /// The first error; it ends the run when it is judged.
    failure: RefCell<Option<io::Error>>,
}

impl Recording {
    /// Into the file that was asked for, or one for this run alone.
    pub(crate) fn new(flags: &Recorded) -> Result<Rc<Recording>, Stop> {
        let made = match &flags.history {
            Some(path) => File::create(path).map(|file| (file, path.clone(), None)),
            None => NamedTempFile::with_prefix("tideline-history-").map(|made| {
                let (file, temporary) = made.into_parts();
                (file, temporary.to_path_buf(), Some(temporary))
            }),
        };
        let failed = |error| Stop::Own(format!("the file of the history: {error}"));
        let (file, path, temporary) = made.map_err(failed)?;
        Ok(Rc::new(Recording {
            out: RefCell::new(Writer::new(file)),
            path,
            temporary: RefCell::new(temporary),
            failure: RefCell::default(),
        }))
    }

    /// Something happened to a client.
    pub(crate) fn event(&self, client: &str, what: What) {
        let mut out = self.out.borrow_mut();
        let event = Event(out.now(), client.to_owned(), what);
        self.note(out.event(&event));
    }

    /// Before calls are sent.
    pub(crate) fn flush(&self) {
        self.note(self.out.borrow_mut().flush());
    }

    fn note(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failure.borrow_mut().get_or_insert(error);
        }
    }

    /// Reads these timelines from the server, whole, and judges everything.
    pub(crate) async fn judge(
        &self,
        run: &Run,
        timelines: impl Iterator<Item = String>,
    ) -> Result<(), Stop> {
        let mut client = Client::open(&run.url).await?;
        for timeline in timelines {
            let page: tally::Page = tally::whole(&mut client, &timeline).await?;
            let (head, name) = (page.head, || timeline.clone());
            let stored = |record: Final| self.note(self.out.borrow_mut().stored(&record));
            stored(Final::Timeline {
                timeline: name(),
                head,
                floor: 1,
            });
            for message in page.messages {
                let message = shown(message).map_err(Stop::Unreachable)?;
                stored(Final::Message {
                    timeline: name(),
                    message,
                });
            }
        }
        self.flush();
        if let Some(error) = self.failure.take() {
            return Err(Stop::Own(format!("{}: {error}", self.path.display())));
        }
        let path = self.path.clone();
        let report: Report = spawn_blocking(move || check_files(&[path])).await??;
        for (what, count) in &report.checked {
            run.checks.made(what, *count);
        }
        for violation in &report.violations {
            run.checks.fault(report.text(violation));
        }
        if report.total() > 0
            && let Some(temporary) = self.temporary.take()
        {
            // It says which one it was.
            let kept = temporary.keep();
            kept.map_err(|error| Stop::Own(format!("the history: {error}")))?;
        }
        Ok(())
    }
}

/// An append as a history has it.
pub(crate) fn append(
    timeline: &str,
    sender: &str,
    message_id: &str,
    digest: Digest,
    expect_head: Option<u64>,
) -> Call {
    Call::Append {
        timeline: timeline.to_owned(),
        message_id: message_id.to_owned(),
        sender: sender.to_owned(),
        entry: None,
        digest: Some(digest),
        expect_head,
    }
}

/// Why an operation was not done, as a history has it.
pub(crate) fn reason(refusal: &Refusal) -> String {
    refusal.data.reason.clone()
}

/// A message as a history has it.
pub(crate) fn shown(message: rpc::Message) -> Result<Message, String> {
    let entry = message
        .entry
        .map(|entry| serde_json::from_str::<Value>(entry.get()));
    let entry = entry.transpose().map_err(|odd| odd.to_string())?;
    Ok(Message {
        sequence: message.sequence,
        timestamp: message.timestamp,
        message_id: message.message_id,
        sender: message.sender.unwrap_or_default(),
        entry: None,
        digest: entry.as_ref().map(Digest::of),
    })
}
