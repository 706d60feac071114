//! The floor that physics sets: what the disk does when nothing but batches are written and synced, and what sockets do
//! when nothing but an echo stands behind them.
//!
//! Owns: both probes. Promises: the disk is asked with the same bytes at the same batch size as Tideline had; the echo
//! gets the same frames from the same engine. Must not: be a server of anything.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// The written file is this long, and written over again and again, as reused segments of a log are.
const REUSED_BYTES: u64 = 256 << 20;

/// How a batch gets to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// Over blocks that are there already.
    Over,
    /// To the end of a file that grows.
    Growing,
}

/// Batches per second: write, fdatasync, and again. Blocks for `time` and for the preparation.
pub(super) fn disk(
    folder: &Path,
    writing: Writing,
    batch_bytes: usize,
    time: Duration,
) -> io::Result<f64> {
    let path = folder.join("floor");
    let mut file = File::create(&path)?;
    let batch = vec![0x5a; batch_bytes.max(1)];
    if writing == Writing::Over {
        let zeros = vec![0; 1 << 20];
        for _ in 0..REUSED_BYTES >> 20 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
    }
    let length = batch.len() as u64;
    let (began, mut batches, mut at) = (Instant::now(), 0_u64, 0);
    while began.elapsed() < time {
        if writing == Writing::Over && at + length > REUSED_BYTES {
            at = 0;
        }
        file.write_all_at(&batch, at)?;
        file.sync_data()?;
        at += length;
        batches += 1;
    }
    let rate = batches as f64 / began.elapsed().as_secs_f64();
    drop(file);
    std::fs::remove_file(&path)?;
    Ok(rate)
}

/// A WebSocket echo on threads of its own; ends with its handle.
pub(super) struct Echo {
    runtime: Option<Runtime>,
    pub(super) address: SocketAddr,
}

impl Echo {
    pub(super) fn start() -> io::Result<Echo> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("echo")
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let handle = runtime.handle().clone();
        runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                handle.spawn(echo(stream));
            }
        });
        Ok(Echo {
            runtime: Some(runtime),
            address,
        })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // A runtime may not wait for its threads inside of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends back what comes, all that is there in one write. Ends with the connection, whatever ended it.
async fn echo(stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
        return;
    };
    while let Some(Ok(frame)) = socket.next().await {
        if !frame.is_text() || socket.feed(frame).await.is_err() {
            return;
        }
        while let Some(Some(Ok(more))) = socket.next().now_or_never() {
            if !more.is_text() || socket.feed(more).await.is_err() {
                return;
            }
        }
        if socket.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_written_both_ways_and_left_clean() {
        let folder = std::env::temp_dir().join(format!("floor-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let time = Duration::from_millis(20);
        let rate = disk(&folder, Writing::Growing, 4_096, time).expect("written");
        assert!(rate > 0.0);
        assert_eq!(std::fs::read_dir(&folder).expect("there").count(), 0);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
