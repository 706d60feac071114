//! Lists of names, networks and addresses: what they can hold.
//!
//! Owns: these checks. Promises: a name that nothing could ever have is refused. Must not: look at other settings.

use super::{Config, ConfigError};
use crate::gateway;

impl Config {
    /// The networks of trusted proxies.
    pub(super) fn trusted_networks(&self) -> Result<Vec<gateway::Network>, ConfigError> {
        let read = |text: &String| {
            gateway::Network::read(text).ok_or_else(|| {
                ConfigError(format!(
                    "trusted_proxies: `{text}` is not an address like \"192.0.2.1\" or a network like \"10.0.0.0/8\""
                ))
            })
        };
        self.trusted_proxies.iter().map(read).collect()
    }

    /// Names that no request could ever have would seem to be allowed.
    pub(super) fn check_names(&self) -> Result<(), ConfigError> {
        let is_host = |text: &str| !text.is_empty() && !text.contains(['/', '*', ' ']);
        let is_origin = |text: &str| {
            let parts = text.trim_end_matches('/').split_once("://");
            parts.is_some_and(|(scheme, host)| !scheme.is_empty() && is_host(host))
        };
        if let Some(origin) = self.allowed_origins.iter().find(|it| !is_origin(it)) {
            return Err(ConfigError(format!(
                "allowed_origins: `{origin}` is not an origin like \"https://chat.example.org\""
            )));
        }
        if let Some(host) = self.allowed_hosts.iter().find(|it| !is_host(it)) {
            return Err(ConfigError(format!(
                "allowed_hosts: `{host}` is not a name like \"chat.example.org\""
            )));
        }
        Ok(())
    }
}
