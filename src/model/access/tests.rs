//! The decision against a model that says the rules in another way, and coverage against the decision.
//!
//! Owns: the model. Promises: it is written from the protocol, source by source and right by right. Must not: share a
//! rule with what it tests.

use std::sync::Arc;

use proptest::prelude::*;

use super::pattern::tests::small_text;
use super::rights::tests::any_rights;
use super::*;

fn grants(given: &[(String, Rights)]) -> Grants {
    let mut texts = Vec::new();
    for (on, rights) in given {
        let text = GrantText {
            on: on.clone(),
            allow: rights.iter().map(|right| right.name().to_owned()).collect(),
        };
        if Grants::parse(std::slice::from_ref(&text), GrantsFrom::Key).is_ok() {
            texts.push(text);
        }
    }
    Grants::parse(&texts, GrantsFrom::Key).unwrap()
}

fn policy() -> impl Strategy<Value = PolicyRights> {
    let prefix = prop_oneof![Just(""), Just("a"), Just("a/"), Just("a/b"), Just("b/")];
    let roles = prop::collection::btree_map("[rs]", any_rights(), 0..3);
    (prefix, any_rights(), any_rights(), roles).prop_map(|(prefix, others, members, roles)| {
        PolicyRights {
            prefix: prefix.to_owned(),
            others,
            members,
            roles,
            creator: None,
        }
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    let given = prop::collection::vec((small_text(), any_rights()), 0..2);
    (given, prop::collection::vec(policy(), 0..4)).prop_map(|(given, mut policies)| {
        policies.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        policies.dedup_by(|a, b| a.prefix == b.prefix);
        Rules::new(grants(&given), policies)
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    let given = prop::collection::vec((small_text(), any_rights()), 0..4);
    (given, prop::option::of("[ab]"), any::<bool>()).prop_map(|(given, user, is_key)| {
        let user: Option<Arc<str>> = user.map(Arc::from);
        let who = match (&user, is_key) {
            (Some(user), false) => Who::User(Arc::clone(user)),
            _ => Who::Key {
                id: "k".into(),
                name: "n".into(),
            },
        };
        Identity {
            who,
            for_user: user.filter(|_| is_key),
            grants: Arc::new(grants(&given)),
        }
    })
}

/// The rules of the protocol, one after the other.
fn by_hand(
    identity: &Identity,
    rules: &Rules,
    name: &str,
    membership: Membership<'_>,
    right: Right,
) -> bool {
    let user = identity.user();
    let is_member = membership.role.is_some();
    if membership.members_only && !is_member && user.is_some() {
        return false;
    }
    let has = |right| {
        let mut sources = vec![identity.grants.on(name.as_bytes(), user)];
        if let Who::User(_) = identity.who {
            sources.push(rules.for_users().on(name.as_bytes(), user));
            let mut longest: Option<&PolicyRights> = None;
            for policy in rules.policies() {
                let longer = longest.is_none_or(|one| policy.prefix.len() > one.prefix.len());
                if !name.starts_with('$') && name.starts_with(&policy.prefix) && longer {
                    longest = Some(policy);
                }
            }
            if let Some(policy) = longest {
                sources.push(policy.others);
                if let Some(role) = membership.role {
                    sources.push(*policy.roles.get(role).unwrap_or(&policy.members));
                }
            }
        }
        sources.iter().any(|source| source.has(right))
    };
    let is_own = user.is_some_and(|user| name == format!("$inbox/{user}"));
    let may_read = has(Right::Admin) || has(Right::Read) || is_own;
    match right {
        Right::Read => may_read,
        Right::Edit | Right::Moderate | Right::Members | Right::Manage => {
            has(Right::Admin) || has(right) && may_read
        }
        right => has(Right::Admin) || has(right),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn the_decision_is_that_of_the_protocol(
        identity in identity(), rules in rules(), name in small_text(),
        role in prop::option::of("[rs]"), members_only: bool,
    ) {
        let membership = Membership { role: role.as_deref(), members_only };
        let sum = rights(&identity, &rules, name.as_bytes(), membership);
        let may_read = by_hand(&identity, &rules, &name, membership, Right::Read);
        for right in Right::ALL {
            let allowed = by_hand(&identity, &rules, &name, membership, *right);
            prop_assert_eq!(sum.has(*right), allowed, "{}", right);
            let expected = match (allowed, may_read) {
                (true, _) => Decision::Allowed,
                (false, true) => Decision::Forbidden,
                (false, false) => Decision::Hidden,
            };
            prop_assert_eq!(decide(sum, Rights::NONE.with(*right)), expected);
        }
        let to_read = if may_read { Decision::Allowed } else { Decision::Hidden };
        prop_assert_eq!(decide(sum, Rights::NONE), to_read);
        // A user without membership never has more than as a member of some role adds.
        let outside = Membership { role: None, members_only };
        let fewer = rights(&identity, &rules, name.as_bytes(), outside);
        prop_assert!(sum.covers(fewer));
    }

    #[test]
    fn coverage_is_what_can_be_read_by_name(
        identity in identity(), rules in rules(), names in prop::collection::vec(small_text(), 8),
    ) {
        let coverage = Coverage::of(&identity, &rules);
        for name in names.iter().filter(|name| !name.starts_with("$inbox/")) {
            let by_name = rights(&identity, &rules, name.as_bytes(), Membership::default());
            prop_assert_eq!(coverage.has(name.as_bytes()), by_name.has(Right::Read), "{}", name);
        }
        let ranges: Vec<_> = coverage.ranges().collect();
        for two in ranges.windows(2) {
            prop_assert!(two[0].1.is_some_and(|end| end < two[1].0), "apart and in order");
        }
    }
}

#[test]
fn a_claim_that_is_over_gives_nothing_and_without_one_everything_goes() {
    let rules = Arc::new(CurrentRules::new(Rules::default()));
    let identity = Identity {
        who: Who::User("ann".into()),
        for_user: None,
        grants: Arc::new(grants(&[("*".to_owned(), Rights::NONE.with(Right::Read))])),
    };
    let claim = Arc::new(Claim::new(identity, rules, None));
    let asker = Asker::with_claim(Arc::clone(&claim), Rights::NONE.with(Right::Append));
    let decide = |asker: &Asker| asker.decide(asker.rights(b"room", Membership::default()));
    assert_eq!(decide(&asker), Decision::Forbidden);
    assert_eq!(decide(&asker.needing(Rights::NONE)), Decision::Allowed);
    claim.end();
    assert_eq!(decide(&asker.needing(Rights::NONE)), Decision::Hidden);
    assert_eq!(decide(&Asker::from("ann")), Decision::Allowed);
    assert_eq!((asker.user(), asker.sender()), ("ann", "ann"));
}
