//! Appends to a server that is not Tideline: the same generator, choice of timelines and counting as in the load
//! tool's `append`.
//!
//! Owns: what Redis and JetStream have in common. Promises: what was acknowledged must be there at the end;
//! a refusal is a fault. Must not: know a protocol (that is [`Words`]), or repeat what was refused.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use clap::{Parser, value_parser};
use serde::Serialize;
use tideline_load::exit::Stop;
use tideline_load::generator::{Answer, Flow, Talk};
use tideline_load::outcome::Outcome;
use tideline_load::profile::{self, Profile};
use tideline_load::random::Random;
use tideline_load::run::Run;
use tideline_load::setup::Setup;

use crate::room::Room;
use crate::{nats, redis};

/// What a server says.
pub(crate) enum Said {
    /// The message of this slot is on disk, or why it is not.
    Appended(usize, Result<(), String>),
    /// Wants this in return.
    Ping(&'static [u8]),
    Noise,
}

/// How one connection appends.
pub(crate) trait Words {
    /// Appends the request in this slot, a message to a timeline, to what goes out.
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, timeline: u64);

    /// What is said at the start of the bytes, and how long it is, if it is whole.
    fn next(&mut self, bytes: &[u8]) -> io::Result<Option<(Said, usize)>>;
}

/// A protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Wire {
    #[default]
    Redis,
    JetStream,
}

/// A line of the load tool, for a server that is not Tideline.
#[derive(Parser)]
#[command(no_binary_name = true, args_override_self = true)]
enum Line {
    Append(Appends),
    Room(Room),
}

/// Runs a line's words for the result alone. Blocks.
pub(crate) fn measure(words: &[String], wire: Wire) -> Result<Outcome, Stop> {
    let wrong = |error: clap::Error| Stop::Usage(format!("{}: {error}", words.join(" ")));
    match Line::try_parse_from(words).map_err(wrong)? {
        Line::Append(load) => profile::measure(&Appends { wire, ..load }),
        Line::Room(load) => profile::measure(&load),
    }
}

/// The load.
#[derive(clap::Args, Serialize)]
struct Appends {
    #[command(flatten)]
    #[serde(flatten)]
    setup: Setup,
    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    timelines: u64,
    #[arg(long)]
    size: usize,
    #[arg(skip)]
    #[serde(skip)]
    wire: Wire,
}

impl Profile for Appends {
    const NAME: &'static str = "append";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.flow.check()?;
        let acked = Rc::new(RefCell::new(vec![0; self.timelines as usize]));
        let acks = self.flow.recorder(run, "ack");
        let text = Random::new(run.seed).text(self.size);
        let open = async |lane: usize| {
            let (pipe, words) = match self.wire {
                Wire::Redis => redis::open(&run.url, &text).await?,
                Wire::JetStream => nats::open(&run.url, lane, &text).await?,
            };
            let lane = Lane {
                words,
                run: Rc::clone(run),
                acked: Rc::clone(&acked),
                random: Random::new(run.seed_of(lane as u64)),
                timelines: Vec::new(),
            };
            Ok((pipe, lane))
        };
        let generator = self.flow.generator(run, vec![Rc::clone(&acks)]);
        let running = generator.start(self.flow.connections, open).await?;
        run.measure().await;
        running.end().await?;
        run.rate("appends_per_second", acks.count());
        let acked = acked.take();
        let checked = match self.wire {
            Wire::Redis => redis::check(&run.url, &acked).await,
            Wire::JetStream => nats::check(&run.url, &acked).await,
        };
        let lost = |error| Stop::Unreachable(format!("checking: {error}"));
        checked
            .map_err(lost)?
            .iter()
            .for_each(|fault| run.checks.fault(fault));
        Ok(())
    }
}

/// One connection.
struct Lane {
    words: Box<dyn Words>,
    run: Rc<Run>,
    /// By timeline, of all connections.
    acked: Rc<RefCell<Vec<u32>>>,
    random: Random,
    /// By slot: the timeline of what is on the way.
    timelines: Vec<u64>,
}

impl Talk for Lane {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let timeline = self.random.below(self.acked.borrow().len() as u64);
        self.words.put(out, slot, timeline);
        if slot >= self.timelines.len() {
            self.timelines.resize(slot + 1, 0);
        }
        self.timelines[slot] = timeline;
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Answer),
    ) -> io::Result<usize> {
        let (mut acked, mut taken) = (self.acked.borrow_mut(), 0);
        while let Some((said, length)) = self.words.next(&bytes[taken..])? {
            taken += length;
            let (slot, outcome) = match said {
                Said::Appended(slot, outcome) => (slot, outcome),
                Said::Ping(pong) => {
                    out.extend_from_slice(pong);
                    continue;
                }
                Said::Noise => continue,
            };
            match (&outcome, self.timelines.get(slot)) {
                (Err(why), _) => self.run.checks.fault(format_args!("refused: {why}")),
                (Ok(()), Some(timeline)) => acked[*timeline as usize] += 1,
                // Nothing in this slot is on the way: the generator says so.
                (Ok(()), None) => {}
            }
            let recorder = outcome.ok().map(|()| 0);
            each(Answer { slot, recorder });
        }
        Ok(taken)
    }
}
