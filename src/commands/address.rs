//! Where a running server is, for the commands that ask one.
//!
//! Owns: how a server's address is read. Promises: every command takes the same forms, and all of them name the same
//! server; a credential in a URL is refused, because other users can see it. Must not: connect.

use hyper::Uri;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) secure: bool,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Of HTTP, without a path.
    pub(crate) origin: String,
    /// Of the WebSocket.
    pub(crate) url: String,
}

impl Address {
    /// Like `http://127.0.0.1:7070`, `wss://example.org/chat`, `localhost:7070`.
    pub(crate) fn parse(text: &str) -> Result<Address, String> {
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
        let end = if secure { "s" } else { "" };
        let origin = format!("http{end}://{authority}");
        Ok(Address {
            secure,
            host: host.to_owned(),
            port,
            origin,
            url: format!("ws{end}://{authority}{path}/v1/connect"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> (String, u16, [String; 2]) {
        let at = Address::parse(text).unwrap();
        assert_eq!(at.secure, at.url.starts_with("wss:"));
        (at.host, at.port, [at.origin, at.url])
    }

    #[test]
    fn one_server_has_many_urls() {
        let own = ["http://127.0.0.1:7070", "ws://127.0.0.1:7070/v1/connect"];
        let own = ("127.0.0.1".to_owned(), 7070, own.map(str::to_owned));
        for text in [
            "http://127.0.0.1:7070",
            "ws://127.0.0.1:7070/",
            "127.0.0.1:7070",
            "http://127.0.0.1:7070/v1/rpc",
            "ws://127.0.0.1:7070/v1/connect",
        ] {
            assert_eq!(at(text), own, "{text}");
        }
        let behind = ["https://[::1]", "wss://[::1]/chat/v1/connect"];
        let behind = ("::1".to_owned(), 443, behind.map(str::to_owned));
        for text in ["https://[::1]/chat", "wss://[::1]/chat/v1/connect"] {
            assert_eq!(at(text), behind, "{text}");
        }
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
