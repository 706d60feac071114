//! Where the relay can be ended as if by a kill, and promises of it that can be broken, for tests. Only in tests and in
//! builds with the feature `faults`.
//!
//! Owns: the names of the points and faults. Promises: nothing changes unless a test's options or, with the feature,
//! the environment variable `TIDELINE_FAULT` name one. Must not: be in a release.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tideline_base::faults::{Named, named};

/// A point between two steps of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Batches were read from the log.
    Read,
    /// What they lead to is derived and in the routes.
    Derived,
    /// A write is queued in a destination; nobody waits for it any more.
    Submitted,
    /// A write is on disk, and the relay has not noted it.
    Answered,
    /// The log's hold was moved.
    Held,
    /// A page of what is made anew is on disk.
    Anew,
}

impl Point {
    /// All of them.
    pub const ALL: [Point; 6] = [
        Point::Read,
        Point::Derived,
        Point::Submitted,
        Point::Answered,
        Point::Held,
        Point::Anew,
    ];

    fn name(self) -> &'static str {
        match self {
            Point::Read => "relay_read",
            Point::Derived => "relay_derived",
            Point::Submitted => "relay_submitted",
            Point::Answered => "relay_answered",
            Point::Held => "relay_held",
            Point::Anew => "relay_anew",
        }
    }
}

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The cursor is moved in a batch before the one that writes.
    CursorFirst,
    /// The cursor is moved and not looked at.
    NoCheck,
}

/// What a test breaks.
#[derive(Debug, Default)]
pub struct Faults {
    /// Where it ends.
    pub point: Option<Point>,
    /// At how many arrivals there from now.
    pub countdown: AtomicU32,
    /// Whether the whole process ends, or only the relay.
    pub aborts: bool,
    /// A control.
    pub broken: Option<Broken>,
    /// Each write is sent twice, as by an owner that was deposed and does not know it.
    pub repeats: bool,
    /// One route has forgotten its cursor.
    pub forgot: AtomicBool,
}

impl Faults {
    /// Whether the relay ends here.
    pub(super) fn ends(&self, point: Point) -> bool {
        if self.point != Some(point) || self.countdown.fetch_sub(1, Ordering::SeqCst) != 1 {
            return false;
        }
        if self.aborts {
            std::process::abort();
        }
        true
    }

    /// Whether a route that opens is to make everything anew, so that the process gets to that point; once.
    pub(super) fn forgets(&self) -> bool {
        self.aborts && self.point == Some(Point::Anew) && !self.forgot.swap(true, Ordering::SeqCst)
    }

    /// What the environment names, in builds that have the feature, between commas: a point and after how many arrivals
    /// there the process aborts, as in `relay_answered:3`; `relay_twice`; or a control, `relay_cursor_first` or
    /// `relay_no_check`.
    pub(super) fn from_environment() -> Faults {
        let mut faults = Faults {
            aborts: true,
            ..Faults::default()
        };
        for Named { name, countdown } in named() {
            match &name[..] {
                "relay_twice" => faults.repeats = true,
                "relay_cursor_first" => faults.broken = Some(Broken::CursorFirst),
                "relay_no_check" => faults.broken = Some(Broken::NoCheck),
                name => {
                    let point = Point::ALL.into_iter().find(|point| point.name() == name);
                    faults.point = faults.point.or(point);
                    faults.countdown = AtomicU32::new(countdown.load(Ordering::SeqCst));
                }
            }
        }
        faults
    }
}
