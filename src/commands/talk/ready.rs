//! `tideline ready`: whether a server takes calls.
//!
//! Owns: the question, `GET /readyz`, and the answer as a line and an exit code. Promises: no credential is needed or
//! shown, and it ends in time, whatever answers. Must not: judge by itself whether a server is well.

use std::fmt::Display;
use std::io::Write as _;

use clap::Args;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::address::At;
use super::failure::Failure;
use super::session::{CONNECT_TIME_MAX, no_answer, not_ours, refused, wire};

/// The server.
#[derive(Debug, Args)]
pub struct Ready {
    #[command(flatten)]
    at: At,
}

/// Far above what a server of ours answers.
const ANSWER_BYTES_MAX: usize = 4096;

impl Ready {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let asking = timeout(CONNECT_TIME_MAX, readiness(&self.at)).await;
        let (status, said) = asking.unwrap_or_else(|_| Err(Failure::away(no_answer(&self.at))))?;
        if status != StatusCode::OK {
            return Err(refused(status, &said).about(&self.at.url.origin));
        }
        if said.trim_ascii() != b"ready" {
            return Err(not_ours());
        }
        let mut out = std::io::stdout();
        out.write_all(b"ready\n")?;
        Ok(out.flush()?)
    }
}

async fn readiness(at: &At) -> Result<(StatusCode, Bytes), Failure> {
    let away = |error: &dyn Display| Failure::away(format!("{}: {error}", at.url.origin));
    let socket = TokioIo::new(wire(at).await?);
    let (mut asking, connection) = handshake(socket).await.map_err(|error| away(&error))?;
    let authority = at.url.origin.rsplit('/').next().unwrap_or_default();
    let request = Request::get("/readyz").header(HOST, authority);
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| Failure::Wrong(error.to_string()))?;
    let asked = async {
        let answer = asking.send_request(request).await;
        let (head, body) = answer.map_err(|error| away(&error))?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        Ok((head.status, body.map_err(|_| not_ours())?.to_bytes()))
    };
    tokio::pin!(asked);
    // Both in turn: the connection may end before its answer is read.
    tokio::select! {
        answer = &mut asked => answer,
        _ = connection => asked.await,
    }
}
