//! From what the feed brings to the messages that go out.
//!
//! Owns: pushes as bytes. Promises: a push is encoded once in each form, from where its messages are, and shared; no
//! message passes the outbound limit unless a single entry does. Must not: decide which reader gets what.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::form::Form;
use tideline_timelines::feed::{self, Body, Fresh, Page, PageFrame};
use tideline_timelines::timeline::{MemberRow, Message, Meta};
use tideline_wire::centrifuge;
use tideline_wire::{Push, push};

/// `message` for a group of fresh messages.
pub(super) fn fresh(timeline: &str, fresh: &Fresh, form: Form) -> Bytes {
    let messages = messages(timeline, fresh);
    form.push(&Push::Message(messages))
}

fn messages<'f>(timeline: &'f str, fresh: &'f Fresh) -> push::Messages<'f> {
    push::Messages {
        timeline: timeline.into(),
        epoch: (*fresh.epoch).into(),
        messages: fresh.messages.iter().map(Cow::Borrowed).collect(),
        head: fresh.head,
    }
}

/// The same for those whose newest message is the one before them: deltas, if that one is still known.
pub(super) fn deltas(timeline: &str, fresh: &Fresh, form: Form) -> Bytes {
    let before = fresh.before();
    let newest = before.as_deref().and_then(|before| before.messages.last());
    match (form.centrifuge, newest) {
        (Some(encoding), Some(newest)) => {
            centrifuge::deltas(encoding, &messages(timeline, fresh), newest)
        }
        _ => self::fresh(timeline, fresh, form),
    }
}

/// `message`, `message.changed` and `reaction` for a page of the store, in as many frames as the limit asks for.
pub(super) fn page(timeline: &str, page: &Page, form: Form, bytes_max: usize) -> Vec<PageFrame> {
    let Page { changed, since, .. } = page;
    let epoch = changed.head.epoch.as_str();
    let mut frames = Vec::new();
    let mut add = |(sequence, change), push| {
        let push = form.push(&push);
        frames.push(PageFrame {
            push,
            sequence,
            change,
        });
    };
    let size = |message: &Cow<'_, Message>| message.encoded_bytes_max();
    let messages = changed.messages.iter().map(Cow::Borrowed);
    let parts = split(messages, size, bytes_max);
    for (messages, next) in with_next(parts, |message| message.sequence) {
        let sequence = next.map_or(changed.position, |next| next - 1);
        let push = push::Messages {
            timeline: timeline.into(),
            epoch: epoch.into(),
            messages,
            head: changed.head.head,
        };
        add((sequence, *since), Push::Message(push));
    }
    let all = changed.changed.as_deref().unwrap_or_default();
    let (reacted, edited): (Vec<&Message>, Vec<_>) =
        all.iter().partition(|message| message.is_reacted(*since));
    // Readers store the number in a push and resume behind it: it must not run ahead of what they were sent. Both kinds
    // come in change order, so it reaches to the first change that is still to be sent.
    let first_reacted = reacted.first().map(|message| message.change);
    let edits = split(edited.into_iter().map(Cow::Borrowed), size, bytes_max);
    for (messages, next) in with_next(edits, |message| message.change) {
        let open = [next, first_reacted].into_iter().flatten().min();
        let change_head = open.map_or(changed.change_position, |open| open - 1);
        let push = push::Changed {
            timeline: timeline.into(),
            epoch: epoch.into(),
            messages,
            change_head,
        };
        add((changed.position, change_head), Push::MessageChanged(push));
    }
    let reacted = reacted.into_iter().map(reacted_of);
    let reactions = split(reacted, push::ReactedMessage::encoded_bytes_max, bytes_max);
    for (messages, next) in with_next(reactions, |message| message.change) {
        let change_head = next.map_or(changed.change_position, |next| next - 1);
        let push = push::Reacted {
            timeline: timeline.into(),
            epoch: epoch.into(),
            messages,
            change_head,
        };
        add((changed.position, change_head), Push::Reaction(push));
    }
    frames
}

/// What a reader gets of a message that has new reactions and is otherwise as it was.
fn reacted_of(message: &Message) -> push::ReactedMessage<'_> {
    let by_name = message.reactions.as_deref();
    let by_name = by_name.map_or(&[][..], |all| &all.by_name);
    push::ReactedMessage {
        sequence: message.sequence,
        change: message.change,
        reactions: Cow::Borrowed(by_name),
    }
}

