//! `tideline sql [STATEMENT]`: statements of SQL on a running server's tables.
//!
//! Owns: where statements come from, and what is done when one is refused. Promises: of statements in a pipe none is
//! done behind one that was refused; a statement is sent once. Must not: read SQL, but for where a statement ends.

mod shown;
mod statements;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::address::At;
use super::failure::Failure;
use super::plain;
use super::screen::{Form, Screen, note};
use super::session::{Session, parsed};
use statements::{Statement, Statements};

/// What is asked of the tables.
#[derive(Debug, Args)]
pub struct Sql {
    /// One statement. Without it, or with -, statements are read from standard input, each up to a `;`.
    statement: Option<String>,
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
        let mut screen = Screen::new(&self.form);
        if let Some(statement) = self.statement.as_deref().filter(|text| *text != "-") {
            let mut session = Session::open(&self.at).await?;
            ask(&mut session, statement, &mut screen).await?;
            session.close().await;
            return Ok(());
        }
        match io::stdin().is_terminal() {
            true => self.talk(&mut screen).await,
            false => self.piped(&mut screen).await,
        }
    }

    /// One after the other, until one is refused.
    async fn piped(&self, screen: &mut Screen) -> Result<(), Failure> {
        let mut session = Session::open(&self.at).await?;
        let mut statements = Statements::default();
        let mut lines = io::stdin().lock().lines();
        loop {
            let line = lines.next().transpose().map_err(unread)?;
            let is_last = line.is_none();
            for Statement { text, line } in statements.add(line.as_deref()) {
                let asked = ask(&mut session, &text, screen).await;
                asked.map_err(|failure| failure.about(&format!("the statement of line {line}")))?;
            }
            if is_last {
                session.close().await;
                return Ok(());
            }
        }
    }

    /// For somebody at a terminal, who may take their time: each statement has a session of its own.
    async fn talk(&self, screen: &mut Screen) -> Result<(), Failure> {
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
                let asked = async {
                    let mut session = Session::open(&self.at).await?;
                    ask(&mut session, &text, screen).await?;
                    session.close().await;
                    Ok(())
                };
                match asked.await {
                    Err(failure @ (Failure::Unread | Failure::Interrupted(_))) => {
                        return Err(failure);
                    }
                    Err(failure) => note(&failure.line().unwrap_or_default()),
                    Ok(()) => {}
                }
            }
            if is_last {
                let _ = writeln!(io::stderr());
                return Ok(());
            }
        }
    }
}

fn unread(error: io::Error) -> Failure {
    Failure::Wrong(format!("standard input: {error}"))
}

/// Has a statement done, and shows its answer.
async fn ask(session: &mut Session, statement: &str, screen: &mut Screen) -> Result<(), Failure> {
    let result = session.call("sql.query", json!({ "statement": statement }));
    let result = result.await?;
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
