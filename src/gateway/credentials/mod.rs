//! Credentials: what callers show, and whether it counts.
//!
//! Owns: tokens and the keys that they are verified with, API keys, and what was revoked. Promises: a bad credential is
//! refused for whatever is wrong with it, and only the log learns what; a secret is in no message, log or debug text.
//! Must not: decide what an identity may do (`model/access/` does), or know sockets, JSON-RPC or Tablestore.

mod api_key;
mod authority;
mod centrifuge_tokens;
mod credential;
#[cfg(feature = "faults")]
pub(super) mod fuzz;
mod key_changes;
mod keys;
mod seal;
mod shared_secrets;
mod signing;
mod stored;
mod strict_json;
#[cfg(test)]
mod tests;
mod ticketing;
mod verify_token;

pub use api_key::{ACT_AS_MAX, ApiKey, KeyRefused, KeySecret, NewKey};
pub use authority::{Authority, CredentialError, named};
pub use centrifuge_tokens::{
    ChannelClaim, ClientTokens, Connection, Overrides, Subscriber, Subscription, TokenRefused,
};
pub use credential::{Credential, Refused, Shown};
pub use keys::files::TokenSources;
pub use seal::{SEALED, seal, seal_for, unseal, unseal_for};
pub use shared_secrets::SecretSeal;
pub use signing::named_id;
pub use stored::{StoredCredentials, StoredError, verify_stored};
pub use verify_token::TokenRules;
