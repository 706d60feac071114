//! One POST to a webhook's receiver.
//!
//! Owns: its headers and signature. Promises: they are those of Standard Webhooks; a repeat of the same changes has the
//! same ID; no secret is in an error. Must not: try again; the runner does.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::Full;
use hyper::{Method, Request, Uri};
use sha2::Sha256;
use tideline_base::trace::TraceParent;
use xxhash_rust::xxh3::xxh3_128;

use crate::http_client::{Http, send};

/// Where a webhook posts, and what it signs with.
pub(super) struct Receiver {
    pub(super) http: Arc<Http<Full<Bytes>>>,
    pub(super) url: Uri,
    pub(super) secret: Vec<u8>,
    pub(super) timeout: Duration,
}

/// The bytes of a secret: those that `whsec_` and base64 stand for, else the text's.
pub(super) fn secret(text: &str) -> Vec<u8> {
    let text = text.trim();
    let coded = text.strip_prefix("whsec_");
    let decoded = coded.and_then(|coded| BASE64.decode(coded).ok());
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The ID of what a webhook posts between two positions: that of each repeat.
pub(super) fn message_id(webhook: &str, from: &str, to: &str) -> String {
    let named = format!("{webhook}\n{from}\n{to}");
    format!("msg_{:032x}", xxh3_128(named.as_bytes()))
}

fn signature(secret: &[u8], id: &str, timestamp: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length is a key");
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
}

impl Receiver {
    /// Posts, as a part of a trace if there is one; `Err` says why it does not count as taken.
    pub(super) async fn post(
        &self,
        id: &str,
        trace: Option<TraceParent>,
        body: Bytes,
        now_ms: u64,
    ) -> Result<(), String> {
        let timestamp = now_ms / 1_000;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header("content-type", "application/json")
            .header(
                "user-agent",
                concat!("tideline/", env!("CARGO_PKG_VERSION")),
            )
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header(
                "webhook-signature",
                signature(&self.secret, id, timestamp, &body),
            );
        if let Some(trace) = trace {
            request = request.header("traceparent", trace.to_string());
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        send(&self.http, request, self.timeout).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        // The example of the specification's reference libraries.
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let (id, timestamp) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
        let signed = signature(&secret, id, timestamp, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_repeat_has_the_same_id_and_other_changes_another() {
        assert_eq!(message_id("a", "1", "2"), message_id("a", "1", "2"));
        assert_ne!(message_id("a", "1", "2"), message_id("a", "1", "3"));
        assert_ne!(message_id("a", "1", "2"), message_id("b", "1", "2"));
    }
}
