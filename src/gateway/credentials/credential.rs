//! Credentials that were shown: what a good one comes to, and why a bad one is refused.
//!
//! Owns: the vocabulary between the code that checks credentials and the code that acts on the outcome. Promises: a
//! reason is for the log and the metrics only; the caller learns no more than that its credential does not count. Must
//! not: hold a secret or a token's text.

use std::sync::Arc;

use super::keys::parse::Mark;
use tideline_model::access::Identity;

/// What a client shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'s> {
    /// The token or key.
    pub bearer: Option<&'s str>,
    /// The user that it wants to act for.
    pub user: Option<&'s str>,
    /// DNS names of the certificate that its connection has shown.
    pub certificates: &'s [String],
}

/// A credential that counts.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The caller, and what the credential gives it.
    pub identity: Arc<Identity>,
    /// When it ends, ms; of a token. Until [`Credential::ends_at`] it still counts.
    pub expires_at: Option<u64>,
    /// When it does not count any more, ms.
    pub ends_at: Option<u64>,
    pub(super) source: Source,
}

impl Credential {
    /// When the token was issued, ms; `None` = it does not say, or it is none.
    #[must_use]
    pub fn issued_at(&self) -> Option<u64> {
        match self.source {
            Source::Token { issued_at, .. } | Source::Client { issued_at } => issued_at,
            Source::Key => None,
        }
    }
}

/// What may be taken back.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Token {
        key: Mark,
        /// Its `iat`, ms.
        issued_at: Option<u64>,
    },
    /// A token of the Centrifuge dialect that its own secret has signed.
    Client {
        /// Its `iat`, ms.
        issued_at: Option<u64>,
    },
    Key,
}

/// Makes an enum whose members have a label for metrics and the log.
macro_rules! refusals {
    ($( $(#[doc = $doc:literal])+ $name:ident = $label:literal; )+) => {
        /// Why a credential was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Refused { $( $(#[doc = $doc])+ $name, )+ }

        impl Refused {
            /// All of them.
            pub const ALL: &[Refused] = &[$( Refused::$name, )+];

            /// Whether it may be for lack of the right key.
            pub(super) fn is_about_keys(self) -> bool {
                use Refused::{Algorithm, NoKeyNamed, Signature, UnknownKey};
                matches!(self, UnknownKey | NoKeyNamed | Algorithm | Signature)
            }

            /// Its name in metrics and the log.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self { $( Refused::$name => $label, )+ }
            }
        }
    };
}

refusals! {
    /// There is none.
    Missing = "missing";
    /// More than 8 KiB.
    TooLong = "too_long";
    /// Neither a token nor a key, or a member twice.
    Malformed = "malformed";
    /// It has `crit`.
    Critical = "crit";
    /// Not the algorithm of its key.
    Algorithm = "algorithm";
    /// No key of its ID or algorithm.
    UnknownKey = "unknown_key";
    /// It names none, and there are several of its algorithm.
    NoKeyNamed = "no_key_named";
    /// The signature, or the secret of an API key, is wrong.
    Signature = "signature";
    /// No `iss`, or another.
    Issuer = "issuer";
    /// No `aud`, or only others.
    Audience = "audience";
    /// A claim is missing or of another type.
    Claims = "claims";
    /// `sub` is no user.
    User = "user";
    /// Its rights can't be read.
    Rights = "rights";
    /// After `exp`.
    Expired = "expired";
    /// Before `nbf` or `iat`.
    NotYetValid = "not_yet_valid";
    /// Taken back; or a ticket that was taken before, is too old, or never was one.
    Revoked = "revoked";
    /// The connection has not shown the certificate that the key needs.
    Certificate = "certificate";
    /// The user asked for is not the credential's, or the key must not act for them. Said to the caller as `forbidden`.
    OtherUser = "other_user";
    /// The keys that tokens are verified with could not be fetched yet. Said to the caller as `unavailable`.
    Unavailable = "unavailable";
}
