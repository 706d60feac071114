//! From file, environment and flags to one checked configuration.
//!
//! Owns: the order of precedence (flags, environment, file, defaults). Promises: an unknown key of a file is an error
//! that names it; an unknown TIDELINE_ variable is only returned, for other programs may use the prefix. Must not: read
//! anything but the file it was given.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{CentrifugeKey, Config, ConfigError, DEVELOPMENT};
use crate::logging::LogFormat;
use crate::secret;

/// Where a command that needs few settings finds them.
#[derive(Debug, clap::Args)]
pub struct ConfigFile {
    /// The server's TOML file: it says how long message IDs are remembered.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What the command line can set.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// A TOML file.
    pub config: Option<PathBuf>,
    /// `data`.
    pub data: Option<PathBuf>,
    /// `listen`.
    pub listen: Option<SocketAddr>,
    /// `insecure`, if set.
    pub insecure: bool,
    /// `log_format`.
    pub log_format: Option<LogFormat>,
    /// `partitions`.
    pub partitions: Option<u16>,
}

/// The process's environment. Names or texts that are not UTF-8 can't be ours.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
}

/// Reads everything; besides the configuration it returns the variables that look like ours and are not.
pub fn load(
    flags: &Flags,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<(Config, Vec<String>), ConfigError> {
    let mut config = Config::default();
    if let Some(path) = &flags.config {
        read_file(&mut config, path)?;
    }
    let mut unknown = Vec::new();
    for (variable, text) in environment {
        let Some(name) = variable.strip_prefix("TIDELINE_") else {
            continue;
        };
        let known = config
            .set_text(&name.to_lowercase(), &text)
            .map_err(|error| {
                ConfigError(format!("environment variable {variable}: {}", error.0))
            })?;
        if !known && !OF_CLIENTS.contains(&name) {
            unknown.push(variable);
        }
    }
    let Flags {
        config: _,
        data,
        listen,
        insecure,
        log_format,
        partitions,
    } = flags;
    if let Some(data) = data {
        config.data.clone_from(data);
    }
    if let Some(listen) = listen {
        config.listen = *listen;
    }
    config.insecure |= *insecure;
    config.log_format = log_format.unwrap_or(config.log_format);
    if let Some(partitions) = partitions {
        config.partitions = *partitions;
    }
    config.check()?;
    Ok((config, unknown))
}

/// What the commands that ask a server take from the environment, without the prefix.
const OF_CLIENTS: [&str; 5] = ["KEY", "KEY_SECRET", "PASSPHRASE", "URL", "USER"];

fn read_file(config: &mut Config, path: &Path) -> Result<(), ConfigError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError(format!("cannot read {shown}: {error}")))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| ConfigError(format!("{shown}: {}", one_line(&error))))?;
    for (name, value) in &table {
        let known = config
            .set(name, value)
            .map_err(|error| ConfigError(format!("{shown}: {}", error.0)))?;
        if !known {
            return Err(ConfigError(format!(
                "{shown}: unknown key `{name}`, or no longer a setting; `tideline config` prints all"
            )));
        }
    }
    match holds_secret(config) {
        true => secret::check_closed(path)
            .map_err(|why| ConfigError(format!("{shown}: {why}; or name a file of its own"))),
        false => Ok(()),
    }
}

/// Whether a setting is a secret itself, and not the name of a file with one.
fn holds_secret(config: &Config) -> bool {
    let mut credentials = config.tablestore_credentials.0.iter();
    let of_centrifuge = config.centrifuge.as_ref();
    of_centrifuge.is_some_and(CentrifugeKey::holds_secret)
        || credentials.any(|credential| credential != DEVELOPMENT)
}

/// The parser draws the place over several lines; the operator gets one.
fn one_line(error: &toml::de::Error) -> String {
    let place = error
        .span()
        .map_or_else(String::new, |span| format!(" (at byte {})", span.start));
    format!("{}{place}", error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
        pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect::<Vec<_>>()
            .into_iter()
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tideline.toml");
        std::fs::write(
            &path,
            "partitions = 2\nheartbeat_ms = 1000\nsubscriptions_max = 10\n",
        )
        .unwrap();
        let flags = Flags {
            config: Some(path),
            partitions: Some(4),
            ..Flags::default()
        };
        let environment = variables(&[
            ("TIDELINE_PARTITIONS", "3"),
            ("TIDELINE_HEARTBEAT_MS", "2_000"),
            ("TIDELINE_ALLOWED_HOSTS", "a.example, b.example"),
            ("TIDELINE_URL", "ws://elsewhere"),
            ("TIDELINE_COLOR", "green"),
            ("HOME", "/"),
        ]);
        let (config, unknown) = load(&flags, environment).unwrap();
        assert_eq!(config.partitions, 4);
        assert_eq!(config.heartbeat_ms, 2_000);
        assert_eq!(config.subscriptions_max, 10);
        assert_eq!(config.allowed_hosts, ["a.example", "b.example"]);
        assert_eq!(unknown, ["TIDELINE_COLOR"]);
    }

    #[test]
    fn errors_name_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tideline.toml");
        let flags = Flags {
            config: Some(path.clone()),
            ..Flags::default()
        };
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            load(&flags, variables(&[])).unwrap_err().0
        };
        assert!(refused("heartbeat = 1\n").contains("unknown key `heartbeat`"));
        assert!(
            refused("heartbeat_ms = \"x\"\n").contains("heartbeat_ms: expected a whole number")
        );
        for listen in ["nowhere", "localhost", ":7070", "7070", "localhost:high"] {
            let why = refused(&format!("listen = \"{listen}\"\n"));
            assert!(
                why.contains("like 127.0.0.1:7070 or localhost:7070"),
                "{why}"
            );
        }
        assert!(refused("insecure = 1\n").contains("insecure: expected true or false"));
        for origin in ["chat.example", "*", "null", "https://chat.example/app"] {
            let why = refused(&format!("allowed_origins = [\"{origin}\"]\n"));
            assert!(why.contains("like \"https://chat.example.org\""), "{why}");
        }
        assert!(refused("allowed_hosts = [\"https://a.example\"]\n").contains("allowed_hosts: "));
        assert!(!refused("partitions = \n").contains('\n'));
        let why = load(
            &Flags::default(),
            variables(&[("TIDELINE_PARTITIONS", "-1")]),
        )
        .unwrap_err()
        .0;
        assert!(
            why.starts_with("environment variable TIDELINE_PARTITIONS"),
            "{why}"
        );
    }
}
