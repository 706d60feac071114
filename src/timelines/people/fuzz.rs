//! What lies at people, and the cursors that they bring back, for `tests/fuzz`.
//!
//! Owns: cursors whose seal is right and whose content is anybody's. Promises: a row or cursor that is read is the same
//! when it is written and read again. Must not: need a store.

use std::fmt::Debug;
use std::sync::LazyLock;

use super::conversations::conversation_row::ConversationRow;
use super::cursor::{Behind, Issuer, Older, Read, Since};
use super::devices::stored::{DeviceRow, PlaceRow};
use super::feeds::follows::Follow;
use super::feeds::jobs::Found;
use crate::timeline::fuzz::come_back;
use tideline_base::faults::Decoder;
use tideline_base::ids::HistoryId;
use tideline_store::partition::Seal;

pub(crate) const TARGETS: &[Decoder] = &[("people_rows", rows), ("people_cursors", cursors)];

fn rows(input: &[u8]) {
    come_back!(input, ConversationRow Follow PlaceRow DeviceRow);
    let at = input.len() / 2;
    let _ = Found::decode(&input[..at], &input[at..]);
}

fn cursors(input: &[u8]) {
    static SEAL: LazyLock<Seal> = LazyLock::new(|| Seal::for_tests(true));
    let issuer = Issuer {
        user: "ada",
        history: HistoryId([7; 16]),
        seal: &SEAL,
    };
    if let Ok(text) = std::str::from_utf8(input) {
        assert!(!matches!(Since::read(issuer, text), Read::Here(_)));
    }
    let Some((kind, payload)) = input.split_first() else {
        return;
    };
    let text = issuer.text(kind % 4, payload);
    comes_back(Behind::read(issuer, &text), |one| {
        Behind::read(issuer, &one.text(issuer))
    });
    comes_back(Older::read(issuer, &text), |one| {
        Older::read(issuer, &one.text(issuer))
    });
    // Two places of one partition, which nobody is given, become one.
    let _ = Since::read(issuer, &text);
}

fn comes_back<T: Debug + PartialEq>(read: Read<T>, again: impl FnOnce(&T) -> Read<T>) {
    if let Read::Here(one) = &read {
        assert_eq!(again(one), read);
    }
}
