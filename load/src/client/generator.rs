//! The generator: connections that ask and are answered, with a window of requests each (closed loop) or by the clock
//! (open loop), whatever the protocol.
//!
//! Owns: both loops, for every profile that sends requests and waits for replies. Promises: closed, latency runs from
//! handing a request to the socket until its reply was read; open, from the scheduled time, and what finds the window
//! full waits its turn: all that was due before the end is sent and recorded, or the run is invalid. Must not: know
//! what is asked, repeat what was refused, or go on when so much waits that the server has plainly lost.
//! Inside a `LocalSet`: `flow.measure(run, &recorders, async |number| Ok((pipe, talk))).await?` gives the talks back.
//! Against another server than Tideline make the `Run` with any address: its metrics are then absent.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::RangedU64ValueParser as Range;
use futures_util::future::OptionFuture;
use serde::Serialize;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep};

use super::pace::{Gaps, Pace};
use super::pipe::Pipe;
use crate::exit;
use crate::exit::Stop;
use crate::outcome::recorder::{Counts, Recorder};
use crate::run::{Phase, Run};

/// More requests of one connection on the way would need a fifth digit in [`crate::client::template`].
const SLOTS_MAX: u64 = 9_000;
/// In an open loop, so many of one connection may be on the way: the server's own limit.
const OPEN_MAX: usize = 256;
/// So many requests that wait for room mean that the server does not keep up.
const WAITING_MAX: usize = 50_000;
/// How long the answers that are missing at the end are waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What one connection says, and how its answers are read.
pub trait Talk {
    /// The protocol allows no more requests on the way.
    const WINDOW_MAX: usize = usize::MAX;

    /// Appends a new request; its answer will be known by the slot.
    fn put(&mut self, out: &mut Vec<u8>, slot: usize);

    /// Hands each whole answer at the start of the bytes to `each` and returns how many bytes were read. What the
    /// protocol wants said in return goes to `out`. An error ends the run.
    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Answer),
    ) -> io::Result<usize>;

    /// The connection is lost: another one, and in `out` what is to go over it. The error ends the run.
    fn again(
        &mut self,
        lost: io::Error,
        _out: &mut Vec<u8>,
    ) -> impl Future<Output = io::Result<Pipe>> {
        async { Err(lost) }
    }
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub slot: usize,
    /// Which of the recorders its latency goes to; `None`: it does not count, as refusals don't.
    pub recorder: Option<usize>,
}

/// Flags of connections that all ask in the same way. A profile sets its own defaults with `mut_arg`.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Flow {
    /// Connections
    #[arg(long, default_value_t = 16, value_parser = count::<usize>)]
    pub connections: usize,
    /// Requests on the way per connection; not used with --rate
    #[arg(long, default_value_t = 1, value_parser = Range::<usize>::new().range(1..=SLOTS_MAX))]
    pub in_flight: usize,
    /// Send so many a second over all connections, whatever the server does (open loop: latency counts from the
    /// scheduled time)
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,
    /// How requests follow one another with --rate
    #[arg(long, value_enum, default_value_t = Gaps::Fixed)]
    pub gaps: Gaps,
}

/// Reads the value of a flag: a number from 1 on.
pub(crate) fn count<T: FromStr + Default + PartialEq>(text: &str) -> Result<T, String> {
    let count = text.parse().ok().filter(|count| *count != T::default());
    count.ok_or_else(|| "not a number from 1 on".to_owned())
}

/// Reads the value of a flag: a rate per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    within(1e-6..=1e9)(text)
}

/// What reads the value of a flag: a number from here to there.
pub(crate) fn within(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("not a number from {} to {}", range.start(), range.end()))
    }
}

impl Flow {
    /// By the clock: so many a second.
    pub(crate) fn by_clock(connections: usize, rate: f64, gaps: Gaps) -> Flow {
        Flow {
            connections,
            in_flight: 1,
            rate: Some(rate),
            gaps,
        }
    }

