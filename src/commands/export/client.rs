//! Calls of a server's Tablestore API, one after the other.
//!
//! Owns: the account that signs them. Promises: an answer with status 200 that comes out is signed by the holder of the
//! key. Must not: know what is asked.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::super::address::Address;
use super::{Clock, ExportError, Operation, wrong};
use crate::secret;
use crate::tls;
use crate::wire::tablestore::signature::{
    AUTHORIZATION, SignedHeaders, Signer, check_answer, request_headers,
};

/// Whom to ask, and as who.
#[derive(Clone, Debug, clap::Args)]
pub struct Account {
    /// The running server, as in https://chat.example.org; wss:// names the same one
    #[arg(
        long,
        visible_alias = "server",
        value_name = "URL",
        env = "TIDELINE_URL",
        default_value = "http://127.0.0.1:7070"
    )]
    #[arg(value_parser = Address::parse)]
    pub url: Address,
    /// PEM file of the authorities to trust, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Key that requests are signed with
    #[arg(long, default_value = "development")]
    pub key_id: String,
    /// File with its secret, in place of TIDELINE_KEY_SECRET; an argument can't hold it, because others see arguments
    #[arg(long, value_name = "FILE")]
    pub key_secret_file: Option<PathBuf>,
    /// Name of the instance; all names lead to the same tables
    #[arg(long, default_value = "tideline")]
    pub instance: String,
}

impl Account {
    /// The secret of the key: that of the file, of the environment, or the one that everybody knows.
    fn key_secret(&self) -> Result<String, ExportError> {
        match &self.key_secret_file {
            Some(file) => {
                let secret = secret::content(file).map_err(wrong)?;
                String::from_utf8(secret)
                    .map_err(|_| wrong(format_args!("{}: not UTF-8", file.display())))
            }
            None => Ok(std::env::var(KEY_SECRET).unwrap_or_else(|_| "development".to_owned())),
        }
    }
}

/// Where the secret of the key is taken from, unless a file is named.
const KEY_SECRET: &str = "TIDELINE_KEY_SECRET";

pub(super) struct Client {
    account: Account,
    key_secret: String,
    runtime: Runtime,
    http: Http<HttpsConnector<HttpConnector>, Full<Bytes>>,
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
        // Without TLS there is no certificate to check, so no authorities are needed.
        let tls = match account.url.secure {
            true => tls::client(account.ca_file.as_deref())?,
            false => tls::client_of_nobody(),
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = connector.https_or_http().enable_http1().build();
        Ok(Client {
            account: account.clone(),
            key_secret: account.key_secret()?,
            runtime,
            http: Http::builder(TokioExecutor::new()).build(connector),
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
        let signer = Signer::new(&account.key_id, &self.key_secret, &path);
        let mut request = Request::post(format!("{}{path}", account.url.origin));
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
        answer.map_err(|error| wrong(format_args!("{}: {error}", account.url.origin)))
    }

    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
        signer: &Signer,
    ) -> Result<(u16, Bytes), ExportError> {
        let answer = self.http.request(request).await.map_err(|error| {
            // The error itself tells only at which step it was.
            let mut cause: &dyn std::error::Error = &error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            wrong(cause)
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
