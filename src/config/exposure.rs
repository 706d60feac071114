//! Who can reach the server, and whether that may be.
//!
//! Owns: the rule for starts, and for requests that proxies pass on. Promises: without authentication only this machine
//! is served, unless the operator says that others may be. Must not: know what is done with a request.

use super::{Config, ConfigError};

impl Config {
    /// Whether others than this machine can reach the server.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        !self.listen.ip().to_canonical().is_loopback()
    }

    /// Whether requests are served that came through a proxy: they may be anybody's.
    #[must_use]
    pub fn takes_proxied(&self) -> bool {
        self.insecure
    }

    /// Whether the server may start as it would be reached.
    pub fn check_exposure(&self) -> Result<(), ConfigError> {
        if self.insecure {
            return Ok(());
        }
        if self.is_exposed() {
            return Err(ConfigError(format!(
                "{} is not loopback, and there is no authentication yet: whoever reaches it may read, write and delete \
                 everything. Listen on 127.0.0.1; or set --insecure (insecure = true) where only those whom you trust \
                 can reach it, or a proxy before it decides who may come in",
                self.listen
            )));
        }
        if let Some(host) = self.allowed_hosts.iter().find(|host| !is_own(host)) {
            return Err(ConfigError(format!(
                "allowed_hosts has `{host}`, by which others would call, and there is no authentication yet; where only \
                 those whom you trust can do that, set --insecure (insecure = true)"
            )));
        }
        Ok(())
    }
}

/// Whether only this machine has the name.
fn is_own(host: &str) -> bool {
    let host = host.to_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => &host,
    };
    let ip = name.trim_start_matches('[').trim_end_matches(']').parse();
    let is_loopback = ip.is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback());
    is_loopback || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(listen: &str, host: Option<&str>) -> Option<String> {
        let config = Config {
            listen: listen.parse().unwrap(),
            allowed_hosts: host.iter().map(ToString::to_string).collect(),
            ..Config::default()
        };
        let insecure = Config {
            insecure: true,
            ..config.clone()
        };
        insecure.check_exposure().unwrap();
        config.check_exposure().err().map(|error| error.0)
    }

    #[test]
    fn without_authentication_only_this_machine_is_served() {
        for listen in [
            "127.0.0.1:7070",
            "127.9.9.9:1",
            "[::1]:7070",
            "[::ffff:127.0.0.1]:7070",
        ] {
            assert_eq!(refused(listen, None), None);
        }
        for listen in ["0.0.0.0:7070", "192.0.2.1:7070", "[::]:7070"] {
            let why = refused(listen, None).unwrap();
            assert!(
                why.contains("insecure = true") && why.contains(listen),
                "{why}"
            );
        }
        for host in [
            "localhost",
            "LOCALHOST:7070",
            "app.localhost",
            "127.0.0.1",
            "[::1]:80",
        ] {
            assert_eq!(refused("127.0.0.1:7070", Some(host)), None);
        }
        for host in [
            "chat.example",
            "localhost.example",
            "192.0.2.1",
            "[2001:db8::1]",
        ] {
            let why = refused("127.0.0.1:7070", Some(host)).unwrap();
            assert!(why.contains(host), "{why}");
        }
    }
}
