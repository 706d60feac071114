//! Who can reach the server, and whether that may be.
//!
//! Owns: the rule for starts, and for requests that proxies pass on. Promises: without authentication only this machine
//! is served, and without TLS or a trusted proxy no credential is asked of others, unless the operator says so. Must
//! not: know what is done with a request.

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
        self.insecure || self.auth.is_some()
    }

    /// Whether of others than this machine only trusted proxies are served: without TLS everybody on the way of a
    /// request reads its credential.
    #[must_use]
    pub fn serves_proxies_only(&self) -> bool {
        self.is_exposed() && !self.insecure && self.tls.certificate_file.is_none()
    }

    /// Whether the server may start as it would be reached.
    pub fn check_exposure(&self) -> Result<(), ConfigError> {
        if self.insecure {
            return Ok(());
        }
        let section = self.centrifuge.as_ref();
        if section.is_some_and(|section| section.client.insecure)
            && (self.auth.is_some() || self.is_exposed())
        {
            return Err(ConfigError(format!(
                "centrifuge.client.insecure lets everybody who reaches {} read, write and delete every timeline without a \
                 token. Leave it out; or listen on 127.0.0.1 without [auth]; or --insecure (insecure = true) where only \
                 those whom you trust can reach it",
                self.listen
            )));
        }
        if self.auth.is_some() {
            return match self.serves_proxies_only() && self.trusted_proxies.is_empty() {
                true => Err(ConfigError(format!(
                    "{} is not loopback, and without TLS everybody on the way of a request can read its credential. Set \
                     [tls]; or trusted_proxies, if a proxy before it speaks TLS; or --insecure (insecure = true) where \
                     the network is to be trusted",
                    self.listen
                ))),
                false => Ok(()),
            };
        }
        if self.is_exposed() {
            return Err(ConfigError(format!(
                "{} is not loopback, and there is no authentication ([auth]): whoever reaches it may read, write and \
                 delete everything. Listen on 127.0.0.1; or set [auth]; or --insecure (insecure = true) where only those whom you trust \
                 can reach it, or a proxy before it decides who may come in",
                self.listen
            )));
        }
        if let Some(host) = self.allowed_hosts.iter().find(|host| !is_own(host)) {
            return Err(ConfigError(format!(
                "allowed_hosts has `{host}`, by which others would call, and there is no authentication ([auth]); where \
                 only those whom you trust can do that, set --insecure (insecure = true)"
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
    use super::super::{AuthKey, TlsKey};
    use super::*;

    #[test]
    fn with_authentication_others_come_over_tls_or_through_a_trusted_proxy() {
        let auth: AuthKey = toml::from_str("").unwrap();
        let local = Config {
            auth: Some(auth),
            allowed_hosts: vec!["chat.example".to_owned()],
            ..Config::default()
        };
        local.check_exposure().unwrap();
        assert!(local.takes_proxied() && !local.serves_proxies_only());
        let exposed = Config {
            listen: "0.0.0.0:7070".parse().unwrap(),
            ..local
        };
        let why = exposed.check_exposure().unwrap_err().0;
        assert!(
            why.contains("[tls]") && why.contains("0.0.0.0:7070"),
            "{why}"
        );
        let proxied = Config {
            trusted_proxies: vec!["10.0.0.0/8".to_owned()],
            ..exposed.clone()
        };
        proxied.check_exposure().unwrap();
        assert!(proxied.serves_proxies_only());
        let secure = Config {
            tls: TlsKey {
                certificate_file: Some("c".into()),
                key_file: Some("k".into()),
                client_ca_file: None,
            },
            ..exposed.clone()
        };
        secure.check_exposure().unwrap();
        assert!(!secure.serves_proxies_only());
        let insecure = Config {
            insecure: true,
            ..exposed
        };
        insecure.check_exposure().unwrap();
        assert!(!insecure.serves_proxies_only());
    }

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
