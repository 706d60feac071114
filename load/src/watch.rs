//! The server's metrics, before and after a measurement.
//!
//! Owns: reading Prometheus' text. Promises: a look costs the server one scrape. Must not: fail a run because something
//! can't be read: it is absent then.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::http::Uri;

use crate::frame::address;
use crate::outcome::Moved;

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
}
