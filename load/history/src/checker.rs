//! The check: one pass over the events, beside what is stored.
//!
//! Owns: the order of the work. Promises: an event that makes no sense behind those before it is an error that names
//! it, never a violation. Must not: hold rules; they are in `calls`, `shown`, `people`, `cycles` and `stored`.

use crate::record::{Event, What};
use crate::report::{HistoryError, Place, Report};
use crate::state::State;
use crate::stored::Stored;

/// Checks a history, event by event.
pub struct Checker {
    state: State,
    last: u64,
}

impl Checker {
    /// With all that is stored in the end.
    pub fn new(mut stored: Stored) -> Checker {
        stored.end();
        Checker {
            state: State {
                stored,
                clients: Default::default(),
                open: Default::default(),
                views: Default::default(),
                failed: Default::default(),
                shown: Default::default(),
                graph: Default::default(),
                people: Default::default(),
            },
            last: 0,
        }
    }

    /// Takes the next event; times must not fall.
    pub fn event(&mut self, event: &Event, place: Place) -> Result<(), HistoryError> {
        let Event(at, client, what) = event;
        if *at < self.last {
            let what = format!(
                "an event of {client} at {at} ns comes after one at {}",
                self.last
            );
            return Err(HistoryError::Record(what));
        }
        self.last = *at;
        let state = &mut self.state;
        let number = state.clients.number(client);
        let id = |op: &u64| (number, *op);
        let mut done = Ok(());
        match what {
            What::Invoke(op, calls) => state.invoke(id(op), *at, calls, place),
            What::Ok(op, answers) => done = state.ok(id(op), *at, answers, place),
            What::Fail(op, reason) => done = state.fail(id(op), reason, place),
            What::Unknown(op, _) => done = state.unknown(id(op)),
            What::Subscribe(timeline, after) => {
                state.subscribe(number, timeline, Some(*after), place);
            }
            What::Unsubscribe(timeline) => state.subscribe(number, timeline, None, place),
            What::Push(timeline, messages) => {
                done = state.pushed(number, timeline, messages, place);
            }
            What::Settled => state.settled(number, place),
        }
        done.map_err(|what| HistoryError::Record(format!("{client}: {what}")))
    }

    /// No more comes: what was found.
    pub fn end(mut self) -> Report {
        self.state.end_shown();
        self.state.end_calls();
        self.state.end_people();
        let State { stored, graph, .. } = self.state;
        let mut report = stored.report;
        graph.judge(&mut report);
        report
    }
}
