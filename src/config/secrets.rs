//! Settings that are secrets themselves.
//!
//! Owns: keys with their secrets, `ID:secret`. Promises: a secret is in no printed configuration, error or debug text;
//! what is printed in its place is refused as a secret, so that a printed file is not taken for a whole one. Must not:
//! be used for a new setting; a secret belongs into a file of its own.

use std::fmt;

use serde::{Serialize, Serializer};
use toml::Value;

use super::key::{Key, is_name, section};
use super::{Config, ConfigError, DEVELOPMENT};

/// Texts of the form `ID:secret`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets(pub Vec<String>);

/// Printed in place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

impl Secrets {
    /// With their secrets left out. The key that everybody knows is none.
    fn shown(&self) -> Vec<String> {
        let shown = self.0.iter().map(|text| match text.split_once(':') {
            Some(_) if text == DEVELOPMENT => text.clone(),
            Some((id, _)) => format!("{id}:{HIDDEN}"),
            None => HIDDEN.to_owned(),
        });
        shown.collect()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(out)
    }
}

impl Serialize for Secrets {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(to)
    }
}

impl Key for Secrets {
    fn read(value: &Value) -> Result<Secrets, String> {
        // The usual error would quote what it found.
        let texts = section(value).map_err(|_| "expected a list of texts".to_owned());
        texts.map(Secrets)
    }

    fn parse(text: &str) -> Result<Secrets, String> {
        <Vec<String> as Key>::parse(text).map(Secrets)
    }
}

impl Config {
    pub(super) fn check_tablestore(&self) -> Result<(), ConfigError> {
        if self.auth.is_some() && self.tablestore_credentials.0 != [DEVELOPMENT] {
            return Err(ConfigError(
                "tablestore_credentials has no meaning beside [auth]: make keys with `tideline key create NAME \
                 --signing`"
                    .to_owned(),
            ));
        }
        for (at, credential) in self.tablestore_credentials.0.iter().enumerate() {
            // A secret is not to be shown, and a broken one may be anywhere in the text.
            let parts = credential.split_once(':');
            let parts = parts.filter(|(id, secret)| is_name(id) && !secret.is_empty());
            let Some((_, secret)) = parts else {
                return Err(ConfigError(format!(
                    "tablestore_credentials: number {} is not a key ID of letters, digits, '.', '_' and '-', a colon, \
                     and a secret",
                    at + 1
                )));
            };
            if credential.ends_with(&format!(":{HIDDEN}")) {
                return Err(ConfigError(format!(
                    "tablestore_credentials: number {} has its secret hidden, as `tideline config` prints it: put the \
                     secret in its place",
                    at + 1
                )));
            }
            if secret.len() < TABLESTORE_SECRET_BYTES_MIN && credential != DEVELOPMENT {
                return Err(ConfigError(format!(
                    "tablestore_credentials: number {} has a secret of {} bytes, but it must have \
                     {TABLESTORE_SECRET_BYTES_MIN} or more",
                    at + 1,
                    secret.len()
                )));
            }
        }
        for instance in &self.tablestore_instances {
            let is_fit = (3..=16).contains(&instance.len())
                && instance
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_fit {
                return Err(ConfigError(format!(
                    "tablestore_instances: `{instance}` is not 3 to 16 letters, digits and hyphens"
                )));
            }
        }
        Ok(())
    }
}

/// As long as the secrets of Alibaba Cloud, which users bring along.
const TABLESTORE_SECRET_BYTES_MIN: usize = 30;

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn a_secret_is_shown_nowhere() {
        let mut config = Config::default();
        config
            .set_text(
                "tablestore_credentials",
                "me:canary-canary-canary-canary-canary, you:canary-canary-canary-canary-canary",
            )
            .unwrap();
        config.check().unwrap();
        let printed = config.to_toml();
        assert!(!format!("{printed} {config:?}").contains("canary"));
        assert!(printed.contains("\"me:(hidden)\""));
        let printed: toml::Table = printed.parse().unwrap();
        let mut again = Config::default();
        let credentials = &printed["tablestore_credentials"];
        again.set("tablestore_credentials", credentials).unwrap();
        assert!(again.check().unwrap_err().0.contains("hidden"));
        for wrong in [toml::Value::from("a:canary"), vec![1].into()] {
            let refused = again.set("tablestore_credentials", &wrong).unwrap_err();
            assert!(!refused.0.contains("canary"));
        }
        for wrong in ["canary", ":canary", "a b:canary"] {
            again.set_text("tablestore_credentials", wrong).unwrap();
            assert!(!again.check().unwrap_err().0.contains("canary"));
        }
    }
}
