//! `access-bench`: what deciding who may do what costs, one measurement each. The tool shows the credential that is in
//! `TIDELINE_KEY`: a key or a user's token.
//!
//! Owns: the measurements by name; the server's settings while `reload` runs. Promises: each answer is checked against
//! what the credential allows; the settings are as they were at the end, also of a run that fails. Must not: compare a
//! figure with its bar: that is for its reader, on a quiet machine.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::append::Appends;
use crate::client::generator::{Flow, count, rate};
use crate::client::request::Session;
use crate::client::rpc::{CallError, Client};
use crate::client::template::timeline_name;
use crate::exit;
use crate::exit::Stop;
use crate::profile::{Flags, Load, Profile};
use crate::random::Random;
use crate::run::tally::{ABSENT, Tally};
use crate::run::{Better, Counts, Gaps, Run};

/// The measurements.
#[derive(clap::Subcommand)]
pub enum Row {
    /// Timelines that one may not read against timelines that do not exist: calls in turn, and the median of each
    Hidden(Flags<Hidden>),
    /// Settings that take a right away, read again: how long until each of many subscriptions has ended, and the
    /// latency of others meanwhile
    Reload(Flags<Reload>),
}

impl Row {
    /// The name for results, and the load.
    pub(crate) fn profile(&self) -> (&'static str, &dyn Load) {
        match self {
            Row::Hidden(args) => ("access-bench hidden", args),
            Row::Reload(args) => ("access-bench reload", args),
        }
    }
}

/// Arguments of `access-bench hidden`; warm-up and seconds are not used. All calls are refused as not found, in the
/// same words, or it is a fault; one is on the way at a time.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Hidden {
    /// What the names of the hidden timelines begin with: those that `append --prefix` has made with another key
    #[arg(long)]
    prefix: String,
    /// How many of them there are; as many names behind them are missing
    #[arg(long, default_value_t = 1_000, value_parser = count::<u64>)]
    timelines: u64,
    /// Calls of each kind
    #[arg(long, default_value_t = 10_000, value_parser = count::<u64>)]
    calls: u64,
    /// The method that is called with a timeline alone
    #[arg(long, default_value = "timeline.get")]
    method: String,
}

const KINDS: [&str; 2] = ["hidden", "missing"];

impl Profile for Hidden {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let mut client = Client::open(&run.url).await?;
        let recorders = KINDS.map(|kind| run.recorder(kind, Counts::Ended));
        let mut random = Random::new(run.seed);
        let (mut micros, mut first) = ([Vec::new(), Vec::new()], None);
        // As much again at first: what is cold does not count.
        for call in 0..4 * self.calls {
            if call == 2 * self.calls {
                run.begin().await;
                micros = Default::default();
            }
            let kind = (call % 2) as usize;
            let number = random.below(self.timelines) + kind as u64 * self.timelines;
            let name = timeline_name(&self.prefix, number);
            let params = json!({ "timeline": name });
            let began = Instant::now();
            let answer = client.call::<IgnoredAny>(&self.method, params).await;
            let ended = Instant::now();
            let refusal = match answer {
                Err(CallError::Refused(refusal)) => refusal,
                Err(lost) => return Err(lost.into()),
                Ok(_) => {
                    run.checks.fault(format_args!("{name} is not hidden"));
                    break;
                }
            };
            let said = refusal.to_string().replace(&name, "");
            run.checks.made("refusals alike", 1);
            let alike = *first.get_or_insert_with(|| said.clone()) == said;
            if refusal.data.reason != ABSENT || !alike {
                run.checks.fault(format_args!("{name}: {said}"));
            }
            recorders[kind].record(began, ended);
            micros[kind].push((ended - began).as_nanos() as f64 / 1_000.0);
        }
        run.finish().await;
        let medians = micros.map(median);
        for (kind, median) in KINDS.iter().zip(medians) {
            run.figure(&format!("{kind}_median"), median, "us", Better::Lower);
        }
        let ratio = medians[0] / medians[1].max(0.001);
        run.figure("hidden_per_missing", ratio, "1", Better::Neither);
        Ok(())
    }
}

