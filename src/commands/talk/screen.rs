//! Standard output: lines of JSON for programs, text for people.
//!
//! Owns: which of the two, colours, and what ends when nobody reads any more. Promises: what a stranger wrote is made
//! plain before it is shown. Must not: know what messages are.

use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};

use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::failure::Failure;
use super::plain::plain;

/// The form of the output.
#[derive(Debug, Args)]
pub(super) struct Form {
    /// Lines of JSON, also on a terminal; in a pipe or a file they are the default.
    #[arg(long, conflicts_with = "text")]
    json: bool,
    /// Text, also in a pipe; times are UTC.
    #[arg(long)]
    text: bool,
}

/// Standard output.
pub(super) struct Screen {
    out: BufWriter<Stdout>,
    pub(super) json: bool,
    colours: bool,
    /// The line has no end yet: a message of a timeline grows there.
    growing: Option<(usize, u64)>,
}

/// How a part of a line looks, where there are colours.
#[derive(Clone, Copy)]
pub(super) enum Look {
    /// Beside the point.
    Dim,
    Strong,
    /// A timeline's ID.
    Timeline,
    /// Somebody: each has a colour.
    Name,
    /// What was looked for.
    Hit,
}

impl Screen {
    pub(super) fn new(form: &Form) -> Screen {
        let is_terminal = io::stdout().is_terminal();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Screen {
            out: BufWriter::new(io::stdout()),
            json: form.json || !(form.text || is_terminal),
            colours: is_terminal && !is_set("NO_COLOR") && !is_dumb,
            growing: None,
        }
    }

    /// Writes a line, whose parts were made plain.
    pub(super) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.end_line()?;
        self.out.write_all(line.as_bytes())?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// Writes a stranger's text that goes on with a message; where the line is another's, behind a `start`.
    pub(super) fn grow(
        &mut self,
        of: (usize, u64),
        start: &str,
        text: &str,
    ) -> Result<(), Failure> {
        if self.growing != Some(of) {
            self.end_line()?;
            self.out.write_all(start.as_bytes())?;
            self.growing = Some(of);
        }
        Ok(self.out.write_all(plain(text).as_bytes())?)
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        if self.growing.take().is_some() {
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// What was written can be seen now.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// A stranger's text as a part of a line.
    pub(super) fn part(&self, look: Look, text: &str) -> String {
        let shown = plain(text);
        if !self.colours {
            return shown;
        }
        let code = match look {
            Look::Dim => 2,
            Look::Strong | Look::Hit => 1,
            Look::Timeline => 35,
            Look::Name => NAMES[text.bytes().map(usize::from).sum::<usize>() % NAMES.len()],
        };
        format!("\x1b[{code}m{shown}\x1b[0m")
    }
}

/// Colours that can be read on light and dark.
const NAMES: [u8; 5] = [31, 32, 33, 34, 36];

/// Returns when the reader of standard output has gone. A write would notice that only with the next line.
pub(super) async fn unread() -> Failure {
    let (gone, when_gone) = tokio::sync::oneshot::channel();
    let watch = move || {
        // Nothing is asked for: it returns on an error or a hang-up, of a file never.
        let out = io::stdout();
        let mut watched = [PollFd::new(&out, PollFlags::empty())];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        let _ = gone.send(());
    };
    let watcher = std::thread::Builder::new().name("stdout".into());
    match watcher.spawn(watch) {
        Ok(_) if when_gone.await.is_ok() => Failure::Unread,
        _ => std::future::pending().await,
    }
}

/// A line on standard error.
pub(super) fn note(why: &str) {
    let _ = writeln!(io::stderr(), "tideline: {}", plain(why));
}
