//! Tablestore's API as a client speaks it: signed requests, answers checked as the SDKs check them.
//!
//! Owns: headers, signatures and statuses. Promises: an answer that comes out is whole and signed by the holder of the
//! key. Must not: know what a row should hold.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::time::Duration;

use prost::Message;
use tideline_wire::tablestore::Operation;
use tideline_wire::tablestore::proto;
use tideline_wire::tablestore::signature::{
    AUTHORIZATION, SignedHeaders, Signer, check_answer, request_headers,
};
use tokio::time::{sleep, timeout};

use crate::client::frame::{dial, place};
use crate::client::http;
use crate::client::http::Answer;
use crate::client::pipe::{Pipe, Way};
use crate::exit::Stop;
use crate::run::machine::wall_micros;

/// Who asks, and whom.
#[derive(Clone, Debug, clap::Args)]
pub struct Account {
    /// Key ID that requests are signed with
    #[arg(long, default_value = "development")]
    pub key_id: String,
    /// Its secret; better in the environment, where others on this machine do not see it
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

/// The code of a server that has too much to do.
pub(super) const BUSY: &str = "OTSServerBusy";
/// The pause before such a request is repeated.
pub(super) const BREATH: Duration = Duration::from_millis(5);
/// How long a server may be busy or silent beside the measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// An error in words.
pub(super) fn text(error: impl Display) -> String {
    error.to_string()
}

/// The error, if the work is not done in time.
pub(super) async fn patient<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = |_| format!("not done within {PATIENCE:?}");
    timeout(PATIENCE, work).await.map_err(late)?
}

/// A server, and the key that it knows.
pub(super) struct Api {
    url: String,
    host: String,
    account: Account,
}

impl Api {
    /// Of the server behind a `ws://` or `wss://` address; the listener is the same.
    pub(super) fn new(url: &str, account: &Account) -> Result<Api, Stop> {
        let (host, _) = place(url).map_err(|error| Stop::Usage(error.to_string()))?;
        let account = account.clone();
        let url = url.to_owned();
        Ok(Api { url, host, account })
    }

    pub(super) async fn connect(&self) -> io::Result<Pipe> {
        dial(&self.url, Way::Plain).await
    }

    /// Appends a signed request to `out`; its answer is checked with what is returned.
    pub(super) fn put(&self, out: &mut Vec<u8>, operation: Operation, body: &[u8]) -> Signer {
        let path = format!("/{}", operation.name());
        let Api { host, account, .. } = self;
        let signer = Signer::new(&account.key_id, &account.key_secret, &path);
        let (length, now_ms) = (body.len(), wall_micros() / 1_000);
        // Writing into a vector can't fail.
        let _ = write!(
            out,
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n"
        );
        for (name, value) in request_headers(&signer, &account.instance, now_ms, body) {
            let _ = write!(out, "{name}: {value}\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        signer
    }

    /// Asks for what is not measured, again if the server is busy; returns the body of the answer.
    pub(super) async fn call(
        &self,
        pipe: &mut Pipe,
        operation: Operation,
        body: &[u8],
    ) -> Result<Vec<u8>, String> {
        let asking = async {
            loop {
                let mut out = Vec::new();
                let signer = self.put(&mut out, operation, body);
                let own = |answer: Answer<'_>| Ok(read(&answer, &signer)?.map(<[u8]>::to_vec));
                match http::ask(pipe, &out, own).await.map_err(text).flatten()? {
                    Some(answer) => return Ok(answer),
                    None => sleep(BREATH).await,
                }
            }
        };
        patient(asking).await
    }
}

/// Checks digest and signature of an answer; its body, or nothing if the server is busy.
pub(super) fn read<'a>(answer: &Answer<'a>, signer: &Signer) -> Result<Option<&'a [u8]>, String> {
    if answer.status != 200 {
        let error = proto::Error::decode(answer.body);
        let error = error.map_err(|error| format!("status {}: {error}", answer.status))?;
        return match &*error.code {
            BUSY => Ok(None),
            code => Err(format!("refused: {code}: {}", error.message())),
        };
    }
    let authorization = answer.header(AUTHORIZATION).unwrap_or_default();
    let headers = SignedHeaders::new(answer.headers.iter().copied());
    check_answer(signer, &headers, authorization, answer.body).map_err(text)?;
    Ok(Some(answer.body))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// What comes of a request to a server that says this to each.
    async fn called(said: &[u8]) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let account = Account {
            key_id: "key".to_owned(),
            key_secret: "secret".to_owned(),
            instance: "instance".to_owned(),
        };
        let api = Api::new(&format!("ws://{address}/"), &account).expect("an address");
        let mut pipe = api.connect().await.expect("connected");
        let (mut server, _) = listener.accept().await.expect("a connection");
        let serving = async {
            while server.read(&mut [0; 4_096]).await.is_ok() {
                server.write_all(said).await.expect("written");
            }
        };
        tokio::select! {
            called = api.call(&mut pipe, Operation::DeleteTable, &[]) => called,
            () = serving => panic!("the connection was lost"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stays_busy_or_silent_is_given_up() {
        let busy = proto::Error {
            code: BUSY.to_owned(),
            message: None,
        };
        let body = busy.encode_to_vec();
        let head = format!(
            "HTTP/1.1 503 Busy\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        for said in [&[head.as_bytes(), &body].concat()[..], b""] {
            let what = called(said).await.expect_err("no answer");
            assert!(what.contains("within 60s"), "{what}");
        }
    }
}
