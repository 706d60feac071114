//! What nodes say of themselves, as bytes.
//!
//! Owns: a beat's JSON. Promises: what is not one is dropped. Must not: decide who is believed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tideline_base::ids::{HistoryId, Position};
use tideline_cluster::Beat;

/// No beat is longer.
const BYTES_MAX: usize = 1_024;

#[derive(Serialize, Deserialize)]
struct Said {
    log: String,
    began: u64,
    node: String,
    #[serde(default)]
    boot: u64,
    term: u64,
    is_owner: bool,
    stored: u64,
    #[serde(default)]
    covered: u64,
    stalled_ms: u64,
    #[serde(default)]
    owner_silent_ms: Option<u64>,
    #[serde(default)]
    can_own: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<String, String>,
    wall_ms: u64,
}

pub(crate) fn encode(beat: &Beat) -> Vec<u8> {
    let said = Said {
        log: beat.log.to_string(),
        began: beat.began.0,
        node: beat.node.clone(),
        boot: beat.boot,
        term: beat.term,
        is_owner: beat.is_owner,
        stored: beat.stored.0,
        covered: beat.covered.0,
        stalled_ms: beat.stalled_ms,
        owner_silent_ms: beat.owner_silent_ms,
        can_own: beat.can_own,
        settings: beat.settings.clone(),
        wall_ms: beat.wall_ms,
    };
    serde_json::to_vec(&said).unwrap_or_default()
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Beat> {
    let bytes = Some(bytes).filter(|bytes| bytes.len() <= BYTES_MAX)?;
    let said: Said = serde_json::from_slice(bytes).ok()?;
    Some(Beat {
        log: HistoryId::parse(&said.log)?,
        began: Position(said.began),
        node: said.node,
        boot: said.boot,
        term: said.term,
        is_owner: said.is_owner,
        stored: Position(said.stored),
        covered: Position(said.covered),
        stalled_ms: said.stalled_ms,
        owner_silent_ms: said.owner_silent_ms,
        can_own: said.can_own,
        settings: said.settings,
        wall_ms: said.wall_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_comes_back_and_anything_else_is_dropped() {
        let beat = Beat {
            log: HistoryId([3; 16]),
            began: Position(1),
            node: "n1".to_owned(),
            boot: u64::MAX,
            term: 4,
            is_owner: true,
            stored: Position(99),
            covered: Position(98),
            stalled_ms: 3,
            owner_silent_ms: Some(7),
            can_own: true,
            settings: BTreeMap::from([("policy".to_owned(), "0".repeat(32))]),
            wall_ms: 1_700_000_000_000,
        };
        let bytes = encode(&beat);
        assert_eq!(decode(&bytes), Some(beat));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None);
        }
        assert_eq!(decode(&[b' '; 2_000]), None);
    }
}
