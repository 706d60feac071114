//! Texts that people and programs write: patterns, rights, addresses, IDs, nested JSON.
//!
//! Owns: nothing. Promises: what was read is written as it came. Must not: decide anything.

use serde_json::value::RawValue;
use tideline_base::decode;
use tideline_base::faults::Decoder;
use tideline_base::ids::HistoryId;
use tideline_model::TransactionId;
use tideline_model::access::{GrantText, Grants, GrantsFrom};
use tideline_model::entry::nested::{check, compact};

pub(crate) const TARGETS: &[Decoder] = &[("grants", grants), ("ids", ids), ("nested_json", nested)];

fn grants(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let said: Vec<GrantText> = match decode::from_str(text) {
        Ok(said) => said,
        Err(_) => text.lines().flat_map(GrantText::from_text).collect(),
    };
    if let Ok(grants) = Grants::parse(&said, GrantsFrom::Key) {
        let again = Grants::parse(&grants.to_texts(), GrantsFrom::Key).expect("what was said");
        for name in [&b"a"[..], b"room/ada", b"$inbox/ada"] {
            assert_eq!(grants.on(name, Some("ada")), again.on(name, Some("ada")));
        }
        assert_eq!(
            grants.ranges(Some("ada")).count(),
            again.ranges(Some("ada")).count()
        );
    }
}

fn ids(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Some(id) = HistoryId::parse(text) {
        assert_eq!(HistoryId::parse(&id.to_string()), Some(id));
    }
    if let Some(id) = TransactionId::parse(text) {
        assert_eq!(TransactionId::parse(&id.to_string()), Some(id));
    }
}

fn nested(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if decode::deeper_than(32, input).is_some() || decode::from_str::<&RawValue>(text).is_err() {
        return;
    }
    let _ = check(text).is_ok();
    if let Ok(short) = compact(text) {
        assert_eq!(compact(&short).as_ref(), Ok(&short));
    }
}
