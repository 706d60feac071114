//! A WebSocket that is passed on, from its handshake to its end.
//!
//! Owns: the bytes both ways. Promises: so many bytes of each way are held, whoever does not read; each side learns
//! that the other has ended; a client whose owner is gone is told to come again. Must not: read a message.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::timeout;

use super::super::super::entrance::socket::Socket;
use super::super::super::http::timeouts::farewell;
use super::frames::{Frames, close};
use tideline_wire::centrifuge::Disconnect;

/// Runs one, until either side or `ends` ends it. `read`: what came behind the handshake; `goodbye`: what the client is
/// told if the owner says none. A client that reads nothing for `time_max` ends it, too.
pub(super) async fn run(
    (socket, read, time_max): (Socket, Bytes, Duration),
    owner: Upgraded,
    goodbye: &Disconnect,
    ends: impl Future<Output = ()>,
) {
    let (mut from_client, mut to_client) = split(socket);
    let (mut from_owner, mut to_owner) = split(TokioIo::new(owner));
    let mut frames = Frames::default();
    let up = async {
        to_owner.write_all(&read).await.map_err(|_| Side::Out)?;
        // An owner may let the client wait for as long as it likes.
        copy(&mut from_client, &mut to_owner, Duration::MAX, |_| {}).await?;
        // The client has ended its side: the owner says what that means.
        to_owner.shutdown().await.map_err(|_| Side::Out)?;
        std::future::pending::<Result<(), Side>>().await
    };
    let down = copy(&mut from_owner, &mut to_client, time_max, |bytes| {
        frames.pass(bytes);
    });
    let is_owner_gone = tokio::select! {
        up = up => matches!(up, Err(Side::Out)),
        down = down => !matches!(down, Err(Side::Out)),
        () = ends => true,
    };
    drop((from_owner, to_owner));
    let mut socket = from_client.unsplit(to_client);
    if is_owner_gone && frames.is_open() {
        let goodbye = close(goodbye);
        let saying = async {
            socket.write_all(&goodbye).await?;
            socket.flush().await
        };
        let _ = timeout(GOODBYE_TIME, saying).await;
    }
    farewell(socket, GOODBYE_TIME).await;
}

/// What has failed.
enum Side {
    In,
    Out,
}

/// Until the end of what comes. A byte is passed to `sent` once it was written, which it must be within `time_max`.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    time_max: Duration,
    mut sent: impl FnMut(&[u8]),
) -> Result<(), Side> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await.map_err(|_| Side::In)?;
        if read == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let written = timeout(time_max, to.write(rest)).await;
            let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let written = written.map_err(|_| Side::Out)?;
            if written == 0 {
                return Err(Side::Out);
            }
            sent(&rest[..written]);
            rest = &rest[written..];
        }
        to.flush().await.map_err(|_| Side::Out)?;
    }
}

/// Of each way of each connection.
const BUFFER_BYTES: usize = 8 << 10;
const GOODBYE_TIME: Duration = Duration::from_secs(2);
