//! `slow`: readers that stop reading beside readers that do not, on one timeline while messages flow.
//!
//! Owns: the habits of readers, and the order of events: all read, some stop, the server closes those, they resume.
//! Promises: a reader that stops is closed by the server, with 4000 if it reads again in time to hear it; one that
//! pauses for less stays; all have everything at the end; latency is that of the readers that never stopped. Must not:
//! take a reader for closed because of its own clock: the server's count of slow closes says it.

use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::audience;
use crate::audience::{Account, Member, Writers};
use crate::client::frame::close_code;
use crate::client::generator::{count, rate};
use crate::client::pipe::Way;
use crate::exit::Stop;
use crate::profile::{Profile, need_files};
use crate::run::watch::metrics;
use crate::run::{Better, Counts, Gaps, Phase, Run};

/// The server's code for a reader that does not keep up.
const SLOW_CONSUMER: u16 = 4000;
/// What the server takes longer for, behind its own patience, is a fault.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the server is asked how many it closed: much less than the 2 s for which it says goodbye.
const LOOK: Duration = Duration::from_millis(200);
/// Reading on, a stalled reader finds the end of its connection within this.
const READ_ON: Duration = Duration::from_secs(10);
/// Receive buffer of the readers that stop.
const RECEIVE_BYTES: u32 = 4_096;
/// Arguments of `slow`. Measuring goes on for --seconds, or until the stalled readers were closed if that is later.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Slow {
    /// Readers that read all the time
    #[arg(long, default_value_t = 100, value_parser = count::<usize>)]
    healthy: usize,
    /// Readers that stop reading when measuring begins, until the server has closed them
    #[arg(long, default_value_t = 20)]
    stalled: usize,
    /// Readers that pause again and again, for a third of the server's patience
    #[arg(long, default_value_t = 5)]
    pausing: usize,
    /// The server's setting slow_consumer_ms
    #[arg(long, default_value_t = 60_000)]
    slow_consumer_ms: u64,
    /// Messages a second; those of a few seconds must be more than the server's socket_send_bytes, or nobody stalls
    #[arg(long, default_value_t = 200.0, value_parser = rate)]
    rate: f64,
    /// Bytes of text in each entry, {"text": …}
    #[arg(long, default_value_t = 1_000)]
    size: usize,
}

impl Profile for Slow {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        // The first member publishes, then come the healthy ones and those that stall.
        let stalling = 1 + self.healthy;
        let pausing = stalling + self.stalled;
        let mut follows = vec![vec![0]; pausing + self.pausing];
        follows[0].clear();
        need_files(run, follows.len() as u64)?;
        let (measured, prefix) = (Some(Counts::Scheduled), run.prefix("slow"));
        let (account, mut members) =
            Account::new(run, Writers::One, measured, self.size, &prefix, follows);
        for member in &mut members[stalling..] {
            // Only readers that never stop have a latency: the others chose theirs.
            member.timed = false;
            member.way = Way::Narrow(RECEIVE_BYTES);
        }
        let members = audience::open(&account, members).await?;
        let ends = "closed_with_4000 cut_without_goodbye pausing_closed".split(' ');
        ends.for_each(|end| run.add(end, 0));
        let patience = Duration::from_millis(self.slow_consumer_ms);
        let woken = watch::Sender::new(false);
        let live = |(number, member): (usize, Member)| {
            let mut woken = woken.subscribe();
            member.live(async move |member| {
                tokio::select! {
                    read = member.attend() => return read,
                    // Measuring begins.
                    _ = woken.changed(), if number >= stalling => {}
                }
                match number < pausing {
                    true => stall(member, woken).await,
                    false => pause(member, patience).await,
                }
            })
        };
        let living = members.into_iter().enumerate().map(live).collect();
        let pace = run.pace(self.rate, Gaps::Fixed, 1);
        let sending = audience::by_the_clock(&account, pace, |at| account.put(0, 0, at));
        tokio::join!(sending, self.measure(run, &woken, patience));
        audience::end(&account, living).await?;
        Ok(())
    }
}

