//! Reading a whole timeline back, page by page.
//!
//! Owns: the history scan at the end of a run. Promises: what the server gave, in the order it gave it, and nothing
//! mended. Must not: stop early without saying so.

use serde::Deserialize;
use serde_json::json;

use crate::history::Mark;
use crate::rpc::{CallError, Client, Message};

/// A page of `message.range`.
#[derive(Deserialize)]
pub struct Page {
    /// The messages.
    pub messages: Vec<Message>,
    /// Where the next page begins.
    pub next: Option<u64>,
    /// The last number.
    pub head: u64,
    /// The timeline's history.
    pub epoch: String,
}

/// A timeline as it stands.
pub struct Scan {
    /// Its messages from the first.
    pub marks: Vec<Mark>,
    /// Its head as the last page told it.
    pub head: u64,
    /// Its epoch; empty if there is no such timeline.
    pub epoch: String,
}

/// Reads from the first message to the end. A timeline that is not there is empty.
pub async fn whole(client: &mut Client, timeline: &str) -> Result<Scan, CallError> {
    let mut scan = Scan {
        marks: Vec::new(),
        head: 0,
        epoch: String::new(),
    };
    let mut from = 1;
    loop {
        let Some(page) = page(client, timeline, from, 1_000).await? else {
            return Ok(scan);
        };
        scan.head = page.head;
        scan.epoch = page.epoch;
        for message in page.messages {
            let mark = Mark::of(message);
            scan.marks
                .push(mark.map_err(|odd| CallError::Lost(odd.to_string()))?);
        }
        match page.next {
            Some(next) if next > from => from = next,
            Some(next) => {
                return Err(CallError::Lost(format!(
                    "{timeline}: a page from {from} ends at {next}"
                )));
            }
            None => return Ok(scan),
        }
    }
}

/// One page; `None` if there is no such timeline.
pub async fn page(
    client: &mut Client,
    timeline: &str,
    from: u64,
    limit: u32,
) -> Result<Option<Page>, CallError> {
    let params = json!({ "timeline": timeline, "from": from, "limit": limit });
    match client.call("message.range", params).await {
        Ok(page) => Ok(Some(page)),
        Err(CallError::Refused(refusal)) if refusal.data.reason == "timeline_not_found" => Ok(None),
        Err(error) => Err(error),
    }
}
