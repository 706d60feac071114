//! `people-bench`: what lists, devices, feeds, fan-out and large groups cost, one row of the table of BENCHMARKS.md
//! each.
//!
//! Owns: the rows by name, and the loop of those that ask one thing over and over. Promises: each answer is checked
//! against what was set up. Must not: compare a figure with its bar: that is for its reader, on a quiet machine.

mod fan_out;
mod feed;
mod lists;

use std::rc::Rc;

use serde_json::Value;

use crate::client::generator::Flow;
use crate::client::request::{Ask, Outcome, Session};
use crate::client::rpc::request;
use crate::client::template::{SLOT, Template};
use crate::exit::Stop;
use crate::profile::{Flags, Load};
use crate::run::groups;
use crate::run::{Better, Run};

/// Bytes of text in each entry, {"text": …}, but for those of lists.
const TEXT_BYTES: usize = 200;

/// The rows.
#[derive(clap::Subcommand)]
#[allow(clippy::large_enum_variant)] // there is one of it in a process
pub enum Row {
    /// The first page of a list of conversations with much unread: latency, and the server's processor time of a page
    List(Flags<lists::List>),
    /// `conversation.sync` with nothing new: the server's processor time of a call
    Sync(Flags<lists::Sync>),
    /// `sync` by device with nothing new: the server's processor time of a poll, memory of a device
    Device(Flags<lists::Device>),
    /// The first page of a feed of many timelines, half of them read from the source
    Feed(Flags<feed::Feed>),
    /// Messages into the inboxes of groups: entries a second until all are there, each once
    FanOut(Flags<fan_out::FanOut>),
    /// A group with many members, some of them on-line: acks, pushes, inboxes, and the lists of others meanwhile
    Crowd(Flags<fan_out::Crowd>),
}

impl Row {
    /// The name for results, and the load.
    pub(crate) fn profile(&self) -> (&'static str, &dyn Load) {
        match self {
            Row::List(args) => ("people-bench list", args),
            Row::Sync(args) => ("people-bench sync", args),
            Row::Device(args) => ("people-bench device", args),
            Row::Feed(args) => ("people-bench feed", args),
            Row::FanOut(args) => ("people-bench fan-out", args),
            Row::Crowd(args) => ("people-bench crowd", args),
        }
    }
}

/// The same request over and over.
struct Same<C> {
    run: Rc<Run>,
    frame: Template,
    /// Whether an answer is the right one.
    check: Rc<C>,
}

impl<C: Fn(&[u8]) -> Result<bool, String> + 'static> Ask for Same<C> {
    type Asked = ();

    fn put(&mut self, out: &mut Vec<u8>, request: u64) {
        self.frame.stamp(out, &[request]);
    }

    fn take(&mut self, (): (), outcome: Outcome<'_>) -> Result<(), String> {
        self.run.checks.made("answers checked", 1);
        let result = outcome.map_err(|refusal| format!("refused: {refusal}"))?;
        if (self.check)(result)? {
            return Ok(());
        }
        let result = String::from_utf8_lossy(result);
        Err(format!("not what is due: {result:.300}"))
    }
}

/// Has each connection, as the user of its number, ask the same over and over; enters what a call costs the server.
async fn ask(
    run: &Rc<Run>,
    flow: &Flow,
    method: &str,
    params: impl Fn(usize) -> Value,
    check: impl Fn(&[u8]) -> Result<bool, String> + 'static,
) -> Result<(), Stop> {
    let (latency, check) = (flow.recorder(run, "call"), Rc::new(check));
    let user = |lane| Some(groups::user(run, lane as u64));
    let open = Session::each_as(run, user, |lane| Same {
        run: Rc::clone(run),
        frame: Template::framed(&request(SLOT, method, &params(lane))),
        check: Rc::clone(&check),
    });
    flow.measure(run, &[Rc::clone(&latency)], open).await?;
    let count = latency.count();
    run.rate("calls_per_second", count);
    if let Some(used) = run.value("server_cpu_seconds") {
        let per = used * 1_000.0 / count.max(1) as f64;
        run.figure("server_cpu_per_call", per, "ms", Better::Lower);
    }
    Ok(())
}
