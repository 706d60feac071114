//! Looking at the server while it is measured: its metrics before and after, its process every second.
//!
//! Owns: the samples. Promises: a look costs the server one scrape at each end of the measurement and nothing between;
//! the process is read from /proc. Must not: fail a run because something can't be read: it is absent then.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::http::Uri;

use crate::frame::address;
use crate::outcome::Moved;
use crate::process::{cpu_seconds, resident_bytes};

/// Metrics by name with labels, as the text shows them.
pub type Metrics = BTreeMap<String, f64>;

/// A slow or missing `/metrics` holds a run up no longer than this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads `/metrics` of the server behind a `ws://` address.
pub async fn metrics(url: &str) -> io::Result<Metrics> {
    let asking = async {
        let uri: Uri = url.parse().map_err(io::Error::other)?;
        let host = address(&uri).ok_or_else(|| io::Error::other("not a ws:// address"))?;
        let mut stream = TcpStream::connect(&host).await?;
        // HTTP/1.0: the body then comes as it is, up to the end of the connection.
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        if !head.starts_with("HTTP/1.0 200") && !head.starts_with("HTTP/1.1 200") {
            return Err(io::Error::other(
                head.lines().next().unwrap_or("").to_owned(),
            ));
        }
        Ok(parse(body))
    };
    tokio::time::timeout(PATIENCE, asking).await?
}

/// Takes the samples out of Prometheus' text.
#[must_use]
pub fn parse(text: &str) -> Metrics {
    let sample = |line: &str| {
        // `name{labels} value [time]`; a label's value may hold spaces, but no line has a brace behind its labels.
        let (name, rest) = match line.rfind('}') {
            Some(brace) => line.split_at(brace + 1),
            None => line.split_at(line.find(' ')?),
        };
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some((name.to_owned(), value))
    };
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(sample).collect()
}

/// What was before and what is after; what is new began at 0.
#[must_use]
pub fn moved(before: &Metrics, after: Metrics) -> BTreeMap<String, Moved> {
    let pair = |(name, after): (String, f64)| {
        let before = before.get(&name).copied().unwrap_or(0.0);
        (name, Moved { before, after })
    };
    after.into_iter().map(pair).collect()
}

/// A process at one moment. What can't be read is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time so far, seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory, bytes.
    pub resident_bytes: Option<f64>,
    /// Open descriptors.
    pub descriptors: Option<f64>,
    /// Bytes handed to disks so far.
    pub written_bytes: Option<f64>,
}

impl Usage {
    /// Reads it.
    #[must_use]
    pub fn of(pid: u32) -> Usage {
        Usage {
            cpu_seconds: cpu_seconds(pid),
            resident_bytes: resident_bytes(pid).ok().map(|bytes| bytes as f64),
            descriptors: descriptors(pid).map(|count| count as f64),
            written_bytes: written_bytes(pid).map(|bytes| bytes as f64),
        }
    }
}

/// Open descriptors of a process. Since Linux 6.2 the folder's size is their count; before, it is 0.
fn descriptors(pid: u32) -> Option<u64> {
    let folder = format!("/proc/{pid}/fd");
    match std::fs::metadata(&folder).ok()?.len() {
        0 => Some(std::fs::read_dir(&folder).ok()?.count() as u64),
        count => Some(count),
    }
}

/// Bytes that a process caused to be written to disks so far.
fn written_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_text_is_read() {
        let text =
            "# HELP a b\n# TYPE a counter\na 3\nb{x=\"1 } 2\",y=\"z\"} 4.5\n\nc_sum 1e3\nodd\n";
        let metrics = parse(text);
        assert_eq!(metrics["a"], 3.0);
        assert_eq!(metrics["b{x=\"1 } 2\",y=\"z\"}"], 4.5);
        assert_eq!(metrics["c_sum"], 1_000.0);
        assert_eq!(metrics.len(), 3);
        let moved = moved(&metrics, parse("a 5\nnew 1"));
        assert_eq!(
            moved["a"],
            Moved {
                before: 3.0,
                after: 5.0
            }
        );
        assert_eq!(moved["new"].before, 0.0);
    }

    #[test]
    fn this_process_can_be_read() {
        let usage = Usage::of(std::process::id());
        assert!(usage.resident_bytes.is_some_and(|bytes| bytes > 0.0));
        assert!(usage.descriptors.is_some_and(|count| count >= 3.0));
    }
}
