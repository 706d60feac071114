//! The texts by which a client goes on: where the next page of a list or feed begins, and since when a sync asks.
//!
//! Owns: their bytes. Promises: a text of another user, or one that nobody gave, is refused; one of another history of
//! the data is known as such; they stay below 4 KiB. Must not: be kept by the server.
//!
//! ```text
//! text  = base64url( check (8 bytes: a seal on all that follows, for the user), kind (1), history (8), payload )
//! list  = pinned (1), activity (8), timeline
//! feed  = timestamp (8), sequence (8), inbox (8), timeline
//! sync  = made at (8, ms), flags (1: all come, 2: until, 4: numbered), count (2), places, [places until], after
//! place = [partition (2), if numbered; else they are those from 0 on] position (8)
//! ```

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

use tideline_base::ids::{HistoryId, PartitionId, Position};
use tideline_table::Seal;

/// Where the next page of a list begins: behind this conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    pub(super) pinned: bool,
    pub(super) activity: u64,
    pub(super) timeline: String,
}

/// Where the next page of a feed begins: behind this message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Older {
    pub(super) timestamp: u64,
    pub(super) timeline: String,
    pub(super) sequence: u64,
    /// The highest entry of the inbox that has not been looked at, or was not given.
    pub(super) inbox: u64,
}

/// A place in the log of each partition.
pub(super) type Ends = BTreeMap<PartitionId, Position>;

/// Since when a sync asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Since {
    /// When the first of it was made, ms.
    pub(super) made_at: u64,
    /// All come: the client had nothing, or nothing that counts.
    pub(super) is_all: bool,
    /// Of each partition: what is above it is news.
    pub(super) since: Ends,
    /// Where the next sync begins, once this one is done; empty before its first page.
    pub(super) until: Ends,
    /// Up to this name all came.
    pub(super) after: String,
}

/// What a client's text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read<T> {
    /// What was given.
    Here(T),
    /// Of another history of the data.
    Elsewhere,
    /// Not a text that this user was given.
    Wrong,
}

/// A client with an older cursor begins anew: rows of memberships that ended before are not kept for it.
pub(super) const CURSOR_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1_000;

const LIST: u8 = 1;
const SYNC: u8 = 2;
const FEED: u8 = 3;
const ALL: u8 = 1;
const UNTIL: u8 = 2;
const NUMBERED: u8 = 4;
const CHECK_BYTES: usize = 8;

/// Whose text it is, and what it is sealed with.
#[derive(Clone, Copy)]
pub(super) struct Issuer<'i> {
    pub(super) user: &'i str,
    pub(super) history: HistoryId,
    pub(super) seal: &'i Seal,
}

impl Issuer<'_> {
    fn check(&self, rest: &[u8]) -> [u8; CHECK_BYTES] {
        self.seal.tag(&format!("cursor {}", self.user), rest)
    }

    /// The check of cursors from before there were seals. It finds mistakes, and anybody can make it.
    fn check_of_before(&self, rest: &[u8]) -> [u8; CHECK_BYTES] {
        let hashed = [self.user.as_bytes(), &[0], rest].concat();
        xxhash_rust::xxh3::xxh3_64(&hashed).to_be_bytes()
    }

    fn history_bytes(&self) -> [u8; 8] {
        xxhash_rust::xxh3::xxh3_64(&self.history.0).to_be_bytes()
    }

    pub(super) fn text(&self, kind: u8, payload: &[u8]) -> String {
        let rest = [&[kind][..], &self.history_bytes(), payload].concat();
        URL_SAFE_NO_PAD.encode([&self.check(&rest)[..], &rest].concat())
    }

    /// Takes a text apart; `read` its payload.
    fn open<T>(
        &self,
        kind: u8,
        text: &str,
        read: impl FnOnce(&mut Input<'_>) -> Option<T>,
    ) -> Read<T> {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(text) else {
            return Read::Wrong;
        };
        let Some((found, rest)) = bytes.split_first_chunk::<CHECK_BYTES>() else {
            return Read::Wrong;
        };
        let Some((of, payload)) = rest.get(1..).and_then(|rest| rest.split_first_chunk::<8>())
        else {
            return Read::Wrong;
        };
        if rest[0] != kind {
            return Read::Wrong;
        }
        // Perhaps from another data directory, whose key is not here: it can't be checked, and nothing in it is used.
        if *of != self.history_bytes() {
            return Read::Elsewhere;
        }
        let is_of_before = self.seal.takes_unsealed() && *found == self.check_of_before(rest);
        match is_of_before || bool::from(found[..].ct_eq(&self.check(rest)[..])) {
            true => read(&mut Input(payload)).map_or(Read::Wrong, Read::Here),
            false => Read::Wrong,
        }
    }
}

