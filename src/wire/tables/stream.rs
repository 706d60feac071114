//! The stream family, for back ends: open, close, commit, cursors, forget.
//!
//! Owns: parameters and results of these methods. Promises: exactly one source is named, and one place to begin at;
//! names, positions and limits are checked when they leave here. Must not: know what a position holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::params::page_default;
use super::super::reasons::Reason;
use super::super::schema::rules;

/// Bytes of a cursor's name.
const CURSOR_BYTES_MAX: usize = 64;
/// Bytes of a position.
pub(in super::super) const POSITION_BYTES_MAX: usize = 4 << 10;

/// Follows all changes of many timelines, or of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "stream.open.params",
    transform = rules::one_of([rules::given("timelines"), rules::given("table")]),
    transform = rules::not_beside("position", ["from", "cursor"]),
)]
pub struct Open {
    /// The timelines whose IDs begin so; empty = all. None of the server's own (`$…`). Or `table`.
    #[schemars(length(max = 255), regex(pattern = rules::NOT_OURS))]
    pub timelines: Option<String>,
    /// The rows of this table, which must have a stream.
    #[schemars(length(min = 1, max = 255), regex(pattern = rules::TABLE))]
    pub table: Option<String>,
    /// Where to begin: `"now"` (the default), or `"start"`, the first change that the log keeps.
    pub from: Option<From>,
    /// Behind this position, of a push or of `stream.cursors`; not with `from` or `cursor`.
    #[schemars(length(min = 1, max = 4096))]
    pub position: Option<String>,
    /// At the named cursor, 1 to 64 bytes. One that is not there is made first, at `from`.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NOT_OURS))]
    pub cursor: Option<String>,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "stream_from")]
pub enum From {
    /// At the first change that the log keeps.
    Start,
    /// Behind all that there is.
    Now,
}

impl Check for Open {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        match (&self.timelines, &self.table) {
            (Some(prefix), None) => {
                check::text_bytes("timelines", Some(prefix), check::NAME_BYTES_MAX)?;
                check::no_control("timelines", prefix)?;
                if prefix.starts_with('$') {
                    return Err(Failure::new(Reason::Forbidden)
                        .about("timelines")
                        .saying("timelines that start with $ are the server's own"));
                }
            }
            (None, Some(table)) => check::bytes_between("table", table, check::NAME_BYTES_MAX)?,
            _ => return Err(Failure::invalid("timelines", "either timelines or table")),
        }
        if let Some(position) = &self.position {
            check::bytes_between("position", position, POSITION_BYTES_MAX)?;
            if self.from.is_some() || self.cursor.is_some() {
                return Err(Failure::invalid("position", "not with from or cursor"));
            }
        }
        match &self.cursor {
            Some(cursor) => cursor_name(cursor),
            None => Ok(()),
        }
    }
}

fn cursor_name(name: &str) -> Result<(), Failure> {
    check::bytes_between("cursor", name, CURSOR_BYTES_MAX)?;
    check::no_control("cursor", name)?;
    if name.starts_with('$') {
        return Err(Failure::new(Reason::Forbidden)
            .about("cursor")
            .saying("cursors that start with $ are the server's own"));
    }
    Ok(())
}

/// The stream is open: pushes of it follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "stream.open.result")]
pub struct Opened {
    /// Its number on this connection.
    pub stream: u64,
    /// Where it begins.
    pub position: String,
}

/// Ends a stream; one that is not open is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "stream.close.params")]
pub struct Close {
    /// Its number on this connection.
    pub stream: u64,
}

impl Check for Close {}

/// Nothing of the stream follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "stream.close.result")]
pub struct Closed {}

/// Moves a named cursor: everything up to the position was dealt with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "stream.commit.params")]
pub struct Commit {
    /// The cursor's name.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NOT_OURS))]
    pub cursor: String,
    /// The position of a push of a stream of the same source.
    #[schemars(length(min = 1, max = 4096))]
    pub position: String,
    /// Also back; without it the further place counts.
    #[serde(default)]
    pub force: bool,
}

impl Check for Commit {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        cursor_name(&self.cursor)?;
        check::bytes_between("position", &self.position, POSITION_BYTES_MAX)
    }
}

/// The cursor is there, or further.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "stream.commit.result")]
pub struct Committed {
    /// `false` = it was there or further before.
    pub moved: bool,
}

/// Asks for the named cursors, in the order of their names' bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "stream.cursors.params")]
pub struct Cursors {
    /// Only names above this one: `next` of the page before.
    #[schemars(length(max = 64))]
    pub after: Option<String>,
    /// Cursors at most; clamped to the page limit.
    #[serde(default = "page_default")]
    #[schemars(range(min = 1))]
    pub limit: u64,
}

impl Check for Cursors {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        check::text_bytes("after", self.after.as_deref(), CURSOR_BYTES_MAX)?;
        check::page_limit(&mut self.limit, limits)
    }
}

/// A page of cursors; may hold fewer than asked for though there are more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "stream.cursors.result")]
pub struct CursorsPage {
    /// In the order of their names' bytes.
    pub cursors: Vec<Cursor>,
    /// What to pass as `after` for the next page; absent = that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A named cursor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "stream_cursor")]
pub struct Cursor {
    /// Its name.
    pub cursor: String,
    /// Of timelines: how their IDs begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timelines: Option<String>,
    /// Of a table: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Where it is.
    pub position: String,
    /// When it was set last, ms.
    pub committed_at: u64,
    /// Commits of what it follows that it has not passed. Behind the first MiB of the log all commits count.
    pub behind: u64,
    /// How long ago the first of them was, ms; 0 = there is none.
    pub lag_ms: u64,
    /// The log has let go of its place: begin anew.
    pub lost: bool,
}

/// Forgets a named cursor: the log is not kept for it any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "stream.forget.params")]
pub struct Forget {
    /// The cursor's name.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::NOT_OURS))]
    pub cursor: String,
}

impl Check for Forget {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        cursor_name(&self.cursor)
    }
}

/// There is no cursor of this name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "stream.forget.result")]
pub struct Forgotten {
    /// `false` = there was none.
    pub forgotten: bool,
}
