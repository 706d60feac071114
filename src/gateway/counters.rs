//! Requests by method and result, and their time by method.
//!
//! Owns: which methods and results there are as labels. Promises: what a client sends never becomes a label; a series
//! is shown from its first answer on, and bound once. Must not: know what a method does.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tideline_base::metrics::{Counter, Families, Histogram, Metrics};
use tideline_wire::tablestore::{Code, Failure as TablestoreFailure, Operation};
use tideline_wire::{Failure, Method, Reason};

/// The counters of both protocols.
pub(super) struct Counters {
    methods: Grid,
    operations: Grid,
    metrics: Arc<Metrics>,
}

/// The handles of one protocol: a row for each method, a column for each result.
struct Grid {
    columns: usize,
    answers: Vec<OnceLock<Counter>>,
    seconds: Vec<OnceLock<Histogram>>,
}

/// The number of a method or a result in its enum, and its label.
type Numbered = (usize, &'static str);

impl Counters {
    pub(super) fn new(metrics: Arc<Metrics>) -> Counters {
        Counters {
            methods: Grid::new(Method::ALL.len(), Reason::ALL.len()),
            operations: Grid::new(Operation::ALL.len(), Code::ALL.len()),
            metrics,
        }
    }

    /// Counts one answer, which took this long; without a method, that of a call that could not be decoded.
    pub(super) fn count(
        &self,
        method: Option<Method>,
        result: Result<(), &Failure>,
        took: Duration,
    ) {
        if let Err(Failure {
            limit_name: Some(limit),
            ..
        }) = result
        {
            self.metrics.refused(limit, 1);
        }
        let method = method.map(|one| (one as usize, one.name()));
        let failure = result.err().map(|failure| failure.reason);
        let failure = failure.map(|reason| (reason as usize, reason.name()));
        let families = &self.metrics.families;
        self.methods.count(families, method, failure, took);
    }

    /// Counts one answer of Tablestore's protocol, which took this long.
    pub(super) fn count_operation(
        &self,
        operation: Option<Operation>,
        result: Result<(), &TablestoreFailure>,
        took: Duration,
    ) {
        let operation = operation.map(|one| (one as usize, one.name()));
        let failure = result.err().map(|failure| failure.code);
        let failure = failure.map(|code| (code as usize, code.name()));
        let families = &self.metrics.families;
        self.operations.count(families, operation, failure, took);
    }
}

impl Grid {
    fn new(methods: usize, failures: usize) -> Grid {
        let (rows, columns) = (1 + methods, 1 + failures);
        Grid {
            columns,
            answers: (0..rows * columns).map(|_| OnceLock::new()).collect(),
            seconds: (0..rows).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The first row is of what could not be decoded, the first column of what was done.
    fn count(
        &self,
        families: &Families,
        method: Option<Numbered>,
        failure: Option<Numbered>,
        took: Duration,
    ) {
        let (row, method) = method.map_or((0, "?"), |(number, label)| (1 + number, label));
        let (column, result) = failure.map_or((0, "ok"), |(number, label)| (1 + number, label));
        self.answers[row * self.columns + column]
            .get_or_init(|| families.requests.of(&[method, result]))
            .increment(1);
        self.seconds[row]
            .get_or_init(|| families.request_seconds.of(&[method]))
            .record(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_and_result_has_a_series_of_its_own() {
        let metrics = Arc::new(Metrics::default());
        let counters = Counters::new(Arc::clone(&metrics));
        let took = Duration::from_millis(1);
        for method in Method::ALL {
            counters.count(Some(*method), Ok(()), took);
            for reason in Reason::ALL.iter().copied() {
                counters.count(Some(*method), Err(&reason.into()), took);
            }
        }
        for operation in Operation::ALL {
            counters.count_operation(Some(*operation), Ok(()), took);
            for code in Code::ALL {
                counters.count_operation(
                    Some(*operation),
                    Err(&TablestoreFailure::new(*code)),
                    took,
                );
            }
        }
        counters.count(None, Err(&Reason::ParseError.into()), took);
        let text = metrics.render();
        let shown = text
            .lines()
            .filter(|line| line.starts_with("tideline_requests_total{"));
        let shown: Vec<_> = shown.collect();
        assert!(shown.iter().all(|line| line.ends_with(" 1")), "{shown:?}");
        let of_methods = Method::ALL.len() * (1 + Reason::ALL.len());
        let of_operations = Operation::ALL.len() * (1 + Code::ALL.len());
        assert_eq!(shown.len(), of_methods + of_operations + 1);
        for line in [
            "{method=\"message.get\",result=\"message_not_found\"}",
            "{method=\"PutRow\",result=\"OTSServerBusy\"}",
            "{method=\"?\",result=\"parse_error\"}",
        ] {
            assert!(
                text.contains(&format!("tideline_requests_total{line} 1\n")),
                "{line}"
            );
        }
    }
}
