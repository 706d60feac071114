//! Which pages may call: the check of `Host` and `Origin`.
//!
//! Owns: the rule against web pages that call a server on their reader's machine (foreign origins, DNS rebinding), and
//! the answer to a refused page. Promises: a name that was not configured is never taken as ours, whatever it resolves
//! to. Must not: trust any other header.

use std::fmt;
use std::net::IpAddr;

use hyper::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VIA};
use hyper::http::Uri;

use super::super::entrance::address::FORWARDED_FOR;
use super::super::log_limit::LogLimit;

/// The configured names.
#[derive(Debug)]
pub(in super::super) struct Allowed {
    origins: Vec<String>,
    hosts: Vec<String>,
    takes_proxied: bool,
    refused_origins: LogLimit,
    refused_hosts: LogLimit,
    refused_proxied: LogLimit,
}

/// A request that may be served.
#[derive(Clone, Debug)]
pub(in super::super) struct Admitted {
    /// The page that asks, if it is one; it may read the answer.
    pub(in super::super) origin: Option<HeaderValue>,
    /// It asked for this machine itself, and no proxy says that it passed it on.
    pub(in super::super) is_direct: bool,
}

/// Why a request may not be served; its text names the setting that would allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Foreign {
    /// No `Host`, or two, or one that is no text.
    NoHost,
    /// By this name the server is not known.
    Host(String),
    /// A page of this origin asks, or of none that can be named.
    Origin(Option<String>),
    /// A proxy has passed it on: it may be anybody's.
    Proxied,
}

impl fmt::Display for Foreign {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::NoHost => out.write_str("a request has exactly one Host, of plain text"),
            Foreign::Host(host) => write!(
                out,
                "the Host {host} is not known here; if it is a name of this server, set \
                 allowed_hosts = [\"{}\"]",
                without_port(host)
            ),
            Foreign::Origin(Some(origin)) => write!(
                out,
                "the Origin {origin} is not allowed here; if the page is yours, set \
                 allowed_origins = [\"{origin}\"]"
            ),
            Foreign::Origin(None) => out.write_str(
                "a page without an Origin of its own (a file, a sandboxed frame) is not allowed here; \
                 serve it over HTTP, and set allowed_origins to its address",
            ),
            Foreign::Proxied => out.write_str(
                "a proxy has passed this on, and there is no authentication: it may be anybody's; where the proxy \
                 decides who may come in, set insecure = true",
            ),
        }
    }
}

impl Allowed {
    pub(in super::super) fn new(
        origins: &[String],
        hosts: &[String],
        takes_proxied: bool,
    ) -> Allowed {
        let lower = |texts: &[String]| -> Vec<String> {
            texts
                .iter()
                .map(|text| text.trim_end_matches('/').to_lowercase())
                .collect()
        };
        Allowed {
            origins: lower(origins),
            hosts: lower(hosts),
            takes_proxied,
            refused_origins: LogLimit::default(),
            refused_hosts: LogLimit::default(),
            refused_proxied: LogLimit::default(),
        }
    }

    /// Looks at a request that came in on `local`. A name in its target (`GET http://name/`) counts in place of `Host`,
    /// as RFC 9112 says.
    pub(in super::super) fn admit(
        &self,
        target: &Uri,
        headers: &HeaderMap,
        local: IpAddr,
    ) -> Result<Admitted, Foreign> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(Foreign::NoHost);
        };
        let host = host.to_str().map_err(|_| Foreign::NoHost)?;
        let named = target.authority().map(|authority| authority.as_str());
        let host = named.unwrap_or(host).to_lowercase();
        let is_own = is_own_address(&host, local);
        if !is_own && !self.is_listed(&host) {
            return Err(Foreign::Host(shown(&host)));
        }
        if !self.takes_proxied && PROXIED.iter().any(|name| headers.contains_key(name)) {
            return Err(Foreign::Proxied);
        }
        // Browsers always send an origin with a WebSocket or a POST; other programs mostly have none.
        let mut origins = headers.get_all(ORIGIN).iter();
        let origin = match (origins.next(), origins.next()) {
            (None, _) => None,
            (Some(origin), None) if self.is_our_page(origin, &host) => Some(origin.clone()),
            (Some(origin), _) => {
                let text = origin.to_str().ok().filter(|text| text.contains("://"));
                return Err(Foreign::Origin(text.map(shown)));
            }
        };
        Ok(Admitted {
            origin,
            is_direct: is_own && !headers.keys().any(is_of_proxy),
        })
    }

    /// Warns the operator: nobody else can change the setting. Seldom, because any client can cause it.
    pub(in super::super) fn log(&self, foreign: &Foreign) {
        let (turns, setting) = match foreign {
            Foreign::NoHost | Foreign::Host(_) => (&self.refused_hosts, "allowed_hosts"),
            Foreign::Origin(_) => (&self.refused_origins, "allowed_origins"),
            Foreign::Proxied => (&self.refused_proxied, "insecure"),
        };
        if let Some(count) = turns.turn() {
            tracing::warn!(count, setting, "refused a request: {foreign}");
        }
    }

    fn is_our_page(&self, origin: &HeaderValue, host: &str) -> bool {
        let Ok(origin) = origin.to_str().map(str::to_lowercase) else {
            return false;
        };
        let own = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))
            .is_some_and(|authority| authority == host);
        own || self.origins.contains(&origin)
    }

    fn is_listed(&self, host: &str) -> bool {
        let name = without_port(host);
        let mut known = self.hosts.iter();
        known.any(|known| known == host || known == name)
    }
}