    /// A recorder for what is asked so.
    pub fn recorder(&self, run: &Run, name: &str) -> Rc<Recorder> {
        run.recorder(name, self.rate.map_or(Counts::Ended, |_| Counts::Scheduled))
    }

    /// Connects with `open`, has each connection ask through warm-up and measurement, and waits for the last answer.
    pub async fn measure<T: Talk + 'static>(
        &self,
        run: &Rc<Run>,
        recorders: &[Rc<Recorder>],
        open: impl AsyncFnMut(usize) -> io::Result<(Pipe, T)>,
    ) -> Result<Vec<T>, Stop> {
        let running = self.start(run, recorders, open).await?;
        run.measure().await;
        exit::all(running).await
    }

    /// Connects with `open`, and has each connection ask until the run ends. Each task ends when all is answered or
    /// given up, with what talked.
    pub async fn start<T: Talk + 'static>(
        &self,
        run: &Rc<Run>,
        recorders: &[Rc<Recorder>],
        mut open: impl AsyncFnMut(usize) -> io::Result<(Pipe, T)>,
    ) -> Result<Vec<JoinHandle<T>>, Stop> {
        let lost = |error| Stop::Unreachable(format!("a connection: {error}"));
        let mut opened = Vec::new();
        for number in 0..self.connections {
            opened.push(open(number).await.map_err(lost)?);
        }
        let window = self.rate.map_or(self.in_flight, |_| OPEN_MAX);
        let start = |(number, (mut pipe, mut talk))| {
            let mut lane = Lane {
                run: Rc::clone(run),
                recorders: recorders.to_vec(),
                window: window.min(T::WINDOW_MAX),
                pace: self
                    .rate
                    .map(|rate| self.pace(run, recorders[0].name(), rate, number)),
                waiting_max: WAITING_MAX / self.connections,
            };
            spawn_local(async move {
                if let Err(error) = lane.ask(&mut pipe, &mut talk).await {
                    lane.run.checks.fault(format_args!("a connection: {error}"));
                    // The figures would be of fewer connections than asked for: end it.
                    lane.run.end_early();
                }
                talk
            })
        };
        Ok(opened.into_iter().enumerate().map(start).collect())
    }

    /// One connection's part of a rate. With fixed gaps they take turns; otherwise what is asked decides the gaps, too.
    fn pace(&self, run: &Run, name: &str, rate: f64, number: usize) -> Pace {
        let mut part = DefaultHasher::new();
        (name, number).hash(&mut part);
        let own = run.pace(rate / self.connections as f64, self.gaps, part.finish());
        own.after(Duration::from_secs_f64(number as f64 / rate))
    }
}

/// One connection.
struct Lane {
    run: Rc<Run>,
    recorders: Vec<Rc<Recorder>>,
    window: usize,
    /// Of an open loop.
    pace: Option<Pace>,
    waiting_max: usize,
}

