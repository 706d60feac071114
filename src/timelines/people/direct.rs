//! The ID of the direct conversation of two users.
//!
//! Owns: its text, and how it is made. Promises: two users have one ID, whichever of them asks, and no other two have
//! it. Must not: make the conversation; the timelines do.
//!
//! ```text
//! direct/ANN/BEN        both names in their order, `/` and `%` in them as %2F and %25
//! direct//HASH          if that is too long for an ID: of both names, the hexadecimal SHA-256
//! ```

use sha2::{Digest as _, Sha256};

use super::People;
use crate::timeline::DIRECT;

impl People {
    /// The ID of the conversation of these two.
    #[must_use]
    pub fn direct_id(user: &str, other: &str) -> String {
        id_of(user, other)
    }
}

/// Bytes of an ID.
const ID_BYTES_MAX: usize = 255;

/// The ID of these two.
pub(super) fn id_of(one: &str, other: &str) -> String {
    let (first, second) = (one.min(other), one.max(other));
    let escaped = |name: &str| name.replace('%', "%25").replace('/', "%2F");
    let id = format!("{DIRECT}{}/{}", escaped(first), escaped(second));
    if id.len() <= ID_BYTES_MAX {
        return id;
    }
    let mut hash = Sha256::new();
    // No name holds a control character.
    hash.update([first, "\0", second].concat());
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{DIRECT}/{digits}")
}

/// The other user of a direct conversation of `user`; `None` if the ID is of none, or is a hash and names nobody.
pub(super) fn peer_of(id: &str, user: &str) -> Option<String> {
    let (first, second) = id.strip_prefix(DIRECT)?.split_once('/')?;
    let plain = |name: &str| name.replace("%2F", "/").replace("%25", "%");
    let (first, second) = (plain(first), plain(second));
    let peer = if first == user { second } else { first };
    (id_of(user, &peer) == id).then_some(peer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_users_have_one_id_and_no_others(
            names in prop::collection::vec("[ab/%2F5]{1,5}|\\PC{1,40}", 4),
        ) {
            let [a, b, c, d] = [&names[0], &names[1], &names[2], &names[3]];
            prop_assert_eq!(id_of(a, b), id_of(b, a));
            prop_assert!(id_of(a, b).len() <= ID_BYTES_MAX);
            let same = (a == c && b == d) || (a == d && b == c);
            prop_assert_eq!(id_of(a, b) == id_of(c, d), same);
            if a != b && !id_of(a, b).starts_with("direct//") {
                prop_assert_eq!(peer_of(&id_of(a, b), a), Some(b.clone()));
                prop_assert_eq!(peer_of(&id_of(a, b), b), Some(a.clone()));
            }
        }
    }

    #[test]
    fn long_names_and_other_timelines() {
        let (a, b) = ("x".repeat(128), "/".repeat(128));
        assert_eq!(id_of(&a, &b).len(), 72);
        assert_eq!(peer_of("direct/ann/ben", "ann").as_deref(), Some("ben"));
        for other in [
            "direct/ann",
            "direct/ben/ann",
            "room",
            "direct/ann/ben/c",
            "direct//12",
        ] {
            assert_eq!(peer_of(other, "ann"), None, "{other}");
        }
    }
}
