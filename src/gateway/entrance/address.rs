//! From which address a request comes, through proxies or not.
//!
//! Owns: the networks of trusted proxies, and what their `X-Forwarded-For` says. Promises: only what a trusted proxy
//! says counts; a client can't choose its address. Must not: decide which client may come in.

use std::net::{IpAddr, Ipv6Addr};

use hyper::HeaderMap;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    begin: u128,
    /// How many of the low bits do not count.
    free: u32,
}

impl Network {
    /// Reads an address, or an address and the number of bits that count, like `10.0.0.0/8`.
    #[must_use]
    pub fn read(text: &str) -> Option<Network> {
        let (ip, bits) = match text.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().ok()?;
        let all = if ip.is_ipv4() { 32 } else { 128 };
        let bits: u32 = bits.map_or(Ok(all), str::parse).ok()?;
        let free = all.checked_sub(bits)?;
        Some(Network {
            begin: number(ip).checked_shr(free).unwrap_or(0),
            free,
        })
    }

    fn has(&self, ip: IpAddr) -> bool {
        number(ip).checked_shr(self.free).unwrap_or(0) == self.begin
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The trusted proxies.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Proxies(Vec<Network>);

impl Proxies {
    pub(in super::super) fn new(trusted: &[Network]) -> Proxies {
        Proxies(trusted.to_vec())
    }

    /// Whether a peer is this machine or a trusted proxy.
    pub(in super::super) fn are_or_here(&self, peer: IpAddr) -> bool {
        peer.is_loopback() || self.has(peer)
    }

    /// Whether a trusted proxy has this address.
    pub(in super::super) fn has(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|network| network.has(ip))
    }

    /// The address of the client behind a request of `peer`. Each proxy appends the address that called it, so the
    /// client is the last one in the list that is not a trusted proxy.
    pub(in super::super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        let values: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
        let texts = values.iter().rev().flat_map(|value| {
            let text = value.to_str().unwrap_or_default();
            text.rsplit(',').map(str::trim)
        });
        for text in texts {
            if !self.has(client) {
                break;
            }
            match read(text) {
                Some(ip) => client = ip,
                // What cannot be read ends the list: nothing before it can be trusted.
                None => break,
            }
        }
        client
    }

    /// Whether a request of `peer` came to a trusted proxy by TLS, as that says.
    pub(in super::super) fn is_secure(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let said = headers.get(FORWARDED_PROTO);
        self.has(peer) && said.is_some_and(|said| said.as_bytes().eq_ignore_ascii_case(b"https"))
    }
}

/// An address, perhaps with a port behind it.
fn read(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let ip = bare.unwrap_or(text).parse().ok();
    let ip = ip.or_else(|| {
        text.parse()
            .ok()
            .map(|address: std::net::SocketAddr| address.ip())
    });
    ip.map(|ip| ip.to_canonical())
}

/// What limits count by: an address of IPv4, or a /64 of IPv6, since each customer of a provider has at least that.
pub(in super::super) fn block(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        ip => ip,
    }
}

const FORWARDED_PROTO: &str = "x-forwarded-proto";
pub(in super::super) const FORWARDED_FOR: &str = "x-forwarded-for";

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        for (network, has, has_not) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3/8", "10.0.0.0", "9.255.255.255"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("0.0.0.0/0", "255.255.255.255", "2001:db8::1"),
        ] {
            let network = Network::read(network).unwrap();
            assert!(
                network.has(ip(has)) && !network.has(ip(has_not)),
                "{network:?}"
            );
        }
        assert!(Network::read("::/0").unwrap().has(ip("192.0.2.1")));
        let proxies = Proxies::new(&[Network::read("10.0.0.9").unwrap()]);
        let is_served = |peer| proxies.are_or_here(ip(peer));
        assert!(is_served("10.0.0.9") && is_served("127.0.0.1") && !is_served("10.0.0.8"));
        for text in [
            "",
            "/8",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/-1",
            "proxy.example",
            "10.0.0.0/",
        ] {
            assert_eq!(Network::read(text), None, "{text}");
        }
    }

    #[test]
    fn the_client_is_the_last_that_is_no_trusted_proxy() {
        let trusted = ["10.0.0.0/8", "2001:db8::/32"].map(|text| Network::read(text).unwrap());
        let proxies = Proxies::new(&trusted);
        let client = |peer: &str, values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(FORWARDED_FOR, value.parse().unwrap());
            }
            proxies.client(ip(peer), &headers).to_string()
        };
        // Nobody else is believed.
        assert_eq!(client("192.0.2.1", &["198.51.100.1"]), "192.0.2.1");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        // What a client wrote itself lies before what the proxy added.
        assert_eq!(
            client("10.0.0.1", &["1.1.1.1, 198.51.100.1"]),
            "198.51.100.1"
        );
        assert_eq!(
            client("10.0.0.1", &["1.1.1.1", "198.51.100.1,10.0.0.2"]),
            "198.51.100.1"
        );
        assert_eq!(
            client("2001:db8::7", &["[2001:db9::1]:443, 10.9.9.9:80"]),
            "2001:db9::1"
        );
        // An address that nobody can read is not skipped.
        assert_eq!(client("10.0.0.1", &["198.51.100.1, unknown"]), "10.0.0.1");
        assert_eq!(
            client("10.0.0.1", &["198.51.100.1, , 10.0.0.2"]),
            "10.0.0.2"
        );
        assert_eq!(client("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
    }

    #[test]
    fn ipv6_counts_by_its_first_half() {
        assert_eq!(block(ip("2001:db8:1:2:3:4:5:6")), ip("2001:db8:1:2::"));
        assert_eq!(block(ip("::ffff:192.0.2.1")), ip("192.0.2.1"));
        assert_eq!(block(ip("192.0.2.1")), ip("192.0.2.1"));
    }
}
