//! Calls of back ends about the server: the channels in which somebody is, and how many there are.
//!
//! Owns: patterns of channels. Promises: a pattern that is not understood is refused, and so is an answer that would be
//! larger than a frame. Must not: list channels in which nobody is; the native protocol lists timelines.

use std::collections::{BTreeMap, HashSet};

use serde_json::json;

use super::{Backend, Found, Outcome};
use crate::dispatch::shape::size;
use crate::session::centrifuge::NODE;
use tideline_model::access::Right;
use tideline_wire::centrifuge::{ApiChannels, Code};

/// The channels in which somebody is.
pub(super) fn channels(asked: &ApiChannels, backend: &Backend) -> Outcome {
    backend.check(Right::Observe)?;
    if asked.pattern.contains(['[', ']', '{', '}', '\\', '!']) {
        return Err(Code::BadRequest.into());
    }
    let is_asked = |name: &str| asked.pattern.is_empty() || matches(&asked.pattern, name);
    let found = backend.shared.hub.channels().into_iter();
    let mut channels = BTreeMap::new();
    let mut bytes = size(backend.shared.options.limits.outbound_frame_bytes_max);
    for (name, clients) in found.filter(|(name, _)| is_asked(name)) {
        let rest = bytes.checked_sub(CHANNEL_BYTES + name.len());
        bytes = rest.ok_or(Code::LimitExceeded)?;
        channels.insert(name.as_ref().to_owned(), json!({ "num_clients": clients }));
    }
    Ok(Found::About(json!({ "channels": channels })))
}

/// Of an answer, for each channel besides its name.
const CHANNEL_BYTES: usize = 32;

/// The one node that there is.
pub(super) fn info(backend: &Backend) -> Outcome {
    backend.check(Right::Observe)?;
    let clients = backend.shared.hub.clients();
    let channels = backend.shared.hub.channels();
    let users: HashSet<&str> = clients.iter().map(|client| &*client.user).collect();
    let subscriptions: usize = channels.iter().map(|(_, clients)| clients).sum();
    Ok(Found::About(json!({ "nodes": [{
        "uid": NODE,
        "name": "tideline",
        "version": env!("CARGO_PKG_VERSION"),
        "num_clients": clients.len(),
        "num_users": users.len(),
        "num_channels": channels.len(),
        "num_subs": subscriptions,
        "uptime": backend.shared.began.elapsed().as_secs(),
    }] })))
}

/// Whether a name is of a pattern, in which `*` is any text and `?` any character.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Behind the last star, and what of the name it was tried with.
    let mut star = None;
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                star = Some((at, of));
            }
            Some(one) if *one == '?' || *one == name[of] => (at, of) = (at + 1, of + 1),
            _ => {
                let Some((behind, tried)) = star else {
                    return false;
                };
                star = Some((behind, tried + 1));
                (at, of) = (behind, tried + 1);
            }
        }
    }
    pattern[at..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_stars() {
        for (pattern, name, is_of) in [
            ("*", "", true),
            ("news:*", "news:a:b", true),
            ("news:*", "new", false),
            ("*:a*b", "x:aab", true),
            ("*:a*b", "x:aac", false),
            ("a?c", "aüc", true),
            ("a?c", "ac", false),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), is_of, "{pattern} {name}");
        }
    }
}
