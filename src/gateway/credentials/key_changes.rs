//! Changes of what counts: keys that are made and revoked, tokens that are taken back.
//!
//! Owns: their order: on disk first, then in force, then answered; how what is stored comes in force. Promises: one
//! change of keys at a time. Must not: judge, or end a session.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use super::api_key::{ApiKey, KeySecret, NewKey};
use super::authority::{Authority, CredentialError};

impl Authority {
    /// Makes a key. Returns it and its secret, which is never shown again.
    pub async fn create_key(
        &self,
        asked: NewKey,
    ) -> Result<(Arc<ApiKey>, KeySecret), CredentialError> {
        let _changing = self.changing.lock().await;
        let made = asked.make(self.clock.now_ms());
        let (key, secret) = made.map_err(CredentialError::Refused)?;
        self.stored.add(&key).await?;
        let key = Arc::new(key);
        self.change_keys(|keys| {
            keys.insert(Arc::clone(&key.id), Arc::clone(&key));
        });
        Ok((key, secret))
    }

    /// Takes a key back; whether there was one.
    pub async fn revoke_key(&self, id: &str) -> Result<bool, CredentialError> {
        let _changing = self.changing.lock().await;
        let removed = self.stored.remove(id).await?;
        self.change_keys(|keys| {
            keys.remove(id);
        });
        self.changed();
        Ok(removed)
    }

    /// Takes keys and revocations as they are stored: at the start, and on a node that follows, whose rows come out of
    /// the log.
    pub async fn read_again(&self) -> Result<(), CredentialError> {
        let keys = self.stored.keys().await?.into_iter();
        let keys = keys.map(|key| (Arc::clone(&key.id), Arc::new(key)));
        let revoked = self.stored.revocations().await?.into_iter().collect();
        *self.revoked.write().unwrap_or_else(PoisonError::into_inner) = revoked;
        self.change_keys(|known| *known = keys.collect());
        Ok(())
    }

    /// Has the secrets of signing keys come to the other nodes of a cluster, where they have not yet, and those go that
    /// another node has revoked.
    pub async fn share_secrets(&self) {
        let _changing = self.changing.lock().await;
        if let Err(error) = self.stored.sweep().await {
            tracing::warn!(%error, "secrets of revoked keys may still be there");
        }
        if let Err(error) = self.stored.share(&self.keys()).await {
            tracing::warn!(%error, "other nodes may lack the secrets of signing keys until this one is started again");
        }
    }

    /// All keys, the oldest first.
    #[must_use]
    pub fn keys(&self) -> Vec<Arc<ApiKey>> {
        let mut keys: Vec<_> = self.keys.load().values().cloned().collect();
        keys.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        keys
    }

    fn change_keys(&self, change: impl FnOnce(&mut HashMap<Arc<str>, Arc<ApiKey>>)) {
        let mut keys = HashMap::clone(&self.keys.load());
        change(&mut keys);
        self.metrics.access.keys.count(keys.len() as u64);
        self.keys.store(Arc::new(keys));
    }

    /// Takes back a user's tokens from before a time, ms; without one, all that there are. Returns the time in force.
    pub async fn revoke_tokens(
        &self,
        user: &str,
        before: Option<u64>,
    ) -> Result<u64, CredentialError> {
        let before = before.unwrap_or_else(|| self.clock.now_ms());
        let before = self.stored.revoke(user, before).await?;
        {
            let revoked = self.revoked.write();
            let mut revoked = revoked.unwrap_or_else(PoisonError::into_inner);
            let known = revoked.entry(user.to_owned()).or_default();
            *known = before.max(*known);
        }
        self.changed();
        Ok(before)
    }
}
