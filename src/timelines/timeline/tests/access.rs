//! Rights at the timelines, with identities made by hand: each refusal beside an allowed twin.
//!
//! Owns: these cases. Promises: a hidden timeline and one that is not there get the same error, whatever the call, its
//! epoch or its conditions. Must not: know how an identity comes about.

use std::sync::Arc;

use super::commands::{World, directory, runtime};
use crate::timeline::{
    AddMembers, Append, AppendOne, Create, EntryLimits, Error, List, NewMember, Range,
    RemoveMembers, Resume, SettingsPatch, SyncAsker, SyncPosition, SyncState, Target, Timelines,
    UpdateMember, UpdateMessage,
};
use tideline_model::Value;
use tideline_model::access::{
    Asker, Claim, CurrentRules, Grants, Identity, PolicyRights, Right, Rights, Rules, Who,
};

fn rights(list: &[Right]) -> Rights {
    list.iter().copied().collect()
}

/// Rooms: others nothing, members read and append, owners all, guests nothing.
pub(super) fn rules() -> Arc<CurrentRules> {
    let all = [Right::Edit, Right::Moderate, Right::Members, Right::Manage];
    let owner = rights(&[Right::Read, Right::Append]).or(rights(&all));
    let roles = [("owner", owner), ("guest", Rights::NONE)];
    let policy = PolicyRights {
        prefix: "room/".to_owned(),
        others: Rights::NONE,
        members: rights(&[Right::Read, Right::Append, Right::Edit]),
        roles: roles.map(|(role, rights)| (role.to_owned(), rights)).into(),
        creator: Some("owner".to_owned()),
    };
    Arc::new(CurrentRules::new(Rules::new(
        Grants::default(),
        vec![policy],
    )))
}

pub(super) fn user(rules: &Arc<CurrentRules>, name: &str, on: &str, given: &[Right]) -> Asker {
    let identity = Identity {
        who: Who::User(name.into()),
        for_user: None,
        grants: Arc::new(grants(on, given)),
    };
    Asker::with_claim(
        Arc::new(Claim::new(identity, Arc::clone(rules), None)),
        Rights::NONE,
    )
}

pub(super) fn key(rules: &Arc<CurrentRules>, on: &str, given: &[Right]) -> Asker {
    let identity = Identity {
        who: Who::Key {
            id: "id".into(),
            name: "shop".into(),
        },
        for_user: None,
        grants: Arc::new(grants(on, given)),
    };
    Asker::with_claim(
        Arc::new(Claim::new(identity, Arc::clone(rules), None)),
        Rights::NONE,
    )
}

fn grants(on: &str, given: &[Right]) -> Grants {
    let text = tideline_model::access::GrantText {
        on: on.to_owned(),
        allow: given.iter().map(|right| right.name().to_owned()).collect(),
    };
    Grants::parse(&[text], tideline_model::access::GrantsFrom::Key).unwrap()
}

pub(super) fn target(asker: &Asker, timeline: &str, needs: &[Right]) -> Target {
    Target {
        asker: asker.needing(rights(needs)),
        ..Target::from(timeline)
    }
}

pub(super) async fn append(
    timelines: &Timelines,
    asker: &Asker,
    timeline: &str,
) -> Result<String, Error> {
    let append = Append {
        timeline: timeline.to_owned(),
        asker: asker.needing(rights(&[Right::Append])),
        messages: vec![AppendOne::default()],
        expect_head: None,
        create: true,
        epoch: None,
    };
    timelines.append(append).await.map(|(_, epoch)| epoch)
}

fn member(user: &str, role: &str) -> NewMember {
    NewMember {
        user: user.to_owned(),
        role: Some(role.to_owned()),
        attributes: Vec::new(),
        visible_from: None,
        read: None,
    }
}

async fn add(
    timelines: &Timelines,
    asker: &Asker,
    timeline: &str,
    new: NewMember,
) -> Result<u64, Error> {
    let add = AddMembers {
        target: target(asker, timeline, &[Right::Members]),
        members: vec![new],
        history: None,
        announce: None,
    };
    timelines.add_members(add).await.map(|done| done.changed)
}

