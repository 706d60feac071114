//! The key family, for administrators: create, list, revoke.
//!
//! Owns: parameters and results of these methods, and how secrets are passed on. Promises: a secret is in no debug
//! text. Must not: know what a right is, or what a name may be; `access` and `credentials` do.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check::{self, Check};
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::schema::rules;

/// A token or a key.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Secret(pub String);

/// Without the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// What may be done where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "grant")]
pub struct Grant {
    /// A name, or a prefix and `*`; a segment `{user}` is the caller's user.
    pub on: String,
    /// Rights, like `read`.
    pub allow: Vec<String>,
}

/// Makes an API key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "key.create.params")]
pub struct Create {
    /// Its name, 1 to 64 letters, digits, `.`, `_` and `-`; several keys may share one.
    #[schemars(length(min = 1, max = 64), regex(pattern = rules::KEY_NAME))]
    pub name: String,
    /// What it may do.
    pub rights: Vec<Grant>,
    /// Users that it may act for, each a user, or a prefix and `*`; at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub act_as: Vec<String>,
    /// Whether Tablestore's requests are signed with it. Its secret is kept then, in a file of the server's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signing: bool,
    /// It counts only on connections whose client certificate has this DNS name.
    pub certificate: Option<String>,
}

impl Check for Create {}

/// The new key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "key.create.result")]
pub struct Created {
    /// Its ID; Tablestore's AccessKeyID.
    pub id: String,
    /// The key itself, which nobody is told again. What is behind its second `_` is Tablestore's secret.
    pub key: Secret,
}

/// Asks for all keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "key.list.params")]
pub struct List {}

impl Check for List {}

/// All keys, the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "key.list.result")]
pub struct Listed {
    /// What is known of each.
    pub keys: Vec<ApiKey>,
}

/// A key without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "key")]
pub struct ApiKey {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub rights: Vec<Grant>,
    /// Users that it may act for.
    pub act_as: Vec<String>,
    /// Whether Tablestore's requests are signed with it.
    pub signing: bool,
    /// The DNS name of the certificate that it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// When it was made, ms since 1970.
    pub created_at: u64,
}

/// Takes a key back. Its sessions are closed at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "key.revoke.params")]
pub struct Revoke {
    /// Its ID.
    #[schemars(length(max = 64))]
    pub id: String,
}

impl Check for Revoke {
    fn check(&mut self, _: &Limits) -> Result<(), Failure> {
        check::text_bytes("id", Some(&self.id), 64)
    }
}

/// The key is no more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "key.revoke.result")]
pub struct Revoked {
    /// Whether there was one.
    pub revoked: bool,
}
