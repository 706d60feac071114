//! Digests: what is compared in place of entries.
//!
//! Owns: the digest of an entry. Promises: equal entries have equal digests whatever the order of their names, on every
//! machine and in every version. Must not: be taken for a proof against an attacker.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// XXH3 of an entry's JSON without blanks and with its names in order; in a history 16 hexadecimal digits. A tombstone
/// has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub u64);

impl Digest {
    /// That of an entry.
    pub fn of(entry: &Value) -> Digest {
        // serde_json's map is sorted by name, so its text is canonical.
        Digest(xxh3_64(entry.to_string().as_bytes()))
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Digest, String> {
        let read = u64::from_str_radix(&text, 16);
        let read = read.map(Digest).ok().filter(|_| text.len() == 16);
        read.ok_or_else(|| format!("a digest has 16 hexadecimal digits, not {text:?}"))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        format!("{:016x}", digest.0)
    }
}

/// What stands in place of a content: of an entry or its digest; 0 is a tombstone.
pub(crate) fn content(entry: Option<&Value>, digest: Option<Digest>) -> u64 {
    let known = digest.or_else(|| entry.map(Digest::of));
    known.map_or(0, |Digest(content)| content)
}

/// What a message is found by: IDs are unique for each sender. Two of a timeline with one key are one message; of ten
/// million, two would collide by chance in one of 400,000 histories.
pub(crate) fn key(sender: &str, message_id: &str) -> u64 {
    xxh3_64_with_seed(message_id.as_bytes(), xxh3_64(sender.as_bytes()))
}
