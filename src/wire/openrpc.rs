//! The description of the protocol for machines: one OpenRPC document, made from the types themselves.
//!
//! Owns: the document that `rpc.discover` returns and `schemas/openrpc.json` holds. Promises: made once, the same for every build of the
//! same types. Must not: say anything that the types don't.

use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// The OpenRPC document.
#[must_use]
pub fn openrpc() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| json!({ "openrpc": "1.3.2" }))
}

/// The result of `rpc.discover`: serialises as the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discovered;

impl Serialize for Discovered {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        openrpc().serialize(into)
    }
}
