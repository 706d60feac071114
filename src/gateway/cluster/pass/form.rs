//! What a client hears whose request was not answered by the owner, in the words of its protocol.
//!
//! Owns: which protocol a request is of. Promises: the answer says whether something may have been done. Must not:
//! decide that.

use hyper::{Method, Request};

use super::super::super::entrance::door;
use super::super::super::http::respond::Answer;
use super::super::super::tablestore;
use tideline_wire::{Failure, Reason};

/// See the file's opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    is_tablestore: bool,
    /// It changes nothing, whatever becomes of it.
    is_read: bool,
}

impl Form {
    pub(super) fn of<B>(request: &Request<B>) -> Form {
        Form {
            is_tablestore: tablestore::is_for(request),
            is_read: matches!(*request.method(), Method::GET | Method::HEAD),
        }
    }

    /// Nothing was done.
    pub(super) fn not_begun(self, failure: &Failure) -> Answer {
        match self.is_tablestore {
            true => tablestore::elsewhere(),
            false => door::refusal(failure),
        }
    }

    /// It was sent, and its answer has not come.
    pub(super) fn cut(self) -> Answer {
        match self {
            Form {
                is_tablestore: true,
                ..
            } => tablestore::cut(),
            Form { is_read: true, .. } => {
                let why = "the owner was lost before it had answered";
                door::refusal(&Failure::new(Reason::Unavailable).saying(why))
            }
            Form { is_read: false, .. } => door::refusal(&Reason::OutcomeUnknown.into()),
        }
    }
}
