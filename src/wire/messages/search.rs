//! The searches of messages and timelines: `message.search`, `timeline.search`.
//!
//! Owns: parameters and results of these methods. Promises: texts, IDs, lists, times and limits are checked when they
//! leave here. Must not: know a query's words; the engine takes them apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::messages::entry::OneValue;
use super::super::schema::rules;
use super::super::tables::row_filter::Op;
use tideline_model::Value;
use tideline_model::search::{
    FIND_LIMIT_MAX, FIND_TIMELINES_MAX, FIND_WHERE_MAX, QUERY_BYTES_MAX, WHERE_BYTES_MAX,
};
pub use tideline_model::search::{FindOrder, FoundMessage};
pub use tideline_model::timelines::TimelineInfo;

/// Bytes of a page's token.
const TOKEN_BYTES_MAX: usize = 4 << 10;

fn limit_default() -> u64 {
    20
}

/// Asks for messages by their words, in all timelines that the caller may read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "message.search.params")]
pub struct Messages {
    /// Words that all occur; `"a phrase"`, `-without`, `begin*`. Anything else is text. Absent: every message matches.
    #[schemars(length(max = 1_024))]
    pub query: Option<String>,
    /// Only in these timelines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 255)))]
    pub timelines: Option<Vec<String>>,
    /// Only in timelines whose IDs start with this.
    #[schemars(length(max = 255))]
    pub prefix: Option<String>,
    /// Only messages of this user.
    #[schemars(length(min = 1, max = 128), regex(pattern = rules::NO_CONTROL))]
    pub sender: Option<String>,
    /// What has to hold of names of the entry, all of it; only names that the operator lets be asked for, in
    /// `[search] where`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub r#where: Vec<Condition>,
    /// Only messages from this time on, ms since 1970.
    pub from: Option<u64>,
    /// Only messages before this time, ms since 1970.
    pub to: Option<u64>,
    /// In which order.
    #[serde(default)]
    pub order: FindOrder,
    /// `next` of the page before; everything else must be as it was then.
    #[schemars(length(max = 4096))]
    pub after: Option<String>,
    /// Messages at most; clamped to 100.
    #[serde(default = "limit_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Messages {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::text_bytes("query", self.query.as_deref(), QUERY_BYTES_MAX)?;
        if let Some(timelines) = &self.timelines {
            check_timelines(timelines)?;
        }
        check::text_bytes("prefix", self.prefix.as_deref(), check::NAME_BYTES_MAX)?;
        if let Some(sender) = &self.sender {
            check::user("sender", sender)?;
        }
        check_where(&self.r#where)?;
        check::text_bytes("after", self.after.as_deref(), TOKEN_BYTES_MAX)?;
        check_limit(&mut self.limit)
    }
}

impl Messages {
    /// What is asked for, whichever page of it.
    #[must_use]
    pub fn without_page(&self) -> Messages {
        Messages {
            after: None,
            limit: 0,
            ..self.clone()
        }
    }
}

/// What has to hold of a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "search_condition")]
pub struct Condition {
    /// The name.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::NAME))]
    pub name: String,
    /// How its value is compared. Names that are not there fulfil nothing.
    pub op: Op,
    /// With what: a text of at most 1,024 bytes, a number, or `true` or `false`. Numbers compare as numbers; values of
    /// two kinds are not equal, and neither is above the other.
    pub value: OneValue<'static>,
}

/// A page of messages. It may hold fewer than asked for, or none, though there are more.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "message.search.result")]
pub struct FoundMessages {
    /// In order, each as the caller sees it now.
    pub messages: Vec<FoundMessage>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Something may be missing: the index did not have all that was answered before, or the work was too much.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
}

/// Asks for timelines by the words of their metas, those that the caller may read, in the order of their IDs' bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "timeline.search.params")]
pub struct Timelines {
    /// As in `message.search`. Absent: every timeline matches.
    #[schemars(length(max = 1_024))]
    pub query: Option<String>,
    /// What has to hold of names of the meta, all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub r#where: Vec<Condition>,
    /// Only timelines whose IDs start with this.
    #[schemars(length(max = 255))]
    pub prefix: Option<String>,
    /// `next` of the page before; everything else must be as it was then.
    #[schemars(length(max = 4096))]
    pub after: Option<String>,
    /// Timelines at most; clamped to 100.
    #[serde(default = "limit_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Timelines {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::text_bytes("query", self.query.as_deref(), QUERY_BYTES_MAX)?;
        check_where(&self.r#where)?;
        check::text_bytes("prefix", self.prefix.as_deref(), check::NAME_BYTES_MAX)?;
        check::text_bytes("after", self.after.as_deref(), TOKEN_BYTES_MAX)?;
        check_limit(&mut self.limit)
    }
}

impl Timelines {
    /// What is asked for, whichever page of it.
    #[must_use]
    pub fn without_page(&self) -> Timelines {
        Timelines {
            after: None,
            limit: 0,
            ..self.clone()
        }
    }
}

/// A page of timelines. It may hold fewer than asked for, or none, though there are more.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "timeline.search.result")]
pub struct FoundTimelines {
    /// In the order of their IDs' bytes, as `timeline.get` gives them.
    pub timelines: Vec<TimelineInfo>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Something may be missing: the index did not have all that was answered before, or the work was too much.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
}

fn check_timelines(timelines: &[String]) -> Result<(), Failure> {
    if timelines.is_empty() {
        return Err(Failure::invalid("timelines", "must not be empty"));
    }
    if timelines.len() > FIND_TIMELINES_MAX {
        let failure = Failure::invalid("timelines", "more than 100 timelines");
        return Err(failure.over(FIND_TIMELINES_MAX as u64, timelines.len() as u64));
    }
    for (at, timeline) in timelines.iter().enumerate() {
        check::timeline_at(&format!("timelines[{at}]"), timeline)?;
    }
    Ok(())
}

fn check_where(all: &[Condition]) -> Result<(), Failure> {
    if all.len() > FIND_WHERE_MAX {
        let failure = Failure::invalid("where", "more than 16 conditions");
        return Err(failure.over(FIND_WHERE_MAX as u64, all.len() as u64));
    }
    for (at, condition) in all.iter().enumerate() {
        check::name(&|| format!("where[{at}].name"), &condition.name)?;
        let field = format!("where[{at}].value");
        match &*condition.value.value {
            Value::String(text) => check::text_bytes(&field, Some(text), WHERE_BYTES_MAX)?,
            Value::Integer(_) | Value::Double(_) | Value::Boolean(_) => {}
            Value::Binary(_) | Value::Json(_) => {
                return Err(Failure::invalid(field, "a text, a number, true or false"));
            }
        }
    }
    Ok(())
}

fn check_limit(limit: &mut u64) -> Result<(), Failure> {
    if *limit == 0 {
        return Err(Failure::invalid("limit", "must be at least 1"));
    }
    *limit = (*limit).min(FIND_LIMIT_MAX as u64);
    Ok(())
}
