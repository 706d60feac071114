//! The secrets of signing keys on their way to the other nodes of a cluster: in the key's row, sealed.
//!
//! ```text
//! sealed: format (1) | nonce (12) | AES-256-GCM of the secret, which authenticates the key's ID as well
//! ```
//!
//! Owns: this text, and the key that it is sealed with, which all nodes derive from their login at NATS. Promises: what
//! was sealed for another key, for another cluster, or with another login is not opened. Must not: store anything.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};

use super::api_key::KeySecret;
use super::seal::random;

const FORMAT: u8 = 1;

/// What the nodes of a cluster seal secrets with.
pub struct SecretSeal(LessSafeKey);

impl SecretSeal {
    /// Of the password by which a cluster's nodes use NATS.
    #[must_use]
    pub fn new(cluster: &str, password: &str) -> SecretSeal {
        let by = hmac::Key::new(HMAC_SHA256, password.as_bytes());
        let key = hmac::sign(&by, format!("signing keys\n{cluster}").as_bytes());
        let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("a key of 32 bytes");
        SecretSeal(LessSafeKey::new(key))
    }

    /// Seals the secret of the key of this ID.
    pub(super) fn seal(&self, id: &str, secret: &KeySecret) -> Vec<u8> {
        let nonce = random::<NONCE_LEN>();
        let mut content = secret.reveal().as_bytes().to_vec();
        let sealed = self.0.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(id),
            &mut content,
        );
        sealed.expect("far below what a key may seal");
        [&[FORMAT], &nonce[..], &content].concat()
    }

    /// The secret that was sealed for the key of this ID; `None` = not with this seal.
    pub(super) fn open(&self, id: &str, sealed: &[u8]) -> Option<KeySecret> {
        let (nonce, content) = sealed.strip_prefix(&[FORMAT])?.split_first_chunk()?;
        let mut content = content.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::from(id), &mut content);
        KeySecret::read(str::from_utf8(opened.ok()?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_opened_by_the_same_cluster_for_the_same_key_alone() {
        let secret = KeySecret::read(&"s".repeat(43)).expect("a secret");
        let seal = SecretSeal::new("chat", "hush");
        let sealed = seal.seal("abc", &secret);
        assert!(SecretSeal::new("chat", "hush").open("abc", &sealed) == Some(secret.clone()));
        assert!(sealed != seal.seal("abc", &secret), "another nonce");
        for (cluster, password, id) in [
            ("chat", "hush", "abd"),
            ("chat", "hash", "abc"),
            ("chet", "hush", "abc"),
        ] {
            assert!(
                SecretSeal::new(cluster, password)
                    .open(id, &sealed)
                    .is_none()
            );
        }
        for at in 0..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert!(
                seal.open("abc", &other).is_none() && seal.open("abc", &sealed[..at]).is_none()
            );
        }
    }
}
