//! Appends to a server that is not Tideline: the same generator, choice of timelines and counting as in the load
//! tool's `append`.
//!
//! Owns: what Redis, JetStream and the echo have in common. Promises: what was acknowledged must be there at the end;
//! `busy` is counted, any other refusal is a fault. Must not: know a protocol (that is [`Peer`]), or repeat what was
//! refused.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use serde::Serialize;
use tideline_load::exit::Stop;
use tideline_load::generator::{Answer, Flow, Talk};
use tideline_load::outcome::Better;
use tideline_load::pipe::Pipe;
use tideline_load::profile::Profile;
use tideline_load::random::Random;
use tideline_load::run::Run;
use tideline_load::setup::Setup;

/// A server's protocol, as far as appending needs it.
pub(crate) trait Peer: Send + 'static {
    /// The profile's name in results.
    const NAME: &'static str;
    /// What one connection says.
    type Words: Words;

    /// Connects, up to the first request.
    async fn open(&self, address: &str, lane: usize, text: &str)
    -> io::Result<(Pipe, Self::Words)>;

    /// What is wrong with what the server holds, given how much of each timeline was acknowledged.
    async fn check(&self, address: &str, acked: &[u32], sample: &[u64]) -> io::Result<Vec<String>>;
}

/// How one connection speaks.
pub(crate) trait Words: 'static {
    /// Appends the request in this slot, a message to a timeline.
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

/// The load.
#[derive(Serialize)]
pub(crate) struct Keyed<P> {
    #[serde(flatten)]
    pub(crate) setup: Setup,
    #[serde(flatten)]
    pub(crate) flow: Flow,
    pub(crate) timelines: u64,
    pub(crate) size: usize,
    #[serde(skip)]
    pub(crate) peer: P,
}

/// So many timelines are checked at the end.
const SAMPLE: usize = 50;

impl<P: Peer> Profile for Keyed<P> {
    const NAME: &'static str = P::NAME;

    fn setup(&self) -> &Setup {
        &self.setup
    }

    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let tally = Tally {
            busy: 0,
            acked: vec![0; self.timelines as usize],
        };
        let tally = Rc::new(RefCell::new(tally));
        let acks = self.flow.recorder(run, "ack");
        let text = Random::new(run.seed).text(self.size);
        let open = async |lane: usize| {
            let (pipe, words) = self.peer.open(&run.url, lane, &text).await?;
            let lane = Lane {
                words,
                run: Rc::clone(run),
                tally: Rc::clone(&tally),
                random: Random::new(run.seed_of(lane as u64)),
                timelines: Vec::new(),
            };
            Ok((pipe, lane))
        };
        self.flow.measure(run, &[Rc::clone(&acks)], open).await?;
        run.rate("appends_per_second", acks.count());
        let Tally { busy, acked } = tally.take();
        run.figure("busy", busy as f64, "1", Better::Lower);
        let mut random = Random::new(run.seed_of(1 << 32));
        let sample: Vec<u64> = (0..SAMPLE).map(|_| random.below(self.timelines)).collect();
        let checked = self.peer.check(&run.url, &acked, &sample).await;
        for fault in checked.map_err(|error| Stop::Unreachable(format!("checking: {error}")))? {
            run.checks.fault(fault);
        }
        Ok(())
    }
}

/// What all connections count together.
#[derive(Default)]
struct Tally {
    busy: u64,
    /// Acknowledged per timeline, in the whole run.
    acked: Vec<u32>,
}

/// One connection.
struct Lane<W> {
    words: W,
    run: Rc<Run>,
    tally: Rc<RefCell<Tally>>,
    random: Random,
    /// By slot: the timeline of what is on the way.
    timelines: Vec<u64>,
}

impl<W: Words> Talk for Lane<W> {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let timeline = self.random.below(self.tally.borrow().acked.len() as u64);
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
        let Lane {
            words,
            run,
            tally,
            timelines,
            ..
        } = self;
        let mut tally = tally.borrow_mut();
        words.take(bytes, out, &mut |slot, refused| {
            match (&refused, timelines.get(slot)) {
                // The generator finds that nothing in this slot is on the way.
                (_, None) => {}
                (None, Some(timeline)) => tally.acked[*timeline as usize] += 1,
                (Some(why), _) if why == "busy" => tally.busy += 1,
                (Some(why), _) => run.checks.fault(format_args!("refused: {why}")),
            }
            let recorder = refused.is_none().then_some(0);
            each(Answer { slot, recorder });
        })
    }
}
