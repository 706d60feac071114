//! The ID of the direct conversation of two users.
//!
//! Owns: its text, and how it is made. Promises: two users have one ID, whoever asks, and no other two have it. Must
//! not: bring back one who has left, but the caller.
//!
//! ```text
//! direct/ANN/BEN        both names in their order, `/` and `%` in them as %2F and %25
//! direct//HASH          if that is too long for an ID: of both names, the hexadecimal SHA-256
//! ```

use sha2::{Digest as _, Sha256};

use super::People;
use crate::access::{Asker, Decision, Membership};
use crate::timeline::{
    AddMembers, Columns, Create, DIRECT, Error, NewMember, SettingsPatch, Target, TimelineInfo,
};

impl People {
    /// The ID of the conversation of these two.
    #[must_use]
    pub fn direct_id(user: &str, other: &str) -> String {
        id_of(user, other)
    }

    /// Makes the conversation of a user with another, of which both are members and which only they may read; or finds
    /// it, and sees to it that the user is a member. Whether it was made now.
    pub async fn direct(&self, asker: &Asker, other: &str) -> Result<(TimelineInfo, bool), Error> {
        let user = asker.user();
        let id = id_of(user, other);
        match asker.decide(asker.rights(id.as_bytes(), Membership::default())) {
            Decision::Allowed => {}
            Decision::Forbidden => return Err(Error::NoRight),
            Decision::Hidden => return Err(Error::ConversationNotFound),
        }
        let members_only = SettingsPatch {
            members_only: Some(Some(true)),
            ..SettingsPatch::default()
        };
        // As a back end: who has left may not read it.
        let create = Create {
            settings: members_only,
            members: vec![member(user), member(other)],
            ..Create::from(Target::from(id.as_str()))
        };
        let (info, created) = self.timelines.create(create).await?;
        if !created {
            let add = AddMembers {
                target: Target::from(id.as_str()),
                members: vec![member(user)],
                history: None,
                announce: None,
            };
            self.timelines.add_members(add).await?;
        }
        Ok((info, created))
    }
}

fn member(user: &str) -> NewMember {
    NewMember {
        user: user.to_owned(),
        role: None,
        attributes: Columns::new(),
        visible_from: None,
        read: None,
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

/// The user whom a conversation of `user` is with, if its ID says so.
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
