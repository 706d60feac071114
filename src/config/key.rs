//! How one configuration value is read, shown and checked.
//!
//! Owns: the kinds of values. Promises: whatever `show` prints, `read` takes back. Must not: know a key's name or
//! meaning.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use toml::Value;

/// A kind of value that a key can have.
pub(super) trait Key: Sized {
    /// From a TOML file; the error says what was expected.
    fn read(value: &Value) -> Result<Self, String>;
    /// From an environment variable.
    fn parse(text: &str) -> Result<Self, String>;
    /// As TOML.
    fn show(&self) -> String;
    /// Its size, if it has a range.
    fn number(&self) -> Option<u64> {
        None
    }
}

macro_rules! numbers {
    ($($kind:ty)+) => { $(
        impl Key for $kind {
            fn read(value: &Value) -> Result<$kind, String> {
                value
                    .as_integer()
                    .and_then(|number| <$kind>::try_from(number).ok())
                    .ok_or_else(|| format!("expected a whole number, found {value}"))
            }
            fn parse(text: &str) -> Result<$kind, String> {
                text.trim()
                    .replace('_', "")
                    .parse()
                    .map_err(|_| format!("expected a whole number, found `{text}`"))
            }
            fn show(&self) -> String {
                self.to_string()
            }
            fn number(&self) -> Option<u64> {
                u64::try_from(*self).ok()
            }
        }
    )+ };
}

numbers! { u16 u32 u64 usize }

impl Key for String {
    fn read(value: &Value) -> Result<String, String> {
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("expected a text, found {value}"))
    }
    fn parse(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
    fn show(&self) -> String {
        Value::String(self.clone()).to_string()
    }
}

impl Key for PathBuf {
    fn read(value: &Value) -> Result<PathBuf, String> {
        String::read(value).map(PathBuf::from)
    }
    fn parse(text: &str) -> Result<PathBuf, String> {
        Ok(PathBuf::from(text))
    }
    fn show(&self) -> String {
        Value::String(self.display().to_string()).to_string()
    }
}

impl Key for SocketAddr {
    fn read(value: &Value) -> Result<SocketAddr, String> {
        String::read(value).and_then(|text| SocketAddr::parse(&text))
    }
    fn parse(text: &str) -> Result<SocketAddr, String> {
        address(text)
    }
    fn show(&self) -> String {
        Value::String(self.to_string()).to_string()
    }
}

impl Key for bool {
    fn read(value: &Value) -> Result<bool, String> {
        value
            .as_bool()
            .ok_or_else(|| format!("expected true or false, found {value}"))
    }
    fn parse(text: &str) -> Result<bool, String> {
        text.trim()
            .parse()
            .map_err(|_| format!("expected true or false, found `{text}`"))
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

/// An address and port, or a name and port that is looked up; of several addresses one of IPv4, which every client
/// tries.
///
/// # Errors
/// What was expected, with an example.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address and port like 127.0.0.1:7070 or localhost:7070";
    let has_port = text
        .rsplit_once(':')
        .is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
    if !has_port {
        return Err(format!("{expected}, found `{text}`"));
    }
    let found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| format!("{expected}, found `{text}` ({error})"))?
        .collect();
    let best = found.iter().find(|address| address.is_ipv4());
    best.or_else(|| found.first())
        .copied()
        .ok_or_else(|| format!("{expected}; `{text}` has no address"))
}

impl Key for Vec<String> {
    fn read(value: &Value) -> Result<Vec<String>, String> {
        value
            .as_array()
            .ok_or_else(|| format!("expected a list of texts, found {value}"))?
            .iter()
            .map(String::read)
            .collect()
    }
    fn parse(text: &str) -> Result<Vec<String>, String> {
        Ok(text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect())
    }
    fn show(&self) -> String {
        Value::Array(self.iter().cloned().map(Value::String).collect()).to_string()
    }
}