/// The middle one of some figures; 0 without any.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// Arguments of `access-bench reload`; seconds are not used. A round is over when each subscription has ended.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Reload {
    /// The settings that the server reads, under which one may read, append to and create the timelines
    #[arg(long)]
    #[serde(skip)]
    config: PathBuf,
    /// Settings under which one may not
    #[arg(long)]
    #[serde(skip)]
    without: PathBuf,
    /// What the names of the timelines begin with that it is about
    #[arg(long)]
    prefix: String,
    /// What the names of the others' timelines begin with, which both settings allow
    #[arg(long)]
    others: String,
    /// Subscriptions of the one connection
    #[arg(long, default_value_t = 10_000, value_parser = count::<u64>)]
    subscriptions: u64,
    /// How often the right is taken away [0: never, for the others' latency without it]
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Seconds from one round to the next; of the run, if there is none
    #[arg(long, default_value_t = 5.0)]
    pause: f64,
    /// Appends of the others a second
    #[arg(long, default_value_t = 500.0, value_parser = rate)]
    rate: f64,
}

/// What ends a subscription.
const ENDED: &[u8] = br#"{"jsonrpc":"2.0","method":"subscription.ended""#;
/// Timelines that the others append to.
const OTHERS: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's settings, as they were.
struct Settings<'a> {
    path: &'a Path,
    before: Vec<u8>,
}

impl Drop for Settings<'_> {
    fn drop(&mut self) {
        // The run says what went wrong before; there is nobody else to tell.
        let _ = std::fs::write(self.path, &self.before);
    }
}

/// Reads settings.
fn read(path: &Path) -> Result<Vec<u8>, Stop> {
    std::fs::read(path).map_err(|why| Stop::Usage(format!("{}: {why}", path.display())))
}

impl Profile for Reload {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let settings = Settings {
            path: &self.config,
            before: read(&self.config)?,
        };
        let without = read(&self.without)?;
        let mut client = Client::open(&run.url).await?;
        self.subscribe(&mut client).await?;
        let flow = Flow::by_clock(1, self.rate, Gaps::Fixed);
        let (acks, in_force) = (
            flow.recorder(run, "ack"),
            run.recorder("in_force", Counts::Ended),
        );
        let tally = Tally::new(self.others.clone(), OTHERS, 0);
        let tally = Rc::new(RefCell::new(tally));
        let open = Session::each(run, |lane| Appends::new(run, &tally, lane, 200, true));
        let others = flow.start(run, &[acks], open).await?;
        run.pass(run.setup.warm_up).await;
        run.begin().await;
        run.pass(self.pause).await;
        for round in 0..self.rounds {
            let began = Instant::now();
            self.reload(run, &without)?;
            if !self.ended(&mut client).await {
                let what = "subscriptions went on though the right was taken away";
                run.checks.fault(format_args!("round {round}: {what}"));
                break;
            }
            in_force.record(began, Instant::now());
            run.checks.made("subscriptions ended", self.subscriptions);
            self.reload(run, &settings.before)?;
            self.subscribe(&mut client).await?;
            run.pass(self.pause).await;
        }
        run.finish().await;
        exit::all(others).await.map(drop)
    }
}

impl Reload {
    /// Has the server read other settings.
    fn reload(&self, run: &Run, settings: &[u8]) -> Result<(), Stop> {
        let own = |why| Stop::Own(format!("{}: {why}", self.config.display()));
        std::fs::write(&self.config, settings).map_err(own)?;
        let pid = run.pid;
        let pid = pid.ok_or_else(|| Stop::Usage("--pid is needed".into()))?;
        let mut kill = Command::new("kill");
        let sent = kill.args(["-HUP", &pid.to_string()]).status();
        if !sent.map_err(own)?.success() {
            let what = format!("process {pid} can't be signalled");
            return Err(Stop::Own(what));
        }
        Ok(())
    }

    /// Subscribes to all, as soon as that is allowed.
    async fn subscribe(&self, client: &mut Client) -> Result<(), Stop> {
        let (began, mut number) = (Instant::now(), 0);
        while number < self.subscriptions {
            let params = json!({ "timeline": format!("{}{number}", self.prefix), "create": true });
            match client.call::<IgnoredAny>("subscribe", params).await {
                Ok(_) => number += 1,
                Err(CallError::Refused(_)) if number == 0 && began.elapsed() < PATIENCE => {
                    sleep(Duration::from_millis(10)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until all have ended; whether they did in time.
    async fn ended(&self, client: &mut Client) -> bool {
        let mut left = self.subscriptions;
        let hearing = async {
            while left > 0 {
                let ended = |text: &[u8]| left -= u64::from(text.starts_with(ENDED));
                client.hear_some(ended).await?;
            }
            io::Result::Ok(())
        };
        timeout(PATIENCE, hearing)
            .await
            .is_ok_and(|heard| heard.is_ok())
    }
}
