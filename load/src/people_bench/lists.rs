//! The rows of what is at a user: a page of the list, a sync of it with nothing new, a device's poll with nothing new.
//!
//! Owns: the conversations that these look at. Promises: each page has the newest conversations with as many unread as
//! were appended; where nothing is new, nothing comes. Must not: have anybody write while it measures.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ask;
use crate::bench::rest;
use crate::client::generator::{Flow, count};
use crate::client::rpc::read;
use crate::exit::Stop;
use crate::profile::poll::EMPTY;
use crate::profile::{Profile, need_files};
use crate::run::groups;
use crate::run::groups::{Part, client, listed, settled, user};
use crate::run::tally::Tally;
use crate::run::{Better, Run};

/// None of the conversations has more messages than the others.
const ALL_ALIKE: (u64, u32) = (u64::MAX, 0);
/// Bytes of text in each entry: only their number counts.
const TEXT_BYTES: usize = 20;
/// With fewer messages there is nothing to merge.
const MERGED_FROM: u64 = 100_000;

/// Flags of conversations, whose members are all users and one more, who has written everything.
#[derive(Clone, Debug, clap::Args, Serialize)]
struct Conversations {
    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,
    /// Conversations of each user; each connection is a user
    #[arg(long, default_value_t = 1_000, value_parser = count::<u64>)]
    conversations: u64,
    /// Unread messages in each conversation
    #[arg(long, default_value_t = 1)]
    unread: u32,
}

impl Conversations {
    /// Makes them, and waits until they are on the lists. Those from `deep` on are filled last, with so many messages.
    async fn make(&self, run: &Run, (deep, unread): (u64, u32)) -> Result<Tally, Stop> {
        let (users, most) = (self.flow.connections as u64, self.conversations);
        need_files(run, users)?;
        let mut tally = Tally::new(run.prefix("list"), most, 0);
        groups::create(run, &tally, |_| json!({}), |_| (0..=users).collect()).await?;
        listed(run, 0..users, most).await?;
        tally.by = Some(user(run, users));
        let length = |number| if number < deep { self.unread } else { unread };
        for is_deep in [false, true] {
            let due = |number| (is_deep == (number >= deep)) as u32 * length(number);
            tally.acked = (0..most).map(due).collect();
            tally.fill(run, TEXT_BYTES, false).await?;
        }
        tally.acked = (0..most).map(length).collect();
        settled(run).await?;
        if tally.total() > MERGED_FROM && run.pid.is_some() {
            run.tell("waiting for merges");
            if rest(run.pid).await.is_none() {
                run.invalid("merges went on");
            }
        }
        Ok(tally)
    }
}

/// Arguments of `people-bench list`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("2")))]
#[command(mut_arg("unread", |arg| arg.default_value("1000")))]
pub struct List {
    #[command(flatten)]
    #[serde(flatten)]
    conversations: Conversations,
    /// Conversations on the page: those with the newest activity
    #[arg(long, default_value_t = 50, value_parser = count::<u64>)]
    page: u64,
    /// Unread messages in each conversation that is on the page
    #[arg(long, default_value_t = 100_000)]
    unread_on_page: u32,
}

/// A conversation of a list, as far as it is checked.
#[derive(Deserialize)]
struct Listed {
    timeline: String,
    last_at: u64,
    head: u64,
    unread: u64,
}

/// Whether a page has so many conversations of a tally, newest first, all unread.
fn check(page: &Part<Listed>, tally: &Tally, due: u64) -> bool {
    let is_unread = |one: &Listed| {
        let number = one.timeline.strip_prefix(&*tally.prefix);
        let number = number.and_then(|digits| digits.parse::<usize>().ok());
        let due = number.and_then(|number| tally.acked.get(number).copied());
        one.head == one.unread && due.is_some_and(|due| u64::from(due) == one.unread)
    };
    page.of.len() as u64 == due
        && page.next.is_some() == (tally.acked.len() as u64 > due)
        && page.of.is_sorted_by(|a, b| a.last_at >= b.last_at)
        && page.of.iter().all(is_unread)
}

impl Profile for List {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let most = self.conversations.conversations;
        let page = self.page.min(most);
        let deep = (most - page, self.unread_on_page);
        let tally = self.conversations.make(run, deep).await?;
        let check = move |result: &[u8]| Ok(check(&read(result)?, &tally, page));
        let params = json!({ "limit": page });
        let flow = &self.conversations.flow;
        ask(run, flow, "conversation.list", |_| params.clone(), check).await
    }
}

