//! How messages are shown: as a line of text, or as the server's own JSON.
//!
//! Owns: the members of a message that people see, and times. Promises: what is not understood is shown as JSON, not
//! left out. Must not: ask for anything.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::plain::{json, plain};
use super::screen::{Look, Screen};
use super::session::parsed;

/// A message, a tombstone, or the reactions to one.
#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) sequence: u64,
    pub(super) change: Option<u64>,
    timestamp: Option<u64>,
    pub(super) sender: Option<String>,
    entry: Option<Box<RawValue>>,
    edited_at: Option<u64>,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    expired: bool,
    recalled_by: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    pub(super) open: bool,
    pub(super) parts: Option<u64>,
    outcome: Option<String>,
    stopped_by: Option<String>,
    #[serde(default)]
    abandoned: bool,
    #[serde(default)]
    pinned: bool,
    #[serde(default)]
    reactions: BTreeMap<String, Reaction>,
}

#[derive(Deserialize)]
struct Reaction {
    count: u64,
}

/// What a message is shown as: something new, or something that has changed since it was shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    Changed,
    /// It was open, and its text was shown as it grew.
    Ended,
    Reacted,
}

impl Kind {
    /// The push that it comes with.
    fn name(self) -> &'static str {
        match self {
            Kind::New => "message",
            Kind::Changed | Kind::Ended => "message.changed",
            Kind::Reacted => "reaction",
        }
    }
}

/// Where a followed message is from.
pub(super) struct Source<'a> {
    pub(super) timeline: &'a str,
    pub(super) epoch: &'a str,
    /// Others are followed, too.
    pub(super) is_one_of_many: bool,
}

impl Message {
    /// Its sender and its text; of a long text or a long rest so many characters.
    pub(super) fn text(&self, screen: &Screen, most: usize) -> String {
        let mut parts = Vec::new();
        if self.deleted {
            parts.push(screen.part(Look::Dim, &self.why_gone()));
        } else if let Some(entry) = &self.entry {
            let (text, rest) = entry_text(entry);
            let text = text.filter(|text| !text.is_empty());
            parts.extend(text.map(|text| plain(&cut(text, most))));
            parts.extend(rest.map(|rest| screen.part(Look::Dim, &cut(rest, most))));
        }
        let reactions: Vec<String> = self
            .reactions
            .iter()
            .map(|(name, reaction)| format!("{name} {}", reaction.count))
            .collect();
        let marks = [
            self.edited_at
                .filter(|_| !self.deleted)
                .map(|_| "(edited)".to_owned()),
            self.open.then(|| "(open)".to_owned()),
            self.how_ended(),
            self.pinned.then(|| "(pinned)".to_owned()),
            (!reactions.is_empty()).then(|| format!("[{}]", reactions.join(", "))),
        ];
        parts.extend(
            marks
                .iter()
                .flatten()
                .map(|mark| screen.part(Look::Dim, mark)),
        );
        let text = parts.join(" ");
        match &self.sender {
            Some(sender) => format!("{}: {text}", screen.part(Look::Name, sender)),
            None => text,
        }
    }

    /// Of one that was open; nothing of one that is whole.
    fn how_ended(&self) -> Option<String> {
        match (self.outcome.as_deref()?, &self.stopped_by) {
            ("done", _) => None,
            (outcome, Some(by)) => Some(format!("({outcome} by {by})")),
            _ if self.abandoned => Some("(abandoned)".to_owned()),
            (outcome, None) => Some(format!("({outcome})")),
        }
    }

    fn why_gone(&self) -> String {
        let mut why = match (&self.recalled_by, self.expired, self.hidden) {
            (Some(by), ..) if !by.is_empty() => format!("(recalled by {by}"),
            (Some(_), ..) => "(recalled".to_owned(),
            (None, true, _) => "(expired".to_owned(),
            (None, false, true) => "(hidden".to_owned(),
            (None, false, false) => "(deleted".to_owned(),
        };
        if let Some(reason) = &self.reason {
            why.push_str(": ");
            why.push_str(reason);
        }
        why.push(')');
        why
    }

    /// Its time, and the timeline if it is named.
    pub(super) fn place(&self, screen: &Screen, timeline: Option<&str>) -> Vec<String> {
        let at = self.timestamp.map(|at| screen.part(Look::Dim, &moment(at)));
        let timeline = timeline.map(|timeline| screen.part(Look::Timeline, timeline));
        at.into_iter().chain(timeline).collect()
    }