/// What became of a call, as a client tells it apart.
fn said<T>(outcome: Result<T, Error>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(Error::TimelineNotFound) => "timeline_not_found",
        Err(Error::NoRight) => "forbidden",
        Err(Error::MemberNotFound) => "member_not_found",
        Err(Error::ConditionFailed { .. }) => "condition_failed",
        Err(Error::EpochChanged { .. }) => "epoch_changed",
        Err(other) => panic!("{other:?}"),
    }
}

fn range(asker: &Asker, timeline: &str, epoch: Option<&str>) -> Range {
    Range {
        asker: asker.needing(rights(&[Right::Read])),
        timeline: timeline.to_owned(),
        from: None,
        to: None,
        limit: 10,
        bytes_max: 1 << 20,
        backward: false,
        columns: None,
        epoch: epoch.map(str::to_owned),
    }
}

#[test]
fn a_hidden_timeline_is_one_that_is_not_there() {
    let directory = directory();
    runtime().block_on(async {
        let world = World::open(directory.path(), 2);
        let (timelines, rules) = (&world.timelines, rules());
        let back_end = key(&rules, "*", &[Right::Admin]);
        append(timelines, &back_end, "room/1").await.unwrap();
        add(timelines, &back_end, "room/1", member("ann", "member"))
            .await
            .unwrap();
        let (ann, eve) = (user(&rules, "ann", "x", &[]), user(&rules, "eve", "x", &[]));
        for timeline in ["room/1", "room/none"] {
            let missing = timeline == "room/none";
            let of_ann = |there: &'static str| if missing { "timeline_not_found" } else { there };
            for epoch in [None, Some("other")] {
                let read = timelines.range(range(&eve, timeline, epoch)).await;
                assert_eq!(said(read), "timeline_not_found");
                let read = timelines.range(range(&ann, timeline, epoch)).await;
                let there = if epoch.is_some() {
                    "epoch_changed"
                } else {
                    "ok"
                };
                assert_eq!(said(read), of_ann(there));
            }
            // A right that she has not, on what she may read, and on what is not there.
            let trim = timelines
                .trim(target(&ann, timeline, &[Right::Manage]), 1)
                .await;
            assert_eq!(said(trim), of_ann("forbidden"));
            let trim = timelines
                .trim(target(&eve, timeline, &[Right::Manage]), 1)
                .await;
            assert_eq!(said(trim), "timeline_not_found");
            let patch = SettingsPatch::default();
            let configure = target(&eve, timeline, &[Right::Manage]);
            let configured = timelines.configure(configure, patch, Some(77)).await;
            assert_eq!(
                said(configured),
                "timeline_not_found",
                "before its condition"
            );
            assert_eq!(
                said(append(timelines, &eve, timeline).await),
                "timeline_not_found"
            );
            assert_eq!(said(append(timelines, &ann, timeline).await), of_ann("ok"));
        }
        // Deleting answers as for one that is not there.
        let delete = |asker| timelines.delete(target(asker, "room/1", &[Right::Manage]));
        assert!(!delete(&eve).await.unwrap());
        assert_eq!(said(delete(&ann).await), "forbidden");
        assert!(delete(&back_end).await.unwrap());
    });
}

#[test]
fn sync_says_forbidden_and_lists_leave_out() {
    let directory = directory();
    runtime().block_on(async {
        let world = World::open(directory.path(), 2);
        let (timelines, rules) = (&world.timelines, rules());
        let back_end = key(&rules, "*", &[Right::Admin]);
        for name in ["news/1", "news/2", "room/1", "zoo"] {
            append(timelines, &back_end, name).await.unwrap();
        }
        let ann = user(&rules, "ann", "news/*", &[Right::Read]);
        let states = async |asker: &Asker| {
            let position = |timeline| SyncPosition {
                timeline,
                after: 0,
                epoch: None,
                changes_after: None,
                open: &[],
                rewind: None,
            };
            let names = ["news/1", "news/none", "room/1", "room/none"];
            let asker = SyncAsker {
                asker,
                is_member: false,
                limit: 10,
            };
            let positions = names.map(position);
            let synced = timelines.sync(&positions, asker, 1 << 20, 0);
            let (synced, _) = synced.await.unwrap();
            let state = |name: &str| {
                let one = synced.iter().find(|one| one.timeline == name);
                one.map(|one| one.state)
            };
            names.map(state)
        };
        let forbidden = Some(SyncState::Forbidden);
        let expected = [Some(SyncState::Ok), None, forbidden, forbidden];
        assert_eq!(states(&ann).await, expected);
        let all = [Some(SyncState::Ok), None, Some(SyncState::Ok), None];
        assert_eq!(states(&back_end).await, all);
        let listed = async |asker: &Asker, limit| {
            let (mut names, mut after) = (Vec::new(), None);
            loop {
                let list = List {
                    asker: asker.needing(rights(&[Right::Read])),
                    prefix: String::new(),
                    after,
                    limit,
                    bytes_max: 1 << 20,
                };
                let page = timelines.list(list).await.unwrap();
                let is_empty = page.timelines.is_empty();
                names.extend(page.timelines.into_iter().map(|info| info.timeline));
                after = page.next;
                if after.is_none() {
                    return names;
                }
                let shown = names.last().cloned();
                assert!(is_empty || after == shown, "next names what was shown");
            }
        };
        for limit in [1, 10] {
            assert_eq!(listed(&ann, limit).await, ["news/1", "news/2"]);
            let all = ["news/1", "news/2", "room/1", "zoo"];
            assert_eq!(listed(&back_end, limit).await, all);
        }
        assert!(listed(&user(&rules, "eve", "x", &[]), 10).await.is_empty());
    });
}

