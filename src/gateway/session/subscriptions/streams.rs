//! The streams of changes of one connection.
//!
//! Owns: which are open, and whose turn it is. Promises: no push before the open's answer or after the close's; nothing
//! is read while the socket has no room; a reader that is slow is behind, and is ended only when the log has let go of
//! its place. Must not: hold a payload: what is read goes to the outbox at once.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, abortable};

use super::super::answer::{Pending, Weight};
use super::super::jobs::{Done, Jobs};
use super::parts::Opened;
use crate::dispatch::shape::page_bytes;
use crate::dispatch::tables::stream::{back_end, open};
use crate::dispatch::{Caller, Outcome};
use crate::form::Form;
use crate::outbox::Outbox;
use crate::{Shared, changes};
use tideline_base::metrics::Metrics;
use tideline_table::{FollowError, PageBounds};
use tideline_timelines::feed::{ChangeGroup, ChangeReader};
use tideline_wire::push::{StreamEnd, StreamEnded};
use tideline_wire::tables::stream;
use tideline_wire::{Failure, Limits, Push, Reason, Reply};

/// All streams of a connection.
pub(in super::super) struct Streams {
    /// The next one's turn first.
    open: Vec<Stream>,
    numbers: u64,
    metrics: Arc<Metrics>,
}

struct Stream {
    number: u64,
    /// Whose rows it follows; empty = timelines.
    table: String,
    state: State,
    /// Where it is, as far as the client knows.
    position: String,
}

enum State {
    /// The open is not answered yet.
    Opening,
    /// The reader has nothing to do, as far as is known.
    Idle(Box<ChangeReader>),
    /// It waits for news.
    Waiting(AbortHandle),
    /// There is news.
    News(Box<ChangeReader>),
    /// It reads.
    Reading,
}

/// Streams of one connection.
const STREAMS_MAX: usize = 16;
/// What a cell or key column takes as text beside its own bytes.
const CELL_BYTES: usize = 64;

