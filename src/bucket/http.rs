//! The HTTP client that the store's client asks by: hyper with rustls, as elsewhere in this project.
//!
//! Owns: its deadlines. Promises: a request ends, and so does the wait for each piece of an answer; no redirect is
//! followed. Must not: repeat a request; the store's client does, by the kind of the error.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body as _, Frame};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use tokio::time::timeout;

use super::BucketError;
use tideline_base::tls;

/// What a store gets for an answer, beside the time for what is sent …
const ANSWER: Duration = Duration::from_secs(30);
/// … which is to go at this many bytes a second at least.
const SENT_BYTES_PER_S: u64 = 64 << 10;

/// Makes the client.
#[derive(Debug)]
pub(super) struct Connector(Service);

impl Connector {
    /// Trusts the system's authorities, or those of a file.
    pub(super) fn new(authorities: Option<PathBuf>) -> Result<Connector, BucketError> {
        let trusted = tls::client(authorities.as_deref());
        let trusted =
            trusted.map_err(|error| BucketError::local("the trusted certificates", &error))?;
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(ANSWER));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trusted)
            // That it is only where it may be was checked with the address.
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Connector(Service {
            client: Client::builder(TokioExecutor::new()).build(connector),
            answer: ANSWER,
        }))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

#[derive(Clone)]
struct Service {
    client: Client<HttpsConnector<TcpConnector>, HttpRequestBody>,
    answer: Duration,
}

impl fmt::Debug for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Service")
    }
}

impl Service {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let sent = request.body().size_hint().lower();
        let deadline = self.answer + Duration::from_secs(sent / SENT_BYTES_PER_S);
        let answered = timeout(deadline, self.client.request(request)).await;
        let answer = answered.map_err(|_| late())?.map_err(|error| {
            let kind = match error.is_connect() {
                true => HttpErrorKind::Connect,
                false => HttpErrorKind::Interrupted,
            };
            HttpError::new(kind, innermost(&error))
        })?;
        let (head, body) = answer.into_parts();
        let wait = self.answer;
        // A stream, because a deadline for each piece needs a timer in between.
        let pieces = stream::try_unfold(body, move |mut body| async move {
            match timeout(wait, body.frame()).await {
                Err(_) => Err(late()),
                Ok(None) => Ok(None),
                Ok(Some(Ok(frame))) => Ok(Some((frame, body))),
                Ok(Some(Err(error))) => Err(HttpError::new(
                    HttpErrorKind::Interrupted,
                    innermost(&error),
                )),
            }
        });
        Ok(HttpResponse::from_parts(head, answered_body(pieces)))
    }
}

impl HttpService for Service {
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.answer(request))
    }
}

fn answered_body(
    pieces: impl futures_util::Stream<Item = Result<Frame<Bytes>, HttpError>> + Send + Sync + 'static,
) -> HttpResponseBody {
    HttpResponseBody::new(StreamBody::new(pieces))
}

fn late() -> HttpError {
    let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
    HttpError::new(HttpErrorKind::Timeout, late)
}

/// What an error comes from in the end: hyper's own texts say only in which step it came.
fn innermost(error: &dyn std::error::Error) -> std::io::Error {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    std::io::Error::other(inner.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_is_silent_is_not_waited_for() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut service = Connector::new(None).unwrap().0;
        service.answer = Duration::from_millis(50);
        let request = hyper::Request::get(url).body(HttpRequestBody::empty());
        let failed = service.answer(request.unwrap()).await.unwrap_err();
        assert_eq!(failed.kind(), HttpErrorKind::Timeout);
        drop(listener);
    }
}
