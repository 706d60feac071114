//! The client of requests that the server makes itself: to webhooks, to issuers of keys, to a collector of spans.
//!
//! Owns: whom it trusts, and when a request counts as taken. Promises: no redirect is followed; an answer has a
//! deadline. Must not: try again, or know what is sent.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use tokio::time;

/// A client whose requests have bodies of a kind.
pub(crate) type Http<B> = Client<HttpsConnector<HttpConnector>, B>;

/// A client for HTTP and HTTPS that trusts what the system does. `Err` = the system's certificates can't be read.
pub(crate) fn client<B: Body<Data: Send> + Send>() -> io::Result<Http<B>> {
    let builder = HttpsConnectorBuilder::new().with_native_roots()?;
    Ok(client_of(builder.https_or_http().enable_http1().build()))
}

/// A client for HTTP that trusts nobody, and so needs no certificates of the system.
pub(crate) fn plain_client<B: Body<Data: Send> + Send>() -> Http<B> {
    let trusted = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    let builder = HttpsConnectorBuilder::new().with_tls_config(trusted.with_no_client_auth());
    client_of(builder.https_or_http().enable_http1().build())
}

fn client_of<B: Body<Data: Send> + Send>(connector: HttpsConnector<HttpConnector>) -> Http<B> {
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Sends a request; `Err` = why it is not known to be taken.
pub(crate) async fn send(
    http: &Http<Full<Bytes>>,
    request: Request<Full<Bytes>>,
    time_max: Duration,
) -> Result<(), String> {
    match time::timeout(time_max, http.request(request)).await {
        Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
        Ok(Ok(answer)) => Err(format!("answered {}", answer.status())),
        Ok(Err(error)) => Err(match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }),
        Err(_) => Err(format!("no answer within {} ms", time_max.as_millis())),
    }
}
