//! The server's own pages, its metrics most of all.
//!
//! Owns: reading Prometheus' text. Promises: a look costs the server one scrape, and does not hold a run up for long.
//! Must not: fail a run because something can't be read: it is absent then.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::client::frame::{dial, place};
use crate::client::http;
use crate::client::pipe::Way;
use crate::client::secure::header;

const PATIENCE: Duration = Duration::from_secs(30);

/// Reads `/metrics` of the server behind a `ws://` address: values by name with labels, as the text shows them.
pub async fn metrics(url: &str) -> io::Result<BTreeMap<String, f64>> {
    match page(url, "/metrics").await? {
        (200, text) => Ok(parse(&text)),
        (status, _) => Err(io::Error::other(format!("/metrics: status {status}"))),
    }
}

/// The status and the text of a page of the server behind such an address.
pub(crate) async fn page(url: &str, path: &str) -> io::Result<(u16, String)> {
    let asking = async {
        let (host, _) = place(url)?;
        let shown = header();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{shown}\r\n");
        let read = |answer: http::Answer<'_>| {
            let text = String::from_utf8_lossy(answer.body);
            (answer.status, text.into_owned())
        };
        http::ask(&mut dial(url, Way::Plain).await?, request.as_bytes(), read).await
    };
    tokio::time::timeout(PATIENCE, asking).await?
}

/// Takes the samples out of Prometheus' text.
fn parse(text: &str) -> BTreeMap<String, f64> {
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
    }
}
