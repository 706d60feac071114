//! What is wrong with a history, in the words of the field.
//!
//! Owns: the names, and which rule each breaks. Promises: all are counted, the first of each name are told with their
//! lines. Must not: judge.

use std::collections::BTreeMap;
use std::fmt;

/// So many violations of a name are told; the rest is counted.
const TOLD_MAX: u64 = 20;

/// Where a record stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Which of the files.
    pub file: u32,
    /// Which line, from 1 on; 0 = none.
    pub line: u32,
}

macro_rules! anomalies {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// What can be wrong. The rules are V1 to V9 of `docs/LOAD.md`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Anomaly {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Anomaly {
            /// All of them.
            pub const ALL: &[Anomaly] = &[$(Anomaly::$variant,)+];

            /// As it is told.
            pub fn name(self) -> &'static str {
                match self {
                    $(Anomaly::$variant => $name,)+
                }
            }
        }
    };
}

anomalies! {
    /// V1, V5, V6: a sequence is missing.
    Gap = "gap",
    /// V1, V5, V6: a message is there twice, or comes again without a subscription from further back.
    Duplicate = "duplicate",
    /// V1, V4, V5, V6: later came first; or what was acknowledged before another was sent stands behind it.
    Reordered = "reordered",
    /// V2: acknowledged or shown, and not there.
    Lost = "lost",
    /// V2: acknowledged or shown at another sequence than it has.
    Misplaced = "misplaced",
    /// V2, V5, V6: other bytes, or another time, than were sent, acknowledged or stored.
    Corrupt = "corrupt",
    /// V3: nobody sent it.
    Unexpected = "unexpected",
    /// V3: a refused write is there.
    G1a = "G1a",
    /// Operations write over each other in a circle.
    G0 = "G0",
    /// Operations read each other's writes in a circle.
    G1c = "G1c",
    /// V6: a read lacks what was acknowledged before it began.
    Stale = "stale",
    /// V6: a session sees less than it saw.
    NonMonotonic = "non-monotonic",
    /// V1: times of a timeline go back.
    TimeReversal = "time-reversal",
    /// V7: done or refused against its condition.
    WrongCondition = "wrong-condition",
    /// V8: two nodes store different things.
    Diverged = "diverged",
    /// V9: an unread count differs from the model's.
    WrongUnread = "wrong-unread",
    /// V9: a read position is not what was set.
    WrongMark = "wrong-mark",
    /// V9: a conversation is missing or should not be there.
    WrongList = "wrong-list",
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which kind.
    pub anomaly: Anomaly,
    /// In words.
    pub what: String,
    /// The records that prove it.
    pub proof: Vec<Place>,
}

/// Why a history can't be checked. It is no violation: whoever wrote the history made a mistake.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A record makes no sense behind those before it.
    #[error("{0}")]
    Record(String),
    /// A file can't be read.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// A line can't be read.
    #[error("{0}:{1}: {2}")]
    Line(String, u32, String),
    /// Nothing says what is stored in the end.
    #[error("there is no final dump: give the lines of `tideline dump DATA` as one more file")]
    NoFinal,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many there are of each.
    pub counts: BTreeMap<Anomaly, u64>,
    /// The first ones of each.
    pub violations: Vec<Violation>,
    /// What was looked at, by its name.
    pub checked: BTreeMap<&'static str, u64>,
    /// The files, in the order of [`Place::file`].
    pub files: Vec<String>,
}

impl Report {
    pub(crate) fn found(&mut self, anomaly: Anomaly, what: impl fmt::Display, proof: &[Place]) {
        let count = self.counts.entry(anomaly).or_default();
        *count += 1;
        if *count <= TOLD_MAX {
            let written = proof.iter().filter(|place| place.line > 0);
            self.violations.push(Violation {
                anomaly,
                what: what.to_string(),
                proof: written.copied().collect(),
            });
        }
    }

    pub(crate) fn looked(&mut self, what: &'static str, count: u64) {
        *self.checked.entry(what).or_default() += count;
    }

    /// A violation in a line: its name, what it is, and where the records are that prove it.
    pub fn text(&self, violation: &Violation) -> String {
        let Violation {
            anomaly,
            what,
            proof,
        } = violation;
        let place = |Place { file, line }: &Place| match self.files.get(*file as usize) {
            Some(name) => format!("{name}:{line}"),
            None => line.to_string(),
        };
        let places = Vec::from_iter(proof.iter().map(place));
        format!("{}: {what} [{}]", anomaly.name(), places.join(", "))
    }

    /// All violations.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

/// A line for each violation that is told, and a summary.
impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(out, "{}", self.text(violation))?;
        }
        let mut between = "checked ";
        for (what, count) in self.checked.iter().filter(|(_, count)| **count > 0) {
            write!(out, "{between}{count} {what}")?;
            between = ", ";
        }
        match self.total() {
            0 => out.write_str(": no violation")?,
            1 => out.write_str(": 1 violation")?,
            total => write!(out, ": {total} violations")?,
        }
        let mut between = " (";
        for (anomaly, count) in &self.counts {
            write!(out, "{between}{} {count}", anomaly.name())?;
            between = ", ";
        }
        out.write_str(if self.counts.is_empty() { "" } else { ")" })
    }
}
