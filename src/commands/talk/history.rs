//! `tideline history TIMELINE`: the messages that there are.
//!
//! Owns: the range, page by page. Promises: all of it is shown, of one history, or an error says that it is not. Must
//! not: follow what comes meanwhile.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::address::At;
use super::failure::Failure;
use super::message::show;
use super::screen::{Form, Screen};
use super::session::{Session, parsed};

/// The range.
#[derive(Debug, Args)]
pub struct History {
    /// Its ID.
    timeline: String,
    /// The first sequence to show [default: the first that there is; with --reverse the last].
    #[arg(long, value_name = "SEQUENCE")]
    from: Option<u64>,
    /// Up to this sequence, without it [default: to the end].
    #[arg(long, value_name = "SEQUENCE")]
    to: Option<u64>,
    /// The newest so many.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["from", "to"])]
    last: Option<u64>,
    /// The newest first.
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Range<'a> {
    timeline: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
    limit: u64,
    direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    messages: Vec<Box<RawValue>>,
    next: Option<u64>,
    epoch: String,
}

#[derive(Deserialize)]
struct Ends {
    head: u64,
    epoch: String,
}

impl History {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let mut screen = Screen::new(&self.form);
        let mut session = Session::open(&self.at).await?;
        let mut range = Range {
            timeline: &self.timeline,
            from: self.from,
            to: self.to,
            limit: session.limits.page_messages_max,
            direction: if self.reverse { "backward" } else { "forward" },
            epoch: None,
        };
        if let Some(last) = self.last {
            let ends = session
                .call("timeline.get", json!({ "timeline": &self.timeline }))
                .await?;
            let Ends { head, epoch } = parsed(&ends)?;
            // Numbers have no holes.
            let before = head.saturating_sub(last);
            let (from, to) = match self.reverse {
                false => (before + 1, head + 1),
                true => (head, before),
            };
            (range.from, range.to, range.epoch) = (Some(from), Some(to), Some(epoch));
            if from == to {
                return Ok(());
            }
        }
        loop {
            let page = session.call("message.range", &range).await?;
            let page: Page = parsed(&page)?;
            page.messages
                .iter()
                .try_for_each(|message| show(&mut screen, message))?;
            screen.flush()?;
            let Some(next) = page.next else {
                session.close().await;
                return Ok(());
            };
            (range.from, range.epoch) = (Some(next), Some(page.epoch));
        }
    }
}
