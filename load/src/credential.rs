//! What the tool shows a server that asks who it is.
//!
//! Owns: the credential. Promises: each connection of this thread shows it in its headers, and so does whoever asks for
//! `/metrics`. Must not: be in a result or an error.

use std::cell::RefCell;

thread_local! {
    static HEADER: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Shows a key or a user's token wherever this thread connects to from now on; without one, nothing.
pub(crate) fn show(credential: Option<&str>) {
    let credential = credential.map(str::trim).filter(|text| !text.is_empty());
    let header = credential.map(|text| format!("Authorization: Bearer {text}\r\n"));
    HEADER.set(header.unwrap_or_default());
}

/// The header of a request, with the end of its line; nothing where nothing is shown.
pub(crate) fn header() -> String {
    HEADER.with_borrow(Clone::clone)
}
