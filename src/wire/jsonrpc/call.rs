//! From the parts of a request object to a checked call.
//!
//! Owns: which failure an unfit call gets, and the way from a method's name to its parameters. Promises: the common way
//! reads parameters once, straight into their struct; only a refused call is read again, to find the path of what is
//! wrong. Must not: know how the parts were found in the bytes.

use serde::de::{Deserialize, DeserializeOwned};

use super::super::messages::message::Append;
use super::super::reasons::Reason;
use super::super::timelines::sync::Sync;
use super::{ID_BYTES_MAX, Id};
use crate::check::Check;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::methods::{Method, Params, Request};
use crate::params::{Reading, parameters};

/// Refuses empty batches and those that could never be in flight at once.
pub(super) fn batch_count(count: u64, limits: &Limits) -> Result<(), Failure> {
    if count == 0 {
        return Err(Failure::new(Reason::InvalidRequest).saying("an empty batch"));
    }
    let limit = limits.batch_calls_max();
    if count > limit {
        let failure = Failure::new(Reason::TooLarge);
        return Err(failure
            .saying("more calls than requests_in_flight_max")
            .over(limit, count));
    }
    Ok(())
}

/// Whether a call came alone or in a batch, where it may not wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Alone,
    InBatch,
}

/// Refuses what is no id, and texts that are too long.
pub(super) fn checked_id(id: Option<Id>) -> Result<Id, Failure> {
    match id {
        Some(Id::Text(text)) if text.len() > ID_BYTES_MAX => {
            let failure = Failure::new(Reason::InvalidRequest).about("id");
            let failure = failure.saying("an id is at most 64 bytes");
            Err(failure.over(ID_BYTES_MAX as u64, text.len() as u64))
        }
        Some(id) => Ok(id),
        None => {
            let failure = Failure::new(Reason::InvalidRequest).about("id");
            Err(failure.saying("an id is text or a 64-bit integer"))
        }
    }
}

/// Refuses what is no JSON-RPC 2.0 request.
pub(super) fn well_formed<T>(twice: bool, version: bool, method: Option<T>) -> Result<T, Failure> {
    let refuse = |field, message: &'static str| {
        Err(Failure::new(Reason::InvalidRequest)
            .about(field)
            .saying(message))
    };
    match method {
        _ if twice => refuse("", "a member stands twice"),
        _ if !version => refuse("jsonrpc", "jsonrpc must be \"2.0\""),
        None => refuse("method", "method must be a text"),
        Some(method) => Ok(method),
    }
}

/// The request of a method and its parameters' JSON text.
pub(super) fn request(
    method: &str,
    text: &str,
    asked: Asked,
    limits: &Limits,
) -> Result<Request, Failure> {
    match Method::from_name(method) {
        Some(Method::Sync) => sync(read(text)?, asked, limits),
        Some(method) => {
            let request = Request::read(method, JsonParams { text, limits })?;
            no_wait_in_batch(&request, asked)?;
            Ok(request)
        }
        None => Err(no_method(method)),
    }
}

/// Parameters as JSON text.
struct JsonParams<'a> {
    text: &'a str,
    limits: &'a Limits,
}

impl Params for JsonParams<'_> {
    fn read<T: DeserializeOwned + Check>(self) -> Result<T, Failure> {
        let mut params: T = read(self.text)?;
        params.check(self.limits)?;
        Ok(params)
    }
}

/// In the words with which an unknown parameter is refused, if there are methods of the same family.
#[cold]
fn no_method(unknown: &str) -> Failure {
    let asked = &unknown[..unknown.floor_char_boundary(METHOD_SHOWN_BYTES)];
    let family = unknown.split_once('.').map(|(family, _)| family);
    let of = |name: &&str| name.split_once('.').map(|(family, _)| family) == family;
    let names = Method::ALL.iter().map(|method| method.name());
    let known: Vec<&str> = names.filter(of).filter(|_| family.is_some()).collect();
    let message = match known.is_empty() {
        true => format!("unknown method `{asked}`; rpc.discover lists all"),
        false => format!(
            "unknown method `{asked}`, expected one of {}",
            known.join(", ")
        ),
    };
    Failure::new(Reason::MethodNotFound).saying(message)
}

/// Leaves room for the known ones; see `Failure::saying`.
const METHOD_SHOWN_BYTES: usize = 64;

/// The request of `sync` and its parameters.
pub(super) fn sync(mut params: Sync, asked: Asked, limits: &Limits) -> Result<Request, Failure> {
    params.check(limits)?;
    let request = Request::Sync(Box::new(params));
    no_wait_in_batch(&request, asked)?;
    Ok(request)
}

/// The request of `message.append` and its parameters.
pub(super) fn append(mut params: Append, limits: &Limits) -> Result<Request, Failure> {
    params.check(limits)?;
    Ok(Request::MessageAppend(Box::new(params)))
}

/// Refuses a wait among calls that are answered together.
fn no_wait_in_batch(request: &Request, asked: Asked) -> Result<(), Failure> {
    if request.wait_ms().is_some() && asked == Asked::InBatch {
        let failure = Failure::invalid("wait_ms", "a call in a batch may not wait");
        return Err(failure);
    }
    Ok(())
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Failure> {
    if !text.starts_with('{') {
        return Err(Failure::invalid("params", "params must be an object"));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let params: Result<T, _> = parameters(&mut reader);
    let params = params.and_then(|params| reader.end().map(|()| params));
    params.map_err(|_| explained::<T>(text))
}

/// Reads parameters that were refused once more, to say what is wrong and where.
#[cold]
fn explained<'a, T: Deserialize<'a>>(text: &'a str) -> Failure {
    let mut reader = serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(Reading::new(&mut reader)) else {
        return Failure::invalid("params", "not to be read");
    };
    let path = error.path().to_string();
    let message = without_place(error.inner());
    // serde notes these at the object that lacks or has the member.
    let quoted = |prefix: &str| {
        let rest = message.strip_prefix(prefix)?.strip_prefix('`')?;
        Some(rest.split('`').next().unwrap_or(rest).to_owned())
    };
    let missing = quoted("missing field ").or_else(|| quoted("duplicate field "));
    let member = missing.or_else(|| quoted("unknown field "));
    let field = match member {
        Some(member) if path == "." => member,
        Some(member) if path == member || path.ends_with(&format!(".{member}")) => path,
        Some(member) => format!("{path}.{member}"),
        None if path == "." => "params".to_owned(),
        None => path,
    };
    Failure::invalid(field, message)
}

/// An error's text without the line and column, which are those of a part.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some(place) = text.rfind(" at line ") {
        text.truncate(place);
    }
    text
}
