//! Requests that are signed with the secret of a key, as Tablestore's are.
//!
//! Owns: which secret they are signed with, and whose they are then. Promises: of a key whose secret was not proved,
//! the answer says only that it does not count. Must not: check a signature.

use super::api_key::{KeySecret, is_id};
use super::authority::Authority;
use super::credential::{Credential, Refused, Shown};

impl Authority {
    /// The secret that requests of a signing key are signed with.
    #[must_use]
    pub fn signing_secret(&self, id: &str) -> Option<KeySecret> {
        self.keys.load().get(id)?.secret.clone()
    }

    /// The credential of a request that names a key, and whether its signature is the key's. It acts for nobody else.
    pub fn signed_by(
        &self,
        id: &str,
        is_right: bool,
        certificates: &[String],
    ) -> Result<Credential, Refused> {
        let keys = self.keys.load();
        let shown = Shown {
            certificates,
            ..Shown::default()
        };
        let judged = match keys.get(id).filter(|key| key.secret.is_some()) {
            None => Err(Refused::UnknownKey),
            Some(_) if !is_right => Err(Refused::Signature),
            Some(key) => self.acting(key, shown),
        };
        self.count("signature", &judged);
        judged
    }
}

/// The ID of a key, for the log: nothing of another text, for it might be the secret itself.
#[must_use]
pub fn named_id(id: &str) -> Option<&str> {
    Some(id).filter(|id| is_id(id))
}