impl Behind {
    pub(super) fn text(&self, issuer: Issuer<'_>) -> String {
        let mut payload = vec![u8::from(self.pinned)];
        payload.extend_from_slice(&self.activity.to_be_bytes());
        payload.extend_from_slice(self.timeline.as_bytes());
        issuer.text(LIST, &payload)
    }

    pub(super) fn read(issuer: Issuer<'_>, given: &str) -> Read<Behind> {
        issuer.open(LIST, given, |input| {
            Some(Behind {
                pinned: input.take::<1>()?[0] != 0,
                activity: u64::from_be_bytes(input.take()?),
                timeline: input.text()?,
            })
        })
    }
}

impl Older {
    pub(super) fn text(&self, issuer: Issuer<'_>) -> String {
        let numbers = [self.timestamp, self.sequence, self.inbox];
        let mut payload = numbers.map(u64::to_be_bytes).concat();
        payload.extend_from_slice(self.timeline.as_bytes());
        issuer.text(FEED, &payload)
    }

    pub(super) fn read(issuer: Issuer<'_>, given: &str) -> Read<Older> {
        issuer.open(FEED, given, |input| {
            Some(Older {
                timestamp: u64::from_be_bytes(input.take()?),
                sequence: u64::from_be_bytes(input.take()?),
                inbox: u64::from_be_bytes(input.take()?),
                timeline: input.text()?,
            })
        })
    }
}

impl Since {
    pub(super) fn text(&self, issuer: Issuer<'_>) -> String {
        let all = if self.is_all { ALL } else { 0 };
        let until = if self.until.is_empty() { 0 } else { UNTIL };
        let count = u16::try_from(self.since.len()).expect("partitions are counted in u16");
        let mut payload = self.made_at.to_be_bytes().to_vec();
        let numbered = match (0..)
            .map(PartitionId)
            .zip(self.since.keys())
            .all(|(at, id)| at == *id)
        {
            true => 0,
            false => NUMBERED,
        };
        payload.push(all | until | numbered);
        payload.extend_from_slice(&count.to_be_bytes());
        for (partition, position) in self.since.iter().chain(&self.until) {
            if numbered != 0 {
                payload.extend_from_slice(&partition.0.to_be_bytes());
            }
            payload.extend_from_slice(&position.0.to_be_bytes());
        }
        payload.extend_from_slice(self.after.as_bytes());
        issuer.text(SYNC, &payload)
    }

    pub(super) fn read(issuer: Issuer<'_>, given: &str) -> Read<Since> {
        issuer.open(SYNC, given, |input| {
            let made_at = u64::from_be_bytes(input.take()?);
            let [flags] = input.take()?;
            let count = u16::from_be_bytes(input.take()?);
            let is_numbered = flags & NUMBERED != 0;
            let since = input.ends(count, is_numbered)?;
            let until = if flags & UNTIL == 0 { 0 } else { count };
            Some(Since {
                made_at,
                is_all: flags & ALL != 0,
                since,
                until: input.ends(until, is_numbered)?,
                after: input.text()?,
            })
        })
    }
}

