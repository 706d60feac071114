//! `tideline send TIMELINE - --open`: one message that grows by what comes in.
//!
//! Owns: the numbers of its parts. Promises: what comes is shown to readers as it comes, in parts that are repeated
//! until they are answered; what comes while one waits becomes one part; at the end the message is closed. Must not:
//! wait for lines.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::super::failure::Failure;
use super::super::plain::json as plain_json;
use super::super::screen::Look;
use super::super::session::parsed;
use super::{Sender, new_id};

#[derive(Deserialize)]
struct Opened {
    sequence: u64,
}

impl Sender {
    /// Opens the message, extends it by standard input, and finishes it.
    pub(super) async fn answer(&mut self, waiting: &mut String) -> Result<(), Failure> {
        let mut pieces = pieces()?;
        let timeline = self.what.timeline.clone();
        let open = json!({ "timeline": timeline, "entry": { "text": "" }, "message_id": new_id(), "open": { "idle_ms": self.what.idle * 1_000 } });
        "nothing was sent".clone_into(waiting);
        let opened = self.call("message.append", &open, waiting).await?;
        let Opened { sequence } = parsed(&opened)?;
        let mut parts = 0;
        let ended = loop {
            *waiting = format!(
                "#{sequence} is not finished: it is closed as failed in {} s",
                self.what.idle
            );
            let text = match pieces.recv().await {
                None => break Ok(()),
                Some(Err(why)) => break Err(why),
                Some(Ok(text)) => text,
            };
            parts += 1;
            let part =
                json!({ "timeline": timeline, "sequence": sequence, "part": parts, "text": text });
            let extended = self.call("message.extend", &part, waiting).await;
            extended.map_err(|failure| failure.about(&format!("#{sequence}")))?;
        };
        let outcome = if ended.is_ok() { "done" } else { "failed" };
        let finish = json!({ "timeline": timeline, "sequence": sequence, "parts": parts, "outcome": outcome });
        let finished = self.call("message.finish", &finish, waiting).await?;
        ended?;
        let line = match self.screen.json {
            true => plain_json(&finished),
            false => self.screen.part(Look::Dim, &format!("#{sequence}")),
        };
        self.screen.line(&line)?;
        self.screen.flush()
    }

    async fn call(
        &mut self,
        method: &str,
        params: &serde_json::Value,
        waiting: &mut String,
    ) -> Result<Box<RawValue>, Failure> {
        let attempt = async |sender: &mut Sender, _: &mut String| {
            sender.session().await?.call(method, params).await
        };
        self.repeat(waiting, attempt).await
    }
}

/// Bytes of a piece: far less than a message may have.
const PIECE_BYTES: usize = 16 << 10;

/// Standard input in pieces of UTF-8, as it comes; little is read ahead.
fn pieces() -> Result<mpsc::Receiver<Result<String, Failure>>, Failure> {
    let (into, pieces) = mpsc::channel(1);
    let reader = std::thread::Builder::new().name("stdin".into());
    let started = reader.spawn(move || read(std::io::stdin().lock(), &into));
    started.map_err(|error| Failure::Wrong(error.to_string()))?;
    Ok(pieces)
}

fn read(mut input: impl std::io::Read, into: &mpsc::Sender<Result<String, Failure>>) {
    let wrong = |why: String| Err(Failure::Wrong(format!("standard input: {why}")));
    let (mut bytes, mut held) = ([0; PIECE_BYTES], 0);
    loop {
        let read = input.read(&mut bytes[held..]);
        let count = *read.as_ref().unwrap_or(&0);
        let piece = match read {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(0) if held == 0 => return,
            Ok(0) => wrong("not UTF-8".to_owned()),
            Ok(_) => {
                whole(&bytes[..held + count]).map_or_else(|| wrong("not UTF-8".to_owned()), Ok)
            }
            Err(error) => wrong(error.to_string()),
        };
        let is_over = piece.is_err();
        let there = held + count;
        let taken = piece.as_ref().map_or(0, String::len);
        bytes.copy_within(taken..there, 0);
        held = there - taken;
        let is_empty = piece.as_ref().is_ok_and(String::is_empty);
        if !is_empty && into.blocking_send(piece).is_err() || is_over {
            return;
        }
    }
}

/// The characters that are there to their last byte; `None` = what is there is no text.
fn whole(bytes: &[u8]) -> Option<String> {
    let end = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return None,
    };
    String::from_utf8(bytes[..end].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_stay_whole() {
        let text = "wörld 🎉 語";
        let all = text.as_bytes();
        for at in 0..=all.len() {
            let first = whole(&all[..at]).unwrap();
            assert!(text.starts_with(&first) && at - first.len() < 4);
        }
        assert_eq!(whole(b"ab\xff"), None);
        let (into, mut pieces) = mpsc::channel(9);
        read(&all[..all.len() - 1], &into);
        drop(into);
        assert_eq!(pieces.blocking_recv().unwrap().unwrap(), "wörld 🎉 ");
        assert!(pieces.blocking_recv().unwrap().is_err());
    }
}
