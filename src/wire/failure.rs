//! One refusal: a reason, and the details that help the client to repair its call.
//!
//! Owns: `Failure` and its form on the wire. Promises: small whatever the client sent (texts are cut), so an error
//! can't be used to make the server echo megabytes. Must not: list reasons; `reasons.rs` does.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::reasons::Reason;
use tideline_model::timelines::Outcome;

/// Longer texts in a failure are cut here.
const TEXT_BYTES_MAX: usize = 360;

/// Why a call was refused, with details. Everything but [`Reason::OutcomeUnknown`] promises that nothing was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What clients switch on.
    pub reason: Reason,
    /// For people.
    pub message: Cow<'static, str>,
    /// Path of the parameter at fault, `messages[3].entry`.
    pub field: Option<String>,
    /// The value of the limit that was passed.
    pub limit: Option<u64>,
    /// The limit's name in the configuration: for the server's own count; clients do not get it.
    pub limit_name: Option<&'static str>,
    /// What it was instead.
    pub actual: Option<Actual>,
    /// Wait this long before a retry, ms.
    pub retry_after_ms: Option<u32>,
    /// Where the node is that can do it.
    pub owner: Option<String>,
}

/// How a message ended that does not grow any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// How it went; absent = it never was open.
    pub outcome: Option<Outcome>,
    /// How many parts it has.
    pub parts: u64,
    /// Who stopped it, if somebody did; empty = nobody in particular.
    pub stopped_by: Option<String>,
}

/// What was found in place of what was expected or allowed: a number, or an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Actual {
    /// A head, version, change, size or count.
    Number(u64),
    /// An epoch.
    Text(String),
    /// How a message ended that does not grow any more; clients get it as members of their own.
    #[serde(skip)]
    #[schemars(skip)]
    Closed(Box<Closed>),
}

impl Failure {
    /// A refusal with the reason's own message.
    #[must_use]
    pub fn new(reason: Reason) -> Failure {
        Failure {
            reason,
            message: Cow::Borrowed(reason.message()),
            field: None,
            limit: None,
            limit_name: None,
            actual: None,
            retry_after_ms: None,
            owner: None,
        }
    }

    /// `invalid_params` about the parameter at `field`.
    #[must_use]
    pub fn invalid(field: impl Into<String>, message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(Reason::InvalidParams)
            .about(field)
            .saying(message)
    }

    /// `too_large`: the parameter at `field` is `actual`, and `limit` is allowed by the limit called `name`.
    #[must_use]
    pub fn too_large(
        field: impl Into<String>,
        name: &'static str,
        limit: u64,
        actual: u64,
    ) -> Failure {
        Failure::new(Reason::TooLarge)
            .about(field)
            .saying(format!("larger than {name}"))
            .over(limit, actual)
            .named(name)
    }

    /// With the name of the limit.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Failure {
        self.limit_name = Some(name);
        self
    }

    /// With another message; cut to a few hundred bytes.
    #[must_use]
    pub fn saying(mut self, message: impl Into<Cow<'static, str>>) -> Failure {
        self.message = message.into();
        if self.message.len() > TEXT_BYTES_MAX {
            self.message = Cow::Owned(cut(self.message.into_owned()));
        }
        self
    }

    /// With the path of the parameter at fault; cut to a few hundred bytes.
    #[must_use]
    pub fn about(mut self, field: impl Into<String>) -> Failure {
        self.field = Some(cut(field.into()));
        self
    }

    /// With a limit and what it was instead.
    #[must_use]
    pub fn over(mut self, limit: u64, actual: u64) -> Failure {
        self.limit = Some(limit);
        self.actual = Some(Actual::Number(actual));
        self
    }

    /// With what was found.
    #[must_use]
    pub fn actual(mut self, actual: Actual) -> Failure {
        self.actual = Some(actual);
        self
    }

    /// With the address of the node that can do it, if it is known.
    #[must_use]
    pub fn owned_by(mut self, owner: Option<String>) -> Failure {
        self.owner = owner;
        self
    }

    /// With a time to wait, ms.
    #[must_use]
    pub fn retry_after(mut self, retry_after_ms: u32) -> Failure {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }
}

/// A failure as it is said: the `error` member of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "error")]
pub struct Said {
    /// The class of the reason.
    pub code: i32,
    /// For people.
    pub message: String,
    /// For programs.
    pub data: Details,
}

/// What programs read of an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Details {
    /// Switch on this.
    pub reason: Reason,
    /// Whether the same call can succeed later, unchanged.
    pub retry: bool,
    /// Wait this long before, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Path of the parameter at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The value of the limit that was passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// What it was instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<Actual>,
    /// Of a node of a cluster: the address of the node that owns it and can do this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Of a message that does not grow any more: how it went; absent = it never was open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// How many parts it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u64>,
    /// Who stopped it, if somebody did; empty = nobody in particular.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        Said::from(self.clone()).serialize(into)
    }
}

impl From<Failure> for Said {
    fn from(failure: Failure) -> Said {
        let (actual, closed) = match failure.actual {
            Some(Actual::Closed(closed)) => (None, Some(*closed)),
            actual => (actual, None),
        };
        let parts = closed.as_ref().map(|closed| closed.parts);
        let Closed {
            outcome,
            stopped_by,
            ..
        } = closed.unwrap_or_default();
        Said {
            code: failure.reason.code(),
            message: failure.message.into_owned(),
            data: Details {
                reason: failure.reason,
                retry: failure.reason.retry(),
                retry_after_ms: failure.retry_after_ms.map(u64::from),
                field: failure.field,
                limit: failure.limit,
                actual,
                owner: failure.owner,
                outcome,
                parts,
                stopped_by,
            },
        }
    }
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Failure {
        Failure::new(reason)
    }
}

/// Ends a text that is too long at a character boundary, with an ellipsis.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}
