//! More of the list of metrics: who comes in, and how.
//!
//! Owns: the texts. Promises: a name is written here once; `docs/METRICS.md` is made from it. Must not: know how a
//! handle is bound or shown.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Family, Gauge};
use super::registry::Registry;

groups! {
    "Access" by []
    /// Handles of TLS: handshakes and its certificate.
    Tls {
        handshakes: Family<Counter>, "tideline_tls_handshakes_total" ["result"]
            "TLS handshakes by result: `ok`, `failed` (a client that wants another certificate, version or no TLS), `too_slow`.",
            "Many `failed` after a renewal = clients do not trust the new certificate. `ok` at a high rate takes the processor: clients should keep their connections.";
        certificate_end: Gauge, "tideline_certificate_end_seconds"
            "When the certificate that is served ends, or another one of its chain: seconds since 1970; 0 without TLS.",
            "A new one must be in the files before it; they are read again within 10 s.";
        certificate_unfit: Gauge, "tideline_certificate_unfit"
            "1 if the certificate's files can't be served as they are now, else 0. The old certificate is served on.",
            "Must not stay 1: the log says what is wrong with the files.";
    }
}

impl Tls {
    /// Binds what is known beforehand.
    pub(super) fn bind_known(&self) {
        for result in ["ok", "failed", "too_slow"] {
            let _ = self.handshakes.of(&[result]);
        }
    }
}