/// Whether a request asked for the machine itself to which it came, and no proxy says that it passed it on.
pub(in super::super) fn is_direct(target: &Uri, headers: &HeaderMap, local: IpAddr) -> bool {
    let named = target.authority().map(|authority| authority.as_str());
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = named.or(host).unwrap_or_default().to_lowercase();
    is_own_address(&host, local) && !headers.keys().any(is_of_proxy)
}

/// Whether a host is this machine's: `localhost`, a loopback address, or the address that the request came in on.
fn is_own_address(host: &str, local: IpAddr) -> bool {
    let name = without_port(host);
    if name == "localhost" {
        return true;
    }
    // Only an IPv6 address is in brackets.
    let literal = match name.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .and_then(|ip| ip.parse().ok().map(IpAddr::V6)),
        None => name.parse().ok().map(IpAddr::V4),
    };
    literal.is_some_and(|ip| ip.is_loopback() || ip.to_canonical() == local.to_canonical())
}

/// What says that a proxy has passed a request on.
const PROXIED: [HeaderName; 3] = [FORWARDED, HeaderName::from_static(FORWARDED_FOR), VIA];

/// Whether only proxies say this. Some say nothing; then the request is theirs.
fn is_of_proxy(name: &HeaderName) -> bool {
    let text = name.as_str();
    *name == FORWARDED || *name == VIA || text.starts_with("x-forwarded-") || text == "x-real-ip"
}

/// What a client sent, made fit for one line of a log.
fn shown(text: &str) -> String {
    let fit = |letter: &char| letter.is_ascii_graphic() && !['"', '\\'].contains(letter);
    text.chars().filter(fit).take(SHOWN_MAX).collect()
}

const SHOWN_MAX: usize = 200;

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            // An IPv6 address has colons of its own and is in brackets.
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
        let local = "192.0.2.7".parse().unwrap();
        allowed.admit(&Uri::default(), &headers, local).is_ok()
    }

    #[test]
    fn own_names_are_served_and_foreign_ones_are_not() {
        let nothing = Allowed::new(&[], &[], true);
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
        let named = Allowed::new(&[], &["Chat.example.org".to_owned()], true);
        assert!(permits(&named, "chat.example.org", None));
        assert!(permits(&named, "chat.example.org:8443", None));
        assert!(!permits(
            &Allowed::new(&[], &[], true),
            "chat.example.org",
            None
        ));
    }

    #[test]
    fn a_page_of_the_server_itself_may_call_and_other_pages_only_if_listed() {
        let nothing = Allowed::new(&[], &[], true);
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
        let listed = Allowed::new(&["https://app.example/".to_owned()], &[], true);
        assert!(permits(&listed, host, Some("https://app.example")));
        assert!(!permits(&listed, host, Some("https://app.example.evil")));
        assert!(!permits(&listed, host, Some("http://app.example")));
    }

    #[test]
    fn no_host_or_two_hosts_are_refused() {
        let nothing = Allowed::new(&[], &[], true);
        let local = "127.0.0.1".parse().unwrap();
        let mut headers = HeaderMap::new();
        let refused = |headers: &HeaderMap| nothing.admit(&Uri::default(), headers, local).err();
        assert_eq!(refused(&headers), Some(Foreign::NoHost));
        headers.append(HOST, "localhost".parse().unwrap());
        assert_eq!(refused(&headers), None);
        headers.append(HOST, "localhost".parse().unwrap());
        assert_eq!(refused(&headers), Some(Foreign::NoHost));
    }

    #[test]
    fn a_name_in_the_target_counts_in_place_of_host() {
        let nothing = Allowed::new(&[], &[], true);
        let local = "127.0.0.1".parse().unwrap();
        let permits = |target: &str, host: &str| {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            nothing
                .admit(&target.parse().unwrap(), &headers, local)
                .is_ok()
        };
        assert!(permits("/healthz", "localhost"));
        assert!(permits("http://localhost:7070/healthz", "evil.example"));
        assert!(!permits("http://evil.example/healthz", "localhost"));
        assert!(!permits("http://localhost@evil.example/", "localhost"));
        assert!(!permits("evil.example:80", "localhost"));
    }

    #[test]
    fn only_who_asks_for_this_machine_without_a_proxy_is_direct() {
        let allowed = Allowed::new(
            &[],
            &["tideline.example".to_owned(), "localhost".to_owned()],
            true,
        );
        let is_direct = |host: &str, header: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            if let Some(name) = header {
                headers.insert(name, "192.0.2.1".parse().unwrap());
            }
            let local = "127.0.0.1".parse().unwrap();
            allowed
                .admit(&Uri::default(), &headers, local)
                .unwrap()
                .is_direct
        };
        assert!(is_direct("127.0.0.1:7070", None));
        assert!(is_direct("localhost", Some("x-request-id")));
        assert!(!is_direct("tideline.example", None));
        for header in ["forwarded", "via", "x-forwarded-for", "x-forwarded-proto"] {
            assert!(!is_direct("localhost:7070", Some(header)), "{header}");
        }
    }

    #[test]
    fn what_a_proxy_passed_on_is_refused_unless_it_may_be() {
        let refused = |takes_proxied: bool, header: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "localhost".parse().unwrap());
            headers.insert(header, "192.0.2.1".parse().unwrap());
            let allowed = Allowed::new(&[], &[], takes_proxied);
            allowed
                .admit(&Uri::default(), &headers, "127.0.0.1".parse().unwrap())
                .err()
        };
        for header in ["forwarded", "via", "x-forwarded-for"] {
            assert_eq!(refused(false, header), Some(Foreign::Proxied), "{header}");
            assert_eq!(refused(true, header), None);
        }
        assert_eq!(refused(false, "x-forwarded-proto"), None);
    }
}
