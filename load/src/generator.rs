//! The generator: connections that ask and are answered, with a window of requests each (closed loop) or by the clock
//! (open loop), whatever the protocol.
//!
//! Owns: both loops, for every profile that sends requests and waits for replies. Promises: closed, latency runs from
//! handing a request to the socket until its reply was read; open, from the scheduled time, and what finds the window
//! full waits its turn. Must not: know what is asked, repeat what was refused, or go on when so much waits that the
//! server has plainly lost: such a run ends as invalid.
//! Inside a `LocalSet`: `flow.measure(run, &recorders, async |number| Ok((pipe, talk))).await?` gives the talks back.
//! Against another server than Tideline make the `Run` with any address: its metrics are then absent.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::RangedU64ValueParser as Range;
use futures_util::future::{OptionFuture, try_join_all};
use serde::Serialize;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, timeout};

use crate::exit::Stop;
use crate::pace::{Gaps, Pace};
use crate::pipe::Pipe;
use crate::recorder::{Counts, Recorder};
use crate::run::{Phase, Run};

/// More requests of one connection on the way would need a fifth digit in [`crate::template`].
const SLOTS_MAX: u64 = 9_000;
/// In an open loop, so many of one connection may be on the way: the server's own limit.
const OPEN_MAX: usize = 256;
/// So many requests that wait for room mean that the server does not keep up.
const WAITING_MAX: usize = 50_000;
/// How long what is on the way at the end is waited for.
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
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub slot: usize,
    /// Which of the recorders its latency goes to; `None`: it does not count, as refusals don't.
    pub recorder: Option<usize>,
}

/// How connections ask that all ask alike: flags. A profile sets its own defaults with `mut_arg`.
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

/// Reads a flag that is a number from 1 on.
pub(crate) fn count<T: FromStr + Default + PartialEq>(text: &str) -> Result<T, String> {
    let count = text.parse().ok().filter(|count| *count != T::default());
    count.ok_or_else(|| "not a number from 1 on".to_owned())
}

/// Reads a flag that is so many a second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1e-6..=1e9).contains(rate));
    rate.ok_or_else(|| "not a number above 0 and up to a billion".to_owned())
}

impl Flow {
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
        running.end().await
    }

    /// Connects with `open`, and has each connection ask until the run ends.
    pub async fn start<T: Talk + 'static>(
        &self,
        run: &Rc<Run>,
        recorders: &[Rc<Recorder>],
        mut open: impl AsyncFnMut(usize) -> io::Result<(Pipe, T)>,
    ) -> Result<Running<T>, Stop> {
        let lost = |error| Stop::Unreachable(format!("a connection: {error}"));
        let mut opened = Vec::with_capacity(self.connections);
        for number in 0..self.connections {
            opened.push(open(number).await.map_err(lost)?);
        }
        let window = self.rate.map_or(self.in_flight, |_| OPEN_MAX);
        let start = |(number, (pipe, talk))| {
            let lane = Lane {
                run: Rc::clone(run),
                recorders: recorders.to_vec(),
                window: window.min(T::WINDOW_MAX),
                pace: self.rate.map(|rate| self.pace(run, rate, number)),
                waiting_max: WAITING_MAX / self.connections,
            };
            spawn_local(lane.ask(pipe, talk))
        };
        let lanes = opened.into_iter().enumerate().map(start).collect();
        Ok(Running(Rc::clone(run), lanes))
    }

    /// One connection's part of a rate. With fixed gaps they take turns.
    fn pace(&self, run: &Run, rate: f64, number: usize) -> Pace {
        let part = rate.to_bits().wrapping_add(number as u64);
        let offset = Duration::from_secs_f64(number as f64 / rate);
        let own = run.pace(rate / self.connections as f64, self.gaps, part);
        own.after(offset)
    }
}

/// Connections at work.
pub struct Running<T>(Rc<Run>, Vec<JoinHandle<T>>);