    fn line(&self, screen: &Screen, kind: Kind, timeline: Option<&str>) -> String {
        let mut parts = self.place(screen, timeline);
        // Something that was there is not something new.
        let number = match kind {
            Kind::New => format!("#{}", self.sequence),
            _ => format!("~#{}", self.sequence),
        };
        parts.push(screen.part(Look::Dim, &number));
        match kind {
            Kind::Reacted if self.reactions.is_empty() => {
                parts.push(screen.part(Look::Dim, "no reactions any more"));
            }
            Kind::Ended => parts.push(self.text(screen, 0)),
            _ => parts.push(self.text(screen, usize::MAX)),
        }
        parts.join(" ")
    }
}

/// Shows a message of a page.
pub(super) fn show(screen: &mut Screen, raw: &RawValue) -> Result<(), Failure> {
    if screen.json {
        return screen.line(&json(raw));
    }
    let message: Message = parsed(raw)?;
    let line = message.line(screen, Kind::New, None);
    screen.line(&line)
}

/// Shows a message of a timeline that is followed.
pub(super) fn tell(
    screen: &mut Screen,
    kind: Kind,
    source: &Source<'_>,
    raw: &RawValue,
    message: &Message,
) -> Result<(), Failure> {
    if screen.json {
        let of = [("timeline", source.timeline), ("epoch", source.epoch)];
        return screen.line(&event(kind.name(), &of, raw));
    }
    let timeline = source.is_one_of_many.then_some(source.timeline);
    let line = message.line(screen, kind, timeline);
    screen.line(&line)
}

/// An object of the server's as a line of JSON, with some members before its own.
pub(super) fn event(kind: &str, members: &[(&str, &str)], object: &RawValue) -> String {
    let mut line = format!("{{\"kind\":\"{kind}\"");
    for (name, text) in members {
        let text = serde_json::value::to_raw_value(text).expect("a text is JSON");
        line.push_str(&format!(",\"{name}\":{}", json(&text)));
    }
    let own = json(object);
    match own.trim_start_matches('{').trim_start() {
        "}" => line.push('}'),
        own => {
            line.push(',');
            line.push_str(own);
        }
    }
    line
}

/// What an entry says to people, and the rest of it. Neither was made plain.
fn entry_text(entry: &RawValue) -> (Option<String>, Option<String>) {
    let members: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(entry.get()).ok();
    let mut members = members.unwrap_or_default();
    let text = members
        .get("text")
        .and_then(|text| serde_json::from_str(text.get()).ok());
    if text.is_none() {
        return (None, Some(entry.get().to_owned()));
    }
    members.remove("text");
    let rest = (!members.is_empty()).then(|| serde_json::to_string(&members).unwrap_or_default());
    (text, rest)
}

/// A text of so many characters, and … where there were more.
fn cut(mut text: String, most: usize) -> String {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// A time as people write it, in UTC.
pub(super) fn moment(ms: u64) -> String {
    /// The end of the year 9999.
    const LAST_MS: u64 = 253_402_300_799_999;
    if ms > LAST_MS {
        return ms.to_string();
    }
    let at = UNIX_EPOCH + Duration::from_millis(ms);
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.replace('T', " ").trim_end_matches('Z').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_entry_says_its_text_and_then_the_rest() {
        let of = |text: &str| entry_text(&raw(text));
        assert_eq!(of(r#"{"text":"hi"}"#), (Some("hi".into()), None));
        let rest = Some(r#"{"big":9007199254740993,"n":1.0}"#.to_owned());
        assert_eq!(
            of(r#"{"n":1.0,"text":"hi","big":9007199254740993}"#),
            (Some("hi".into()), rest)
        );
        for whole in [r#"{"text":5}"#, r#"{"n":1.0}"#, "{}"] {
            assert_eq!(of(whole), (None, Some(whole.to_owned())));
        }
    }

    #[test]
    fn an_event_is_one_line_of_json() {
        let line = event(
            "message",
            &[("timeline", "a\"\u{9b}\n")],
            &raw("{\n \"sequence\":1}"),
        );
        assert_eq!(
            line,
            r#"{"kind":"message","timeline":"a\"\u009b\n","sequence":1}"#
        );
        assert_eq!(event("x", &[], &raw("{ }")), r#"{"kind":"x"}"#);
    }

    #[test]
    fn times_have_no_end() {
        assert_eq!(moment(1_793_180_000_123), "2026-10-28 09:33:20");
        assert_eq!(moment(u64::MAX), u64::MAX.to_string());
    }
}
