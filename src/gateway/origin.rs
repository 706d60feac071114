//! Who may call: the check of `Host` and `Origin`.
//!
//! Owns: the rule against web pages that reach for a server on somebody's machine (foreign origins, DNS rebinding).
//! Promises: a name that was not configured is never taken as ours, whatever it resolves to. Must not: trust any other
//! header.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};

/// The configured names.
#[derive(Debug)]
pub(super) struct Allowed {
    origins: Vec<String>,
    hosts: Vec<String>,
}

impl Allowed {
    pub(super) fn new(origins: &[String], hosts: &[String]) -> Allowed {
        let lower = |texts: &[String]| -> Vec<String> {
            texts
                .iter()
                .map(|text| text.trim_end_matches('/').to_lowercase())
                .collect()
        };
        Allowed {
            origins: lower(origins),
            hosts: lower(hosts),
        }
    }

    /// Whether a request that came in on `local` may be served.
    pub(super) fn permits(&self, headers: &HeaderMap, local: IpAddr) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        let Ok(host) = host.to_str().map(str::to_lowercase) else {
            return false;
        };
        if !self.is_ours(&host, local) {
            return false;
        }
        // Browsers always send an origin with a WebSocket or a POST; other programs mostly have none.
        headers.get_all(ORIGIN).iter().all(|origin| {
            origin.to_str().is_ok_and(|origin| {
                let origin = origin.to_lowercase();
                let own = origin
                    .strip_prefix("http://")
                    .or_else(|| origin.strip_prefix("https://"))
                    .is_some_and(|authority| authority == host);
                own || self.origins.contains(&origin)
            })
        })
    }

    fn is_ours(&self, host: &str, local: IpAddr) -> bool {
        if self.hosts.iter().any(|known| known == host) {
            return true;
        }
        let name = without_port(host);
        if name == "localhost" || self.hosts.iter().any(|known| known == name) {
            return true;
        }
        // An IPv6 address stands in brackets, another one never does.
        let literal = match name.strip_prefix('[') {
            Some(rest) => rest
                .strip_suffix(']')
                .and_then(|ip| ip.parse().ok().map(IpAddr::V6)),
            None => name.parse().ok().map(IpAddr::V4),
        };
        literal.is_some_and(|ip| ip.is_loopback() || ip.to_canonical() == local.to_canonical())
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            // An IPv6 address has colons of its own and stands in brackets.
            if name.contains(':') && !name.ends_with(']') {
                host
            } else {
                name
            }
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(allowed: &Allowed, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        allowed.permits(&headers, "192.0.2.7".parse().unwrap())
    }

    #[test]
    fn own_names_are_served_and_foreign_ones_are_not() {
        let nothing = Allowed::new(&[], &[]);
        for host in [
            "localhost:7070",
            "LOCALHOST",
            "127.0.0.1:7070",
            "[::1]:7070",
            "192.0.2.7:80",
        ] {
            assert!(permits(&nothing, host, None), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7070",
            "localhost.evil.example",
            "192.0.2.8",
            "[::1",
            "[::1:7070",
            "::1",
            "::1]:7070",
            "[127.0.0.1]",
            "",
        ] {
            assert!(!permits(&nothing, host, None), "{host}");
        }
        let named = Allowed::new(&[], &["Chat.example.org".to_owned()]);
        assert!(permits(&named, "chat.example.org", None));
        assert!(permits(&named, "chat.example.org:8443", None));
        assert!(!permits(&Allowed::new(&[], &[]), "chat.example.org", None));
    }

    #[test]
    fn a_page_of_the_server_itself_may_call_and_other_pages_only_if_listed() {
        let nothing = Allowed::new(&[], &[]);
        let host = "localhost:7070";
        assert!(permits(&nothing, host, Some("http://localhost:7070")));
        assert!(!permits(&nothing, host, Some("http://localhost:3000")));
        assert!(!permits(&nothing, host, Some("null")));
        assert!(!permits(&nothing, host, Some("https://evil.example")));
        assert!(!permits(
            &nothing,
            "127.0.0.1:7070",
            Some("http://localhost:7070")
        ));
        let listed = Allowed::new(&["https://app.example/".to_owned()], &[]);
        assert!(permits(&listed, host, Some("https://app.example")));
        assert!(!permits(&listed, host, Some("https://app.example.evil")));
        assert!(!permits(&listed, host, Some("http://app.example")));
    }

    #[test]
    fn no_host_or_two_hosts_are_refused() {
        let nothing = Allowed::new(&[], &[]);
        let local = "127.0.0.1".parse().unwrap();
        let mut headers = HeaderMap::new();
        assert!(!nothing.permits(&headers, local));
        headers.append(HOST, "localhost".parse().unwrap());
        assert!(nothing.permits(&headers, local));
        headers.append(HOST, "localhost".parse().unwrap());
        assert!(!nothing.permits(&headers, local));
    }
}
