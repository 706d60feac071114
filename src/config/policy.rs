//! Policies: settings of timelines by how their IDs begin.
//!
//! Owns: how a policy is read, shown and checked. Promises: a key that is no setting is refused by name, and no prefix
//! has two policies. Must not: know what a setting does.

use std::collections::HashSet;

use serde::Deserialize as _;
use toml::{Table, Value};

use super::ConfigError;
use super::key::Key;
use crate::wire::settings::SettingsPatch;

/// One `[[policy]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyKey {
    /// How the timelines' IDs begin; empty = all.
    pub prefix: String,
    /// What is not set here is as by default.
    pub settings: SettingsPatch,
}

impl PolicyKey {
    fn read(value: &Value) -> Result<PolicyKey, String> {
        let Value::Table(mut table) = value.clone() else {
            return Err(format!("expected tables, found {value}"));
        };
        let prefix = match table.remove("prefix") {
            Some(Value::String(prefix)) => prefix,
            Some(other) => return Err(format!("prefix: expected a text, found {other}")),
            None => return Err("a policy needs a prefix".to_owned()),
        };
        let settings = SettingsPatch::deserialize(Value::Table(table))
            .map_err(|error| format!("the policy of {prefix:?}: {}", error.message()))?;
        Ok(PolicyKey { prefix, settings })
    }

    fn to_value(&self) -> Value {
        let mut table = Table::new();
        table.insert("prefix".to_owned(), Value::String(self.prefix.clone()));
        if let Ok(Value::Table(settings)) = Value::try_from(&self.settings) {
            table.extend(settings);
        }
        Value::Table(table)
    }
}

impl Key for Vec<PolicyKey> {
    fn read(value: &Value) -> Result<Vec<PolicyKey>, String> {
        let policies = value.as_array();
        let policies = policies.ok_or_else(|| format!("expected [[policy]], found {value}"))?;
        policies.iter().map(PolicyKey::read).collect()
    }

    fn parse(text: &str) -> Result<Vec<PolicyKey>, String> {
        let table: Table = format!("policy = {text}")
            .parse()
            .map_err(|error: toml::de::Error| error.message().to_owned())?;
        <Vec<PolicyKey> as Key>::read(&table["policy"])
    }

    fn show(&self) -> String {
        Value::Array(self.iter().map(PolicyKey::to_value).collect()).to_string()
    }
}

/// Prefixes that IDs can have, each once, and numbers in their ranges.
pub(super) fn check(policies: &[PolicyKey]) -> Result<(), ConfigError> {
    let mut seen = HashSet::new();
    for PolicyKey { prefix, settings } in policies {
        let refuse = |why: &str| Err(ConfigError(format!("the policy of {prefix:?}: {why}")));
        if prefix.len() > 255 || prefix.starts_with('$') || prefix.contains(char::is_control) {
            return refuse("no timeline that clients write to has an ID like that");
        }
        if !seen.insert(prefix) {
            return refuse("it is there twice");
        }
        if let Err(failure) = settings.check() {
            let field = failure.field.unwrap_or_default();
            return refuse(&format!("{field}: {}", failure.message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn read(text: &str) -> Result<Config, String> {
        let table: toml::Table = text.parse().unwrap();
        let mut config = Config::default();
        config
            .set("policy", &table["policy"])
            .map_err(|error| error.0)?;
        config.check().map_err(|error| error.0)?;
        Ok(config)
    }

    #[test]
    fn a_policy_comes_back_as_it_was_written() {
        let text = "[[policy]]\nprefix = \"room/\"\nmembers_only = true\nedit = { by = \"sender\", window_ms = 60000 }\n\
                    [[policy]]\nprefix = \"\"\nretention = { age_ms = 1 }\nfan_out = \"write\"\n";
        let config = read(text).unwrap();
        assert_eq!(config.policy.len(), 2);
        let of = |timeline: &str| config.policies().of(timeline).cloned().unwrap();
        assert_eq!(of("room/1").members_only, Some(true));
        assert_eq!(of("x").retention.unwrap().age_ms, Some(1));
        let shown: toml::Table = config.to_toml().parse().unwrap();
        let mut again = Config::default();
        again.set("policy", &shown["policy"]).unwrap();
        assert_eq!(again.policy, config.policy);
        let mut by_text = Config::default();
        by_text
            .set_text("policy", &shown["policy"].to_string())
            .unwrap();
        assert_eq!(by_text.policy, config.policy);
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused() {
        for (text, why) in [
            ("policy = 1", "expected [[policy]]"),
            ("policy = [1]", "expected tables"),
            ("[[policy]]\nmembers_only = true", "needs a prefix"),
            (
                "[[policy]]\nprefix = \"a\"\nmembers = true",
                "unknown field `members`",
            ),
            ("[[policy]]\nprefix = \"$a\"", "no timeline"),
            (
                "[[policy]]\nprefix = \"a\"\n[[policy]]\nprefix = \"a\"",
                "twice",
            ),
            (
                "[[policy]]\nprefix = \"a\"\nretention = { messages = 0 }",
                "at least 1",
            ),
            (
                "[[policy]]\nprefix = \"a\"\nfan_out = \"push\"",
                "unknown variant",
            ),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
