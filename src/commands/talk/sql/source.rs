//! Who does the statements.
//!
//! Owns: the session with a server, or the opened directory. Promises: both answer alike. Must not: print.

use std::path::PathBuf;

use serde_json::json;
use serde_json::value::RawValue;

use super::super::address::At;
use super::super::failure::Failure;
use super::super::session::Session;
use super::directory::Directory;

/// See the top.
pub(super) enum Source {
    /// A session is opened for the first statement.
    Server(At, Option<Session>),
    Directory(Directory),
}

impl Source {
    pub(super) fn server(at: At) -> Source {
        Source::Server(at, None)
    }

    /// `config` = the settings of its server.
    pub(super) async fn directory(
        data: PathBuf,
        config: Option<PathBuf>,
    ) -> Result<Source, Failure> {
        Directory::open(data, config).await.map(Source::Directory)
    }

    /// The result of `sql.query`.
    pub(super) async fn ask(&mut self, statement: &str) -> Result<Box<RawValue>, Failure> {
        match self {
            Source::Server(at, session) => {
                if session.is_none() {
                    *session = Some(Session::open(at).await?);
                }
                let open = session.as_mut().ok_or(Failure::Unread)?;
                open.call("sql.query", json!({ "statement": statement }))
                    .await
            }
            Source::Directory(directory) => directory.ask(statement).await,
        }
    }

    /// There is perhaps no other statement for long: no server keeps a session for that.
    pub(super) async fn rest(&mut self) {
        if let Source::Server(_, session) = self
            && let Some(session) = session.take()
        {
            session.close().await;
        }
    }

    pub(super) async fn close(mut self) {
        self.rest().await;
        if let Source::Directory(directory) = self {
            directory.close().await;
        }
    }
}
