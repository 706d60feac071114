//! One POST to a webhook's receiver.
//!
//! Owns: the HTTP client, the signature, and when a POST counts as taken. Promises: headers and signature are those of
//! Standard Webhooks; a repeat of the same changes has the same ID; no secret is in an error. Must not: try again; the
//! runner does.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::Full;
use hyper::{Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use sha2::Sha256;
use tideline_base::trace::TraceParent;
use xxhash_rust::xxh3::xxh3_128;

/// What all webhooks post by.
pub(crate) type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Where a webhook posts, and what it signs with.
pub(super) struct Receiver {
    pub(super) http: Arc<Http>,
    pub(super) url: Uri,
    pub(super) secret: Vec<u8>,
    pub(super) timeout: Duration,
}

/// A client for HTTP and HTTPS that trusts what the system does. It follows no redirect.
pub(crate) fn client() -> std::io::Result<Http> {
    let builder = HttpsConnectorBuilder::new().with_native_roots()?;
    Ok(client_of(builder.https_or_http().enable_http1().build()))
}

/// A client for HTTP that trusts nobody, and so needs no certificates of the system.
pub(crate) fn plain_client() -> Http {
    let trusted = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    let builder = HttpsConnectorBuilder::new().with_tls_config(trusted.with_no_client_auth());
    client_of(builder.https_or_http().enable_http1().build())
}

fn client_of(connector: HttpsConnector<HttpConnector>) -> Http {
    Client::builder(TokioExecutor::new()).build(connector)
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

/// Sends a request; `Err` = why it is not known to be taken.
pub(crate) async fn send(
    http: &Http,
    request: Request<Full<Bytes>>,
    time_max: Duration,
) -> Result<(), String> {
    match tokio::time::timeout(time_max, http.request(request)).await {
        Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
        Ok(Ok(answer)) => Err(format!("answered {}", answer.status())),
        Ok(Err(error)) => Err(match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }),
        Err(_) => Err(format!("no answer within {} ms", time_max.as_millis())),
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
