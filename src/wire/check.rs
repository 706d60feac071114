//! The rules for single parameters: identifiers, sequences, page limits, entries; and the trait that every family's
//! parameters have.
//!
//! Owns: what is a valid name, ID, epoch, sequence. Promises: a refusal carries the path, and where there is a limit
//! that and the actual value. Must not: parse; `model/entry/` and the dialects do.

use super::failure::Failure;
use super::limits::Limits;
use super::messages::entry::{Entry, Patch};
use super::reasons::Reason;
use tideline_model::{Value, json_bytes};

/// Sequences, change numbers and times stay below 2^53, so that every client can hold them.
pub(crate) const NUMBER_MAX: u64 = (1 << 53) - 1;
/// Bytes of a user.
pub(crate) const USER_BYTES_MAX: usize = 128;
/// Bytes of a timeline ID or the name of a column.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Bytes of a message ID.
pub(crate) const MESSAGE_ID_BYTES_MAX: usize = 64;
/// How long an entry may be shown before it expires, ms: 100 years.
pub(crate) const EXPIRES_IN_MS_MAX: u64 = 100 * 365 * 86_400_000;
/// Names in an entry.
pub(crate) const NAMES_MAX: usize = 128;
/// Bytes of a device's name.
pub(crate) const DEVICE_BYTES_MAX: usize = 64;
/// Characters of an epoch.
pub(crate) const EPOCH_BYTES_MAX: usize = 32;

/// Parameters that know what is allowed in them.
pub trait Check {
    /// Refuses what breaks a rule, clamps what is to be clamped, and leaves the parameters in their final form.
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        let _ = limits;
        Ok(())
    }
}

impl<T: Check> Check for Box<T> {
    fn check(&mut self, limits: &Limits) -> Result<(), Failure> {
        (**self).check(limits)
    }
}

/// Checks a timeline's ID that is no parameter.
///
/// # Errors
/// What is wrong with it.
pub fn check_timeline(text: &str) -> Result<(), Failure> {
    timeline_to_write(text)
}

/// Checks parameters that were read from no text.
///
/// # Errors
/// What is wrong with them.
pub fn checked<T: Check>(mut params: T, limits: &Limits) -> Result<T, Failure> {
    params.check(limits).map(|()| params)
}

/// Checks a user that is no parameter (of an HTTP header): 1 to 128 bytes without control characters.
///
/// # Errors
/// `invalid_params` with field `user`.
pub fn check_user(text: &str) -> Result<(), Failure> {
    user("user", text)
}

pub(crate) fn user(field: &str, text: &str) -> Result<(), Failure> {
    bytes_between(field, text, USER_BYTES_MAX)?;
    no_control(field, text)
}

/// A device's name.
pub(crate) fn device(field: &str, text: &str) -> Result<(), Failure> {
    bytes_between(field, text, DEVICE_BYTES_MAX)?;
    no_control(field, text)
}

/// A timeline ID; it may be one of the server's own.
pub(crate) fn timeline(text: &str) -> Result<(), Failure> {
    timeline_at("timeline", text)
}

pub(crate) fn timeline_at(field: &str, text: &str) -> Result<(), Failure> {
    bytes_between(field, text, NAME_BYTES_MAX)?;
    no_control(field, text)
}

/// A timeline ID that is written to: not one of the server's own.
pub(crate) fn timeline_to_write(text: &str) -> Result<(), Failure> {
    timeline(text)?;
    if text.starts_with('$') {
        return Err(Failure::new(Reason::Forbidden)
            .about("timeline")
            .saying("timelines that start with $ are the server's own"));
    }
    Ok(())
}

/// The ID of a timeline, which may be one of the server's own, and the epoch that it must have.
pub(crate) fn target(text: &str, of: &Option<String>) -> Result<(), Failure> {
    timeline(text)?;
    epoch("epoch", of.as_deref())
}

