//! `tideline search QUERY`: messages by their words, in all timelines that the caller may read.
//!
//! Owns: the search, page by page, and a line for each message. Promises: as many as asked for are shown, in the
//! server's order; when there are more, or the index is behind, a line on standard error says so. Must not: take the
//! query apart; the server does.

use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::address::At;
use super::failure::Failure;
use super::message::Message;
use super::plain::json;
use super::screen::{Form, Look, Screen, note};
use super::session::{Session, parsed};
use crate::clock::Clock;

/// What to look for.
#[derive(Debug, Args)]
pub struct Search {
    /// The words, in single quotes: 'tide "at noon" harb* -storm'. None: all messages that the options leave.
    #[arg(value_name = "QUERY")]
    query: Vec<String>,
    /// Only in this timeline; may be given up to 100 times.
    #[arg(long = "timeline", value_name = "TIMELINE")]
    timelines: Vec<String>,
    /// Only in timelines whose IDs begin so.
    #[arg(long)]
    prefix: Option<String>,
    /// Only messages of this user.
    #[arg(long, value_name = "USER")]
    sender: Option<String>,
    /// Only messages from this time on: 2026-10-28, "2026-10-28 09:33:21" (UTC), ms since 1970, or 2h for two hours
    /// ago.
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<u64>,
    /// Only messages before this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<u64>,
    /// Those first that are most about the words [default: the newest first].
    #[arg(long)]
    best: bool,
    /// Show so many at most.
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    form: Form,
}

#[derive(Serialize)]
struct Asked<'a> {
    query: String,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    timelines: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
    order: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    limit: u64,
}

#[derive(Deserialize)]
struct Page {
    messages: Vec<Box<RawValue>>,
    next: Option<String>,
    #[serde(default)]
    behind: bool,
}

#[derive(Deserialize)]
struct Found {
    timeline: String,
    message: Message,
    #[serde(default)]
    found: Vec<Piece>,
}

/// A piece of a text around the words.
#[derive(Deserialize)]
struct Piece {
    name: String,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    text: String,
    #[serde(default)]
    hit: bool,
}

impl Search {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let mut screen = Screen::new(&self.form);
        let mut session = Session::open(&self.at).await?;
        let mut asked = Asked {
            query: self.query.join(" "),
            timelines: &self.timelines,
            prefix: self.prefix.as_deref(),
            sender: self.sender.as_deref(),
            from: self.from,
            to: self.to,
            order: if self.best { "best" } else { "newest" },
            after: None,
            limit: self.limit,
        };
        let mut is_behind = false;
        loop {
            // The server clamps the limit to that of a page.
            let page: Page = parsed(&session.call("message.search", &asked).await?)?;
            for raw in &page.messages {
                show(&mut screen, raw)?;
            }
            screen.flush()?;
            is_behind |= page.behind;
            asked.limit = asked.limit.saturating_sub(page.messages.len() as u64);
            asked.after = page.next;
            if asked.after.is_none() || asked.limit == 0 {
                break;
            }
        }
        if is_behind {
            note("the index is behind: the newest messages may be missing");
        }
        if asked.after.is_some() && !screen.json {
            note("there may be more: --limit shows more");
        }
        session.close().await;
        Ok(())
    }
}

/// Shows a message: what was found in it, else all of it.
fn show(screen: &mut Screen, raw: &RawValue) -> Result<(), Failure> {
    if screen.json {
        return screen.line(&json(raw));
    }
    let found: Found = parsed(raw)?;
    let message = &found.message;
    let mut line = message.place(screen, Some(&found.timeline));
    line.push(screen.part(Look::Dim, &format!("#{}", message.sequence)));
    if found.found.is_empty() {
        line.push(message.text(screen, usize::MAX));
        return screen.line(&line.join(" "));
    }
    let sender = message.sender.as_deref();
    line.extend(sender.map(|sender| screen.part(Look::Name, sender) + ":"));
    line.extend(found.found.iter().map(|piece| {
        let text: String = piece.parts.iter().map(|part| part.shown(screen)).collect();
        match piece.name.as_str() {
            "text" => text,
            name => screen.part(Look::Dim, &format!("{name}: ")) + &text,
        }
    }));
    screen.line(&line.join(" "))
}

impl Part {
    fn shown(&self, screen: &Screen) -> String {
        match self.hit {
            true => screen.part(Look::Hit, &self.text),
            false => super::plain::plain(&self.text),
        }
    }
}

/// A time in ms since 1970: written out, or by how long it is ago.
fn time(text: &str) -> Result<u64, String> {
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    let wrong = || {
        format!(
            "`{text}` is neither a time like 2026-10-28 or \"2026-10-28 09:33:21\", nor ms since 1970, nor like 2h"
        )
    };
    let written = humantime::parse_rfc3339_weak(text)
        .or_else(|_| humantime::parse_rfc3339_weak(&format!("{text} 00:00:00")));
    let since = match (written, humantime::parse_duration(text)) {
        (Ok(at), _) => at.duration_since(UNIX_EPOCH).ok(),
        (Err(_), Ok(ago)) => Duration::from_millis(Clock::system().now_ms()).checked_sub(ago),
        (Err(_), Err(_)) => None,
    };
    since
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_each_form() {
        assert_eq!(time("1761644001000"), Ok(1_761_644_001_000));
        assert_eq!(time("2025-10-28"), Ok(1_761_609_600_000));
        for same in ["2025-10-28 09:33:21", "2025-10-28T09:33:21Z"] {
            assert_eq!(time(same), Ok(1_761_644_001_000));
        }
        assert!(time("2h").unwrap() < time("1h").unwrap());
        for wrong in ["", "soon", "-1", "2025-13-01", "1960-01-01", "99999years"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
