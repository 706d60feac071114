//! Settings that are secrets themselves.
//!
//! Owns: keys with their secrets, `ID:secret`. Promises: a secret is in no printed configuration, error or debug text;
//! what is printed in its place is refused as a secret, so that a printed file is not taken for a whole one. Must not:
//! be used for a new setting; a secret belongs into a file of its own.

use std::fmt;

use toml::Value;

use super::key::Key;

/// Texts of the form `ID:secret`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets(pub Vec<String>);

/// Printed in place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

impl Secrets {
    /// With their secrets left out. The key that everybody knows is none.
    fn shown(&self) -> Vec<String> {
        let shown = self.0.iter().map(|text| match text.split_once(':') {
            Some(_) if text == super::DEVELOPMENT => text.clone(),
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

impl Key for Secrets {
    fn read(value: &Value) -> Result<Secrets, String> {
        let texts = value.as_array().map(|all| all.iter().map(Value::as_str));
        let texts = texts.and_then(|all| all.map(|text| text.map(str::to_owned)).collect());
        texts
            .map(Secrets)
            .ok_or_else(|| "expected a list of texts".to_owned())
    }

    fn parse(text: &str) -> Result<Secrets, String> {
        <Vec<String> as Key>::parse(text).map(Secrets)
    }

    fn show(&self) -> String {
        self.shown().show()
    }
}

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
