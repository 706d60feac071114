//! From the timelines' types to the wire's.
//!
//! Owns: which field becomes which. Promises: moves or borrows, never copies, what a message holds. Must not: decide
//! anything.

use std::borrow::Cow;

use crate::people;
use crate::timeline::{self, Burial, Reaction, Refused};
use crate::wire::messages::message::Message;
use crate::wire::messages::reaction::Reactions;
use crate::wire::push::ReactedMessage;
use crate::wire::timelines::settings::{Edit, EditBy, FanOut, Retention, Settings, SettingsPatch};
use crate::wire::timelines::sync::State;
use crate::wire::{self, Columns, Entry, Failure, Integers, Limits, Reason};

/// A message; `integers`: how its big integers are written.
pub(crate) fn message(from: timeline::Message, integers: Integers) -> Message<'static> {
    let expired = from.burial == Some(Burial::Expired);
    let (recalled_by, reason) = match from.burial {
        Some(Burial::Recalled { by, reason }) => (Some(by.into()), Some(reason.into())),
        _ => (None, None),
    };
    Message {
        sequence: from.sequence,
        timestamp: from.timestamp,
        message_id: from.message_id.into(),
        sender: (!from.sender.is_empty()).then_some(from.sender.into()),
        hidden: from.hidden,
        deleted: from.entry.is_none(),
        entry: from.entry.map(|columns| entry(columns, integers)),
        change: (from.change != 0).then_some(from.change),
        edited_at: from.edited_at,
        recalled_by,
        reason: reason.filter(|reason: &Cow<'_, str>| !reason.is_empty()),
        expired,
        expires_at: from.expires_at,
        pinned: from.pinned,
        reactions: from
            .reactions
            .filter(|all| !all.by_name.is_empty())
            .map(|all| reactions(all.by_name)),
    }
}

/// A message that others hold too.
pub(in super::super) fn shared_message(
    from: &timeline::Message,
    integers: Integers,
) -> Message<'_> {
    let (recalled_by, reason) = match &from.burial {
        Some(Burial::Recalled { by, reason }) => (Some(by.as_str()), Some(reason.as_str())),
        _ => (None, None),
    };
    Message {
        sequence: from.sequence,
        timestamp: from.timestamp,
        message_id: from.message_id.as_str().into(),
        sender: (!from.sender.is_empty()).then_some(from.sender.as_str().into()),
        hidden: from.hidden,
        deleted: from.entry.is_none(),
        entry: from.entry.as_deref().map(|columns| Entry {
            columns: Cow::Borrowed(columns),
            integers,
        }),
        change: (from.change != 0).then_some(from.change),
        edited_at: from.edited_at,
        recalled_by: recalled_by.map(Cow::Borrowed),
        reason: reason
            .filter(|reason| !reason.is_empty())
            .map(Cow::Borrowed),
        expired: from.burial == Some(Burial::Expired),
        pinned: from.pinned,
        reactions: from
            .reactions
            .as_ref()
            .filter(|all| !all.by_name.is_empty())
            .map(|all| shared_reactions(&all.by_name)),
        expires_at: from.expires_at,
    }
}

/// Reactions.
pub(in super::super) fn reactions(from: Vec<Reaction>) -> Reactions<'static> {
    let one = |reaction: Reaction| {
        let users = reaction.users.into_iter().map(Cow::Owned).collect();
        let shown = wire::messages::reaction::Reaction {
            count: reaction.count,
            users,
            mine: reaction.mine,
        };
        (reaction.name.into(), shown)
    };
    from.into_iter().map(one).collect()
}

/// Reactions that others hold too.
pub(in super::super) fn shared_reactions(from: &[Reaction]) -> Reactions<'_> {
    fn one(reaction: &Reaction) -> (Cow<'_, str>, wire::messages::reaction::Reaction<'_>) {
        let users = reaction.users.iter();
        (
            Cow::Borrowed(reaction.name.as_str()),
            wire::messages::reaction::Reaction {
                count: reaction.count,
                users: users.map(|user| Cow::Borrowed(user.as_str())).collect(),
                mine: reaction.mine,
            },
        )
    }
    from.iter().map(one).collect()
}

/// What a reader gets of a message that has new reactions and is otherwise as it was.
pub(in super::super) fn shared_reacted(from: &timeline::Message) -> ReactedMessage<'_> {
    let by_name = from.reactions.as_ref().map(|all| all.by_name.as_slice());
    ReactedMessage {
        sequence: from.sequence,
        change: from.change,
        reactions: shared_reactions(by_name.unwrap_or_default()),
    }
}

/// Messages.
pub(in super::super) fn messages(
    from: Vec<timeline::Message>,
    integers: Integers,
) -> Vec<Message<'static>> {
    let one = |from| message(from, integers);
    from.into_iter().map(one).collect()
}

/// An entry or a meta.
pub(crate) fn entry(columns: Columns, integers: Integers) -> Entry<'static> {
    Entry {
        columns: Cow::Owned(columns),
        integers,
    }
}

/// A timeline.
pub(crate) fn info(
    from: timeline::TimelineInfo,
    integers: Integers,
) -> wire::timelines::timeline::Info {
    wire::timelines::timeline::Info {
        timeline: from.timeline,
        epoch: from.head.epoch,
        meta: entry(from.meta, integers),
        version: from.version,
        head: from.head.head,
        floor: from.head.floor,
        change_head: from.head.change_head,
        created_at: from.created_at,
        updated_at: from.updated_at,
        last_at: from.last_at,
        settings: settings(&from.configured.settings),
        settings_version: from.configured.version,
        members_count: from.members,
    }
}

