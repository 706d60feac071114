//! Policies: settings and rights of timelines by how their IDs begin.
//!
//! Owns: how a policy is read, shown and checked. Promises: a key that is no setting is refused by name, and no prefix
//! has two policies. Must not: know what a setting or a right does.

use std::collections::{BTreeMap, HashSet};

use toml::{Table, Value};

use super::key::Key;
use super::{Config, ConfigError};
use crate::access::{PolicyRights, Right, Rights};
use crate::timeline::SettingsPatch;
use crate::wire::parameters;
use crate::wire::timelines::settings;

/// One `[[policy]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyKey {
    /// How the timelines' IDs begin; empty = all.
    pub prefix: String,
    /// What is not set here is as by default.
    pub settings: SettingsPatch,
    /// What users may do there, beside what their tokens say; only where there is `[auth]`.
    pub rights: PolicyRights,
}

impl PolicyKey {
    /// Whether it says what users may do, which counts only where there is `[auth]`.
    fn gives_rights(&self) -> bool {
        let none = PolicyRights {
            prefix: self.rights.prefix.clone(),
            ..PolicyRights::default()
        };
        self.rights != none
    }

    fn read(value: &Value) -> Result<PolicyKey, String> {
        let Value::Table(mut table) = value.clone() else {
            return Err(format!("expected tables, found {value}"));
        };
        let prefix = match table.remove("prefix") {
            Some(Value::String(prefix)) => prefix,
            Some(other) => return Err(format!("prefix: expected a text, found {other}")),
            None => return Err("a policy needs a prefix".to_owned()),
        };
        let named = |why: String| format!("the policy of {prefix:?}: {why}");
        let rights = take_rights(&mut table, &prefix).map_err(named)?;
        let settings: Result<SettingsPatch, _> = parameters(Value::Table(table));
        let settings = settings.map_err(|error| named(error.message().to_owned()))?;
        Ok(PolicyKey {
            prefix,
            settings,
            rights,
        })
    }

    fn to_value(&self) -> Value {
        let mut table = Table::new();
        table.insert("prefix".to_owned(), Value::String(self.prefix.clone()));
        if let Ok(Value::Table(settings)) = Value::try_from(self.settings) {
            table.extend(settings);
        }
        let PolicyRights {
            prefix: _,
            others,
            members,
            roles,
            creator,
        } = &self.rights;
        let mut put = |name: &str, rights: &Rights| {
            if !rights.is_empty() {
                table.insert(name.to_owned(), names(*rights));
            }
        };
        put("others", others);
        put("members", members);
        if !roles.is_empty() {
            let roles = roles
                .iter()
                .map(|(role, rights)| (role.clone(), names(*rights)));
            table.insert("roles".to_owned(), Value::Table(roles.collect()));
        }
        if let Some(creator) = creator {
            table.insert("creator".to_owned(), Value::String(creator.clone()));
        }
        Value::Table(table)
    }
}

impl Config {
    /// The prefixes of policies whose rights decide nothing, because nobody is asked who they are.
    #[must_use]
    pub fn policies_in_vain(&self) -> Vec<&str> {
        if self.auth.is_some() {
            return Vec::new();
        }
        let vain = self.policy.iter().filter(|policy| policy.gives_rights());
        vain.map(|policy| policy.prefix.as_str()).collect()
    }
}

fn names(rights: Rights) -> Value {
    let names = rights
        .iter()
        .map(|right| Value::String(right.name().to_owned()));
    Value::Array(names.collect())
}

