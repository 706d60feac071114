//! Timelines that are subscribed together, on their way into the reply and into pushes.
//!
//! Owns: what of them is not read yet, and how much of it fills a frame. Promises: each begins or is refused for
//! itself; at most one frame's part of a subscribe is in memory. Must not: know sockets, or which places are still
//! wanted.

use std::sync::Arc;

use bytes::Bytes;

use crate::Shared;
use crate::dispatch::shape::page_bytes;
use crate::dispatch::subscribe::{Asked, Room, quietly, subscribe};
use tideline_model::timelines::Grown;
use tideline_timelines::feed::{ChangeReader, Subscription, Watch};
use tideline_wire::timelines::sync::{Start, SubscribedOne};
use tideline_wire::{Reason, events};

/// Names a place for a subscription; the generation differs from that of later ones in the same slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Opening {
    pub(in super::super) slot: u32,
    pub(in super::super) generation: u64,
}

/// What waits in the session for the answer of a call, and may begin then.
pub(in super::super) enum Opened {
    /// A place, and what is to follow it there.
    Place(Opening, Option<Subscription>),
    /// What is not read yet.
    Rest(Box<Rest>),
    /// A stream of changes; without a reader it was refused.
    Stream(u64, Option<Box<ChangeReader>>),
    /// The channels of a command of the Centrifuge dialect.
    Command(Vec<OpenedChannel>),
}

/// A channel that a command of the Centrifuge dialect was to subscribe to.
pub(in super::super) struct OpenedChannel {
    pub(in super::super) at: Opening,
    pub(in super::super) name: Arc<str>,
    /// `None` = it is refused.
    pub(in super::super) subscription: Option<Subscription>,
    /// The push by which a client that has not asked for it learns of it.
    pub(in super::super) push: Option<Bytes>,
}

/// Timelines that were subscribed together and are not read yet.
pub(in super::super) struct Rest {
    pub(in super::super) shared: Arc<Shared>,
    pub(in super::super) asked: Asked,
    pub(in super::super) wanted: std::vec::IntoIter<Wanted>,
    /// The client does not hear of those where nothing is new.
    pub(in super::super) is_quiet: bool,
    /// An event's ID grows by about so many bytes in one frame.
    pub(in super::super) id_bytes_max: usize,
}

/// One of them: its place, or why it is refused.
pub(in super::super) struct Wanted {
    pub(in super::super) timeline: String,
    pub(in super::super) place: Result<(Opening, Watch, Start), Reason>,
}

/// Timelines that were read, and those that were not yet.
pub(in super::super) type Filled = (Vec<Part>, Option<Box<Rest>>);

/// One timeline's part of the reply or of a push.
pub(in super::super) struct Part {
    pub(in super::super) timeline: String,
    /// `None` = there is nothing to tell.
    pub(in super::super) shown: Option<SubscribedOne>,
    /// It begins without a position: the client named none, and its device has none stored.
    pub(in super::super) is_new: bool,
    /// `None` = it was refused before it had a place.
    pub(in super::super) at: Option<Opening>,
    pub(in super::super) subscription: Option<Subscription>,
}

/// Refuses what waited for a reply that the client does not get: it has no subscriptions then, and must not get pushes.
pub(in super::super) fn take_back(opened: Vec<Opened>) -> impl Iterator<Item = Opened> {
    opened.into_iter().flat_map(|one| match one {
        Opened::Place(at, _) => vec![Opened::Place(at, None)],
        Opened::Stream(number, _) => vec![Opened::Stream(number, None)],
        Opened::Rest(rest) => {
            let places = rest.wanted.filter_map(|wanted| wanted.place.ok());
            places.map(|(at, ..)| Opened::Place(at, None)).collect()
        }
        other => vec![other],
    })
}

impl Rest {
    /// Reads as many as fill a frame, at least one.
    pub(in super::super) async fn fill(mut self: Box<Self>) -> Filled {
        let bytes_max = page_bytes(&self.shared.options.limits);
        let mut bytes = bytes_max;
        let mut parts = Vec::new();
        let mut id_bytes = 0;
        while bytes > PART_BYTES
            && parts.len() < PARTS_MAX
            && id_bytes < self.id_bytes_max
            && let Some(wanted) = self.wanted.next()
        {
            let room = Room {
                bytes: bytes - PART_BYTES,
                first_anyway: bytes == bytes_max,
            };
            let part = self.part(wanted, room).await;
            bytes = bytes.saturating_sub(part.bytes());
            if part.says_place() {
                id_bytes += events::place_bytes(&part.timeline);
            }
            let is_cut = part.is_cut();
            parts.push(part);
            if is_cut {
                break;
            }
        }
        let rest = (self.wanted.len() > 0).then_some(self);
        (parts, rest)
    }

    async fn part(&self, Wanted { timeline, place }: Wanted, room: Room) -> Part {
        let mut part = Part {
            timeline,
            shown: None,
            is_new: false,
            at: None,
            subscription: None,
        };
        let (at, mut watch, start) = match place {
            Ok(place) => place,
            Err(reason) => {
                part.shown = Some(SubscribedOne::Refused { reason });
                return part;
            }
        };
        part.at = Some(at);
        part.is_new = start.after.is_none();
        if self.is_quiet {
            watch = match quietly(&self.shared, &self.asked, &start, watch).await {
                Ok(subscription) => {
                    part.subscription = Some(subscription);
                    return part;
                }
                Err(watch) => watch,
            };
        }
        part.shown = match subscribe(&self.shared, &self.asked, start, watch, room).await {
            Ok((subscribed, subscription)) => {
                part.subscription = subscription;
                Some(SubscribedOne::Subscribed(Box::new(subscribed)))
            }
            Err(failure) => match failure.reason {
                // It was not asked for by name, and a user who may not read it must not learn of it.
                Reason::TimelineNotFound if self.is_quiet => None,
                reason => Some(SubscribedOne::Refused { reason }),
            },
        };
        part
    }
}

impl Part {
    /// Whether a stream of events says the client's place in it. It also does so where nothing is there yet: a client
    /// that comes back gets what has come since.
    pub(super) fn says_place(&self) -> bool {
        self.shown.is_some() || self.is_new
    }

    /// Nothing of what it has had room.
    fn is_cut(&self) -> bool {
        match &self.shown {
            Some(SubscribedOne::Subscribed(one)) => {
                let is_empty = one.messages.is_empty() && one.grown.is_empty();
                one.more && is_empty && one.changed.iter().all(Vec::is_empty)
            }
            _ => false,
        }
    }

    fn bytes(&self) -> usize {
        let subscribed = match &self.shown {
            Some(SubscribedOne::Subscribed(subscribed)) => subscribed,
            Some(SubscribedOne::Refused { .. }) => return PART_BYTES,
            None => return 0,
        };
        let changed = subscribed.changed.iter().flatten();
        let messages = subscribed.messages.iter().chain(changed);
        let grown = subscribed.grown.iter();
        let grown: usize = grown.map(|one| Grown::json_bytes_max(&one.text)).sum();
        PART_BYTES + grown + messages.map(|one| one.encoded_bytes_max()).sum::<usize>()
    }
}

/// Names, numbers and epoch of a part; the timeline's ID is in it twice.
const PART_BYTES: usize = 1_400;
/// Of many that have nothing to tell; others want their turn.
const PARTS_MAX: usize = 1_000;
