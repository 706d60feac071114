//! The rows and keys of timelines, for `tests/fuzz`.
//!
//! Owns: what is asked of a row that was read. Promises: a row that is read is the same when it is written and read
//! again. Must not: need a store.

use super::MemberRow;
use super::inbox::follower::FollowerRow;
use super::marks::row::Sums;
use super::members::change_row::ChangeRow;
use super::members::settings_row::SettingsRow;
use super::rows::head::HeadRow;
use super::rows::stored::{IdRow, MetaRow, message, outline};
use super::rows::tables::{Name, incarnation_of};
use super::time::due::Due;
use super::time::schedule::sender_and_id;
use super::time::scheduled_row::ScheduledRow;
use super::unread::gone::Counts;
use tideline_base::faults::Decoder;

pub(crate) const TARGETS: &[Decoder] = &[("timeline_rows", rows), ("timeline_keys", keys)];

/// Reads a row as each of the types, and what comes out once more. Texts are compared: a number that is none differs
/// from itself.
macro_rules! come_back {
    ($input:expr, $($row:ident)+) => {$(
        if let Ok(row) = $row::decode($input) {
            let again = row.encode().finish(1);
            let again = $row::decode(&again).expect("what was written");
            assert_eq!(format!("{again:?}"), format!("{row:?}"));
        }
    )+};
}
pub(crate) use come_back;

fn rows(input: &[u8]) {
    come_back!(input, HeadRow MetaRow ChangeRow MemberRow FollowerRow SettingsRow ScheduledRow);
    if let Ok(whole) = message(1, input, None) {
        let columns: Vec<String> = whole
            .entry
            .iter()
            .flatten()
            .map(|one| one.0.clone())
            .collect();
        let picked = message(1, input, Some(&columns)).expect("what was read whole");
        assert_eq!(format!("{picked:?}"), format!("{whole:?}"));
        if let Ok(outline) = outline(input) {
            assert_eq!(
                (outline.sender, outline.deleted),
                (&*whole.sender, whole.deleted)
            );
        }
    }
    if let Ok(row) = IdRow::decode(input) {
        let again = IdRow::encode(row.sequence, row.hash);
        let again = IdRow::decode(&again.finish(row.timestamp.cast_signed()));
        assert_eq!(again, Ok(row));
    }
    let _ = Sums::decode(input);
    for level in 0..2 {
        let _ = Counts::decode(level, input);
    }
}

fn keys(input: &[u8]) {
    if let Ok(due) = Due::of(input) {
        let _ = (due.kind(), due.incarnation().is_ok(), due.name.text());
    }
    if let Ok(name) = Name::of(input)
        && let Ok(text) = name.text()
    {
        assert_eq!(Name::new(&text).as_bytes(), name.as_bytes());
    }
    let _ = (sender_and_id(input), incarnation_of(input).is_ok());
}
