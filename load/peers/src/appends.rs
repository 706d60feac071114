//! Appends to a server that is not Tideline: the same generator, choice of timelines and counting as in the load
//! tool's `append`.
//!
//! Owns: what Redis, JetStream and the echo have in common. Promises: what was acknowledged must be there at the end;
//! a refusal is a fault. Must not: know a protocol (that is [`Words`]), or repeat what was refused.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use serde::Serialize;
use tideline_load::exit::Stop;
use tideline_load::generator::{Answer, Flow, Talk};
use tideline_load::pipe::Pipe;
use tideline_load::profile::Profile;
use tideline_load::random::Random;
use tideline_load::run::Run;
use tideline_load::setup::Setup;

use crate::{echo, nats, redis};

/// How one connection appends.
pub(crate) trait Words {
    /// Appends the request in this slot, a message to a timeline, to what goes out.
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, timeline: u64);

    /// Hands each whole answer at the start of the bytes to `each`, as its slot and why it was refused, and returns
    /// how many bytes were read; what the protocol wants said in return goes to `out`.
    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(usize, Option<String>),
    ) -> io::Result<usize>;
}

/// A protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Wire {
    Redis,
    JetStream,
    #[default]
    Echo,
}

impl Wire {
    /// Connects, up to the first request.
    async fn open(self, url: &str, lane: usize, text: &str) -> io::Result<(Pipe, Box<dyn Words>)> {
        match self {
            Wire::Redis => redis::open(url, text).await,
            Wire::JetStream => nats::open(url, lane, text).await,
            Wire::Echo => echo::open(url, lane, text).await,
        }
    }

    /// What is wrong with what the server holds, given how much of each timeline was acknowledged.
    async fn check(self, url: &str, acked: &[u32]) -> io::Result<Vec<String>> {
        match self {
            Wire::Redis => redis::check(url, acked).await,
            Wire::JetStream => nats::check(url, acked).await,
            // It holds nothing.
            Wire::Echo => Ok(Vec::new()),
        }
    }
}

/// The load.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct Appends {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) setup: Setup,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) flow: Flow,
    #[arg(long)]
    pub(crate) timelines: usize,
    #[arg(long)]
    pub(crate) size: usize,
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) wire: Wire,
}

impl Profile for Appends {
    const NAME: &'static str = "append";

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let acked = Rc::new(RefCell::new(vec![0; self.timelines]));
        let acks = self.flow.recorder(run, "ack");
        let text = Random::new(run.seed).text(self.size);
        let open = async |lane: usize| {
            let (pipe, words) = self.wire.open(&run.url, lane, &text).await?;
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
        let checked = self.wire.check(&run.url, &acked.take()).await;
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
        let mut acked = self.acked.borrow_mut();
        self.words.take(bytes, out, &mut |slot, refused| {
            // Where nothing is on the way, the generator says so.
            match (&refused, self.timelines.get(slot)) {
                (Some(why), _) => self.run.checks.fault(format_args!("refused: {why}")),
                (None, timeline) => timeline.into_iter().for_each(|at| acked[*at as usize] += 1),
            }
            let recorder = refused.is_none().then_some(0);
            each(Answer { slot, recorder });
        })
    }
}