/// Settings, with the defaults of those that neither timeline nor policy has.
pub(in super::super) fn settings(from: &timeline::Settings) -> Settings {
    let kept = from.retention.unwrap_or_default();
    let edit = from.edit.unwrap_or_default();
    Settings {
        retention: Retention {
            age_ms: kept.age_ms,
            messages: kept.messages,
            bytes: kept.bytes,
        },
        members_only: from.members_only.unwrap_or(false),
        fan_out: match from.fan_out.unwrap_or_default() {
            timeline::FanOut::Read => FanOut::Read,
            timeline::FanOut::Write => FanOut::Write,
            timeline::FanOut::Auto => FanOut::Auto,
        },
        fan_out_members_max: from
            .fan_out_members_max
            .unwrap_or(timeline::FAN_OUT_MEMBERS_MAX),
        edit: Edit {
            by: match edit.by {
                timeline::EditBy::Anyone => EditBy::Anyone,
                timeline::EditBy::Sender => EditBy::Sender,
            },
            window_ms: edit.window_ms,
        },
    }
}

/// A change of settings.
pub(crate) fn settings_patch(from: SettingsPatch) -> timeline::SettingsPatch {
    let SettingsPatch {
        retention,
        members_only,
        fan_out,
        fan_out_members_max,
        edit,
    } = from;
    let kept = |kept: Retention| timeline::Kept {
        age_ms: kept.age_ms,
        messages: kept.messages,
        bytes: kept.bytes,
    };
    let fan_out_of = |fan_out| match fan_out {
        FanOut::Read => timeline::FanOut::Read,
        FanOut::Write => timeline::FanOut::Write,
        FanOut::Auto => timeline::FanOut::Auto,
    };
    let edit_of = |edit: Edit| timeline::Edit {
        by: match edit.by {
            EditBy::Anyone => timeline::EditBy::Anyone,
            EditBy::Sender => timeline::EditBy::Sender,
        },
        window_ms: edit.window_ms,
    };
    timeline::SettingsPatch {
        retention: retention.map(|retention| retention.map(kept)),
        members_only,
        fan_out: fan_out.map(|fan_out| fan_out.map(fan_out_of)),
        fan_out_members_max,
        edit: edit.map(|edit| edit.map(edit_of)),
    }
}

/// A member.
pub(crate) fn member(
    user: String,
    row: timeline::MemberRow,
    integers: Integers,
) -> wire::timelines::member::Member {
    wire::timelines::member::Member {
        user,
        role: row.role,
        attributes: entry(row.attributes, integers),
        visible_from: row.visible_from,
        joined_at: row.joined_at,
        read: row.read,
        received: row.received,
        version: row.version,
    }
}

/// A scheduled message.
pub(crate) fn scheduled(
    from: timeline::Scheduled,
    integers: Integers,
) -> wire::messages::schedule::Scheduled {
    let refused = from.refused;
    wire::messages::schedule::Scheduled {
        scheduled: from.message_id,
        deliver_at: from.deliver_at,
        expires_in_ms: from.expires_in_ms,
        entry: entry(from.entry, integers),
        reason: refused.map(|(reason, _)| match reason {
            Refused::TimelineNotFound => Reason::TimelineNotFound,
            Refused::EpochChanged => Reason::EpochChanged,
            Refused::Forbidden => Reason::Forbidden,
        }),
        refused_at: refused.map(|(_, at_ms)| at_ms),
    }
}

/// A device.
pub(crate) fn device(from: people::Device) -> wire::people::position::Device {
    wire::people::position::Device {
        device: from.device,
        used_at: from.used_at,
        positions: from.positions,
    }
}

/// How far a device is.
pub(crate) fn place(from: people::Place) -> wire::people::position::Place {
    wire::people::position::Place {
        epoch: from.epoch,
        after: from.after,
        changes_after: from.changes_after,
    }
}

/// The change number that a reader of this page may store: what it was sent reaches that far, not always to the last
/// one.
pub(super) fn change_head(from: &timeline::Changed) -> u64 {
    match from.state {
        // Of the other history, which the reader is to start anew.
        timeline::ResumeState::EpochChanged => from.head.change_head,
        timeline::ResumeState::Ok | timeline::ResumeState::TooOld => from.change_position,
    }
}

/// How a resume went.
pub(super) fn resume_state(from: timeline::ResumeState) -> State {
    match from {
        timeline::ResumeState::Ok => State::Ok,
        timeline::ResumeState::TooOld => State::TooOld,
        timeline::ResumeState::EpochChanged => State::EpochChanged,
    }
}

/// How a position of a sync was answered.
pub(super) fn sync_state(from: timeline::SyncState) -> State {
    match from {
        timeline::SyncState::Ok => State::Ok,
        timeline::SyncState::TooOld => State::TooOld,
        timeline::SyncState::EpochChanged => State::EpochChanged,
        timeline::SyncState::Deleted => State::Deleted,
        timeline::SyncState::New => State::New,
        timeline::SyncState::Forbidden => State::Forbidden,
    }
}

/// What an entry may not pass after an update.
pub(super) fn entry_limits(limits: &Limits) -> timeline::EntryLimits {
    timeline::EntryLimits {
        entry_bytes_max: limits.entry_bytes_max,
        entry_names_max: ENTRY_NAMES_MAX,
    }
}

/// Names in one entry; part of the protocol, not of the configuration.
const ENTRY_NAMES_MAX: u64 = 128;

/// A limit as a length in memory.
pub(in super::super) fn size(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// About how many bytes of stored messages make a reply that stays below the outbound frame.
pub(in super::super) fn page_bytes(limits: &Limits) -> usize {
    size(limits.outbound_frame_bytes_max) / 4
}

/// An answer that should hold one thing and holds none: an error of ours.
pub(in super::super) fn missing() -> Failure {
    wire::Reason::InternalError.into()
}
