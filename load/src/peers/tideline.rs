//! Tideline as one of the peers: `message.append` over WebSocket with the `append` profile's ready-made frames; and the
//! same frames against a bare echo.
//!
//! Owns: how the engine speaks to Tideline. Promises: every message carries an ID of its own; sampled timelines are
//! read back message by message. Must not: be cheaper or dearer than what drives the others: same engine, same buffer.

use std::io;

use super::engine::{Answer, Peer, Talk};
use crate::frame::{texts, upgrade};
use crate::pipe::Pipe;
use crate::request;
use crate::rpc::Client;
use crate::scan;
use crate::template::{DIGITS, MessageIds, SLOT_BASE, Template, timeline_name};

/// A Tideline server and what is put on it.
pub(super) struct Tideline {
    /// `ws://host:port/v1/connect`
    pub(super) url: String,
    /// Names of timelines begin so.
    pub(super) prefix: String,
    /// Message IDs begin so.
    pub(super) tag: String,
    /// Bytes of the text.
    pub(super) size: usize,
    pub(super) seed: u64,
    /// Nothing but an echo stands there.
    pub(super) echo: bool,
}

impl Tideline {
    fn template(&self, lane: usize) -> Template {
        let tag = self.tag_of(lane);
        Template::append(&self.prefix, &tag, self.size, MessageIds::All, self.seed)
    }

    fn tag_of(&self, lane: usize) -> String {
        format!("{}-{lane:02}-", self.tag)
    }

    /// Bytes of one entry and its message ID, as they are sent: what the application wants stored.
    pub(super) fn entry_bytes(&self) -> usize {
        let around = r#"{"text":""}"#.len();
        let id = self.tag_of(0).len() + DIGITS;
        around + self.size + id
    }
}

/// One connection.
pub(super) struct Appending {
    template: Template,
    parts: Vec<u8>,
    echo: bool,
}

impl Talk for Appending {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, key: u64, number: u64) {
        let slot = SLOT_BASE + slot as u64;
        self.template.stamp(out, &[slot, key, number]);
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut impl FnMut(Answer<'_>),
    ) -> io::Result<usize> {
        let Appending { parts, echo, .. } = self;
        let mut odd = None;
        let taken = texts(bytes, out, parts, |text| {
            let read = if *echo {
                read_echo(text)
            } else {
                read_reply(text)
            };
            match read {
                Some((slot, refused)) => {
                    let refused = refused.map(Into::into);
                    each(Answer { slot, refused });
                }
                None => odd = Some(String::from_utf8_lossy(text).into_owned()),
            }
        })?;
        match odd {
            None => Ok(taken),
            Some(text) => Err(io::Error::other(format!(
                "no answer to an append: {text:.200}"
            ))),
        }
    }
}

/// The slot of a reply, and why it was refused.
fn read_reply(text: &[u8]) -> Option<(usize, Option<String>)> {
    let answer = request::Answer::read(text)?;
    let slot = usize::try_from(answer.id.checked_sub(SLOT_BASE)?).ok()?;
    Some((
        slot,
        answer.outcome.err().map(|refusal| refusal.data.reason),
    ))
}

/// The slot of a request that came back.
fn read_echo(text: &[u8]) -> Option<(usize, Option<String>)> {
    let rest = text.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":")?;
    let digits = std::str::from_utf8(rest.first_chunk::<4>()?).ok()?;
    let id = digits.parse::<u64>().ok()?.checked_sub(SLOT_BASE)?;
    Some((usize::try_from(id).ok()?, None))
}

impl Peer for Tideline {
    type Talk = Appending;

    async fn open(&self, lane: usize) -> io::Result<(Pipe, Appending)> {
        let pipe = upgrade(&self.url).await?;
        let talk = Appending {
            template: self.template(lane),
            parts: Vec::new(),
            echo: self.echo,
        };
        Ok((pipe, talk))
    }

    /// Every sampled timeline holds 1..=what was acknowledged.
    async fn check(&self, acked: &[u32], sample: &[u64]) -> io::Result<Vec<String>> {
        if self.echo {
            return Ok(Vec::new());
        }
        let lost = |error| io::Error::other(format!("{error}"));
        let mut client = Client::open(&self.url).await.map_err(lost)?;
        let mut faults = Vec::new();
        for number in sample {
            let expected = u64::from(acked[*number as usize]);
            if expected == 0 {
                continue;
            }
            let name = timeline_name(&self.prefix, *number);
            let scan = scan::whole(&mut client, &name).await.map_err(lost)?;
            let counted = scan.marks.iter().map(|mark| mark.sequence).eq(1..=expected);
            if !counted || scan.head != expected {
                let (head, found) = (scan.head, scan.marks.len());
                faults.push(format!(
                    "{name}: {expected} acknowledged, head {head}, {found} messages read back"
                ));
            }
        }
        Ok(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_back_is_told_by_its_slot() {
        let text = br#"{"jsonrpc":"2.0","id":1015,"method":"message.append","params":{}}"#;
        assert_eq!(read_echo(text), Some((15, None)));
        for odd in [
            &b""[..],
            b"{\"jsonrpc\":\"2.0\",\"id\":1",
            b"{\"jsonrpc\":\"2.0\",\"id\":0999}",
        ] {
            assert_eq!(read_echo(odd), None);
        }
    }
}
