//! An export of timelines that change while it goes on, held against the model of timelines.
//!
//! Owns: a reader that does what `tideline export` does, a few rows at a time, and random commands between its steps.
//! Promises: what it has at the end is what the model has then, of each partition and prefix. Must not: be in a build
//! that is not a test.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::commands::{Command, Epoch, NAMES, World, directory, runtime, step};
use super::virtual_tables::{TABLES, Values, each_partition, named, rows};
use tideline_base::ids::PartitionId;
use tideline_model::{FoundRow, KeyValue};
use tideline_store::partition::Partitions;
use tideline_table::Exported;

#[derive(Clone, Debug)]
enum Act {
    Command(usize, Epoch, Command),
    Flush,
    Settle,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        30 => step().prop_map(|(name, epoch, command)| Act::Command(name, epoch, command)),
        1 => Just(Act::Flush),
        1 => Just(Act::Settle),
    ]
}

async fn run(world: &mut World, acts: &mut impl Iterator<Item = Act>, count: usize) {
    for act in acts.take(count) {
        match act {
            Act::Command(name, epoch, command) => world.run(NAMES[name], epoch, command).await,
            Act::Flush => each_partition(&world.partitions, Partitions::rotate).await,
            Act::Settle => each_partition(&world.partitions, Partitions::settle).await,
        }
    }
}

/// Reads the rows of a partition, `pace` at a time, while acts go on.
async fn export(
    world: &mut World,
    acts: &mut impl Iterator<Item = Act>,
    (table, partition, prefix): (usize, PartitionId, Option<&str>),
    pace: usize,
) -> BTreeMap<Values, FoundRow> {
    let described = world.tables.describe(TABLES[table]).await.unwrap();
    let (mut copy, mut start, mut position) = (BTreeMap::new(), None, None);
    loop {
        run(world, acts, 1 + pace).await;
        let from = start.take().map(|key: Values| named(&key));
        let page = world
            .tables
            .export_rows(&described, partition, from, prefix);
        let page: Exported<Vec<FoundRow>> = page.await.unwrap();
        let mut at = position.unwrap_or(page.position);
        let more = page.rows.get(pace).map(|row| row.key.clone());
        let next = more.or(page.next);
        let read = page.rows.into_iter().take(pace);
        copy.extend(read.map(|row| (row.key.clone(), row)));
        loop {
            run(world, acts, pace).await;
            let asked = prefix.map(str::to_owned);
            let page = world
                .tables
                .export_changes(&described, partition, at, asked);
            let page: Exported<Vec<FoundRow>> = page.await.unwrap();
            for below in page.gone_below {
                copy.retain(|key, _| key[0] != below[0] || *key >= below);
            }
            for key in page.gone {
                copy.remove(&key);
            }
            let is_read = |row: &FoundRow| next.as_ref().is_none_or(|next| row.key < *next);
            let changed = page.rows.into_iter().filter(is_read);
            copy.extend(changed.map(|row| (row.key.clone(), row)));
            at = page.position;
            if page.is_last {
                break;
            }
        }
        position = Some(at);
        match next {
            Some(next) => start = Some(next),
            None => return copy,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_export_has_what_the_model_has_at_its_end(
        acts in proptest::collection::vec(act(), 20..200),
        partitions in 1u16..3,
        prefix in prop_oneof![3 => Just(None), 1 => Just(Some("a")), 1 => Just(Some("ab")), 1 => Just(Some(""))],
        paces in proptest::collection::vec(1usize..5, 8),
    ) {
        let dir = directory();
        runtime().block_on(async {
            let mut world = World::open(dir.path(), partitions);
            let mut acts = acts.into_iter();
            run(&mut world, &mut acts, 10).await;
            let mut paces = paces.into_iter().cycle();
            let ids: Vec<PartitionId> = world.partitions.ids().collect();
            for (table, partition) in (0..TABLES.len()).flat_map(|table| ids.iter().map(move |id| (table, *id))) {
                let pace = paces.next().unwrap();
                let found = export(&mut world, &mut acts, (table, partition, prefix), pace).await;
                let mut expected = rows(&world.model, table);
                expected.retain(|key, _| matches!(&key[0], KeyValue::String(name)
                    if world.timelines.place(name) == partition && name.starts_with(prefix.unwrap_or(""))));
                assert_eq!(found, expected);
            }
            world.partitions.close().await;
        });
    }
}