/// Arguments of `people-bench sync`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("2")))]
pub struct Sync {
    #[command(flatten)]
    #[serde(flatten)]
    conversations: Conversations,
}

/// The result of `conversation.sync`, as far as it is checked.
#[derive(Deserialize)]
struct Synced {
    conversations: Vec<Value>,
    removed: Vec<String>,
    cursor: String,
    done: bool,
}

impl Synced {
    fn has_nothing(&self) -> bool {
        self.done && self.conversations.is_empty() && self.removed.is_empty()
    }
}

impl Profile for Sync {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        self.conversations.make(run, ALL_ALIKE).await?;
        let (flow, mut cursors) = (&self.conversations.flow, Vec::new());
        for number in 0..flow.connections as u64 {
            let (mut client, mut params) = (client(run, number).await?, json!({}));
            loop {
                let synced: Synced = client.call("conversation.sync", &params).await?;
                params = json!({ "cursor": synced.cursor });
                if synced.has_nothing() {
                    break;
                }
            }
            cursors.push(params);
        }
        let check = |result: &[u8]| Ok(read::<Synced>(result)?.has_nothing());
        let params = |lane: usize| cursors[lane].clone();
        ask(run, flow, "conversation.sync", params, check).await
    }
}

/// Arguments of `people-bench device`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(mut_arg("connections", |arg| arg.default_value("100")))]
#[command(mut_arg("conversations", |arg| arg.default_value("100")))]
pub struct Device {
    #[command(flatten)]
    #[serde(flatten)]
    conversations: Conversations,
}

const DEVICE: &str = "phone";

impl Profile for Device {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let flow = &self.conversations.flow;
        let tally = self.conversations.make(run, ALL_ALIKE).await?;
        let places = places(run, &tally).await?;
        for number in 0..flow.connections as u64 {
            let params = json!({ "device": DEVICE, "positions": places });
            let mut client = client(run, number).await?;
            client.insist::<Value>("position.set", params).await?;
        }
        settled(run).await?;
        let before = run.used("resident_bytes");
        let check = |result: &[u8]| Ok(result == EMPTY);
        let params = json!({ "device": DEVICE });
        ask(run, flow, "sync", |_| params.clone(), check).await?;
        // The connections are closed, but what they took is not given back so soon: the last sample had them.
        let after = run.samples("server_resident_bytes");
        let after = after.and_then(|samples| samples.value.last().copied());
        if let Some((before, after)) = before.zip(after) {
            let per = (after - before) / flow.connections as f64;
            run.figure("bytes_per_device", per, "bytes", Better::Lower);
        }
        Ok(())
    }
}

/// The ends of the timelines, as positions.
async fn places(run: &Run, tally: &Tally) -> Result<Map<String, Value>, Stop> {
    let (mut client, mut places) = (client(run, 0).await?, Map::new());
    for number in 0..tally.acked.len() as u64 {
        let name = tally.name(number);
        let params = json!({ "timeline": name });
        let found: Value = client.call("timeline.get", params).await?;
        let (epoch, after, changes_after) =
            (&found["epoch"], &found["head"], &found["change_head"]);
        let place = json!({ "epoch": epoch, "after": after, "changes_after": changes_after });
        places.insert(name, place);
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_what_was_set_up_is_a_fault() {
        let mut tally = Tally::new("list/".into(), 3, 0);
        tally.acked = vec![1, 5, 5];
        let page = |shown: &[(u64, u64, u64)], next: Option<&str>| {
            let one = |(number, last_at, unread): &(u64, u64, u64)| json!({ "timeline": tally.name(*number), "last_at": last_at, "head": unread, "unread": unread });
            let shown: Vec<Value> = shown.iter().map(one).collect();
            let page = json!({ "conversations": shown, "next": next }).to_string();
            let page = read(page.as_bytes()).expect("a page");
            check(&page, &tally, 2)
        };
        assert!(page(&[(2, 9, 5), (1, 8, 5)], Some("n")));
        assert!(!page(&[(2, 9, 5), (1, 8, 5)], None), "the rest is missing");
        assert!(!page(&[(2, 9, 5)], Some("n")), "too short");
        assert!(!page(&[(2, 8, 5), (1, 9, 5)], Some("n")), "not in order");
        assert!(!page(&[(2, 9, 5), (1, 8, 4)], Some("n")), "one too few");
        assert!(!page(&[(2, 9, 5), (7, 8, 5)], Some("n")), "unknown");
    }
}