impl Slow {
    /// Measures: waits until the server has closed the stalled readers, then lets them read again.
    async fn measure(&self, run: &Rc<Run>, woken: &watch::Sender<bool>, patience: Duration) {
        run.pass(run.setup.warm_up).await;
        run.begin().await;
        // Those that are to stop do so when this changes in any way.
        woken.send_replace(false);
        let (began, stalled) = (Instant::now(), self.stalled);
        let closed_before = slow_closes(run).await;
        let memory_before = run.used("resident_bytes");
        // The buffers fill up first; then the server looks four times within its patience.
        let most = 2 * patience + PATIENCE;
        let mut closed = 0.0;
        while closed < stalled as f64 && run.phase() == Phase::Measuring {
            if began.elapsed() >= most {
                run.checks.fault(format_args!(
                    "{most:?} after {stalled} readers stopped reading the server has closed {closed}"
                ));
                break;
            }
            sleep(LOOK).await;
            closed = slow_closes(run).await - closed_before;
        }
        let took = began.elapsed();
        run.figure("seconds_to_close", took.as_secs_f64(), "s", Better::Neither);
        if closed > 0.0 && took < patience {
            run.checks.fault(format_args!(
                "{closed} readers were closed as slow within {took:?}, before the server's patience ends"
            ));
        }
        if let Some((before, after)) = memory_before.zip(run.used("resident_bytes")) {
            let growth = after - before;
            run.figure("resident_growth_stalled", growth, "bytes", Better::Lower);
        }
        woken.send_replace(true);
        // Those that were closed resume while messages still flow.
        let left = run.setup.seconds - began.elapsed().as_secs_f64();
        run.pass(left.max(1.0)).await;
        run.finish().await;
    }
}

/// How many connections the server has closed with 4000 so far.
async fn slow_closes(run: &Run) -> f64 {
    let metrics = metrics(&run.url).await.unwrap_or_default();
    let closes = metrics.get(r#"tideline_closes_total{reason="slow_consumer"}"#);
    closes.copied().unwrap_or(0.0)
}

/// Stops reading until the server has closed it, hears why, and resumes.
async fn stall(member: &mut Member, mut woken: watch::Receiver<bool>) -> io::Result<()> {
    let run = Rc::clone(&member.account.run);
    // Errors mean that the run has ended.
    let _ = woken.wait_for(|woken| *woken).await;
    match timeout(READ_ON, member.attend()).await {
        Ok(Err(error)) => match close_code(&error) {
            Some(SLOW_CONSUMER) => run.add("closed_with_4000", 1),
            Some(_) => return Err(error),
            None => run.add("cut_without_goodbye", 1),
        },
        // It reads on, on the same connection: that the server closed too few is a fault already.
        Err(_) | Ok(Ok(())) => return member.attend().await,
    }
    member.way = Way::Plain;
    member.connect(None).await?;
    run.checks.made("stalled readers closed and resumed", 1);
    member.attend().await
}

/// Pauses again and again; what it missed comes when it reads again.
async fn pause(member: &mut Member, patience: Duration) -> io::Result<()> {
    let run = Rc::clone(&member.account.run);
    while run.phase() != Phase::Ending {
        let began = Instant::now();
        // The error: the pause has ended.
        let _ = timeout(patience / 3, run.ended()).await;
        // What is not answered yet may never come, if the server refuses it.
        match member.catch_up().await {
            Ok(()) => run.checks.made("pauses caught up", 1),
            // On a machine that is too busy it overslept.
            Err(error) if began.elapsed() >= patience && error.kind() != ErrorKind::TimedOut => {
                run.add("pausing_closed", 1);
                member.connect(None).await?;
            }
            Err(error) => return Err(error),
        }
    }
    member.attend().await
}
