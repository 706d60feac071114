//! The tables `[tls]` and `[limits]`.
//!
//! Owns: how they are read, shown and checked. Promises: an unknown key is refused by name. Must not: read the
//! files that they name.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toml::Value;

use super::ConfigError;
use super::key::{Key, section};
use crate::gateway::LimitOptions;
use crate::tls::Files;

/// `[tls]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsKey {
    /// The certificate, and those between it and its authority, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Authorities whose clients' certificates count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

impl Key for TlsKey {
    fn read(value: &Value) -> Result<TlsKey, String> {
        section(value)
    }
}

impl Key for LimitOptions {
    fn read(value: &Value) -> Result<LimitOptions, String> {
        section(value)
    }
}

impl TlsKey {
    /// The files, if all are named that are needed.
    pub(super) fn files(&self) -> Result<Option<Files>, ConfigError> {
        let TlsKey {
            certificate_file,
            key_file,
            client_ca_file,
        } = self.clone();
        match (certificate_file, key_file, client_ca_file) {
            (Some(certificate), Some(key), client_ca) => Ok(Some(Files {
                certificate,
                key,
                client_ca,
            })),
            (None, None, None) => Ok(None),
            _ => Err(ConfigError(
                "tls: certificate_file and key_file are needed, both of them".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::tests::read;
    use super::*;

    const WHOLE: &str = "[tls]\ncertificate_file = \"c\"\nkey_file = \"k\"\nclient_ca_file = \"a\"\n\
                         [limits]\naddress = { connections = 1, handshakes_per_s = 2 }\n\
                         user = { connections = 3, requests_per_s = 4, bytes_per_s = 5 }\n\
                         key = { connections = 6, requests_per_s = 7 }\n";

    #[test]
    fn the_tables_come_back_as_they_were_written() {
        let config = read(WHOLE).unwrap();
        assert_eq!(config.tls.files().unwrap().unwrap().key, PathBuf::from("k"));
        let options = config.limits;
        assert_eq!(
            (
                options.address.handshakes_per_s,
                options.user.bytes_per_s,
                options.key.requests_per_s
            ),
            (2, 5, 7)
        );
        assert_eq!(options.address.failures_per_min, 60, "by itself");
        let shown = config.to_toml();
        let again = read(&shown).unwrap();
        assert_eq!(again, config);
        let shown: toml::Table = shown.parse().unwrap();
        let mut by_text = Config::default();
        for name in ["tls", "limits"] {
            by_text.set_text(name, &shown[name].to_string()).unwrap();
        }
        assert_eq!((by_text.tls, by_text.limits), (config.tls, config.limits));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (from, to, why) in [
            ("key_file = \"k\"\n", "", "both of them"),
            ("certificate_file = \"c\"\n", "", "both of them"),
            ("key_file", "key", "unknown field `key`"),
            ("bytes_per_s = 5", "bytes = 5", "unknown field `bytes`"),
            ("connections = 1", "connections = -1", "invalid value"),
            ("connections = 1", "connections = \"1\"", "invalid type"),
        ] {
            let refused = read(&WHOLE.replace(from, to)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