/// The same of a timeline that is written to: not one of the server's own.
pub(crate) fn target_to_write(text: &str, of: &Option<String>) -> Result<(), Failure> {
    timeline_to_write(text)?;
    epoch("epoch", of.as_deref())
}

pub(crate) fn message_id(field: impl Fn() -> String, id: Option<&str>) -> Result<(), Failure> {
    match id {
        Some(id) if id.is_empty() || id.len() > MESSAGE_ID_BYTES_MAX => {
            bytes_between(&field(), id, MESSAGE_ID_BYTES_MAX)
        }
        _ => Ok(()),
    }
}

/// How long an entry is shown, ms.
pub(crate) fn expires_in(field: impl Fn() -> String, ms: Option<u64>) -> Result<(), Failure> {
    match ms {
        Some(0) => Err(Failure::invalid(field(), "must be at least 1")),
        Some(ms) if ms > EXPIRES_IN_MS_MAX => {
            Err(Failure::invalid(field(), "more than 100 years").over(EXPIRES_IN_MS_MAX, ms))
        }
        _ => Ok(()),
    }
}

pub(crate) fn epoch(field: &str, epoch: Option<&str>) -> Result<(), Failure> {
    let Some(epoch) = epoch else { return Ok(()) };
    bytes_between(field, epoch, EPOCH_BYTES_MAX)?;
    // Looks at all bytes, so that the compiler may take many at a time.
    let is_plain = |plain: bool, byte: u8| plain & byte.is_ascii_alphanumeric();
    if !epoch.bytes().fold(true, is_plain) {
        return Err(Failure::invalid(field, "only letters and digits of ASCII"));
    }
    Ok(())
}

/// A sequence that names a message.
pub(crate) fn sequence(sequence: u64) -> Result<(), Failure> {
    match sequence {
        0 => Err(Failure::invalid("sequence", "sequences start at 1")),
        _ => Ok(()),
    }
}

/// Refuses 0, clamps to the maximum.
pub(crate) fn page_limit(limit: &mut u64, limits: &Limits) -> Result<(), Failure> {
    if *limit == 0 {
        return Err(Failure::invalid("limit", "must be at least 1"));
    }
    *limit = (*limit).min(limits.page_messages_max);
    Ok(())
}

/// A text of at most so many bytes, if there is one.
pub(crate) fn text_bytes(field: &str, text: Option<&str>, max: usize) -> Result<(), Failure> {
    match text {
        Some(text) if text.len() > max => {
            let failure = Failure::invalid(field, format!("longer than {max} bytes"));
            Err(failure.over(max as u64, text.len() as u64))
        }
        _ => Ok(()),
    }
}

/// A new entry or meta: names, count, size.
pub(crate) fn entry(field: &str, entry: &Entry<'_>, limits: &Limits) -> Result<u64, Failure> {
    names_count(field, entry.columns.len())?;
    names(field, entry.columns.iter().map(|(name, _)| name.as_str()))?;
    entry_size(field, &entry.columns, limits)
}

/// An object like an entry whose size has a limit of its own: names, count, size.
pub(crate) fn small_entry(
    field: &str,
    entry: &Entry<'_>,
    name: &'static str,
    bytes_max: u64,
) -> Result<(), Failure> {
    names_count(field, entry.columns.len())?;
    names(field, entry.columns.iter().map(|(name, _)| name.as_str()))?;
    let bytes = json_bytes(&entry.columns) as u64;
    match bytes > bytes_max {
        true => Err(Failure::too_large(field, name, bytes_max, bytes)),
        false => Ok(()),
    }
}

/// A change of an entry or meta: names, count, size of what is set.
pub(crate) fn patch(field: &str, patch: &Patch, limits: &Limits) -> Result<(), Failure> {
    names_count(field, patch.put.len() + patch.remove.len())?;
    let mut all: Vec<&str> = patch.put.iter().map(|(name, _)| name.as_str()).collect();
    all.extend(patch.remove.iter().map(String::as_str));
    all.sort_unstable();
    names(field, all.into_iter())?;
    entry_size(field, &patch.put, limits).map(|_| ())
}