#[test]
fn nobody_gives_or_takes_more_than_they_have() {
    let directory = directory();
    runtime().block_on(async {
        let world = World::open(directory.path(), 2);
        let (timelines, rules) = (&world.timelines, rules());
        let makes = [Right::Read, Right::Create, Right::Members];
        let ann = user(&rules, "ann", "room/*", &makes);
        let create = |asker: &Asker, members, settings| Create {
            target: target(asker, "room/1", &[Right::Create]),
            meta: Vec::new(),
            settings,
            members,
            implicit: false,
        };
        let only = SettingsPatch {
            members_only: Some(Some(true)),
            ..SettingsPatch::default()
        };
        // As the creator, in the role of creators, she may set members and settings.
        let bob = member("bob", "owner");
        let made = timelines.create(create(&ann, vec![bob], only)).await;
        assert_eq!(said(made), "ok");
        let role = |user: &'static str| {
            let asked = timelines.member(target(&ann, "room/1", &[]), user.to_owned());
            async move { asked.await.map(|row| row.role).ok() }
        };
        assert_eq!(role("ann").await.as_deref(), Some("owner"));
        assert_eq!(role("bob").await.as_deref(), Some("owner"));
        // A policy without a role for creators: she has what she has.
        let plain = Arc::new(CurrentRules::new(Rules::default()));
        let cleo = user(&plain, "cleo", "hall/*", &makes);
        let hall = |members, settings| Create {
            target: target(&cleo, "hall/1", &[Right::Create]),
            ..create(&cleo, members, settings)
        };
        assert_eq!(
            said(timelines.create(hall(vec![], only)).await),
            "forbidden"
        );
        let made = timelines.create(hall(vec![member("cleo", "x")], SettingsPatch::default()));
        assert_eq!(said(made.await), "ok");
        // A user that has `members` from the token only can't make anybody, or themselves, an owner.
        let dan = user(
            &rules,
            "dan",
            "room/*",
            &[Right::Read, Right::Append, Right::Members],
        );
        let added = add(timelines, &ann, "room/1", member("dan", "guest")).await;
        assert_eq!(said(added), "ok");
        assert_eq!(
            said(add(timelines, &dan, "room/1", member("x", "owner")).await),
            "forbidden"
        );
        assert_eq!(
            said(add(timelines, &dan, "room/1", member("x", "guest")).await),
            "ok"
        );
        let update = |asker: &Asker, user: &str, role: &str| UpdateMember {
            target: target(asker, "room/1", &[Right::Members]),
            user: user.to_owned(),
            role: Some(role.to_owned()),
            set: Vec::new(),
            remove: Vec::new(),
            expect_version: None,
        };
        assert_eq!(
            said(timelines.update_member(update(&dan, "dan", "owner")).await),
            "forbidden"
        );
        assert_eq!(
            said(timelines.update_member(update(&dan, "bob", "guest")).await),
            "forbidden"
        );
        assert_eq!(
            said(timelines.update_member(update(&ann, "bob", "guest")).await),
            "ok"
        );
        let remove = |asker: &Asker, user: &str| RemoveMembers {
            target: target(asker, "room/1", &[Right::Members]),
            users: vec![user.to_owned()],
            announce: None,
        };
        assert_eq!(
            said(timelines.remove_members(remove(&dan, "ann")).await),
            "forbidden"
        );
        // Bob may not even read any more, and leaves all the same; nobody else does that for him without the right.
        let bob = user(&rules, "bob", "x", &[]);
        assert_eq!(
            said(timelines.remove_members(remove(&bob, "x")).await),
            "timeline_not_found"
        );
        assert_eq!(
            said(timelines.remove_members(remove(&bob, "bob")).await),
            "ok"
        );
    });
}

