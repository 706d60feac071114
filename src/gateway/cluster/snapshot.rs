//! A snapshot on its way from one node to another: who may have one.
//!
//! Owns: the credential that a node shows another one. Promises: only who has the nodes' password for NATS can make it,
//! it does not show the password, and it is of use for a minute. Must not: make a snapshot, or know what is in it.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use ring::hmac::{self, HMAC_SHA256};
use tokio::sync::mpsc;

use super::super::http::respond::{Answer, Content, set};

/// What only nodes of a cluster know.
pub struct NodeSecret {
    key: hmac::Key,
    cluster: String,
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
        let tag = hmac::sign(&self.key, self.text(node, now_ms).as_bytes());
        let tag: String = tag
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
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
        let is_signed = hmac::verify(&self.key, self.text(node, at_ms).as_bytes(), &tag).is_ok();
        is_signed && now_ms.abs_diff(at_ms) <= COUNTS_MS
    }

    fn text(&self, node: &str, at_ms: u64) -> String {
        format!("snapshot\n{}\n{node}\n{at_ms}", self.cluster)
    }
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotGiven {
    /// What the asker shows is not what a node shows.
    Stranger,
    /// Not now, or not here.
    Refused(String),
}

/// What a request shows.
pub(super) fn shown(headers: &HeaderMap) -> &str {
    let shown = headers.get(AUTHORIZATION);
    shown.and_then(|shown| shown.to_str().ok()).unwrap_or("")
}

/// The answer whose body comes piece by piece.
pub(super) fn answer(pieces: mpsc::Receiver<Bytes>) -> Answer {
    let frames = unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(piece)), pieces))
    });
    let mut answer = Response::new(Content::Stream(StreamBody::new(frames).boxed_unsync()));
    *answer.status_mut() = StatusCode::OK;
    let octets = HeaderValue::from_static("application/octet-stream");
    answer.headers_mut().insert(CONTENT_TYPE, octets);
    set(&mut answer, hyper::header::CACHE_CONTROL, "no-store");
    answer
}

const SCHEME: &str = "Tideline-Node ";
/// Nodes' clocks are nearer to each other than this.
const COUNTS_MS: u64 = 60_000;

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
