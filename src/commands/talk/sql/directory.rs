//! Statements on a data directory that no server uses.
//!
//! Owns: opening it, and whom its tables let in. Promises: answers are those of a server, whatever their size; no
//! statement changes anything. Must not: fill search indexes (a server does), or make a directory.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};

use super::super::failure::Failure;
use crate::clock::Clock;
use crate::config::{self, Flags};
use crate::data_directory::Store;
use crate::gateway::told_sql;
use crate::metrics::Metrics;
use crate::partition::{OpenError, Partitions, directory_map};
use crate::sql::{Door, Need, Refusal, Sql};
use crate::table::Table;
use crate::wire::Limits;

/// See the top. Nobody else can open it meanwhile.
pub(super) struct Directory {
    partitions: Partitions,
    sql: Sql,
    limits: Limits,
}

/// Lets everybody read, and nobody write.
struct Reading;

impl Door for Reading {
    fn allows(&self, _table: &str, need: Need) -> bool {
        matches!(need, Need::Read | Need::Any)
    }

    fn seen(&self, table: Arc<Table>) -> Option<Arc<Table>> {
        Some(table)
    }
}

/// Of an answer: more than a statement may hold.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

impl Directory {
    /// Opens it as a server would; `config` = the settings of its server.
    pub(super) async fn open(data: PathBuf, config: Option<PathBuf>) -> Result<Directory, Failure> {
        let flags = Flags {
            config,
            data: Some(data.clone()),
            ..Flags::default()
        };
        let (config, _) =
            config::load(&flags, config::environment()).map_err(|error| Failure::Wrong(error.0))?;
        match directory_map(&data) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(wrong(&OpenError::NothingThere { path: data })),
            Err(error) => return Err(wrong(&error)),
        }
        let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(Clock::system()));
        let store = Store::open(&config, &Arc::default(), &metrics, &clock).await;
        let store = store.map_err(|error| wrong(&error))?;
        Ok(Directory {
            sql: Sql::new(store.tables, None),
            partitions: store.partitions,
            limits: Limits {
                outbound_frame_bytes_max: ANSWER_BYTES_MAX,
                ..config.wire_limits()
            },
        })
    }

    /// The result of `sql.query`.
    pub(super) async fn ask(&self, statement: &str) -> Result<Box<RawValue>, Failure> {
        let answer = self.sql.run(Arc::new(Reading), statement, None).await;
        if let Err(Refusal::Denied(table)) = &answer {
            return Err(Failure::Wrong(format!(
                "table {table}: a directory that no server uses is only read; a server's tables can be changed"
            )));
        }
        let answer = told_sql(&self.limits, answer);
        let answer = answer.map_err(|failure| match to_raw_value(&failure) {
            Ok(said) => match serde_json::from_str(said.get()) {
                Ok(refusal) => Failure::Refused(refusal),
                Err(error) => wrong(&error),
            },
            Err(error) => wrong(&error),
        });
        to_raw_value(&answer?).map_err(|error| wrong(&error))
    }

    pub(super) async fn close(self) {
        drop(self.sql);
        self.partitions.close().await;
    }
}

fn wrong(why: &dyn std::fmt::Display) -> Failure {
    Failure::Wrong(why.to_string())
}
