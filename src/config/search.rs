//! The table `[search]`.
//!
//! Owns: how it is read and checked. Promises: an unknown key is refused by name. Must not: know an index.

use serde::{Deserialize, Serialize};
use tideline_model::search::WHERE_NAMES_MAX;
use toml::Value;

use super::ConfigError;
use super::key::{Key, section};

/// `[search]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchKey {
    /// Whether all messages and all timelines are indexed.
    pub messages: bool,
    /// Names of entries that messages can be asked for by.
    pub r#where: Vec<String>,
}

impl Key for SearchKey {
    fn read(value: &Value) -> Result<SearchKey, String> {
        section(value)
    }
}

impl SearchKey {
    /// Names that entries can't have would never be found.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let names = &self.r#where;
        if names.len() > WHERE_NAMES_MAX {
            return Err(ConfigError(format!(
                "search: where has {} names, but {WHERE_NAMES_MAX} at most",
                names.len()
            )));
        }
        let is_name = |name: &&String| {
            (1..=255).contains(&name.len()) && !name.starts_with('$') && !name.starts_with("__")
        };
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => Err(ConfigError(format!(
                "search: where has `{name}`, which is no name of an entry: 1 to 255 bytes, not beginning with $ or __"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;

    #[test]
    fn the_table_comes_back_as_it_was_written() {
        let config = read("[search]\nmessages = true\nwhere = [\"topic\"]\n").unwrap();
        assert!(config.search.messages && config.search.r#where == ["topic"]);
        assert_eq!(read(&config.to_toml()).unwrap(), config);
        for (text, why) in [
            ("[search]\nmessage = true\n", "unknown field `message`"),
            ("[search]\nwhere = [\"\"]\n", "no name of an entry"),
            ("[search]\nwhere = [\"$a\"]\n", "no name of an entry"),
            ("[search]\nwhere = 1\n", "invalid type"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
