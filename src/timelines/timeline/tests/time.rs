//! What time does to messages, against a plain model: expiry, scheduled messages, through restarts, flushes, timelines
//! that are deleted and made again, and clocks that are set back.
//!
//! Owns: the model of that. Promises: after each command every timeline and every list of scheduled messages is as the
//! model says, whether the timer has worked in between or not. Must not: be in a build that is not a test.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use proptest::prelude::*;

use crate::timeline::{
    Append, AppendOne, Appended, Burial, Columns, Error, Limits, ListScheduled, Message, Range,
    Refused, Scheduled, StoredTimelines, Target, Timelines,
};
use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_model::Value;
use tideline_model::access::Asker;
use tideline_store::partition::{ImageOptions, Options, Partitions};

const START_MS: u64 = 1_000_000_000;
const AT: PartitionId = PartitionId(0);
const NAMES: [&str; 2] = ["a", "b"];
const SENDERS: [&str; 2] = ["", "u"];
const DAY_MS: u64 = 86_400_000;

#[derive(Clone, Copy, Debug)]
struct What {
    name: &'static str,
    sender: &'static str,
    id: u8,
    n: i64,
    expires_in_ms: Option<u64>,
}

#[derive(Clone, Debug)]
enum Command {
    /// With an ID of the client's or without.
    Append(What, bool),
    /// From now, ms.
    Schedule(What, i64),
    Cancel(What),
    DeleteMessage(&'static str, u64),
    Trim(&'static str, u64),
    Delete(&'static str),
    /// Also back, ms.
    Wait(i64),
    Work,
    Flush,
    Restart,
}

fn command() -> impl Strategy<Value = Command> {
    let name = || prop_oneof![3 => Just("a"), 1 => Just("b")];
    let what = (name(), prop_oneof![Just(""), Just("u")], 0u8..5, 0i64..2);
    let what = (what, proptest::option::of(1u64..50));
    let what = what.prop_map(|((name, sender, id, n), expires_in_ms)| What {
        name,
        sender,
        id,
        n,
        expires_in_ms,
    });
    let ahead = prop_oneof![6 => -5i64..60, 1 => Just(400 * DAY_MS.cast_signed())];
    prop_oneof![
        5 => (what.clone(), any::<bool>()).prop_map(|(a, b)| Command::Append(a, b)),
        5 => (what.clone(), ahead).prop_map(|(a, b)| Command::Schedule(a, b)),
        1 => what.prop_map(Command::Cancel),
        1 => (name(), 1u64..9).prop_map(|(a, b)| Command::DeleteMessage(a, b)),
        1 => (name(), 1u64..9).prop_map(|(a, b)| Command::Trim(a, b)),
        1 => name().prop_map(Command::Delete),
        4 => prop_oneof![8 => 1i64..40, 1 => -20i64..0, 1 => Just(7 * DAY_MS.cast_signed() + 1_000)]
            .prop_map(Command::Wait),
        4 => Just(Command::Work),
        1 => Just(Command::Flush),
        1 => Just(Command::Restart),
    ]
}

/// A timeline of the model.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Tells it from others of its name.
    birth: u64,
    messages: Vec<Message>,
    floor: u64,
    change_head: u64,
    last_at: u64,
    /// By sender and ID: sequence, timestamp, n.
    ids: BTreeMap<(String, String), (u64, u64, i64)>,
}

#[derive(Clone, Debug)]
struct Waiting {
    deliver_at: u64,
    expires_in_ms: Option<u64>,
    n: i64,
    birth: u64,
    refused: Option<(Refused, u64)>,
}

#[derive(Default)]
struct Model {
    now: u64,
    births: u64,
    lines: BTreeMap<&'static str, Line>,
    /// By timeline, sender and ID.
    waiting: BTreeMap<(&'static str, &'static str, String), Waiting>,
}

fn entry(n: i64) -> Columns {
    vec![("n".to_owned(), Value::Integer(n))]
}

fn id_of(what: &What) -> String {
    format!("m{}", what.id)
}

impl Model {
    fn line(&mut self, name: &'static str) -> &mut Line {
        let births = &mut self.births;
        self.lines.entry(name).or_insert_with(|| {
            *births += 1;
            Line {
                birth: *births,
                floor: 1,
                ..Line::default()
            }
        })
    }

    /// What is known of an ID of the timeline that exists: `Ok` = a first answer.
    fn known(&self, what: &What, later: bool) -> Option<Result<Appended, ()>> {
        let line = self.lines.get(what.name)?;
        let id = id_of(what);
        let answer = |sequence, timestamp, scheduled| Appended {
            sequence,
            timestamp,
            message_id: id.clone(),
            duplicate: true,
            scheduled,
            parts: None,
        };
        let waiting = self.waiting.get(&(what.name, what.sender, id.clone()));
        let waiting = waiting.filter(|it| it.refused.is_none() && it.birth == line.birth);
        if let Some(it) = waiting {
            let same = it.n == what.n && later;
            return Some(match same {
                true => Ok(answer(0, it.deliver_at, Some(it.deliver_at))),
                false => Err(()),
            });
        }
        let (sequence, at, n) = line.ids.get(&(what.sender.to_owned(), id.clone()))?;
        Some(match *n == what.n {
            true => Ok(answer(*sequence, *at, None)),
            false => Err(()),
        })
    }

    fn append(&mut self, what: &What, by_client: bool, message_id: String) -> Appended {
        let now = self.now;
        let line = self.line(what.name);
        let timestamp = now.max(line.last_at);
        line.last_at = timestamp;
        let message = Message {
            sequence: line.messages.len() as u64 + 1,
            timestamp,
            message_id: message_id.clone(),
            sender: what.sender.to_owned(),
            entry: Some(entry(what.n)),
            expires_at: what.expires_in_ms.map(|ms| now + ms),
            ..Message::default()
        };
        let sequence = message.sequence;
        line.messages.push(message);
        if by_client {
            let key = (what.sender.to_owned(), message_id.clone());
            line.ids.insert(key, (sequence, timestamp, what.n));
        }
        Appended {
            sequence,
            timestamp,
            message_id,
            duplicate: false,
            scheduled: None,
            parts: None,
        }
    }

    fn bury(line: &mut Line, index: usize, burial: Burial) {
        line.change_head += 1;
        let message = &mut line.messages[index];
        message.bury(burial);
        message.change = line.change_head;
    }

    /// What the timer does when it is let.
    fn work(&mut self) {
        let now = self.now;
        let mut due: Vec<_> = self.waiting.iter().collect();
        due.retain(|(_, it)| it.refused.is_none() && it.deliver_at <= now);
        due.sort_by_key(|(key, it)| (it.deliver_at, (*key).clone()));
        let due: Vec<_> = due.into_iter().map(|(key, _)| key.clone()).collect();
        for key in due {
            let it = self.waiting[&key].clone();
            let refused = match self.lines.get(key.0) {
                None => Some(Refused::TimelineNotFound),
                Some(line) if line.birth != it.birth => Some(Refused::EpochChanged),
                Some(_) => None,
            };
            if let Some(reason) = refused {
                let it = self.waiting.get_mut(&key).unwrap();
                it.refused = Some((reason, now));
                continue;
            }
            self.waiting.remove(&key);
            let what = What {
                name: key.0,
                sender: key.1,
                id: 0,
                n: it.n,
                expires_in_ms: it.expires_in_ms,
            };
            self.append(&what, true, key.2);
        }
        for line in self.lines.values_mut() {
            let mut over: Vec<_> = line.messages.iter().collect();
            over.retain(|one| one.entry.is_some() && one.expires_at.is_some_and(|at| at <= now));
            over.retain(|one| one.sequence >= line.floor);
            over.sort_by_key(|one| (one.expires_at, one.sequence));
            let over: Vec<u64> = over.iter().map(|one| one.sequence).collect();
            for sequence in over {
                Model::bury(line, sequence as usize - 1, Burial::Expired);
            }
        }
    }

    /// What a read shows now.
    fn shown(&self, name: &str) -> Option<(Vec<Message>, u64)> {
        let line = self.lines.get(name)?;
        let mut messages = line.messages[line.floor as usize - 1..].to_vec();
        for message in &mut messages {
            if message.entry.is_some() && message.expires_at.is_some_and(|at| at <= self.now) {
                message.bury(Burial::Expired);
            }
        }
        Some((messages, line.change_head))
    }

    fn listed(&self, name: &str, sender: &str) -> Vec<Scheduled> {
        let of = self.waiting.iter().filter(|(key, it)| {
            let is_old = it
                .refused
                .is_some_and(|(_, at)| at + 7 * DAY_MS <= self.now);
            key.0 == name && key.1 == sender && !is_old
        });
        of.map(|((_, _, id), it)| Scheduled {
            message_id: id.clone(),
            deliver_at: it.deliver_at,
            expires_in_ms: it.expires_in_ms,
            entry: entry(it.n),
            refused: it.refused,
        })
        .collect()
    }
}

struct World {
    partitions: Partitions,
    timelines: Timelines,
    timer: crate::timeline::Timer,
    clock: Arc<Clock>,
}

impl World {
    fn open(dir: &Path, now_ms: u64) -> World {
        let clock = Arc::new(Clock::fixed(now_ms));
        let limits = Limits {
            message_id_window_ms: 1_000 * DAY_MS,
            ..Limits::default()
        };
        let image = ImageOptions {
            map_bytes: 4 << 30,
            fan_in: 2,
            slice_rows: 20,
            ..ImageOptions::default()
        };
        let options = Options {
            partitions: 1,
            image,
            ..Options::default()
        };
        let rules = Timelines::rules(&limits);
        let partitions = Partitions::open(dir, options, rules, Arc::clone(&clock)).unwrap();
        let timelines = Timelines::new(partitions.clone(), limits, Arc::clone(&clock));
        let timer = timelines.timer(AT);
        World {
            partitions,
            timelines,
            timer,
            clock,
        }
    }

    async fn close(self) {
        self.partitions.close().await;
    }

    async fn append(&self, what: &What, one: AppendOne) -> Result<Appended, Error> {
        let append = Append {
            timeline: what.name.to_owned(),
            asker: what.sender.into(),
            messages: vec![one],
            expect_head: None,
            create: true,
            epoch: None,
        };
        let (mut appended, _) = self.timelines.append(append).await?;
        Ok(appended.pop().unwrap())
    }

    /// Does what is due, until there is nothing.
    async fn work(&mut self) {
        while self.timer.wait().now_or_never().is_some() {
            self.timer.step().await.unwrap();
        }
    }

    async fn check(&self, model: &Model) {
        for name in NAMES {
            let range = Range {
                asker: Asker::default(),
                timeline: name.to_owned(),
                from: None,
                to: None,
                limit: 1_000,
                bytes_max: usize::MAX,
                backward: false,
                columns: None,
                epoch: None,
            };
            let real = self.timelines.range(range).await;
            match (real, model.shown(name)) {
                (Ok(page), Some((messages, change_head))) => {
                    assert_eq!(page.messages, messages);
                    assert_eq!(page.head.change_head, change_head);
                }
                (Err(Error::TimelineNotFound), None) => {}
                (real, shown) => panic!("{real:?} where the model has {shown:?}"),
            }
            for sender in SENDERS {
                let list = ListScheduled {
                    timeline: name.to_owned(),
                    asker: sender.into(),
                    after: None,
                    limit: 1_000,
                    bytes_max: usize::MAX,
                    epoch: None,
                };
                let listed = model.listed(name, sender);
                match self.timelines.scheduled(list).await {
                    Ok((real, false)) => assert_eq!(real, listed),
                    Err(Error::TimelineNotFound) => {
                        assert!(listed.is_empty() && model.shown(name).is_none());
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn verify(&self) {
        let view = self.partitions.view(AT).unwrap();
        let stored = StoredTimelines::new(&view, self.partitions.origin());
        let mut problems = Vec::new();
        stored
            .verify(&mut |problem| problems.push(problem))
            .unwrap();
        assert_eq!(problems, Vec::<String>::new());
    }
}

async fn apply(world: &mut World, model: &mut Model, command: Command) {
    match command {
        Command::Append(what, by_client) => {
            let id = by_client.then(|| id_of(&what));
            let one = AppendOne {
                entry: entry(what.n),
                message_id: id.clone(),
                expires_in_ms: what.expires_in_ms,
                deliver_at: None,
                open: None,
            };
            let real = world.append(&what, one).await;
            let known = by_client.then(|| model.known(&what, false)).flatten();
            match (known, real) {
                (Some(Ok(answer)), real) => assert_eq!(real.unwrap(), answer),
                (Some(Err(())), Err(Error::MessageIdConflict { index: 0 })) => {}
                (None, Ok(real)) => {
                    let id = id.unwrap_or_else(|| real.message_id.clone());
                    assert_eq!(real, model.append(&what, by_client, id));
                }
                (known, real) => panic!("{real:?} where the model has {known:?}"),
            }
        }
        Command::Schedule(what, in_ms) => schedule(world, model, &what, in_ms).await,
        Command::Cancel(what) => {
            let key = (what.name, what.sender, id_of(&what));
            let target = Target {
                asker: what.sender.into(),
                ..Target::from(what.name)
            };
            let cancel = world.timelines.cancel_scheduled(target, &key.2);
            let is_listed = model.listed(what.name, what.sender);
            let is_listed = is_listed.iter().any(|it| it.message_id == key.2);
            match cancel.await {
                Ok(()) => assert!(is_listed && model.waiting.remove(&key).is_some()),
                Err(Error::ScheduledNotFound) => assert!(!is_listed),
                Err(Error::TimelineNotFound) => {
                    assert!(!is_listed && !model.lines.contains_key(what.name));
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        Command::DeleteMessage(name, sequence) => {
            let deleted = world.timelines.delete_message(Target::from(name), sequence);
            let deleted = matches!(deleted.await, Ok(true));
            let shown = model.shown(name).map(|(messages, _)| messages);
            let has_entry = |one: &Message| one.sequence == sequence && one.entry.is_some();
            assert_eq!(
                deleted,
                shown.is_some_and(|shown| shown.iter().any(has_entry))
            );
            if deleted {
                let line = model.line(name);
                Model::bury(line, sequence as usize - 1, Burial::Deleted);
            }
        }
        Command::Trim(name, before) => {
            if world
                .timelines
                .trim(Target::from(name), before)
                .await
                .is_ok()
            {
                let line = model.line(name);
                line.floor = before.clamp(line.floor, line.messages.len() as u64 + 1);
            }
        }
        Command::Delete(name) => {
            let deleted = world.timelines.delete(Target::from(name)).await.unwrap();
            assert_eq!(deleted, model.lines.remove(name).is_some());
        }
        Command::Wait(ms) => {
            model.now = model.now.saturating_add_signed(ms);
            world.clock.set(model.now);
        }
        Command::Work => {
            world.work().await;
            model.work();
        }
        Command::Flush | Command::Restart => unreachable!("done where the world is owned"),
    }
}

async fn schedule(world: &mut World, model: &mut Model, what: &What, in_ms: i64) {
    let deliver_at = model.now.saturating_add_signed(in_ms);
    let one = AppendOne {
        entry: entry(what.n),
        message_id: Some(id_of(what)),
        expires_in_ms: what.expires_in_ms,
        deliver_at: Some(deliver_at),
        open: None,
    };
    let real = world.append(what, one).await;
    match (model.known(what, true), real) {
        (Some(Ok(answer)), real) => assert_eq!(real.unwrap(), answer),
        (Some(Err(())), Err(Error::MessageIdConflict { index: 0 })) => {}
        (None, Err(Error::DeliverAt)) => assert!(!(0..=366 * 86_400_000).contains(&in_ms)),
        (None, Ok(real)) => {
            assert!((0..=366 * 86_400_000).contains(&in_ms));
            assert_eq!(real.scheduled, Some(deliver_at));
            assert!(!real.duplicate);
            let birth = model.line(what.name).birth;
            let it = Waiting {
                deliver_at,
                expires_in_ms: what.expires_in_ms,
                n: what.n,
                birth,
                refused: None,
            };
            let key = (what.name, what.sender, id_of(what));
            model.waiting.insert(key, it);
        }
        (known, real) => panic!("{real:?} where the model has {known:?}"),
    }
}

/// Flushes block, so they run outside of the runtime.
fn run(runtime: &tokio::runtime::Runtime, commands: Vec<Command>) {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model {
        now: START_MS,
        ..Model::default()
    };
    let mut world = World::open(dir.path(), START_MS);
    for command in commands {
        match command {
            Command::Restart => {
                runtime.block_on(world.close());
                world = World::open(dir.path(), model.now);
            }
            Command::Flush => world.partitions.rotate(AT),
            command => runtime.block_on(apply(&mut world, &mut model, command)),
        }
        runtime.block_on(world.check(&model));
    }
    runtime.block_on(world.work());
    model.work();
    runtime.block_on(world.check(&model));
    world.verify();
    world.partitions.settle(AT);
    runtime.block_on(world.check(&model));
    world.verify();
    runtime.block_on(world.close());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn time_does_what_the_model_says(commands in proptest::collection::vec(command(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        run(&runtime, commands);
    }
}
