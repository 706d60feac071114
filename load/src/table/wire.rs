//! Tablestore's API as a client speaks it: signed requests, answers checked as the SDKs check them.
//!
//! Owns: headers, signatures, statuses, and what is in each field of a request. Promises: an answer that comes out is
//! whole and signed by the holder of the key; writes have no condition, so each is one operation of the store. Must
//! not: know what a row should hold, or try again.

use std::fmt;
use std::io::Write as _;

use prost::Message;
use tideline::wire::tablestore::Operation;
use tideline::wire::tablestore::plainbuffer::{self, Row, encode_row};
use tideline::wire::tablestore::proto;
use tideline::wire::tablestore::signature::{
    AUTHORIZATION, SignedHeaders, Signer, check_answer, request_headers,
};

use super::sheet::Sheet;
use crate::exit::Stop;
use crate::frame::place;
use crate::http::{self, Answer};
use crate::machine::wall_micros;
use crate::pipe::Pipe;

/// Who asks, and whom.
#[derive(Clone, Debug, clap::Args)]
pub struct Account {
    /// Key ID that requests are signed with
    #[arg(long, default_value = "development")]
    pub key_id: String,
    /// Its secret
    #[arg(long, default_value = "development")]
    pub key_secret: String,
    /// Instance
    #[arg(long, default_value = "tideline")]
    pub instance: String,
}

/// Why there is no answer, or none that counts.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server refused: what SDKs switch on, and what they show.
    Refused { code: String, message: String },
    /// The connection ended, or an answer that an SDK would not accept.
    Wrong(String),
}

/// The code of a server that has too much to do.
pub(super) const BUSY: &str = "OTSServerBusy";

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Refused { code, message } => write!(out, "refused: {code}: {message}"),
            Trouble::Wrong(text) => out.write_str(text),
        }
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Stop {
        Stop::Unreachable(trouble.to_string())
    }
}

/// What is not as it should be.
pub(super) fn wrong(what: impl fmt::Display) -> Trouble {
    Trouble::Wrong(what.to_string())
}

/// A row of an answer, or why it is none.
pub(super) fn decoded<T>(row: Result<T, plainbuffer::Error>) -> Result<T, Trouble> {
    row.map_err(wrong)
}

/// A server and whom it knows.
pub(super) struct Api {
    host: String,
    account: Account,
}

impl Api {
    /// Of the server behind a `ws://` address; the listener is the same.
    pub(super) fn new(url: &str, account: &Account) -> Result<Api, Trouble> {
        let (host, _) = place(url).map_err(wrong)?;
        let account = account.clone();
        Ok(Api { host, account })
    }

    pub(super) async fn connect(&self) -> std::io::Result<Pipe> {
        Pipe::connect(&self.host).await
    }

    /// Appends a signed request to `out`; its answer is checked with what is returned.
    pub(super) fn put(
        &self,
        out: &mut Vec<u8>,
        operation: Operation,
        message: &impl Message,
    ) -> Signer {
        let (path, body) = (format!("/{}", operation.name()), message.encode_to_vec());
        let Api { host, account } = self;
        let signer = Signer::new(&account.key_id, &account.key_secret, &path);
        // Writing into a vector can't fail.
        let _ = write!(
            out,
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in
            request_headers(&signer, &account.instance, wall_micros() / 1_000, &body)
        {
            let _ = write!(out, "{name}: {value}\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&body);
        signer
    }
}

/// Checks digest and signature of an answer, and decodes it.
pub(super) fn read<A: Message + Default>(
    answer: &Answer<'_>,
    signer: &Signer,
) -> Result<A, Trouble> {
    if answer.status != 200 {
        let status = answer.status;
        let error = proto::Error::decode(answer.body);
        let error = error.map_err(|error| wrong(format_args!("status {status}: {error}")))?;
        let (code, message) = (error.code, error.message.unwrap_or_default());
        return Err(Trouble::Refused { code, message });
    }
    let authorization = answer.header(AUTHORIZATION).unwrap_or_default();
    let headers = SignedHeaders::new(answer.headers.iter().copied());
    check_answer(signer, &headers, authorization, answer.body).map_err(wrong)?;
    A::decode(answer.body).map_err(wrong)
}

/// A connection with one request on the way, for what is not measured.
pub(super) struct Connection<'a> {
    api: &'a Api,
    pipe: Pipe,
}

impl<'a> Connection<'a> {
    pub(super) async fn open(api: &'a Api) -> Result<Connection<'a>, Trouble> {
        let pipe = api.connect().await.map_err(wrong)?;
        Ok(Connection { api, pipe })
    }

    /// Sends a request, and checks and decodes its answer.
    pub(super) async fn call<A: Message + Default>(
        &mut self,
        operation: Operation,
        message: &impl Message,
    ) -> Result<A, Trouble> {
        let mut out = Vec::new();
        let signer = self.api.put(&mut out, operation, message);
        let answered = http::ask(&mut self.pipe, &out, |answer| read(&answer, &signer)).await;
        answered.map_err(wrong)?
    }
}

pub(super) fn anyway() -> Option<proto::Condition> {
    Some(proto::Condition {
        row_existence: Some(proto::RowExistenceExpectation::Ignore.into()),
        column_condition: None,
    })
}

pub(super) fn put_row(table: &str, row: &Row) -> proto::PutRowRequest {
    proto::PutRowRequest {
        table_name: Some(table.to_owned()),
        row: Some(encode_row(row)),
        condition: anyway(),
        ..proto::PutRowRequest::default()
    }
}

pub(super) fn update_row(table: &str, row: &Row) -> proto::UpdateRowRequest {
    proto::UpdateRowRequest {
        table_name: Some(table.to_owned()),
        row_change: Some(encode_row(row)),
        condition: anyway(),
        ..proto::UpdateRowRequest::default()
    }
}

pub(super) fn get_row(table: &str, key: &Row, columns: Vec<String>) -> proto::GetRowRequest {
    proto::GetRowRequest {
        table_name: Some(table.to_owned()),
        primary_key: Some(encode_row(key)),
        columns_to_get: columns,
        max_versions: Some(1),
        ..proto::GetRowRequest::default()
    }
}

pub(super) fn get_range(
    sheet: &Sheet,
    start: &Row,
    forward: bool,
    limit: usize,
) -> proto::GetRangeRequest {
    let direction = match forward {
        true => proto::Direction::Forward,
        false => proto::Direction::Backward,
    };
    proto::GetRangeRequest {
        table_name: Some(sheet.name.clone()),
        direction: Some(direction.into()),
        max_versions: Some(1),
        limit: i32::try_from(limit).ok(),
        inclusive_start_primary_key: Some(encode_row(start)),
        exclusive_end_primary_key: Some(encode_row(&sheet.end(forward))),
        ..proto::GetRangeRequest::default()
    }
}