impl Streams {
    pub(in super::super) fn new(metrics: Arc<Metrics>) -> Streams {
        Streams {
            open: Vec::new(),
            numbers: 0,
            metrics,
        }
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins an open.
    pub(in super::super) fn begin(
        &mut self,
        shared: &Arc<Shared>,
        caller: &Caller,
        request: stream::Open,
    ) -> Pending {
        if let Err(failure) = back_end(caller) {
            return Err(failure).into();
        }
        if self.open.len() >= STREAMS_MAX {
            let (limit, actual) = (STREAMS_MAX as u64, STREAMS_MAX as u64 + 1);
            let failure = Failure::new(Reason::TooMany)
                .saying("too many streams on this connection")
                .over(limit, actual)
                .named("session_streams_max");
            return Err(failure).into();
        }
        self.numbers += 1;
        let number = self.numbers;
        self.open.push(Stream {
            number,
            table: request.table.clone().unwrap_or_default(),
            state: State::Opening,
            position: String::new(),
        });
        self.metrics.follows.open.increment(1.0);
        let shared = Arc::clone(shared);
        let work = async move {
            let (outcome, reader): (Outcome, _) = match open(&shared, request).await {
                Ok(reader) => {
                    let opened = stream::Opened {
                        stream: number,
                        position: reader.position(),
                    };
                    (Ok(Reply::StreamOpen(opened)), Some(Box::new(reader)))
                }
                Err(failure) => (Err(failure), None),
            };
            (outcome, vec![Opened::Stream(number, reader)])
        };
        Pending::Opening(Weight::Page, work.boxed())
    }

    /// An open was answered: from now on it may push, unless it was refused or closed meanwhile.
    pub(in super::super) fn opened(&mut self, number: u64, reader: Option<Box<ChangeReader>>) {
        match (self.get(number), reader) {
            (Some(stream), Some(reader)) => {
                stream.position = reader.position();
                stream.state = State::News(reader);
            }
            _ => self.remove(number),
        }
    }

    /// Ends a stream.
    pub(in super::super) fn close(&mut self, caller: &Caller, request: &stream::Close) -> Outcome {
        if caller.asker.claim().is_some() {
            back_end(caller)?;
        }
        self.remove(request.stream);
        Ok(Reply::StreamClose(stream::Closed {}))
    }

    /// Has each stream do what it can now.
    pub(in super::super) fn step(&mut self, limits: &Limits, jobs: &mut Jobs) -> bool {
        let bounds = bounds(limits);
        let mut moved = false;
        for at in 0..self.open.len() {
            let Stream { number, state, .. } = &mut self.open[at];
            let number = *number;
            match std::mem::replace(state, State::Reading) {
                State::Idle(reader) => {
                    let (news, abort) = abortable(async move {
                        reader.news().await;
                        reader
                    });
                    *state = State::Waiting(abort);
                    let news = news.map(move |reader| Done::News(number, reader.ok()));
                    jobs.run(Weight::Light, news.boxed());
                    moved = true;
                }
                State::News(mut reader) if jobs.may_fetch() => {
                    let read = async move {
                        let group = reader.read(bounds).await;
                        Done::Changes(number, reader, group)
                    };
                    jobs.run(Weight::Fetch, read.boxed());
                    moved = true;
                }
                other => *state = other,
            }
        }
        if !self.open.is_empty() {
            self.open.rotate_left(1);
        }
        moved
    }

    /// There is news of a stream, if it was not closed while it waited.
    pub(in super::super) fn news(&mut self, number: u64, reader: Option<Box<ChangeReader>>) {
        if let (Some(stream), Some(reader)) = (self.get(number), reader) {
            stream.state = State::News(reader);
        }
    }

    /// Changes of a stream were read.
    pub(in super::super) fn told(
        &mut self,
        number: u64,
        mut reader: Box<ChangeReader>,
        group: Result<ChangeGroup, FollowError>,
        outbox: &mut Outbox,
        form: Form,
    ) {
        let metrics = Arc::clone(&self.metrics);
        let Some(stream) = self.get(number) else {
            return;
        };
        let group = match group {
            Ok(group) => group,
            Err(error) => {
                let why = match error {
                    FollowError::PositionLost => StreamEnd::PositionLost,
                    FollowError::NoStream | FollowError::TableNotFound => StreamEnd::NoStream,
                    error => {
                        tracing::warn!(?error, "a stream of changes ended");
                        StreamEnd::Unavailable
                    }
                };
                return self.end(number, why, outbox, form);
            }
        };
        let count = group.changes.len() as u64;
        if count > 0 || !group.is_more && reader.has_moved() {
            reader.told();
            let told = changes::told(number, &group, &stream.table);
            outbox.push(form.push(&Push::StreamChanges(told)));
            metrics.follows.changes.increment(count);
            stream.position.clone_from(&group.position);
        }
        stream.state = match group.is_more {
            true => State::News(reader),
            false => State::Idle(reader),
        };
    }

    /// The connection has named a user, and a user may not see all.
    pub(in super::super) fn forbid(&mut self, outbox: &mut Outbox, form: Form) {
        let is_answered = |stream: &&Stream| !matches!(stream.state, State::Opening);
        let answered = self.open.iter().filter(is_answered);
        let numbers: Vec<u64> = answered.map(|stream| stream.number).collect();
        for number in numbers {
            self.end(number, StreamEnd::Forbidden, outbox, form);
        }
    }

    fn end(&mut self, number: u64, reason: StreamEnd, outbox: &mut Outbox, form: Form) {
        let Some(stream) = self.get(number) else {
            return;
        };
        let ended = StreamEnded {
            stream: number,
            reason,
            position: std::mem::take(&mut stream.position),
            reopen: reason.reopen(),
        };
        outbox.push(form.push(&Push::StreamEnded(ended)));
        self.metrics.follows.ended.increment(1);
        self.remove(number);
    }

    fn get(&mut self, number: u64) -> Option<&mut Stream> {
        self.open.iter_mut().find(|stream| stream.number == number)
    }

    fn remove(&mut self, number: u64) {
        let before = self.open.len();
        self.open.retain(|stream| stream.number != number);
        let gone = before - self.open.len();
        self.metrics.follows.open.decrement(gone as f64);
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.metrics.follows.open.decrement(self.open.len() as f64);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let State::Waiting(abort) = &self.state {
            abort.abort();
        }
    }
}

/// A page fits into a frame.
fn bounds(limits: &Limits) -> PageBounds {
    PageBounds {
        count: usize::try_from(limits.page_messages_max).unwrap_or(usize::MAX),
        bytes: page_bytes(limits),
        cell_bytes: CELL_BYTES,
    }
}
