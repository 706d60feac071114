//! What is pushed only if it is asked for, and never stored as a push: signals, presence, members, receipts.
//!
//! Owns: the lanes of a watched timeline, in which such pushes wait for a few seconds. Promises: a push is encoded once
//! in each form and shared; a reader that is too slow misses the oldest and holds nothing of its own; a timeline where
//! nobody asked for a lane has none. Must not: read the store, or know a wire or a socket.

mod lanes;
mod membership;
mod pace;
mod presence;
mod ring;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::mailbox::{Mailbox, Who};
use super::topic::fresh::FORMS_MAX;
use crate::timeline::{Columns, MemberRow, Standing};

pub use lanes::Pulled;
pub(super) use lanes::{Due, Following, Lanes, Sent};
pub use membership::Receipt;
pub use pace::Pace;
pub(super) use presence::Presence;
pub use presence::{Names, Online};
pub use tideline_model::timelines::Lane;

pub(super) const LANES: usize = Lane::ALL.len();

/// The lanes that a subscription asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct With(u8);

impl FromIterator<Lane> for With {
    fn from_iter<I: IntoIterator<Item = Lane>>(lanes: I) -> With {
        lanes.into_iter().fold(With::default(), With::and)
    }
}

impl With {
    /// With one lane more.
    #[must_use]
    pub fn and(self, lane: Lane) -> With {
        With(self.0 | 1 << lane as u8)
    }

    /// Whether this lane is among them.
    #[must_use]
    pub fn has(self, lane: Lane) -> bool {
        self.0 & 1 << lane as u8 != 0
    }

    /// Whether it asks about members, or how far they have read.
    #[must_use]
    pub fn asks_membership(self) -> bool {
        self.has(Lane::Members) || self.has(Lane::Receipts)
    }

    /// Without what is stored: the lanes alone.
    #[must_use]
    pub(super) fn lanes(self) -> With {
        With(self.0 & !(1 << Lane::Parts as u8))
    }

    /// None was asked for.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether some lane is in both.
    pub(super) fn meets(self, other: With) -> bool {
        self.0 & other.0 != 0
    }
}

/// A push that is never stored, shared by all its readers.
#[derive(Debug)]
pub struct Ephemeral {
    /// What it says.
    pub body: Body,
    made: Instant,
    /// The connection that sent it and does not get it back.
    from: Option<Weak<Mailbox>>,
    frames: [OnceLock<Bytes>; FORMS_MAX],
    _held: Held,
}

/// What an ephemeral push says.
#[derive(Debug)]
pub enum Body {
    /// A user's signal.
    Signal {
        /// The sender.
        who: Arc<Who>,
        /// What was sent.
        columns: Columns,
    },
    /// Users that came and went.
    Presence {
        /// How many users are online.
        online: usize,
        /// The users that came and went since the push before; `None` = too many to name.
        names: Option<Names>,
    },
    /// Members that changed.
    Members {
        /// The version and the number of members behind it.
        standing: Standing,
        /// Each with what is stored of them now, `None` = they have left; `None` of all = too many to name.
        changes: Option<Vec<(String, Option<MemberRow>)>>,
    },
    /// Members that have read.
    Receipts {
        /// `None` = too many at the moment.
        receipts: Option<Vec<Receipt>>,
    },
}

impl Body {
    /// The same without what makes it long.
    fn in_short(self) -> Body {
        match self {
            signal @ Body::Signal { .. } => signal,
            Body::Presence { online, .. } => Body::Presence {
                online,
                names: None,
            },
            Body::Members { standing, .. } => Body::Members {
                standing,
                changes: None,
            },
            Body::Receipts { .. } => Body::Receipts { receipts: None },
        }
    }

    /// About what it holds in memory, two encoded forms included.
    fn weight(&self) -> usize {
        let texts = match self {
            Body::Signal { columns, .. } => tideline_model::json_bytes(columns),
            Body::Presence { names, .. } => names.as_ref().map_or(0, Names::bytes),
            Body::Members { changes, .. } => {
                let of = |(user, row): &(String, Option<MemberRow>)| {
                    let row = row.as_ref();
                    let attributes = row.map(|row| tideline_model::json_bytes(&row.attributes));
                    user.len() + attributes.map_or(0, |bytes| bytes + ROW_BYTES)
                };
                changes.iter().flatten().map(of).sum()
            }
            Body::Receipts { receipts } => {
                let all = receipts.iter().flatten();
                all.map(|receipt| receipt.user.len() + ROW_BYTES).sum()
            }
        };
        768 + 3 * texts
    }
}

impl Ephemeral {
    /// The push frame in a form (a number below [`FORMS_MAX`]), made by `encode` for the first reader.
    pub fn frame(&self, form: usize, encode: impl FnOnce(&Body) -> Bytes) -> Bytes {
        self.frames[form].get_or_init(|| encode(&self.body)).clone()
    }

    fn is_from(&self, mailbox: &Arc<Mailbox>) -> bool {
        let from = self.from.as_ref();
        from.is_some_and(|from| std::ptr::eq(from.as_ptr(), Arc::as_ptr(mailbox)))
    }
}

/// The bytes that the ephemeral pushes of all timelines hold, and how many subscriptions ask about members.
#[derive(Clone, Debug, Default)]
pub(super) struct Total(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Total {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether somebody asks about members, or how far they have read.
    pub(super) fn asks_membership(&self) -> bool {
        self.1.load(Ordering::SeqCst) > 0
    }

    /// Whether a push is to be kept whole.
    fn has_room(&self, body: &Body) -> bool {
        self.bytes() + body.weight() <= TOTAL_BYTES_MAX
    }

    fn make(&self, body: Body, from: Option<&Arc<Mailbox>>, now: Instant) -> Ephemeral {
        let held = Held::of(&self.0, body.weight());
        Ephemeral {
            body,
            made: now,
            from: from.map(Arc::downgrade),
            frames: Default::default(),
            _held: held,
        }
    }
}

/// A share of a total, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held(Arc<AtomicUsize>, usize);

impl Held {
    pub(super) fn of(total: &Arc<AtomicUsize>, bytes: usize) -> Held {
        total.fetch_add(bytes, Ordering::Relaxed);
        Held(Arc::clone(total), bytes)
    }

    pub(super) fn bytes(&self) -> usize {
        self.1
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// Numbers, names and a role of a member in a push, about.
const ROW_BYTES: usize = 160;
/// At so many bytes of all timelines together, signals are dropped and presence is without names.
const TOTAL_BYTES_MAX: usize = 32 << 20;
/// How long a push waits for slow readers, and a user who has left counts as online.
pub(super) const LINGER: Duration = Duration::from_secs(5);
/// Changes gather this long before the first push after a pause.
const GATHER: Duration = Duration::from_millis(100);
/// Between two pushes of what gathers in a timeline.
const INTERVAL: Duration = Duration::from_secs(1);
/// Signals of one timeline a second.
const SIGNALS_PER_SECOND: u32 = 20;