#[test]
fn edits_are_for_ones_own_and_moderation_for_all() {
    let directory = directory();
    runtime().block_on(async {
        let world = World::open(directory.path(), 2);
        let (timelines, rules) = (&world.timelines, rules());
        let writes = [Right::Read, Right::Append, Right::Create, Right::Edit];
        let (ann, ben) = (
            user(&rules, "ann", "hall", &writes),
            user(&rules, "ben", "hall", &writes),
        );
        append(timelines, &ann, "hall").await.unwrap();
        let edit = |asker: &Asker| UpdateMessage {
            asker: asker.needing(rights(&[Right::Edit, Right::Moderate])),
            timeline: "hall".to_owned(),
            sequence: 1,
            set: vec![("a".to_owned(), Value::Integer(1))],
            remove: Vec::new(),
            expect_change: None,
            epoch: None,
            limits: EntryLimits {
                entry_bytes_max: 1 << 20,
                entry_names_max: 128,
            },
        };
        assert_eq!(
            said(timelines.update_message(edit(&ben)).await),
            "forbidden"
        );
        assert_eq!(said(timelines.update_message(edit(&ann)).await), "ok");
        let reads = user(&rules, "ann", "hall", &[Right::Read]);
        assert_eq!(
            said(timelines.update_message(edit(&reads)).await),
            "forbidden"
        );
        let moderates = [Right::Read, Right::Moderate];
        let eve = user(&rules, "eve", "hall", &moderates);
        assert_eq!(said(timelines.update_message(edit(&eve)).await), "ok");
        // Without `read` it is nothing.
        let blind = user(&rules, "eve", "hall", &[Right::Moderate, Right::Edit]);
        assert_eq!(
            said(timelines.update_message(edit(&blind)).await),
            "timeline_not_found"
        );
        // What a key sends for nobody is its own.
        let shop = key(&rules, "hall", &writes);
        append(timelines, &shop, "hall").await.unwrap();
        let message = timelines
            .get_message(target(&ann, "hall", &[]), 2)
            .await
            .unwrap();
        assert_eq!(message.sender, "$key/shop");
        let own = UpdateMessage {
            sequence: 2,
            ..edit(&shop)
        };
        assert_eq!(said(timelines.update_message(own).await), "ok");
        assert_eq!(
            said(timelines.update_message(edit(&shop)).await),
            "forbidden"
        );
    });
}

#[test]
fn a_change_of_rules_counts_for_what_waits_and_for_what_is_due() {
    let directory = directory();
    runtime().block_on(async {
        let world = World::open(directory.path(), 2);
        let (timelines, rules) = (&world.timelines, rules());
        let back_end = key(&rules, "*", &[Right::Admin]);
        append(timelines, &back_end, "hall").await.unwrap();
        let ann = user(&rules, "ann", "x", &[]);
        let resume = || Resume {
            asker: ann.needing(rights(&[Right::Read])),
            timeline: "hall".to_owned(),
            after: Some(0),
            rewind: None,
            epoch: None,
            changes_after: None,
            open: Vec::new(),
            parts: false,
            limit: 10,
            bytes_max: 1 << 20,
        };
        assert_eq!(said(timelines.resume(resume()).await), "timeline_not_found");
        let policy = PolicyRights {
            others: rights(&[Right::Read]),
            ..PolicyRights::default()
        };
        rules.replace(Rules::new(Grants::default(), vec![policy]));
        assert_eq!(said(timelines.resume(resume()).await), "ok");
        assert_eq!(said(append(timelines, &ann, "hall").await), "forbidden");
        // A claim that has ended gives nothing to what was prepared before.
        let prepared = resume();
        ann.claim().unwrap().end();
        assert_eq!(said(timelines.resume(prepared).await), "timeline_not_found");
    });
}
