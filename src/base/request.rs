//! Which request is being answered, for the lines of the log that are written meanwhile.
//!
//! Owns: the request's ID and trace while its future is polled. Promises: where no line is written it costs a store at
//! each poll; a span of `tracing` that is always on took 6 µs of each request. Must not: be looked at by anything but
//! the log.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::trace::TraceParent;

tokio::task_local! {
    static CURRENT: Request;
}

/// A request, as the log names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its ID.
    pub id: Arc<str>,
    /// The place in a trace that caused it, if its caller said one.
    pub trace: Option<TraceParent>,
}

impl Request {
    /// What is logged while this future is polled says that it is of this request.
    pub fn within<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// Looks at the one that is being answered, if there is one.
    pub fn current<R>(look: impl FnOnce(&Request) -> R) -> Option<R> {
        CURRENT.try_with(look).ok()
    }
}

/// As fields at the end of a line of text.
impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "request={:?}", self.id)?;
        match &self.trace {
            Some(trace) => write!(out, " trace=\"{}\"", trace.trace_id()),
            None => Ok(()),
        }
    }
}
