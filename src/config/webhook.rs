//! Webhooks in the configuration.
//!
//! Owns: how a webhook is read, shown and checked. Promises: a secret is in a file of its own and is never shown; a
//! webhook that could never work is refused at the start. Must not: post.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use serde::{Deserialize, Serialize};
use toml::Value;

use super::key::{Key, in_range, is_name, section, sections};
use super::{Config, ConfigError};
use crate::secret;
use crate::table::Followed;
use crate::webhook::Webhook;

/// One `[[webhook]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookKey {
    /// Names it in calls, metrics and the log.
    pub name: String,
    /// Where it posts.
    pub url: String,
    /// The file with what it signs with.
    pub secret_file: PathBuf,
    /// How the timelines' IDs begin; or `table`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timelines: Option<String>,
    /// The table whose rows it follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Changes of one POST at most.
    #[serde(default = "changes_max")]
    pub changes_max: u32,
    /// For an answer.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// Between two attempts at most.
    #[serde(default = "retry_ms_max")]
    pub retry_ms_max: u64,
    /// After so long without success changes become a dead letter.
    #[serde(default = "give_up_ms")]
    pub give_up_ms: u64,
}

fn changes_max() -> u32 {
    100
}

fn timeout_ms() -> u64 {
    10_000
}

fn retry_ms_max() -> u64 {
    60_000
}

fn give_up_ms() -> u64 {
    86_400_000
}

impl Key for Vec<WebhookKey> {
    fn read(value: &Value) -> Result<Vec<WebhookKey>, String> {
        sections(value, "webhook", section)
    }
}

/// Names that are told apart, one source each, URLs that can be posted to, and numbers in their ranges.
pub(super) fn check(webhooks: &[WebhookKey]) -> Result<(), ConfigError> {
    let mut seen = HashSet::new();
    for webhook in webhooks {
        let name = &webhook.name;
        let refuse = |why: &str| Err(ConfigError(format!("the webhook {name:?}: {why}")));
        if name.len() > NAME_BYTES_MAX || !is_name(name) {
            return refuse("a name is 1 to 40 letters, digits, '.', '_' and '-'");
        }
        if !seen.insert(name) {
            return refuse("it is there twice");
        }
        match (&webhook.timelines, &webhook.table) {
            (Some(prefix), None) if prefix.starts_with('$') => {
                return refuse("timelines that start with $ are the server's own");
            }
            (Some(_), None) | (None, Some(_)) => {}
            _ => return refuse("either timelines or table"),
        }
        if let Err(why) = url(&webhook.url) {
            return refuse(why);
        }
        let give_up_ms = webhook.give_up_ms;
        for (key, number, min, max) in [
            ("changes_max", u64::from(webhook.changes_max), 1, 1_000),
            ("timeout_ms", webhook.timeout_ms, 100, 300_000),
            ("retry_ms_max", webhook.retry_ms_max, 250, 3_600_000),
            ("give_up_ms", give_up_ms, 1_000, 31_536_000_000),
        ] {
            in_range(key, Some(number), min, max).or_else(|why| refuse(&why))?;
        }
    }
    Ok(())
}

const NAME_BYTES_MAX: usize = 40;

fn url(text: &str) -> Result<Uri, &'static str> {
    let url: Uri = text.parse().map_err(|_| "url is not a URL")?;
    match (url.scheme_str(), url.authority()) {
        (Some("http" | "https"), Some(authority)) if !authority.as_str().contains('@') => Ok(url),
        (_, Some(authority)) if authority.as_str().contains('@') => {
            Err("url must not hold a user or password: it is shown")
        }
        _ => Err("url must begin with http:// or https://"),
    }
}

impl Config {
    /// The webhooks, with what they sign with.
    pub fn webhooks(&self) -> Result<Vec<Webhook>, ConfigError> {
        let read = |webhook: &WebhookKey| {
            let refused =
                |why: String| ConfigError(format!("the webhook {:?}: {why}", webhook.name));
            let secret = secret::read_text(&webhook.secret_file).map_err(refused)?;
            Ok(Webhook {
                name: webhook.name.clone(),
                url: url(&webhook.url).map_err(|why| refused(why.to_owned()))?,
                secret,
                followed: match (&webhook.table, &webhook.timelines) {
                    (Some(table), _) => Followed::Table(table.clone()),
                    (None, prefix) => Followed::Timelines(prefix.clone().unwrap_or_default()),
                },
                changes_max: webhook.changes_max as usize,
                timeout: Duration::from_millis(webhook.timeout_ms),
                retry_max: Duration::from_millis(webhook.retry_ms_max),
                give_up: Duration::from_millis(webhook.give_up_ms),
            })
        };
        self.webhook.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    const WHOLE: &str = "[[webhook]]\nname = \"a\"\nurl = \"https://example.org/x?key=1\"\nsecret_file = \"s\"\ntimelines = \"\"\n";

    #[test]
    fn a_webhook_comes_back_as_it_was_written() {
        let config = read(WHOLE).unwrap();
        assert_eq!(config.webhook[0].give_up_ms, 86_400_000);
        let shown: toml::Table = config.to_toml().parse().unwrap();
        let mut again = Config::default();
        again.set("webhook", &shown["webhook"]).unwrap();
        assert_eq!(again.webhook, config.webhook);
        let mut by_text = Config::default();
        by_text
            .set_text("webhook", &shown["webhook"].to_string())
            .unwrap();
        assert_eq!(by_text.webhook, config.webhook);
    }

    #[test]
    fn a_webhook_that_makes_no_sense_is_refused() {
        for (from, to, why) in [
            ("name = \"a\"", "name = \"a b\"", "a name is"),
            (
                "timelines = \"\"",
                "timelines = \"$inbox/\"",
                "the server's own",
            ),
            (
                "timelines = \"\"",
                "timelines = \"\"\ntable = \"t\"",
                "either timelines or table",
            ),
            ("timelines = \"\"", "", "either timelines or table"),
            ("https://", "ftp://", "http:// or https://"),
            ("https://", "https://ann:secret@", "user or password"),
            (
                "timelines = \"\"",
                "timelines = \"\"\ntimeout_ms = 1",
                "from 100 to 300000",
            ),
            (
                "secret_file = \"s\"",
                "secret = \"s\"",
                "unknown field `secret`",
            ),
            ("secret_file = \"s\"\n", "", "missing field `secret_file`"),
        ] {
            let refused = read(&WHOLE.replace(from, to)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert!(read(&WHOLE.repeat(2)).unwrap_err().contains("twice"));
    }

    #[test]
    fn a_secret_is_not_shown() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let path = file.display().to_string();
        let config = read(&WHOLE.replace("\"s\"", &format!("{path:?}"))).unwrap();
        let webhooks = config.webhooks().unwrap();
        assert!(webhooks[0].secret.contains("c2VjcmV0"));
        let told = format!("{:?} {:?} {}", webhooks, config, config.to_toml());
        assert!(!told.contains("c2VjcmV0"));
        std::fs::write(&file, "\n").unwrap();
        assert!(config.webhooks().unwrap_err().0.contains("0 bytes"));
    }
}