/// Takes what is said of rights out of a policy's table.
fn take_rights(table: &mut Table, prefix: &str) -> Result<PolicyRights, String> {
    let mut rights = PolicyRights {
        prefix: prefix.to_owned(),
        ..PolicyRights::default()
    };
    for (name, rights) in [
        ("others", &mut rights.others),
        ("members", &mut rights.members),
    ] {
        if let Some(list) = table.remove(name) {
            *rights = read_rights(&list).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    rights.roles = match table.remove("roles") {
        None => BTreeMap::new(),
        Some(Value::Table(roles)) => {
            let role = |(role, list): (String, Value)| match read_rights(&list) {
                Ok(rights) => Ok((role, rights)),
                Err(why) => Err(format!("roles.{role}: {why}")),
            };
            roles.into_iter().map(role).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(format!("roles: expected a table, found {other}")),
    };
    rights.creator = match table.remove("creator") {
        None => None,
        Some(Value::String(role)) if !role.is_empty() => Some(role),
        Some(other) => return Err(format!("creator: expected a role, found {other}")),
    };
    Ok(rights)
}

/// Rights on timelines: `observe` and `admin` are given on everything, and tables have no policies.
fn read_rights(list: &Value) -> Result<Rights, String> {
    let list = list.as_array();
    let list = list.ok_or("expected a list of rights")?;
    let right = |one: &Value| {
        let right = one.as_str().and_then(Right::from_name);
        let right = right.filter(|right| {
            let elsewhere = [
                Right::Observe,
                Right::Admin,
                Right::TablesRead,
                Right::TablesWrite,
            ];
            !elsewhere.contains(right) && *right != Right::TablesManage
        });
        right.ok_or_else(|| format!("{one} is no right that a policy gives"))
    };
    list.iter().map(right).collect()
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
    for policy in policies {
        let PolicyKey {
            prefix, settings, ..
        } = policy;
        let refuse = |why: &str| Err(ConfigError(format!("the policy of {prefix:?}: {why}")));
        if prefix.len() > 255 || prefix.starts_with('$') || prefix.contains(char::is_control) {
            return refuse("no timeline that clients write to has an ID like that");
        }
        if !seen.insert(prefix) {
            return refuse("it is there twice");
        }
        if let Err(failure) = settings::check(settings) {
            let field = failure.field.unwrap_or_default();
            return refuse(&format!("{field}: {}", failure.message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::super::tests::read;
    use crate::access::Right;

    #[test]
    fn a_policy_comes_back_as_it_was_written() {
        let text = "[[policy]]\nprefix = \"room/\"\nmembers_only = true\nedit = { by = \"sender\", window_ms = 60000 }\n\
                    others = [\"read\"]\nmembers = [\"read\", \"append\"]\ncreator = \"owner\"\n\
                    roles = { owner = [\"read\", \"manage\"] }\n\
                    [[policy]]\nprefix = \"\"\nretention = { age_ms = 1 }\nfan_out = \"write\"\n";
        let config = read(text).unwrap();
        assert_eq!(config.policy.len(), 2);
        assert_eq!(config.policies_in_vain(), ["room/"]);
        let of = |timeline: &str| config.policies().of(timeline).cloned().unwrap();
        assert_eq!(of("room/1").members_only, Some(true));
        assert_eq!(of("x").retention.unwrap().age_ms, Some(1));
        let shown: toml::Table = config.to_toml().parse().unwrap();
        let mut again = Config::default();
        again.set("policy", &shown["policy"]).unwrap();
        assert_eq!(again.policy, config.policy);
        let rights = &config.policy[0].rights;
        assert_eq!(rights.prefix, "room/");
        assert!(rights.others.has(Right::Read) && rights.roles["owner"].has(Right::Manage));
        assert_eq!(rights.creator.as_deref(), Some("owner"));
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
                "[[policy]]\nprefix = \"a\"\nmember = true",
                "unknown field `member`",
            ),
            (
                "[[policy]]\nprefix = \"a\"\nmembers = true",
                "members: expected a list",
            ),
            (
                "[[policy]]\nprefix = \"a\"\nothers = [\"read\", \"admin\"]",
                "others: \"admin\" is no right",
            ),
            (
                "[[policy]]\nprefix = \"a\"\nroles = { owner = [\"own\"] }",
                "roles.owner: \"own\" is no right",
            ),
            (
                "[[policy]]\nprefix = \"a\"\ncreator = 1",
                "creator: expected a role",
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
