//! How one configuration value is read, shown and checked.
//!
//! Owns: the kinds of values. Promises: whatever `show` prints, `read` takes back. Must not: know a key's name or
//! meaning.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::decode;
use crate::logging::LogFormat;

/// A kind of value that a key can have.
pub(super) trait Key: Serialize + Sized {
    /// From a TOML file; the error says what was expected.
    fn read(value: &Value) -> Result<Self, String>;
    /// From an environment variable: as in a TOML file, if nothing else is said.
    fn parse(text: &str) -> Result<Self, String> {
        let table: Result<Table, _> = format!("it = {text}").parse();
        let table = table.map_err(|error: toml::de::Error| error.message().to_owned())?;
        Self::read(&table["it"])
    }
    /// As TOML. A section that is not there is `false`, because TOML has no word for nothing.
    fn show(&self) -> String {
        let shown = Value::try_from(self);
        shown.unwrap_or(Value::Boolean(false)).to_string()
    }
    /// Its size, if it has a range.
    fn number(&self) -> Option<u64> {
        None
    }
}

/// A table at the end of the file; the error says what is wrong in it.
pub(super) fn section<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    decode::from(value.clone()).map_err(|error: toml::de::Error| error.message().to_owned())
}

/// Tables of one name at the end of the file.
pub(super) fn sections<T>(
    value: &Value,
    name: &str,
    read: fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let all = value.as_array();
    let all = all.ok_or_else(|| format!("expected [[{name}]], found {value}"))?;
    all.iter().map(read).collect()
}

/// A value that is not a section; the error says what was expected and what was found.
fn plain<T: DeserializeOwned>(value: &Value, expected: &str) -> Result<T, String> {
    decode::from(value.clone())
        .map_err(|_: toml::de::Error| format!("expected {expected}, found {value}"))
}

macro_rules! numbers {
    ($($kind:ty)+) => { $(
        impl Key for $kind {
            fn read(value: &Value) -> Result<$kind, String> {
                plain(value, "a whole number")
            }
            fn parse(text: &str) -> Result<$kind, String> {
                let parsed = text.trim().replace('_', "").parse();
                parsed.map_err(|_| format!("expected a whole number, found `{text}`"))
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
        plain(value, "a text")
    }
    fn parse(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
}

impl Key for LogFormat {
    fn read(value: &Value) -> Result<LogFormat, String> {
        plain(value, "\"text\" or \"json\"")
    }
    fn parse(text: &str) -> Result<LogFormat, String> {
        LogFormat::read(&Value::from(text.trim()))
    }
}

impl Key for PathBuf {
    fn read(value: &Value) -> Result<PathBuf, String> {
        plain(value, "a text")
    }
    fn parse(text: &str) -> Result<PathBuf, String> {
        Ok(PathBuf::from(text))
    }
    fn show(&self) -> String {
        self.display().to_string().show()
    }
}

impl Key for SocketAddr {
    fn read(value: &Value) -> Result<SocketAddr, String> {
        String::read(value).and_then(|text| address(&text))
    }
    fn parse(text: &str) -> Result<SocketAddr, String> {
        address(text)
    }
}

impl Key for bool {
    fn read(value: &Value) -> Result<bool, String> {
        plain(value, "true or false")
    }
    fn parse(text: &str) -> Result<bool, String> {
        let parsed = text.trim().parse();
        parsed.map_err(|_| format!("expected true or false, found `{text}`"))
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
        let all = value.as_array();
        let all = all.ok_or_else(|| format!("expected a list of texts, found {value}"))?;
        all.iter().map(String::read).collect()
    }
    fn parse(text: &str) -> Result<Vec<String>, String> {
        let parts = text.split(',').map(str::trim);
        let parts = parts.filter(|part| !part.is_empty());
        Ok(parts.map(str::to_owned).collect())
    }
}

/// Whether a number is within its limits; `None` = it does not fit in a `u64`.
pub(super) fn in_range(name: &str, number: Option<u64>, min: u64, max: u64) -> Result<(), String> {
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(()),
        Some(number) => Err(format!(
            "{name} is {number}, but must be from {min} to {max}"
        )),
        None => Err(format!("{name} must be from {min} to {max}")),
    }
}

/// Whether a text is a name: letters, digits, `.`, `_` and `-`, and not empty.
pub(super) fn is_name(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.bytes().all(is_fit)
}
