//! One connection to a server's Tablestore API, one request after the other.
//!
//! Owns: HTTP as far as this server's answers need it. Promises: an answer with status 200 that comes out is signed by
//! the holder of the key. Must not: know what is asked.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;

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
    stream: BufReader<TcpStream>,
    clock: Clock,
}

/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most bytes of an answer: far above what a server gives.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

impl Client {
    pub(super) fn connect(account: &Account) -> Result<Client, ExportError> {
        let server = &account.server;
        let stream = TcpStream::connect(server);
        let stream = stream.map_err(|error| wrong(format_args!("{server}: {error}")))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client {
            account: account.clone(),
            stream: BufReader::new(stream),
            clock: Clock::system(),
        })
    }

    /// Asks, and gives the status and the body of the answer. One that was closed meanwhile is opened again.
    pub(super) fn call(
        &mut self,
        operation: Operation,
        body: &[u8],
    ) -> Result<(u16, Bytes), ExportError> {
        match self.try_call(operation, body) {
            Err(Broken::Connection(_)) => {
                *self = Client::connect(&self.account.clone())?;
                self.try_call(operation, body)
            }
            done => done,
        }
        .map_err(|broken| match broken {
            Broken::Connection(error) => error.into(),
            Broken::Answer(error) => error,
        })
    }

    fn try_call(&mut self, operation: Operation, body: &[u8]) -> Result<(u16, Bytes), Broken> {
        let path = format!("/{}", operation.name());
        let account = &self.account;
        let signer = Signer::new(&account.key_id, &account.key_secret, &path);
        let (host, length) = (&account.server, body.len());
        let mut out =
            format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n");
        for (name, value) in request_headers(&signer, &account.instance, self.clock.now_ms(), body)
        {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str("\r\n");
        let mut stream = self.stream.get_ref();
        stream.write_all(out.as_bytes())?;
        stream.write_all(body)?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status: u16 = status.ok_or_else(|| wrong("no HTTP answer"))?;
        let mut headers: Vec<(String, String)> = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => {
                    headers.push((name.to_lowercase(), value.trim().to_owned()));
                }
                None => break,
            }
        }
        let header = |wanted: &str| {
            let mut found = headers.iter().filter(|(name, _)| name == wanted);
            found.next().map_or("", |(_, value)| value)
        };
        let length: u64 = header("content-length").parse().unwrap_or(0);
        if length > ANSWER_BYTES_MAX {
            return Err(wrong("an answer that no server gives").into());
        }
        let mut body = vec![0; usize::try_from(length).map_err(wrong)?];
        self.stream.read_exact(&mut body)?;
        if status == 200 {
            let pairs = headers.iter();
            let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_bytes()));
            let signed = SignedHeaders::new(pairs);
            check_answer(&signer, &signed, header(AUTHORIZATION), &body)
                .map_err(|failure| wrong(failure.message))?;
        }
        Ok((status, body.into()))
    }
}

/// What went wrong with a call.
enum Broken {
    Connection(io::Error),
    Answer(ExportError),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Connection(error)
    }
}

impl From<ExportError> for Broken {
    fn from(error: ExportError) -> Broken {
        Broken::Answer(error)
    }
}