/// What an update sets and removes: not nothing, and no name in both. Leaves all that is removed in `remove`, in order.
pub(crate) fn set_and_remove(
    set: &mut Patch,
    remove: &mut Vec<String>,
    limits: &Limits,
) -> Result<(), Failure> {
    patch("set", set, limits)?;
    name_list("remove", remove)?;
    if set.is_empty() && remove.is_empty() {
        return Err(Failure::invalid(
            "set",
            "neither set nor remove says anything",
        ));
    }
    remove.sort_unstable();
    remove.dedup();
    let removed = |name: &&String| remove.binary_search(name).is_ok();
    let mut names = set.put.iter().map(|(name, _)| name).chain(&set.remove);
    if let Some(name) = names.find(removed) {
        let field = format!("set.{name}");
        return Err(Failure::invalid(
            field,
            "the name is both in set and in remove",
        ));
    }
    remove.append(&mut set.remove);
    remove.sort_unstable();
    Ok(())
}

/// Names of columns, in any order, repeated or not.
pub(crate) fn name_list(field: &str, list: &[String]) -> Result<(), Failure> {
    names_count(field, list.len())?;
    for (index, text) in list.iter().enumerate() {
        name(&|| format!("{field}[{index}]"), text)?;
    }
    Ok(())
}

/// Names that come sorted: each well-formed, none twice.
fn names<'a>(field: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let mut before: Option<&str> = None;
    for text in names {
        let path = || format!("{field}.{text}");
        name(&path, text)?;
        if before == Some(text) {
            return Err(Failure::invalid(path(), "the name stands twice"));
        }
        before = Some(text);
    }
    Ok(())
}

pub(crate) fn name(field: &dyn Fn() -> String, name: &str) -> Result<(), Failure> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return bytes_between(&field(), name, NAME_BYTES_MAX);
    }
    if name.starts_with('$') || name.starts_with("__") {
        return Err(Failure::invalid(field(), "names don't start with $ or __"));
    }
    Ok(())
}

pub(crate) fn names_count(field: &str, count: usize) -> Result<(), Failure> {
    if count > NAMES_MAX {
        let failure = Failure::invalid(field, format!("more than {NAMES_MAX} names"));
        return Err(failure.over(NAMES_MAX as u64, count as u64));
    }
    Ok(())
}

fn entry_size(field: &str, columns: &[(String, Value)], limits: &Limits) -> Result<u64, Failure> {
    let bytes = json_bytes(columns) as u64;
    if bytes > limits.entry_bytes_max {
        let limit = limits.entry_bytes_max;
        return Err(Failure::too_large(field, "entry_bytes_max", limit, bytes));
    }
    Ok(bytes)
}

/// A text of 1 to so many bytes.
pub(crate) fn bytes_between(field: &str, text: &str, max: usize) -> Result<(), Failure> {
    if text.is_empty() {
        return Err(Failure::invalid(field, "must not be empty"));
    }
    text_bytes(field, Some(text), max)
}

/// Why a message was recalled or stopped.
pub(crate) fn reason(reason: Option<&str>) -> Result<(), Failure> {
    reason.map_or(Ok(()), |reason| {
        bytes_between("reason", reason, REASON_BYTES_MAX)
    })
}

/// Bytes of such a reason.
const REASON_BYTES_MAX: usize = 1_024;

/// A text without control characters.
pub(crate) fn no_control(field: &str, text: &str) -> Result<(), Failure> {
    // All of C0, and DEL and C1 (which start with the byte 0xC2 in UTF-8). Looks at all bytes, so that the compiler may
    // take many at a time.
    let may_be = |found: bool, byte: u8| found | (byte < 0x20) | (byte == 0x7f) | (byte == 0xc2);
    if text.bytes().fold(false, may_be) && text.chars().any(char::is_control) {
        return Err(Failure::invalid(field, "no control characters"));
    }
    Ok(())
}
