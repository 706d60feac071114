//! Timelines with members: made before a run, and looked at after it.
//!
//! Owns: the names of a run's users, the calls that make members, the wait for what the server derives from them.
//! Promises: each user that was to be a member is one, or the run ends; each inbox holds as many entries as were due,
//! neither one less nor one more, or it is a fault. Must not: measure.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::tally;
use super::tally::{Tally, spread};
use super::watch::metrics;
use crate::client::pipe::Way;
use crate::client::rpc::{CallError, Client};
use crate::exit::Stop;
use crate::run::Run;

/// Members that one call may add.
const MEMBERS_MAX: usize = 10_000;
/// What is derived may take this long.
const PATIENCE: Duration = Duration::from_secs(900);
/// It is looked at so often.
const LOOK: Duration = Duration::from_millis(50);

/// A page of a user's conversations, of a timeline's members, or of a feed's messages.
#[derive(Deserialize)]
pub(crate) struct Part<T> {
    #[serde(alias = "conversations", alias = "members", alias = "messages")]
    pub(crate) of: Vec<T>,
    /// Where the next one begins.
    pub(crate) next: Option<String>,
}

/// All that a list has: each page's `next` goes into this parameter of the next call.
pub(crate) async fn pages<T: DeserializeOwned>(
    client: &mut Client,
    method: &str,
    mut params: Value,
    cursor: &str,
) -> Result<Vec<T>, CallError> {
    let mut all = Vec::new();
    loop {
        let page: Part<T> = client.read(method, &params).await?;
        all.extend(page.of);
        let Some(next) = page.next else {
            return Ok(all);
        };
        let next = json!(next);
        if params[cursor] == next {
            let what = format!("{method}: a page that leads to itself, with {params}");
            return Err(CallError::Lost(what));
        }
        params[cursor] = next;
    }
}

/// The result of `conversation.count`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Counted {
    pub(crate) conversations: u64,
    pub(crate) unread: u64,
}

/// The name of a user of this run.
pub(crate) fn user(run: &Run, number: u64) -> String {
    format!("{}-u{number}", run.tag)
}

/// A connection as a user of this run.
pub(crate) async fn client(run: &Run, number: u64) -> Result<Client, CallError> {
    Client::open_as(&run.url, Way::Plain, Some(&user(run, number))).await
}

/// Makes the timelines of a tally, if they are not there, with settings and members by number.
pub(crate) async fn create(
    run: &Run,
    tally: &Tally,
    settings: impl Fn(u64) -> Value,
    members: impl Fn(u64) -> Vec<u64>,
) -> Result<(), Stop> {
    run.tell("making groups");
    let count = tally.acked.len() as u64;
    spread(run, None, count, async |client, number| {
        let name = tally.name(number);
        let params = json!({ "timeline": name, "settings": settings(number) });
        client
            .insist::<IgnoredAny>("timeline.create", params)
            .await?;
        for some in members(number).chunks(MEMBERS_MAX) {
            let member = |number: &u64| json!({ "user": user(run, *number), "read": 0 });
            let some: Vec<Value> = some.iter().map(member).collect();
            let params = json!({ "timeline": name, "members": some });
            client.insist::<IgnoredAny>("member.add", params).await?;
        }
        Ok(())
    })
    .await
}

/// Waits until these users have so many conversations on their lists.
pub(crate) async fn listed(
    run: &Run,
    users: impl IntoIterator<Item = u64>,
    due: u64,
) -> Result<(), Stop> {
    let began = Instant::now();
    for number in users {
        let mut client = client(run, number).await?;
        loop {
            let counted: Counted = client.read("conversation.count", json!({})).await?;
            if counted.conversations == due {
                break;
            }
            let (user, found) = (user(run, number), counted.conversations);
            if found > due || began.elapsed() > PATIENCE {
                let what = format!("{user} has {found} conversations instead of {due}");
                return Err(Stop::Unreachable(what));
            }
            sleep(LOOK).await;
        }
    }
    Ok(())
}

/// Waits until all that follows from changes is written where it belongs. Returns when that was.
pub(crate) async fn settled(run: &Run) -> Result<Instant, Stop> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let now = Instant::now();
        let left = gauge(run, "tideline_relay_backlog_bytes").await?;
        if left + gauge(run, "tideline_inbox_jobs").await? == 0.0 {
            return Ok(now);
        }
        sleep(LOOK).await;
    }
    let what = format!("the server's relay is not done after {PATIENCE:?}");
    Err(Stop::Unreachable(what))
}

/// A gauge of the server where it is largest, over all labels.
async fn gauge(run: &Run, name: &str) -> Result<f64, Stop> {
    let name = format!("{name}{{");
    let lost = |error| Stop::Unreachable(format!("/metrics: {error}"));
    let metrics = metrics(&run.url).await.map_err(lost)?;
    let gauges = metrics.iter().filter(|(one, _)| one.starts_with(&name));
    let most = gauges.map(|(_, value)| *value).reduce(f64::max);
    most.ok_or_else(|| Stop::Unreachable(format!("/metrics has no {name}…}}")))
}

/// Waits until each of these users has so many entries in the inbox; one that has more, or too few for too long, is a
/// fault. Returns when the last one got there that had too few when it was looked at.
pub(crate) async fn filled(
    run: &Run,
    users: impl IntoIterator<Item = (u64, u64)>,
) -> Result<Option<Instant>, Stop> {
    let (began, mut last) = (Instant::now(), None);
    for (number, due) in users {
        let mut client = client(run, number).await?;
        let inbox = format!("$inbox/{}", user(run, number));
        let mut head = tally::head(&mut client, &inbox).await?;
        while head < due && began.elapsed() < PATIENCE {
            sleep(LOOK).await;
            head = tally::head(&mut client, &inbox).await?;
            last = Some(Instant::now());
        }
        if head != due {
            let what = format_args!("{inbox} has {head} entries instead of {due}");
            run.checks.fault(what);
        }
        run.checks.made("inboxes counted", 1);
        run.checks.made("entries of inboxes", due);
    }
    Ok(last)
}
