//! The floor that sockets set: a WebSocket echo with nothing behind it, under the frames of `append`.
//!
//! Owns: the echo, and two threads for it. Promises: it gets the frames that Tideline gets, from the same profile; what
//! comes back is the same but for the word that makes it a result. Must not: be a server of anything, or search in a
//! frame.

use std::io;

use futures_util::{StreamExt as _, TryStreamExt as _, future::ready};
use tempfile::TempDir;
use tideline_load::bench::Running;
use tideline_load::exit::Stop;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_tungstenite::tungstenite::Message;

/// Its threads.
struct Echo(Option<Runtime>);

impl Drop for Echo {
    fn drop(&mut self) {
        // A runtime may not wait for its threads inside of another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts one.
pub(crate) async fn serve(place: TempDir) -> Result<Running, Stop> {
    let failed = |error: io::Error| Stop::Own(format!("the echo: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let listener = listener.into_std().map_err(failed)?;
    runtime.spawn(async move {
        let Ok(listener) = TcpListener::from_std(listener) else {
            return;
        };
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    Ok(Running {
        url: format!("ws://{address}/"),
        pid: None,
        server: Box::new(Echo(Some(runtime))),
        place,
    })
}

/// Sends back what comes, all that is there in one write. Ends with the connection, whatever ended it.
async fn echo(stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(socket) = tokio_tungstenite::accept_async(stream).await else {
        return;
    };
    let (back, frames) = socket.split();
    let texts = frames.try_filter_map(|frame| ready(Ok(frame.to_text().ok().and_then(answer))));
    let _ = texts.forward(back).await;
}

/// A request as if it were its own result; anything else gives nothing. The numbers of all requests have four digits.
fn answer(request: &str) -> Option<Message> {
    let (id, rest) = request.split_at_checked(r#"{"jsonrpc":"2.0","id":1000,"#.len())?;
    let params = rest.strip_prefix(r#""method":"message.append","params":"#)?;
    Some(Message::text([id, r#""result":"#, params].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_its_result() {
        let request = r#"{"jsonrpc":"2.0","id":1015,"method":"message.append","params":{"a":1}}"#;
        let result = r#"{"jsonrpc":"2.0","id":1015,"result":{"a":1}}"#;
        assert_eq!(answer(request), Some(Message::text(result)));
        assert_eq!((answer(result), answer("")), (None, None));
    }
}
