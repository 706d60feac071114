//! Lines of standard input, as they come.
//!
//! Owns: the thread that reads them. Promises: a line is at most so long, and UTF-8, or it is an error that names it;
//! little is read ahead. Must not: know what is in a line.

use std::io::{BufRead as _, Read as _};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::failure::Failure;

/// Lines that are not empty, with their numbers.
pub(super) struct Piped {
    lines: Receiver<Result<(u64, String), Failure>>,
}

/// A frame of the server's has no more.
const LINE_BYTES_MAX: usize = 4 << 20;
/// Lines that are read ahead: a batch.
const AHEAD: usize = 100;

impl Piped {
    pub(super) fn read() -> Result<Piped, Failure> {
        let (sender, lines) = channel(AHEAD);
        let reader = std::thread::Builder::new().name("stdin".into());
        reader
            .spawn(move || read(&sender))
            .map_err(|error| Failure::Wrong(error.to_string()))?;
        Ok(Piped { lines })
    }

    /// The next line, when there is one; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<(u64, String)>, Failure> {
        self.lines.recv().await.transpose()
    }

    /// The next line, if it is there.
    pub(super) fn ready(&mut self) -> Option<Result<(u64, String), Failure>> {
        self.lines.try_recv().ok()
    }
}

fn read(lines: &Sender<Result<(u64, String), Failure>>) {
    let mut input = std::io::stdin().lock();
    for number in 1.. {
        let line = match line(&mut input) {
            Ok(None) => return,
            Ok(Some(line)) if line.is_empty() => continue,
            Ok(Some(line)) => Ok((number, line)),
            Err(why) => Err(Failure::Wrong(format!("line {number}: {why}"))),
        };
        let is_last = line.is_err();
        if lines.blocking_send(line).is_err() || is_last {
            return;
        }
    }
}

/// A line without its end; `None` behind the last.
fn line(input: &mut impl std::io::BufRead) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    let most = LINE_BYTES_MAX as u64 + 1;
    let read = input.by_ref().take(most).read_until(b'\n', &mut bytes);
    if read.map_err(|error| error.to_string())? == 0 {
        return Ok(None);
    }
    if bytes.len() > LINE_BYTES_MAX {
        return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
    }
    if bytes.ends_with(b"\n") {
        bytes.pop();
    }
    if bytes.ends_with(b"\r") {
        bytes.pop();
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| "not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_they_may() {
        let mut input = &b"a\r\n\n b \nlast"[..];
        let mut lines = Vec::new();
        while let Some(line) = line(&mut input).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["a", "", " b ", "last"]);
        assert_eq!(line(&mut &b"\xff\n"[..]).unwrap_err(), "not UTF-8");
        let long = vec![b'x'; LINE_BYTES_MAX + 2];
        assert!(line(&mut &long[..]).is_err());
    }
}
