//! `tideline send`, `follow`, `history`, `search`, `call`, `sql`, `timelines`, `conversations`, `ready`: what people
//! and scripts ask of a running server, from a terminal or in a pipe.
//!
//! Owns: these commands, their output and exit codes. Promises: a message is sent once, however often it has to be
//! repeated; `follow` leaves out nothing and says when it can't; no control character of a message gets to a terminal.
//! Must not: open a data directory, but for `sql`, or know more of the server than its protocol.

use std::process::ExitCode;

use clap::Subcommand;

mod address;
mod call;
mod failure;
mod follow;
mod history;
mod lists;
mod message;
mod pace;
mod plain;
mod ready;
mod screen;
mod search;
mod send;
mod session;
mod sql;

pub(super) use address::At;
pub(super) use failure::{Failure, Refusal};
pub(super) use session::Session;

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum TalkCommand {
    /// Send messages to a timeline
    ///
    /// Each has an ID before it is sent, and is repeated with it until the server answers: it is there once.
    Send(send::Send),
    /// Show what comes to timelines, as it comes
    ///
    /// Messages, edits, deletions and reactions. It goes on where it was when the server is back after a restart.
    /// Ctrl-C ends it.
    Follow(follow::Follow),
    /// Show the messages of a timeline
    History(history::History),
    /// Search the messages of all timelines
    ///
    /// All words must be in a message. "a phrase" is found as it stands, begin* finds words that begin so, -word leaves
    /// messages out that have it. The server needs `messages = true` in [search].
    Search(search::Search),
    /// Call any method of the protocol
    ///
    /// The result is printed as it comes. docs/API.md has all methods.
    Call(call::Call),
    /// Do statements of SQL on tables
    ///
    /// One, or those of standard input, each up to a `;`, on a running server, or with --data on a data directory that
    /// no server uses. docs/SQL.md says which there are.
    Sql(sql::Sql),
    /// List timelines by ID.
    Timelines(lists::Timelines),
    /// List a user's conversations, with what is unread.
    Conversations(lists::Conversations),
    /// Ask a server whether it takes calls
    ///
    /// For health checks and scripts: prints `ready` and ends with 0, or says why not and ends with another code. Needs
    /// no credential.
    Ready(ready::Ready),
}

/// Does it. What went wrong is one line on standard error.
#[must_use]
pub fn talk(what: TalkCommand) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(async {
            match what {
                TalkCommand::Send(send) => send.run().await,
                TalkCommand::Follow(follow) => follow.run().await,
                TalkCommand::History(history) => history.run().await,
                TalkCommand::Search(search) => search.run().await,
                TalkCommand::Call(call) => call.run().await,
                TalkCommand::Sql(sql) => sql.run().await,
                TalkCommand::Timelines(timelines) => timelines.run().await,
                TalkCommand::Conversations(conversations) => conversations.run().await,
                TalkCommand::Ready(ready) => ready.run().await,
            }
        }),
        Err(error) => Err(Failure::Wrong(error.to_string())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(why) = failure.line() {
                screen::note(&why);
            }
            failure.exit_code()
        }
    }
}
