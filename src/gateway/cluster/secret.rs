//! What nodes of a cluster know each other by.
//!
//! Owns: the secret, and what is made with it. Promises: only who has the nodes' password for NATS can make it, and it
//! does not show the password; what is shown for a snapshot is of use for a minute, what is said of a client for one
//! connection. Must not: know what a snapshot is, or who a client.

use std::fmt;

use ring::hmac::{self, HMAC_SHA256};

/// What only nodes of a cluster know.
pub struct NodeSecret {
    key: hmac::Key,
    cluster: String,
}

impl fmt::Debug for NodeSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "NodeSecret(of {})", self.cluster)
    }
}

impl NodeSecret {
    /// Of the password by which a cluster's nodes use NATS.
    #[must_use]
    pub fn new(cluster: &str, password: &str) -> NodeSecret {
        NodeSecret {
            key: hmac::Key::new(HMAC_SHA256, password.as_bytes()),
            cluster: cluster.to_owned(),
        }
    }

    /// What a node shows at this time, as the value of `authorization`.
    #[must_use]
    pub fn shown(&self, node: &str, now_ms: u64) -> String {
        let tag = self.tag(&self.text(node, now_ms), b"");
        let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{SCHEME}{node} {now_ms} {tag}")
    }

    /// Whether it is what a node shows at about this time.
    #[must_use]
    pub fn fits(&self, shown: &str, now_ms: u64) -> bool {
        let parts = shown.strip_prefix(SCHEME).map(|rest| rest.split(' '));
        let parts = parts.map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        let [node, at_ms, tag] = *parts else {
            return false;
        };
        let pairs = tag.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let tag: Option<Vec<u8>> = pairs.map(byte).collect();
        let (Ok(at_ms), Some(tag)) = (at_ms.parse::<u64>(), tag) else {
            return false;
        };
        self.is_tag(&self.text(node, at_ms), b"", &tag) && now_ms.abs_diff(at_ms) <= COUNTS_MS
    }

    fn text(&self, node: &str, at_ms: u64) -> String {
        format!("snapshot\n{}\n{node}\n{at_ms}", self.cluster)
    }

    /// What only a node can put behind what a client is said to be, in answer to this challenge.
    pub(super) fn seal(&self, challenge: &str, said: &[u8]) -> [u8; TAG_BYTES] {
        self.tag(&self.said(challenge), said)
    }

    /// Whether a node has put this behind it.
    pub(super) fn is_seal(&self, challenge: &str, said: &[u8], tag: &[u8]) -> bool {
        self.is_tag(&self.said(challenge), said, tag)
    }

    fn said(&self, challenge: &str) -> String {
        format!("pass\n{}\n{challenge}\n", self.cluster)
    }

    fn tag(&self, begin: &str, rest: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(hmac::sign(&self.key, &joined(begin, rest)).as_ref());
        tag
    }

    fn is_tag(&self, begin: &str, rest: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.key, &joined(begin, rest), tag).is_ok()
    }
}

const SCHEME: &str = "Tideline-Node ";
/// Nodes' clocks are nearer to each other than this.
const COUNTS_MS: u64 = 60_000;
/// Of HMAC with SHA-256.
pub(super) const TAG_BYTES: usize = 32;

fn joined(begin: &str, rest: &[u8]) -> Vec<u8> {
    [begin.as_bytes(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_for_a_minute_and_nobody_else_is() {
        let secret = NodeSecret::new("chat", "hush");
        let shown = secret.shown("n1", 100_000);
        assert!(secret.fits(&shown, 100_000) && !shown.contains("hush"));
        assert!(secret.fits(&shown, 160_000) && secret.fits(&shown, 40_000));
        assert!(!secret.fits(&shown, 160_001) && !secret.fits(&shown, 39_999));
        for (cluster, password) in [("chat", "hash"), ("other", "hush")] {
            assert!(!NodeSecret::new(cluster, password).fits(&shown, 100_000));
        }
        for wrong in [
            "",
            "Tideline-Node ",
            "Tideline-Node n1 100000 ",
            "Tideline-Node n1 100000 zz",
            "Tideline-Node n1 100000 ü",
            &shown.replace("n1", "n2"),
            &shown.replace("100000", "100001"),
            &shown[..shown.len() - 1],
            &format!("{shown} "),
        ] {
            assert!(!secret.fits(wrong, 100_000), "{wrong}");
        }
    }
}
