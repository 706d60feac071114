//! Statements as a gateway runs them.
//!
//! Owns: [`Sql`]: the way of one statement from its text to its answer. Promises: as many statements run at a time as
//! there are processors, on threads that may block; one whose caller has gone ends at its next step. Must not: know a
//! wire.

use std::sync::Arc;
use std::time::Duration;

use tideline_base::bounds::Holder;
use tideline_search::Searches;
use tideline_table::Tables;

use crate::answer::Answer;
use crate::door::Door;
use crate::refusal::Refusal;

/// See the top. Cheap to clone.
#[derive(Clone)]
pub struct Sql {
    tables: Tables,
    searches: Searches,
}

impl Sql {
    /// SQL on these tables and their search indexes.
    #[must_use]
    pub fn new(tables: Tables, searches: Searches) -> Sql {
        Sql { tables, searches }
    }

    /// The same, for calls that count in this caller's shares.
    #[must_use]
    pub fn of_caller(&self, holder: Option<Holder>) -> Sql {
        Sql {
            tables: self.tables.of_caller(holder),
            searches: self.searches.of_caller(holder),
        }
    }

    /// Runs one statement. `patience` = how long its caller waits; `None` and more than 30 s mean 30 s.
    pub async fn run(
        &self,
        _door: Arc<dyn Door>,
        _statement: &str,
        _patience: Option<Duration>,
    ) -> Result<Answer, Refusal> {
        Refusal::unsupported("SQL")
    }
}
