//! The log family: tail.
//!
//! Owns: the long poll. Promises: it ends at its time, at the first line that is asked for, or when the server drains;
//! a caller that has lost the right meanwhile gets no line; lines of the audit are for administrators. Must not: know
//! what else is logged.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tracing::Level;

use super::super::shape::{page_bytes, size};
use super::super::wait::Wait;
use super::super::{Caller, Shared, Work};
use tideline_base::journal::{Line, Lines, Wanted, journal};
use tideline_model::access::Right;
use tideline_wire::server::log;
use tideline_wire::{Method, Reply};

pub(in super::super) fn tail(shared: &Arc<Shared>, caller: &Caller, request: &log::Tail) -> Work {
    let (mut after, level, limit) = (request.after, request.level, request.limit);
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    let time = Duration::from_millis(request.wait_ms.unwrap_or(0));
    let work = async move {
        let until = Instant::now() + time;
        let wanted = Wanted {
            level: to_level(level),
            audit: caller.may(Right::Admin),
        };
        let bytes_max = page_bytes(&shared.options.limits);
        let mut newest = journal().watch();
        let mut dropped = 0;
        let mut is_over = time.is_zero();
        let mut wait = None;
        loop {
            newest.borrow_and_update();
            let mut read = journal().read(after, wanted, size(limit), bytes_max);
            dropped += read.dropped;
            if is_over || !read.lines.is_empty() {
                read.dropped = dropped;
                caller.check(Method::LogTail)?;
                return Ok(Reply::LogTail(told(read)));
            }
            after = Some(read.next);
            if wait.is_none() {
                wait = Some(Wait::begin(&shared, &caller.asker, 0)?);
            }
            is_over = tokio::select! {
                // The journal lives as long as the process.
                _ = newest.changed() => false,
                () = sleep_until(until) => true,
                () = shared.waits_over.cancelled() => true,
            };
        }
    };
    match time {
        Duration::ZERO => Work::Read(Box::pin(work)),
        _ => Work::Wait(Box::pin(work)),
    }
}

fn told(read: Lines) -> log::Tailed {
    let line = |line: Line| log::Line {
        number: line.number,
        at: line.at,
        level: from_level(line.level),
        target: line.target.to_owned(),
        message: line.message,
        fields: line.fields,
    };
    log::Tailed {
        lines: read.lines.into_iter().map(line).collect(),
        next: read.next,
        dropped: read.dropped,
    }
}

const LEVELS: [(log::Level, Level); 5] = [
    (log::Level::Error, Level::ERROR),
    (log::Level::Warn, Level::WARN),
    (log::Level::Info, Level::INFO),
    (log::Level::Debug, Level::DEBUG),
    (log::Level::Trace, Level::TRACE),
];

fn to_level(level: Option<log::Level>) -> Level {
    let found = LEVELS.iter().find(|(own, _)| Some(*own) == level);
    found.map_or(Level::TRACE, |(_, level)| *level)
}

fn from_level(level: Level) -> log::Level {
    let found = LEVELS.iter().find(|(_, other)| *other == level);
    found.map_or(log::Level::Trace, |(own, _)| *own)
}
