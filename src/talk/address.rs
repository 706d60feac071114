//! Which server is asked, and as whom.
//!
//! Owns: the arguments that all these commands have in common. Promises: a URL of HTTP and one of WebSocket name the
//! same server; a credential comes from the environment, never from an argument, which others see. Must not: connect.

use std::path::PathBuf;

use clap::Args;
use hyper::Uri;

/// The server and the user.
#[derive(Debug, Args)]
pub(super) struct At {
    /// The running server, as in wss://chat.example.org; http:// and ws:// name the same one.
    #[arg(
        long,
        value_name = "URL",
        env = "TIDELINE_URL",
        default_value = "http://127.0.0.1:7070"
    )]
    #[arg(value_parser = Address::parse)]
    pub(super) url: Address,
    /// The user who asks. Where the server has [auth], what TIDELINE_KEY holds, a key or a token, decides who may.
    #[arg(long, env = "TIDELINE_USER")]
    pub(super) user: Option<String>,
    /// Authorities, in PEM, whose certificates the server may have, instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) secure: bool,
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Of the WebSocket.
    pub(super) url: String,
}

impl Address {
    /// Like `http://127.0.0.1:7070`, `wss://example.org/chat`, `localhost:7070`.
    pub(super) fn parse(text: &str) -> Result<Address, String> {
        let whole = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let uri: Uri = whole.parse().map_err(|error| format!("no URL: {error}"))?;
        let secure = match uri.scheme_str() {
            Some("http" | "ws") => false,
            Some("https" | "wss") => true,
            _ => return Err("begins with none of http://, https://, ws://, wss://".into()),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let named = uri.host().unwrap_or_default();
        let host = named.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("no host".into());
        }
        if authority.contains('@') {
            return Err("a credential does not belong in a URL; TIDELINE_KEY is for it".into());
        }
        let port = match authority.strip_prefix(named).unwrap_or_default() {
            "" if secure => 443,
            "" => 80,
            port => {
                let port = port.trim_start_matches(':').parse();
                port.map_err(|_| "the port is none of 0 to 65535".to_owned())?
            }
        };
        if uri.query().is_some() {
            return Err("a server's URL has no `?`".into());
        }
        // Also as the documents print it for clients.
        let path = uri.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1/connect").unwrap_or(path);
        let path = path.strip_suffix("/v1/rpc").unwrap_or(path);
        let scheme = if secure { "wss" } else { "ws" };
        Ok(Address {
            secure,
            host: host.to_owned(),
            port,
            url: format!("{scheme}://{authority}{path}/v1/connect"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> (bool, String, u16, String) {
        let Address {
            secure,
            host,
            port,
            url,
        } = Address::parse(text).unwrap();
        (secure, host, port, url)
    }

    #[test]
    fn one_server_has_many_urls() {
        let own = |url: &str| (false, "127.0.0.1".to_owned(), 7070, url.to_owned());
        for text in [
            "http://127.0.0.1:7070",
            "ws://127.0.0.1:7070/",
            "127.0.0.1:7070",
            "http://127.0.0.1:7070/v1/rpc",
            "ws://127.0.0.1:7070/v1/connect",
        ] {
            assert_eq!(at(text), own("ws://127.0.0.1:7070/v1/connect"), "{text}");
        }
        let expected = (
            true,
            "::1".to_owned(),
            443,
            "wss://[::1]/chat/v1/connect".to_owned(),
        );
        assert_eq!(at("https://[::1]/chat"), expected);
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for text in [
            "",
            "ftp://host",
            "http://",
            "http://ann:secret@host",
            "http://host/?token=1",
            "http://ho st",
            "http://host:99999",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
