//! Positions of devices.
//!
//! Owns: a plain map of what `position.set` promises. Promises: it holds with time, flushes, merges and restarts. Must
//! not: know how rows are encoded.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::bed::Bed;
use crate::people::{DEVICES_MAX, DevicePosition, Place, SetPositions};
use crate::timeline::{Error, Limits};
use tideline_base::ids::PartitionId;

const DAY_MS: u64 = 86_400_000;
const START_MS: u64 = 1_700_000_000_000;

fn open(dir: &Path, now_ms: u64) -> Bed {
    let limits = Limits {
        message_id_window_ms: 1,
        message_id_window_count: 1,
        heads_max: 4,
    };
    Bed::open(dir, (1, false), limits, now_ms)
}

impl Bed {
    async fn set(
        &self,
        device: &str,
        timeline: &str,
        place: Place,
        force: bool,
    ) -> Result<Place, Error> {
        let set = SetPositions {
            user: "ada".to_owned(),
            device: device.to_owned(),
            positions: vec![DevicePosition {
                timeline: timeline.to_owned(),
                place,
            }],
            force,
        };
        let mut stored = self.people.set_positions(set).await?;
        Ok(stored.remove(0).place)
    }

    async fn list(&self, device: &str) -> BTreeMap<String, Place> {
        let (mut all, mut after) = (BTreeMap::new(), None);
        loop {
            let listed = self.people.positions("ada", device.to_owned(), after, 300);
            let (page, is_all) = listed.await.unwrap();
            after = page.last().map(|one| one.timeline.clone());
            all.extend(page.into_iter().map(|one| (one.timeline, one.place)));
            if is_all {
                return all;
            }
        }
    }

    /// As polls know it.
    async fn in_memory(&self, device: &str) -> BTreeMap<String, Place> {
        let places = self.people.places_of("ada", device).await.unwrap();
        let named = places
            .iter()
            .map(|(name, _)| (name.to_owned(), places.get(name).unwrap()));
        named.collect()
    }

    /// Flushes and merges; waits for it on another thread.
    async fn settle(&self) {
        let partitions = self.partitions.clone();
        let settled = tokio::task::spawn_blocking(move || partitions.settle(PartitionId(0)));
        settled.await.unwrap();
    }

    fn rows(&self) -> usize {
        let view = self.partitions.view(PartitionId(0)).unwrap();
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        view.range(all.0, all.1, tideline_model::Direction::Forward)
            .count()
    }
}

fn place(epoch: &str, after: u64, changes_after: Option<u64>) -> Place {
    Place {
        epoch: epoch.to_owned(),
        after,
        changes_after,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, usize, usize, u64, Option<u64>, bool),
    Remove(usize),
    Days(u64),
    Flush,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let set = (
        0..3usize,
        0..4usize,
        0..2usize,
        0..9u64,
        prop::option::of(0..9u64),
        any::<bool>(),
    );
    prop_oneof![
        9 => set.prop_map(|(device, timeline, epoch, after, changes, force)| {
            Step::Set(device, timeline, epoch, after, changes, force)
        }),
        1 => (0..3usize).prop_map(Step::Remove),
        2 => (1..70u64).prop_map(Step::Days),
        1 => Just(Step::Flush),
        1 => Just(Step::Restart),
    ]
}

#[derive(Default)]
struct Known {
    positions: BTreeMap<String, Place>,
    used: u64,
}

async fn run(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let mut now = START_MS;
    let mut world = open(dir.path(), now);
    let mut model: BTreeMap<String, Known> = BTreeMap::new();
    for step in steps {
        model.retain(|_, known| known.used + 91 * DAY_MS > now);
        match step {
            Step::Set(device, timeline, epoch, after, changes, force) => {
                let (device, timeline) = (format!("d{device}"), format!("t{timeline}"));
                let asked = place(["A", "B"][epoch], after, changes);
                let known = model.entry(device.clone()).or_default();
                let expected = match known.positions.get(&timeline) {
                    Some(old) if old.epoch == asked.epoch && !force => Place {
                        after: old.after.max(after),
                        changes_after: old.changes_after.max(changes),
                        ..asked.clone()
                    },
                    _ => asked.clone(),
                };
                let stored = world.set(&device, &timeline, asked, force).await.unwrap();
                assert_eq!(stored, expected);
                known.positions.insert(timeline, expected);
                if known.used + DAY_MS <= now {
                    known.used = now;
                }
            }
            Step::Remove(device) => {
                let device = format!("d{device}");
                let removed = world
                    .people
                    .remove_device("ada", device.clone())
                    .await
                    .unwrap();
                assert_eq!(removed, model.remove(&device).is_some());
            }
            Step::Days(days) => {
                now += days * DAY_MS;
                world.clock.set(now);
            }
            Step::Flush => world.settle().await,
            Step::Restart => {
                world.close().await;
                world = open(dir.path(), now);
            }
        }
        model.retain(|_, known| known.used + 91 * DAY_MS > now);
        let devices = world.people.devices("ada").await.unwrap();
        let shown: Vec<_> = devices
            .iter()
            .map(|one| (one.device.as_str(), one.used_at, one.positions))
            .collect();
        let known: Vec<_> = model
            .iter()
            .map(|(name, known)| (name.as_str(), known.used, known.positions.len() as u64))
            .collect();
        assert_eq!(shown, known);
        for device in ["d0", "d1", "d2"] {
            let expected = model.get(device).map(|known| known.positions.clone());
            assert_eq!(world.list(device).await, expected.unwrap_or_default());
            assert_eq!(world.in_memory(device).await, world.list(device).await);
            // That was a use.
            if let Some(known) = model.get_mut(device)
                && known.used + DAY_MS <= now
            {
                known.used = now;
            }
        }
    }
    world.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn positions_are_as_a_plain_map_has_them(steps in prop::collection::vec(step(), 1..40)) {
        tokio::runtime::Runtime::new().unwrap().block_on(run(steps));
    }
}

#[tokio::test]
async fn a_new_device_takes_the_place_of_one_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let world = open(dir.path(), START_MS);
    for number in 0..DEVICES_MAX {
        let device = format!("d{number}");
        world
            .set(&device, "t", place("A", 1, None), false)
            .await
            .unwrap();
    }
    let refused = world.set("new", "t", place("A", 1, None), false).await;
    let is_it = matches!(
        refused,
        Err(Error::TooMany {
            field: "device",
            limit: 100,
            actual: 101
        })
    );
    assert!(is_it, "{refused:?}");
    world.clock.set(START_MS + 60 * DAY_MS);
    world
        .set("d0", "t", place("A", 2, None), false)
        .await
        .unwrap();
    world.clock.set(START_MS + 92 * DAY_MS);
    let rows = world.rows();
    for number in 0..50 {
        let device = format!("new{number}");
        world
            .set(&device, "t", place("A", 1, None), false)
            .await
            .unwrap();
    }
    assert_eq!(
        world.rows(),
        rows,
        "what is new takes the place of what is gone"
    );
    assert_eq!(world.people.devices("ada").await.unwrap().len(), 51);
    world.close().await;
}
