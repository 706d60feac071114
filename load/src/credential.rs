//! What the tool shows a server that asks who it is.
//!
//! Owns: where it is taken from. Promises: it goes into the headers of connections and of `/metrics`, and into no
//! result, argument or error. Must not: know what it allows.

use std::sync::OnceLock;

/// The environment variable with a key, or a user's token.
const NAME: &str = "TIDELINE_KEY";

/// The header of a request, with the end of its line; nothing if there is no credential.
pub(crate) fn header() -> &'static str {
    static HEADER: OnceLock<String> = OnceLock::new();
    HEADER.get_or_init(|| {
        let credential = std::env::var(NAME).unwrap_or_default();
        match credential.trim() {
            "" => String::new(),
            shown => format!("Authorization: Bearer {shown}\r\n"),
        }
    })
}
