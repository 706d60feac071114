//! Tickets, which stand for a credential in the address of a stream.
//!
//! Owns: which credentials may have one, and the count of those that were shown. Promises: a ticket takes no key past
//! its certificate. Must not: keep one.

use super::authority::Authority;
use super::credential::{Credential, Refused};

impl Authority {
    /// Judges a ticket by the credential behind it.
    pub fn ticketed(&self, behind: Option<Credential>) -> Result<Credential, Refused> {
        let judged = behind.ok_or(Refused::Revoked);
        self.count("ticket", &judged);
        judged
    }

    /// Whether a credential counts only on connections that have shown a certificate.
    #[must_use]
    pub fn needs_certificate(&self, credential: &Credential) -> bool {
        let keys = self.keys.load();
        let key = credential.identity.key().and_then(|id| keys.get(id));
        key.is_some_and(|key| key.certificate.is_some())
    }
}