/// Bytes that are read from the front.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.0.split_first_chunk::<COUNT>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn ends(&mut self, count: u16, is_numbered: bool) -> Option<Ends> {
        let one = |at| {
            let number = match is_numbered {
                true => u16::from_be_bytes(self.take()?),
                false => at,
            };
            let position = u64::from_be_bytes(self.take()?);
            Some((PartitionId(number), Position(position)))
        };
        (0..count).map(one).collect()
    }

    fn text(&mut self) -> Option<String> {
        let text = String::from_utf8(self.0.to_vec()).ok()?;
        self.0 = &[];
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_come_back_to_their_user_only(
            pinned: bool, is_all: bool, numbers in any::<[u64; 2]>(), timeline in "\\PC{0,60}",
            numbers_of: bool, positions in prop::collection::vec(any::<u64>().prop_map(Position), 1..64),
            has_until: bool, noise: Vec<u8>,
        ) {
            let (seal, other_seal) = (Seal::for_tests(false), Seal::for_tests(true));
            let of = |user| Issuer { user, history: HistoryId([7; 16]), seal: &seal };
            let [activity, made_at] = numbers;
            let behind = Behind { pinned, activity, timeline: timeline.clone() };
            let text = behind.text(of("ada"));
            prop_assert_eq!(Behind::read(of("ada"), &text), Read::Here(behind));
            prop_assert_eq!(Behind::read(of("bob"), &text), Read::Wrong);
            prop_assert_eq!(Since::read(of("ada"), &text), Read::Wrong);
            let positions: Ends = (u16::from(numbers_of)..).map(PartitionId).zip(positions).collect();
            let until = if has_until { positions.clone() } else { Ends::new() };
            let older = Older { timestamp: activity, sequence: made_at, inbox: 7, timeline: timeline.clone() };
            let text = older.text(of("ada"));
            prop_assert_eq!(Older::read(of("ada"), &text), Read::Here(older));
            prop_assert_eq!(Older::read(of("bob"), &text), Read::Wrong);
            prop_assert_eq!(Behind::read(of("ada"), &text), Read::Wrong);
            let since = Since { made_at, is_all, since: positions, until, after: timeline };
            let text = since.text(of("ada"));
            prop_assert!(text.len() <= 4096);
            prop_assert_eq!(Since::read(of("ada"), &text), Read::Here(since.clone()));
            let elsewhere = Issuer { history: HistoryId([8; 16]), ..of("ada") };
            prop_assert_eq!(Since::read(elsewhere, &text), Read::Elsewhere);
            let with_other_key = Issuer { seal: &other_seal, ..of("ada") };
            prop_assert_eq!(Since::read(with_other_key, &text), Read::Wrong);
            // As they were given out before there were seals.
            let mut bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
            let check = of("ada").check_of_before(&bytes[CHECK_BYTES..]);
            bytes[..CHECK_BYTES].copy_from_slice(&check);
            let text_of_before = URL_SAFE_NO_PAD.encode(bytes);
            prop_assert_eq!(Since::read(of("ada"), &text_of_before), Read::Wrong);
            prop_assert_eq!(Since::read(with_other_key, &text_of_before), Read::Here(since));
            prop_assert_eq!(Since::read(of("ada"), &text[1..]), Read::Wrong);
            let noise = URL_SAFE_NO_PAD.encode(noise);
            prop_assert!(!matches!(Since::read(of("ada"), &noise), Read::Here(_)));
        }
    }

    #[test]
    fn the_longest_is_below_4_kib() {
        let positions: Ends = (1..=64)
            .map(|id| (PartitionId(id), Position(u64::MAX)))
            .collect();
        let since = Since {
            made_at: u64::MAX,
            is_all: true,
            since: positions.clone(),
            until: positions,
            after: "x".repeat(255),
        };
        let (history, seal) = (HistoryId([1; 16]), Seal::for_tests(false));
        let issuer = Issuer {
            user: "u",
            history,
            seal: &seal,
        };
        assert!(since.text(issuer).len() <= 4096);
    }
}