impl<T> Running<T> {
    /// Waits, after the measurement, until all is answered; gives back what talked.
    pub async fn end(self) -> Result<Vec<T>, Stop> {
        let failed = |error| Stop::Own(format!("a connection failed: {error}"));
        let Ok(talks) = timeout(PATIENCE, try_join_all(self.1)).await else {
            let what = format_args!("no answer within {PATIENCE:?}");
            self.0.checks.fault(what);
            return Ok(Vec::new());
        };
        talks.map_err(failed)
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
    async fn ask<T: Talk>(mut self, mut pipe: Pipe, mut talk: T) -> T {
        if let Err(error) = self.work(&mut pipe, &mut talk).await {
            let what = format_args!("a connection: {error}");
            self.run.checks.fault(what);
            // The figures would be of fewer connections than asked for: end it.
            self.run.end_early();
        }
        talk
    }

    async fn work(&mut self, pipe: &mut Pipe, talk: &mut impl Talk) -> io::Result<()> {
        let Lane { run, window, .. } = self;
        // The times from which latencies count: of what a schedule has not yet sent, and by slot of what is on the way.
        let (mut due, mut slots) = (VecDeque::new(), vec![None; *window]);
        let mut free: Vec<usize> = (0..*window).rev().collect();
        let mut out = Vec::new();
        loop {
            let is_ending = run.phase() == Phase::Ending;
            if !is_ending {
                let mut left = 0;
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
                if due.len() > self.waiting_max {
                    let name = self.recorders[0].name();
                    run.invalid(format!(
                        "the server does not keep up with the rate: {name} requests wait for room"
                    ));
                    run.end_early();
                }
            } else if free.len() == *window {
                return Ok(());
            }
            let read = pipe.exchange(&mut out, |bytes, out| {
                let now = Instant::now();
                talk.take(bytes, out, &mut |Answer { slot, recorder }| {
                    let Some(from) = slots.get_mut(slot).and_then(Option::take) else {
                        let what = format_args!("an answer to {slot}, which is not on the way");
                        return run.checks.fault(what);
                    };
                    free.push(slot);
                    if let Some(recorder) = recorder {
                        self.recorders[recorder].record(from, now);
                    }
                })
            });
            let pace = self.pace.as_ref().filter(|_| !is_ending);
            tokio::select! {
                read = read => read?,
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
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;
    use crate::setup::plain;

    /// Sends nothing, and takes so long for it; each byte that comes answers the slot of its number.
    struct Mute(Duration);

    impl Talk for Mute {
        fn put(&mut self, _: &mut Vec<u8>, _: usize) {
            std::thread::sleep(self.0);
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

    /// Has one connection ask a server that says just this.
    async fn asked(rate: Option<f64>, took: Duration, said: &[u8]) -> Rc<Run> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let run = Run::new(&plain(), "ws://nowhere".into(), None);
        let flow = Flow {
            connections: 1,
            in_flight: 4,
            rate,
            gaps: Gaps::Fixed,
        };
        let open = async |_| Ok((Pipe::connect(&address).await?, Mute(took)));
        let recorders = [flow.recorder(&run, "such")];
        run.window().begin(Instant::now());
        let started = flow.start(&run, &recorders, open).await;
        let _running = started.expect("connected");
        let (mut server, _) = listener.accept().await.expect("a connection");
        server.write_all(said).await.expect("written");
        while run.phase() != Phase::Ending && run.checks.faults() + recorders[0].count() == 0 {
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
        assert!(reasons.iter().any(|why| why.contains("does not keep up")));
    }

    #[tokio::test]
    async fn making_requests_is_no_part_of_their_latency() {
        let took = Duration::from_millis(50);
        let asked = asked(None, took, &[0, 1, 2, 3]);
        let run = LocalSet::new().run_until(asked).await;
        let outcome = run.outcome("such", &json!({})).expect("a result");
        let latency = &outcome.latencies["such"];
        assert_eq!(latency.count, 4);
        assert!(latency.max < 4 * took.as_micros() as u64, "{latency:?}");
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
