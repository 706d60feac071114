//! Calls of a server's Tablestore API, one after the other.
//!
//! Owns: the account that signs them. Promises: an answer with status 200 that comes out is signed by the holder of the
//! key. Must not: know what is asked.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{Clock, ExportError, Operation, wrong};
use crate::wire::tablestore::signature::{
    AUTHORIZATION, SignedHeaders, Signer, check_answer, request_headers,
};

/// Whom to ask, and as who.
#[derive(Clone, Debug, clap::Args)]
pub struct Account {
    /// The server's address and port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    pub server: String,
    /// Key that requests are signed with
    #[arg(long, default_value = "development")]
    pub key_id: String,
    /// Its secret
    #[arg(
        long,
        env = "TIDELINE_KEY_SECRET",
        hide_env_values = true,
        default_value = "development"
    )]
    pub key_secret: String,
    /// Instance
    #[arg(long, default_value = "tideline")]
    pub instance: String,
}

pub(super) struct Client {
    account: Account,
    runtime: Runtime,
    http: Http<HttpConnector, Full<Bytes>>,
    clock: Clock,
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most bytes of an answer: far above what a server gives.
const ANSWER_BYTES_MAX: usize = 1 << 30;

impl Client {
    pub(super) fn new(account: &Account) -> Result<Client, ExportError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Client {
            account: account.clone(),
            runtime,
            http: Http::builder(TokioExecutor::new()).build_http(),
            clock: Clock::system(),
        })
    }

    /// Asks, and gives the status and the body of the answer.
    pub(super) fn call(
        &self,
        operation: Operation,
        body: Bytes,
    ) -> Result<(u16, Bytes), ExportError> {
        let path = format!("/{}", operation.name());
        let account = &self.account;
        let signer = Signer::new(&account.key_id, &account.key_secret, &path);
        let mut request = Request::post(format!("http://{}{path}", account.server));
        for (name, value) in request_headers(&signer, &account.instance, self.clock.now_ms(), &body)
        {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(wrong)?;
        let answer = async {
            timeout(PATIENCE, self.answer(request, &signer))
                .await
                .map_err(|_| wrong("no answer within a minute"))?
        };
        let answer = self.runtime.block_on(answer);
        answer.map_err(|error| wrong(format_args!("{}: {error}", account.server)))
    }

    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
        signer: &Signer,
    ) -> Result<(u16, Bytes), ExportError> {
        let answer = self.http.request(request).await.map_err(|error| {
            // The error itself tells only at which step it was.
            wrong(
                error
                    .source()
                    .map_or_else(|| error.to_string(), ToString::to_string),
            )
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let (status, body) = (head.status.as_u16(), body.map_err(wrong)?.to_bytes());
        if status == 200 {
            let pairs = head.headers.iter();
            let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_bytes()));
            let signature = head.headers.get(AUTHORIZATION);
            let signature = signature.and_then(|value| value.to_str().ok());
            check_answer(
                signer,
                &SignedHeaders::new(pairs),
                signature.unwrap_or(""),
                &body,
            )
            .map_err(|failure| wrong(failure.message))?;
        }
        Ok((status, body))
    }
}
