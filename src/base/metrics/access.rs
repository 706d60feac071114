//! The metrics of credentials and sessions.
//!
//! Owns: their texts. Promises: as `catalogue.rs`. Must not: have a label that a client sent.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Family, Gauge};
use super::registry::Registry;

groups! {
    "Credentials" by []
    /// Handles of credentials and sessions.
    Access {
        credentials: Family<Counter>, "tideline_credentials_total" ["by", "result"]
            "Credentials that were shown, by kind (`token`, `key`, `signature` of a request to Tablestore, `ticket`) and result: `ok`, or why they were refused.",
            "A burst of one reason: `expired` = clients do not renew; `unknown_key` = the issuer has rotated its keys and the set can't be fetched; `signature` = somebody tries. The log says which key and from where.";
        jwks_fetches: Family<Counter>, "tideline_jwks_fetches_total" ["result"]
            "Fetches of the set of keys at `jwks_url`: `ok`, `failed`.",
            "`failed` = the issuer does not answer; the set before counts, and keys that are new there are refused.";
        jwks_keys: Gauge, "tideline_jwks_keys"
            "Keys of the set at `jwks_url` that count.",
            "0 = none was fetched yet, or none can be used: the log says why.";
        keys: Gauge, "tideline_api_keys"
            "API keys.",
            "Changes when one is made or revoked.";
        sessions: Gauge, "tideline_sessions"
            "WebSocket sessions that have shown a credential.",
            "As tideline_connections; a gap between them = connections that show none, which end after 10 s.";
    }
}

impl Access {
    /// Shows the series that there will be from the start.
    pub(super) fn bind_known(&self) {
        for by in ["key", "signature", "ticket", "token"] {
            let _ = self.credentials.of(&[by, "ok"]);
        }
        for result in ["ok", "failed"] {
            let _ = self.jwks_fetches.of(&[result]);
        }
    }
}