/// Parts, each with the number of what the next one begins with.
fn with_next<T>(
    parts: Vec<Vec<T>>,
    number: impl Fn(&T) -> u64,
) -> impl Iterator<Item = (Vec<T>, Option<u64>)> {
    let firsts: Vec<_> = parts
        .iter()
        .skip(1)
        .map(|part| part.first().map(&number))
        .collect();
    parts.into_iter().zip(firsts.into_iter().chain([None]))
}

fn split<T>(
    messages: impl Iterator<Item = T>,
    size: impl Fn(&T) -> usize,
    bytes_max: usize,
) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut left = 0;
    for message in messages {
        let size = size(&message);
        match parts.last_mut() {
            Some(part) if size <= left => {
                left -= size;
                part.push(message);
            }
            _ => {
                left = bytes_max.saturating_sub(ENVELOPE_BYTES + size);
                parts.push(vec![message]);
            }
        }
    }
    parts
}

/// `timeline.changed`.
pub(super) fn meta(timeline: &str, meta: Meta, version: u64, form: Form) -> Bytes {
    form.push(&Push::TimelineChanged(push::TimelineChanged {
        timeline: timeline.into(),
        meta: meta.into(),
        version,
    }))
}

/// A push that is asked for by `with`. In `short`: numbers alone, for a reader that has missed what came before.
pub(super) fn ephemeral(timeline: &str, body: &Body, short: bool, form: Form) -> Bytes {
    let timeline = timeline.into();
    form.push(&match body {
        Body::Signal { who, columns } => Push::Signal(push::Signal {
            timeline,
            user: (*who.user).into(),
            device: who.device.as_deref().map(Cow::from),
            signal: columns.into(),
        }),
        Body::Presence { online, names } => {
            let names = names.as_ref().filter(|_| !short);
            Push::Presence(push::Presence {
                timeline,
                online: *online as u64,
                joined: names.map(|names| texts(&names.joined)),
                left: names.map(|names| texts(&names.left)),
            })
        }
        Body::Members { standing, changes } => {
            let changes = changes.as_deref().filter(|_| !short);
            let there =
                |(user, row): &(String, Option<MemberRow>)| Some(row.clone()?.of(user.clone()));
            let gone = |(user, row): &'_ (String, Option<MemberRow>)| {
                row.is_none().then(|| user.clone().into())
            };
            Push::MemberChanged(push::MemberChanged {
                timeline,
                members: changes.map(|changes| changes.iter().filter_map(there).collect()),
                removed: changes.map(|changes| changes.iter().filter_map(gone).collect()),
                version: standing.version,
                members_count: standing.members,
            })
        }
        Body::Receipts { receipts } => {
            let of = |receipt: &feed::Receipt| push::Receipt {
                user: receipt.user.clone().into(),
                read: receipt.read,
                received: receipt.received,
            };
            let receipts = receipts.as_deref().filter(|_| !short);
            Push::Receipt(push::Receipts {
                timeline,
                receipts: receipts.map(|receipts| receipts.iter().map(of).collect()),
            })
        }
    })
}

fn texts(names: &[Arc<str>]) -> Vec<Cow<'_, str>> {
    names.iter().map(|name| Cow::from(&**name)).collect()
}

/// `subscription.ended`.
pub(super) fn ended(timeline: &str, epoch: &str, reason: push::Ended, form: Form) -> Bytes {
    form.push(&Push::SubscriptionEnded(push::SubscriptionEnded {
        timeline: timeline.into(),
        epoch: epoch.into(),
        reason,
        resubscribe: reason.resubscribe(),
    }))
}

/// `draining`.
pub(super) fn draining(reconnect_in_ms: u64, form: Form) -> Bytes {
    let push = push::Draining { reconnect_in_ms };
    form.push(&Push::Draining(push))
}

/// `session.expiring`.
pub(super) fn expiring(in_ms: u64, form: Form) -> Bytes {
    let push = push::SessionExpiring { in_ms };
    form.push(&Push::SessionExpiring(push))
}

/// Around the messages of a push: names, the timeline's ID at its longest and escaped, the epoch.
const ENVELOPE_BYTES: usize = 2_048;
