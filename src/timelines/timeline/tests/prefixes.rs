//! One level of names against a model made of plain strings.
//!
//! Owns: random names, some of timelines that were deleted or are hidden from the asker, walked in pages of all sizes.
//! Promises: whatever is hidden, what is shown is what the same names without the hidden ones give. Must not: know how
//! names are walked.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::access::{append, key, rules, target, user};
use super::commands::{World, directory, runtime};
use crate::timeline::{Behind, Level, LevelEntry, SettingsPatch};
use tideline_model::access::{Asker, Right};

/// What becomes of a timeline after it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Shown,
    Deleted,
    /// Only members may read it.
    Hidden,
}

#[derive(Clone, Debug)]
struct Query {
    prefix: String,
    delimiter: String,
    limit: usize,
}

fn name() -> impl Strategy<Value = String> {
    // Beside what covers it, what its right does not cover; a delimiter at either end, twice, and before other bytes.
    "[ab/é!]{1,5}".prop_map(|rest| format!("x{rest}"))
}

fn names() -> impl Strategy<Value = Vec<(String, Fate)>> {
    let fate = prop_oneof![
        4 => Just(Fate::Shown),
        1 => Just(Fate::Deleted),
        1 => Just(Fate::Hidden),
    ];
    let others = prop::sample::select(vec!["w/1", "y", "z/b/1"]);
    let other = others.prop_map(|name: &str| (name.to_owned(), Fate::Shown));
    prop::collection::vec(prop_oneof![9 => (name(), fate), 1 => other], 1..40)
}

fn query() -> impl Strategy<Value = Query> {
    let prefix = "(|x|y|x[ab/é!]{1,2})";
    let delimiter = prop::sample::select(vec!["/", "a", "ab", "é"]);
    (prefix, delimiter, 1usize..6).prop_map(|(prefix, delimiter, limit)| Query {
        prefix,
        delimiter: delimiter.to_owned(),
        limit,
    })
}

/// What a level shows of these names.
fn model(names: &BTreeSet<String>, query: &Query) -> Vec<LevelEntry> {
    let mut entries: Vec<LevelEntry> = Vec::new();
    for name in names.iter().filter(|name| name.starts_with(&query.prefix)) {
        let rest = &name[query.prefix.len()..];
        let entry = match rest.split_once(&query.delimiter) {
            Some((first, _)) => LevelEntry {
                name: format!("{}{first}{}", query.prefix, query.delimiter),
                is_prefix: true,
            },
            None => LevelEntry {
                name: name.clone(),
                is_prefix: false,
            },
        };
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    entries
}

async fn pages(world: &World, asker: &Asker, query: &Query) -> Vec<LevelEntry> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let level = Level {
            asker: asker.clone(),
            prefix: query.prefix.clone(),
            delimiter: query.delimiter.clone(),
            after,
            limit: query.limit,
            bytes_max: 200,
        };
        let page = world.timelines.level(level).await.unwrap();
        assert!(page.entries.len() <= query.limit);
        let last = page.entries.last().map(|entry| entry.name.clone());
        match (&page.next, last) {
            (Some(Behind::Entry(name)), Some(last)) => assert_eq!(*name, last),
            (Some(Behind::Name(_)), None) | (None, _) => {}
            other => panic!("{other:?}"),
        }
        all.extend(page.entries);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_level_is_what_the_names_alone_say(
        names in names(),
        queries in prop::collection::vec(query(), 12),
    ) {
        let directory = directory();
        runtime().block_on(async {
            let world = World::open(directory.path(), 3);
            let (timelines, rules) = (&world.timelines, rules());
            let back_end = key(&rules, "*", &[Right::Admin]);
            let ann = user(&rules, "ann", "x*", &[Right::Read]);
            let (mut all, mut of_ann) = (BTreeSet::new(), BTreeSet::new());
            for (name, fate) in names {
                if all.contains(&name) || append(timelines, &back_end, &name).await.is_err() {
                    continue;
                }
                let target = target(&back_end, &name, &[Right::Manage]);
                match fate {
                    Fate::Shown => {}
                    Fate::Deleted => drop(timelines.delete(target).await.unwrap()),
                    Fate::Hidden => {
                        let only = SettingsPatch {
                            members_only: Some(Some(true)),
                            ..SettingsPatch::default()
                        };
                        timelines.configure(target, only, None).await.unwrap();
                    }
                }
                if fate == Fate::Shown && name.starts_with('x') {
                    of_ann.insert(name.clone());
                }
                if fate != Fate::Deleted {
                    all.insert(name);
                }
            }
            for query in &queries {
                let shown = pages(&world, &back_end, query).await;
                assert_eq!(shown, model(&all, query), "{query:?}");
                let shown = pages(&world, &Asker::default(), query).await;
                assert_eq!(shown, model(&all, query), "{query:?}");
                let shown = pages(&world, &ann, query).await;
                assert_eq!(shown, model(&of_ann, query), "{query:?}");
            }
        });
    }
}
