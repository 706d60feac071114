//! `tideline sql [STATEMENT]`: statements of SQL on the tables of a running server, or of a data directory that no
//! server uses.
//!
//! Owns: where statements come from, and what is done when one is refused. Promises: of statements in a pipe none is
//! done behind one that was refused; a statement is sent once. Must not: read SQL, but for where a statement ends.

mod directory;
mod shown;
mod source;
mod statements;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::address::At;
use super::failure::Failure;
use super::plain;
use super::screen::{Form, Screen, note};
use super::session::parsed;
use source::Source;
use statements::{Statement, Statements};

/// What is asked of the tables.
#[derive(Debug, Args)]
pub struct Sql {
    /// One statement. Without it, or with -, statements are read from standard input, each up to a `;`.
    statement: Option<String>,
    /// A data directory that no server uses, in place of a server. It is only read.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The TOML file of the directory's server.
    #[arg(long, value_name = "FILE", requires = "data")]
    config: Option<PathBuf>,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    form: Form,
}

#[derive(Deserialize)]
struct Answer {
    columns: Vec<Column>,
    rows: Vec<Vec<Option<Box<RawValue>>>>,
    affected: Option<u64>,
    #[serde(default)]
    cut: bool,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

impl Sql {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let mut source = match self.data {
            Some(data) => Source::directory(data, self.config).await?,
            None => Source::server(self.at),
        };
        let mut screen = Screen::new(&self.form);
        let statement = self.statement.filter(|text| text != "-");
        let done = match (statement, io::stdin().is_terminal()) {
            (Some(statement), _) => ask(&mut source, &statement, &mut screen).await,
            (None, true) => talk(&mut source, &mut screen).await,
            (None, false) => piped(&mut source, &mut screen).await,
        };
        source.close().await;
        done
    }
}

/// One after the other, until one is refused.
async fn piped(source: &mut Source, screen: &mut Screen) -> Result<(), Failure> {
    let mut statements = Statements::default();
    let mut lines = io::stdin().lock().lines();
    loop {
        let line = lines.next().transpose().map_err(unread)?;
        let is_last = line.is_none();
        for Statement { text, line } in statements.add(line.as_deref()) {
            let asked = ask(source, &text, screen).await;
            asked.map_err(|failure| failure.about(&format!("the statement of line {line}")))?;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// For somebody at a terminal, who may take their time between statements.
async fn talk(source: &mut Source, screen: &mut Screen) -> Result<(), Failure> {
    let mut statements = Statements::default();
    let mut lines = io::stdin().lock().lines();
    loop {
        let prompt = if statements.is_open() {
            "  -> "
        } else {
            "sql> "
        };
        let _ = write!(io::stderr(), "{prompt}");
        let line = lines.next().transpose().map_err(unread)?;
        let is_last = line.is_none();
        for Statement { text, .. } in statements.add(line.as_deref()) {
            match ask(source, &text, screen).await {
                Err(failure @ (Failure::Unread | Failure::Interrupted(_))) => {
                    return Err(failure);
                }
                Err(failure) => note(&failure.line().unwrap_or_default()),
                Ok(()) => {}
            }
            source.rest().await;
        }
        if is_last {
            let _ = writeln!(io::stderr());
            return Ok(());
        }
    }
}

fn unread(error: io::Error) -> Failure {
    Failure::Wrong(format!("standard input: {error}"))
}

/// Has a statement done, and shows its answer.
async fn ask(source: &mut Source, statement: &str, screen: &mut Screen) -> Result<(), Failure> {
    let result = source.ask(statement).await?;
    let answer: Answer = parsed(&result)?;
    if screen.json {
        screen.line(&plain::json(&result))?;
    } else {
        for line in shown::table(&answer) {
            screen.line(&line)?;
        }
    }
    screen.flush()?;
    if answer.cut {
        note("the last rows did not fit into the answer: ask for fewer, with LIMIT");
    }
    Ok(())
}
