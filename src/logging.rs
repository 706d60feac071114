//! The log of a server's process.
//!
//! Owns: how its lines are written, what they say of a panic, and which error has its line already. Promises: in the
//! format `json` everything that the process writes to standard error from then on is one JSON object a line. Must not:
//! decide what is logged.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::panic::{PanicHookInfo, set_hook};

use serde::{Deserialize, Serialize};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::journal;
use tideline_base::request::Request;

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs that collect logs: each line is an object of `time`, `level`, `target`, `message` and `fields`.
    Json,
}

impl LogFormat {
    /// Passes a run's result on. With JSON its error is logged first: a line of text would be no JSON.
    ///
    /// # Errors
    /// The run's.
    pub fn ended(self, run: Result<(), Failure>) -> Result<(), Failure> {
        match self {
            LogFormat::Text => run,
            LogFormat::Json => run.map_err(|error| {
                tracing::error!("{error}");
                Logged.into()
            }),
        }
    }
}

/// Any error.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Begins the log of this process.
///
/// # Errors
/// If the filter is none; then nothing has begun.
pub fn begin(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("log: {error}"))?;
    let is_json = format == LogFormat::Json;
    let is_terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(is_terminal)
        .event_format(Lines(Format::default().with_ansi(is_terminal)));
    let lines = (!is_json).then_some(lines);
    let log = tracing_subscriber::registry().with(filter).with(lines);
    log.with(journal::layer(is_json)).init();
    if is_json {
        set_hook(Box::new(panicked));
    }
    Ok(())
}

/// Lines of text. A line that belongs to a request names it at its end.
struct Lines(Format);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(request) = Request::current(Request::to_string) else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        writeln!(writer, "{} {request}", line.trim_end_matches('\n'))
    }
}

/// In place of the lines of text that Rust writes.
fn panicked(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    tracing::error!(
        thread = thread.name(),
        place = panic.location().map(tracing::field::display),
        "panicked: {}",
        panic.payload_as_str().unwrap_or("without a text")
    );
}

/// An error that the log has a line of.
#[derive(Debug)]
pub struct Logged;

impl fmt::Display for Logged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("see the log")
    }
}

impl std::error::Error for Logged {}
