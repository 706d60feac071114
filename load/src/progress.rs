//! What a person sees while a run goes on: the stage, how far it is, how fast.
//!
//! Owns: the progress line on standard error. Promises: silent with `--quiet` and without a terminal. Must not: write
//! to standard output, which is for results.

use std::cell::Cell;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

/// A progress line.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    began: Cell<Instant>,
    /// The count at the last look, and when that was.
    last: Cell<(Instant, u64)>,
}

impl Progress {
    /// A line that is not shown yet.
    #[must_use]
    pub fn new(quiet: bool) -> Progress {
        let (hidden, now) = (ProgressBar::hidden(), Instant::now());
        let bar = if quiet { hidden } else { ProgressBar::new(1) };
        // The template is a constant that parses; without it the plain bar does.
        if let Ok(style) = ProgressStyle::with_template("{prefix:10} {bar:30} {msg}") {
            bar.set_style(style);
        }
        let (began, last) = (Cell::new(now), Cell::new((now, 0)));
        Progress { bar, began, last }
    }

    /// A stage of so many seconds begins.
    pub fn stage(&self, name: &str, seconds: f64) {
        self.bar.set_prefix(name.to_owned());
        self.bar.set_length((seconds.max(0.0) * 1_000.0) as u64);
        self.began.set(Instant::now());
    }

    /// Time went by; `count` operations so far.
    pub fn tick(&self, count: u64) {
        let now = Instant::now();
        let (then, before) = self.last.replace((now, count));
        let rate = count.saturating_sub(before) as f64 / (now - then).as_secs_f64().max(0.001);
        let passed = (now - self.began.get()).as_millis() as u64;
        self.bar.set_position(passed);
        self.tell(&format!("{rate:.0}/s, {count} so far"));
    }

    /// Says what is going on.
    pub fn tell(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
