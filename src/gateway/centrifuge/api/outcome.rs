//! From the text of a call to its request, and from what was found to its result.
//!
//! Owns: what all calls of this API begin and end with. Promises: a text that is no such request is refused as bad.
//! Must not: do a call.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::to_raw_value;

use super::Outcome;
use crate::decode;
use crate::wire::centrifuge::{ApiError, Code};

pub(super) fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, ApiError> {
    decode::from_str(text).map_err(|_| Code::BadRequest.into())
}

pub(super) fn result(result: &impl Serialize) -> Outcome {
    to_raw_value(result).map_err(|_| Code::Internal.into())
}

/// A result that says no more than that it was done.
pub(super) fn done() -> Outcome {
    result(&json!({}))
}
