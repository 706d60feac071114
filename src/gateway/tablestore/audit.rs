//! Lines of the log target `audit` about tables.
//!
//! Owns: which operations are noted, and their line. Promises: a line for each operation that makes, changes or drops a
//! table, allowed or not, once it is answered, or its caller has gone before that; of what was refused to one caller so
//! many a minute, and how many others; none where there is no `[auth]`. Must not: note values.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::Shared;
use super::super::dispatch::audit::{NOT_ANSWERED, who};
use super::row::Outcome;
use super::sql::Opening;
use tideline_model::access::Claim;
use tideline_wire::tablestore::{Operation, Request, SeriesRequest};

/// An operation that is noted when it is answered; if this is dropped before, as one that was not.
pub(super) struct Noted {
    shared: Arc<Shared>,
    who: String,
    from: IpAddr,
    method: &'static str,
    name: String,
    /// Its line is written.
    is_said: bool,
}

impl Noted {
    /// The line of an operation, if it is noted.
    pub(super) fn of(
        shared: &Arc<Shared>,
        claim: &Claim,
        from: IpAddr,
        operation: Operation,
        request: &Request,
    ) -> Option<Noted> {
        let name = match request {
            Request::CreateTable(new) => &new.name,
            Request::UpdateTable(name, _)
            | Request::DeleteTable(name)
            | Request::AddDefinedColumn(name, _)
            | Request::DeleteDefinedColumn(name, _)
            | Request::DropIndex(name, _) => name,
            Request::CreateIndex(new) => &new.table,
            Request::CreateSearchIndex(new) => &new.of.table,
            Request::UpdateSearchIndex(change) => &change.of.table,
            Request::DeleteSearchIndex(of) => &of.table,
            Request::Series(asked) => match &**asked {
                SeriesRequest::Create(new) => &new.name,
                SeriesRequest::Update(name, _) | SeriesRequest::Delete(name) => name,
                _ => return None,
            },
            Request::Sql(asked) => &Opening::of(&asked.statement).manages?,
            _ => return None,
        };
        Some(Noted {
            shared: Arc::clone(shared),
            who: who(claim.identity()),
            from,
            method: operation.name(),
            name: name.clone(),
            is_said: false,
        })
    }

    /// Writes the line.
    pub(super) fn answered(mut self, outcome: &Outcome) {
        let code = outcome.as_ref().err().map(|failure| failure.code.name());
        self.say(code.unwrap_or("ok"), code.is_none());
    }

    fn say(&mut self, outcome: &str, is_done: bool) {
        self.is_said = true;
        let door = self.shared.door.as_ref();
        let turn = door.and_then(|door| door.audits(&self.who, is_done));
        let Some(left_out) = turn else { return };
        tracing::info!(
            target: "audit",
            who = self.who,
            from = %self.from,
            method = self.method,
            name = self.name,
            outcome,
            left_out,
        );
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if !self.is_said {
            self.say(NOT_ANSWERED, true);
        }
    }
}