impl Lane {
    /// Asks until the run has ended and all is answered.
    async fn ask(&mut self, pipe: &mut Pipe, talk: &mut impl Talk) -> io::Result<()> {
        let (run, window, recorders) = (&self.run, self.window, &self.recorders);
        let names: Vec<_> = recorders.iter().map(|of| of.name()).collect();
        let names = names.join(" or ");
        let mut patience = pin!(async {
            run.ended().await;
            sleep(PATIENCE).await;
        });
        // Scheduled times of requests that are not sent yet, and when the last answer came.
        let (mut due, mut heard) = (VecDeque::new(), Instant::now());
        // By slot: when the latency of its request began.
        let mut slots = vec![None; window];
        let mut free: Vec<usize> = (0..window).rev().collect();
        let mut out = Vec::new();
        loop {
            let is_ending = run.phase() == Phase::Ending;
            let mut left = if is_ending { free.len() } else { 0 };
            if let Some(pace) = &mut self.pace {
                let now = Instant::now();
                due.extend(std::iter::from_fn(|| pace.due(now)));
                left = free.len().saturating_sub(due.len());
            }
            for slot in &free[left..] {
                talk.put(&mut out, *slot);
            }
            // Only now: making the requests is no part of a closed loop's latency.
            let now = Instant::now();
            for slot in free.drain(left..) {
                slots[slot] = due.pop_front().or(Some(now));
            }
            if is_ending && free.len() == window {
                return Ok(());
            }
            if due.len() > self.waiting_max {
                run.invalid(format!(
                    "the server does not keep up with the rate: {names} requests wait for room"
                ));
                run.end_early();
            }
            let read = pipe.exchange(&mut out, |bytes, out| {
                let now = Instant::now();
                talk.take(bytes, out, &mut |Answer { slot, recorder }| {
                    let Some(from) = slots.get_mut(slot).and_then(Option::take) else {
                        let what = format_args!("an answer to {slot}, which is not on the way");
                        return run.checks.fault(what);
                    };
                    free.push(slot);
                    heard = now;
                    if let Some(recorder) = recorder {
                        recorders[recorder].record(from, now);
                    }
                })
            });
            let pace = self.pace.as_ref().filter(|_| !is_ending);
            tokio::select! {
                read = read => {
                    if let Err(lost) = read {
                        out.clear();
                        *pipe = talk.again(lost, &mut out).await?;
                    }
                }
                () = &mut patience => {
                    // A server that is merely slow breaks no promise.
                    if !due.is_empty() {
                        run.invalid(format!(
                            "{names} requests that were due could not be sent within {PATIENCE:?} after the end"
                        ));
                        if heard.elapsed() < PATIENCE {
                            return Ok(());
                        }
                    }
                    return Err(io::Error::other(format!("no answer within {PATIENCE:?}")));
                }
                () = run.ended(), if pace.is_some() => {}
                Some(()) = OptionFuture::from(pace.map(Pace::wait)), if pace.is_some() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::LocalSet;

    use super::super::pipe::Way;
    use super::*;
    use crate::run::setup::plain;

    /// Request and answer are the number of the slot; making a request takes this long.
    struct Bytes(Duration);

    impl Talk for Bytes {
        fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
            std::thread::sleep(self.0);
            out.push(slot as u8);
        }

        fn take(
            &mut self,
            bytes: &[u8],
            _: &mut Vec<u8>,
            each: &mut dyn FnMut(Answer),
        ) -> io::Result<usize> {
            for slot in bytes.iter().copied().map(usize::from) {
                let recorder = Some(0);
                each(Answer { slot, recorder });
            }
            Ok(bytes.len())
        }
    }

    fn flow(rate: Option<f64>, gaps: Gaps) -> Flow {
        Flow {
            connections: 1,
            in_flight: 4,
            rate,
            gaps,
        }
    }

    /// Starts one connection; returns its other end, too.
    async fn started(
        rate: Option<f64>,
        took: Duration,
    ) -> (Rc<Run>, Rc<Recorder>, Vec<JoinHandle<Bytes>>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let flow = flow(rate, Gaps::Fixed);
        let open = async |_| Ok((Pipe::connect(&address, Way::Plain).await?, Bytes(took)));
        let recorders = [flow.recorder(&run, "such"), flow.recorder(&run, "other")];
        run.window.begin(Instant::now());
        let started = flow.start(&run, &recorders, open).await;
        let (server, _) = listener.accept().await.expect("a connection");
        let [recorder, _] = recorders;
        (run, recorder, started.expect("connected"), server)
    }

    /// Has one connection ask a server that says just this.
    async fn asked(rate: Option<f64>, took: Duration, said: &[u8]) -> Rc<Run> {
        let (run, recorder, _running, mut server) = started(rate, took).await;
        server.write_all(said).await.expect("written");
        while run.phase() != Phase::Ending && run.checks.faults() + recorder.count() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        run
    }

    #[tokio::test]
    async fn a_server_that_does_not_keep_up_makes_the_run_invalid() {
        let run = LocalSet::new()
            .run_until(asked(Some(1e7), Duration::ZERO, b""))
            .await;
        let outcome = run.outcome("such", &json!({})).expect("a result");
        let reasons = &outcome.validity.reasons;
        let names = "does not keep up with the rate: such or other requests";
        assert!(reasons.iter().any(|why| why.contains(names)), "{reasons:?}");
    }

    /// Has one connection ask for a tenth of a second a server that says nothing; then the run ends.
    async fn stalled() -> (Rc<Run>, Rc<Recorder>, Vec<JoinHandle<Bytes>>, TcpStream) {
        let asked = started(Some(20_000.0), Duration::ZERO).await;
        sleep(Duration::from_millis(100)).await;
        asked.0.end_early();
        asked
    }

    #[tokio::test]
    async fn what_waits_when_the_server_stalls_at_the_end_is_sent_and_recorded() {
        let stalls = async {
            let (run, recorder, running, mut server) = stalled().await;
            sleep(Duration::from_millis(100)).await;
            let (mut answers, mut requests) = server.split();
            let (ended, _) = tokio::join!(
                exit::all(running),
                tokio::io::copy(&mut answers, &mut requests)
            );
            assert_eq!(ended.expect("all answered").len(), 1);
            (run, recorder)
        };
        let (run, recorder) = LocalSet::new().run_until(stalls).await;
        let outcome = run.outcome("such", &json!({})).expect("a result");
        // It began to send at some time behind the window's begin, and at the latest when `stalled` began to wait.
        let most = run.window.length().as_secs_f64() * 20_000.0;
        let (sent, lateness) = (recorder.count(), outcome.validity.lateness);
        assert_eq!(lateness.map(|lateness| lateness.sent), Some(sent));
        assert!(
            (2_000..=most as u64 + 1).contains(&sent),
            "{sent} of {most}"
        );
        assert_eq!(run.checks.faults(), 0);
        // Each waited for as long as the server stalled behind the end.
        let (latency, _) = recorder.recorded();
        assert!(latency.min() >= 100_000, "{latency:?}");
    }

    #[tokio::test]
    async fn what_waits_for_a_server_that_never_answers_makes_the_run_invalid() {
        let stalls = async {
            let (run, _, running, _server) = stalled().await;
            tokio::time::pause();
            assert_eq!(exit::all(running).await.expect("given up").len(), 1);
            run
        };
        let run = LocalSet::new().run_until(stalls).await;
        assert_eq!(run.checks.faults(), 1);
        let outcome = run.outcome("such", &json!({})).expect("a result");
        let reasons = &outcome.validity.reasons;
        assert!(reasons.iter().any(|why| why.contains("could not be sent")));
    }

    #[tokio::test]
    async fn what_is_asked_at_the_same_rate_has_its_own_gaps() {
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let flow = flow(None, Gaps::Exponential);
        let times = |name| -> Vec<Duration> {
            let mut pace = flow.pace(&run, name, 100.0, 0);
            let began = pace.due(Instant::now()).expect("the first");
            let later = began + Duration::from_secs(9);
            std::iter::from_fn(|| pace.due(later).map(|at| at - began)).collect()
        };
        assert_eq!(times("poll"), times("poll"));
        assert_ne!(times("poll"), times("page"));
    }

    #[tokio::test]
    async fn making_requests_is_no_part_of_their_latency() {
        let took = Duration::from_millis(50);
        let asked = asked(None, took, &[0, 1, 2, 3]);
        let run = LocalSet::new().run_until(asked).await;
        let outcome = run.outcome("such", &json!({})).expect("a result");
        let [count, max] = ["such_count", "such_max"].map(|name| outcome.figures[name].value);
        assert_eq!(count, 4.0);
        assert!(max < 4.0 * took.as_millis() as f64, "{max} ms");
    }

    #[tokio::test]
    async fn an_answer_to_what_was_not_asked_or_twice_to_the_same_is_a_fault() {
        for said in [[0, 4], [3, 3]] {
            let run = LocalSet::new()
                .run_until(asked(None, Duration::ZERO, &said))
                .await;
            assert_eq!(run.checks.faults(), 1, "{said:?}");
        }
    }
}
