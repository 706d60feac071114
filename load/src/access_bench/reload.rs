//! `access-bench reload`: how soon other rules are in force for all subscriptions of a connection.
//!
//! Owns: the server's settings while it runs, and the rounds. Promises: a round is over when each subscription has
//! ended; the file is as it was at the end, also of a run that fails. Must not: subscribe anew before that.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::median;
use crate::append::Appends;
use crate::exit::{self, Stop};
use crate::generator::{Flow, count, rate};
use crate::profile::Profile;
use crate::request::Session;
use crate::rpc::{CallError, Client};
use crate::run::{Better, Gaps, Run};
use crate::tally::Tally;

/// Arguments of `access-bench reload`; seconds are not used.
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

impl Profile for Reload {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|why| Stop::Usage(format!("{}: {why}", path.display())))
        };
        let settings = Settings {
            path: &self.config,
            before: read(&self.config)?,
        };
        let without = read(&self.without)?;
        let mut client = Client::open(&run.url).await?;
        self.subscribe(&mut client).await?;
        let flow = Flow::by_clock(1, self.rate, Gaps::Fixed);
        let acks = flow.recorder(run, "ack");
        let tally = Tally::new(self.others.clone(), OTHERS, 0);
        let tally = Rc::new(RefCell::new(tally));
        let open = Session::each(run, |lane| Appends::new(run, &tally, lane, 200, true));
        let others = flow.start(run, &[acks], open).await?;
        run.pass(run.setup.warm_up).await;
        run.begin().await;
        run.pass(self.pause).await;
        let mut seconds = Vec::new();
        for round in 0..self.rounds {
            let began = Instant::now();
            self.reload(run, &without)?;
            if !self.ended(&mut client).await {
                let what = "subscriptions went on though the right was taken away";
                run.checks.fault(format_args!("round {round}: {what}"));
                break;
            }
            seconds.push(began.elapsed().as_secs_f64());
            run.checks.made("subscriptions ended", self.subscriptions);
            self.reload(run, &settings.before)?;
            self.subscribe(&mut client).await?;
            run.pass(self.pause).await;
        }
        run.finish().await;
        exit::all(others).await?;
        let slowest = seconds.iter().copied().fold(0.0, f64::max);
        run.figure("in_force_after_max", slowest, "s", Better::Lower);
        if let Some(median) = median(seconds) {
            run.figure("in_force_after", median, "s", Better::Lower);
        }
        Ok(())
    }
}

impl Reload {
    /// Has the server read other settings.
    fn reload(&self, run: &Run, settings: &[u8]) -> Result<(), Stop> {
        let own = |why| Stop::Own(format!("{}: {why}", self.config.display()));
        std::fs::write(&self.config, settings).map_err(own)?;
        let pid = run
            .pid
            .ok_or_else(|| Stop::Usage("--pid is needed".into()))?;
        let sent = Command::new("kill")
            .args(["-HUP", &pid.to_string()])
            .status();
        match sent.map_err(own)?.success() {
            true => Ok(()),
            false => Err(Stop::Own(format!("process {pid} can't be signalled"))),
        }
    }

    /// Subscribes to all, as soon as that is allowed.
    async fn subscribe(&self, client: &mut Client) -> Result<(), Stop> {
        let began = Instant::now();
        for number in 0..self.subscriptions {
            let params = json!({ "timeline": format!("{}{number}", self.prefix), "create": true });
            loop {
                match client.call::<IgnoredAny>("subscribe", &params).await {
                    Err(CallError::Refused(_)) if number == 0 && began.elapsed() < PATIENCE => {
                        sleep(Duration::from_millis(10)).await;
                    }
                    Err(error) => return Err(error.into()),
                    Ok(_) => break,
                }
            }
        }
        Ok(())
    }

    /// Waits until all have ended; whether they did in time.
    async fn ended(&self, client: &mut Client) -> bool {
        let mut left = self.subscriptions;
        let hearing = async {
            while left > 0 {
                let heard = client.hear_some(|text| left -= u64::from(text.starts_with(ENDED)));
                if heard.await.is_err() {
                    return false;
                }
            }
            true
        };
        timeout(PATIENCE, hearing).await.unwrap_or(false)
    }
}
