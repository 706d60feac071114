//! Requests by method and result, and their time by method.
//!
//! Owns: which methods and results there are as labels. Promises: what a client sends never becomes a label; each
//! handle is bound once. Must not: know what a method does.

use std::sync::OnceLock;
use std::time::Duration;

use crate::metrics::{self, Counter, Histogram};
use crate::wire::tablestore::{Code, Failure as TablestoreFailure, Operation};
use crate::wire::{Failure, Method, Reason};

/// The counters of both protocols.
pub(super) struct Counters {
    methods: Grid,
    operations: Grid,
}

/// The methods of one protocol by the results of one.
struct Grid {
    /// [`UNKNOWN`] last.
    methods: Vec<&'static str>,
    /// [`OK`] first.
    results: Vec<&'static str>,
    answers: Vec<OnceLock<Counter>>,
    seconds: Vec<OnceLock<Histogram>>,
}

/// The method of what could not be decoded.
const UNKNOWN: &str = "?";
const OK: &str = "ok";

impl Default for Counters {
    fn default() -> Counters {
        let methods = Method::ALL.iter().map(|method| method.name());
        let operations = Operation::ALL.iter().map(|operation| operation.name());
        Counters {
            methods: Grid::new(methods, Reason::ALL.iter().map(|reason| reason.name())),
            operations: Grid::new(operations, Code::ALL.iter().map(|code| code.name())),
        }
    }
}

impl Counters {
    /// Counts one answer, which took this long; without a method, that of a call that could not be decoded.
    pub(super) fn count(
        &self,
        method: Option<Method>,
        result: Result<(), &Failure>,
        took: Duration,
    ) {
        let result = match result {
            Ok(()) => OK,
            Err(failure) => {
                if let Some(limit) = failure.limit_name {
                    metrics::refusals().of(&[limit]).increment(1);
                }
                failure.reason.name()
            }
        };
        let method = method.map_or(UNKNOWN, Method::name);
        self.methods.count(method, result, took);
    }

    /// Counts one answer of Tablestore's protocol, which took this long.
    pub(super) fn count_operation(
        &self,
        operation: Option<Operation>,
        result: Result<(), &TablestoreFailure>,
        took: Duration,
    ) {
        let result = result.map_or_else(|failure| failure.code.name(), |()| OK);
        let operation = operation.map_or(UNKNOWN, Operation::name);
        self.operations.count(operation, result, took);
    }
}

impl Grid {
    fn new(
        methods: impl IntoIterator<Item = &'static str>,
        failures: impl Iterator<Item = &'static str>,
    ) -> Grid {
        let methods: Vec<_> = methods.into_iter().chain([UNKNOWN]).collect();
        let results: Vec<_> = std::iter::once(OK).chain(failures).collect();
        let answers = methods.len() * results.len();
        Grid {
            answers: (0..answers).map(|_| OnceLock::new()).collect(),
            seconds: methods.iter().map(|_| OnceLock::new()).collect(),
            methods,
            results,
        }
    }

    fn count(&self, method: &str, result: &str, took: Duration) {
        let at = |names: &[&str], name| names.iter().position(|known| *known == name);
        let method = at(&self.methods, method).unwrap_or(self.methods.len() - 1);
        let result = at(&self.results, result).unwrap_or(0);
        self.answers[method * self.results.len() + result]
            .get_or_init(|| metrics::requests().of(&[self.methods[method], self.results[result]]))
            .increment(1);
        self.seconds[method]
            .get_or_init(|| metrics::request_seconds().of(&[self.methods[method]]))
            .record(took.as_secs_f64());
    }
}
