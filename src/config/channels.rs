//! From `[centrifuge]` to what the gateway and the timelines are given.
//!
//! Owns: which option reaches which of them. Promises: what is kept of a channel is a policy of its timeline, beside
//! which everything counts that [[policy]] says of it; where nobody is asked who they are, clients of this dialect are
//! not asked either. Must not: check a value.

use std::path::PathBuf;
use std::sync::Arc;

use super::centrifuge::{CentrifugeKey, ChannelOptionsKey, Hidden, TokenKey};
use super::{Config, ConfigError};
use crate::credentials::ClientTokens;
use crate::gateway::centrifuge::{Allow, ChannelOptions, Channels, Options};
use crate::secret;
use crate::timeline::{Policy, Retention, Settings};

impl Config {
    /// How the Centrifuge dialect is served; `None` = not at all.
    ///
    /// # Errors
    /// A secret that can't be read.
    pub fn centrifuge_options(&self) -> Result<Option<Arc<Options>>, ConfigError> {
        let Some(section) = &self.centrifuge else {
            return Ok(self.auth.is_none().then(|| Arc::new(Options::open())));
        };
        let CentrifugeKey {
            client,
            channel,
            http_api,
            http_stream,
            sse,
        } = section;
        let TokenKey {
            hmac_secret_key,
            hmac_secret_key_file,
        } = &client.token;
        let secret = secret_of(hmac_secret_key, hmac_secret_key_file)?;
        let namespaces = channel.namespaces.iter();
        Ok(Some(Arc::new(Options {
            insecure: client.insecure,
            anonymous: client.allow_anonymous_connect_without_token,
            personal_channel: client.subscribe_to_user_personal_channel.enabled,
            api_key: secret_of(&http_api.key, &http_api.key_file)?,
            api_key_in_url: http_api.key_in_url,
            http_stream: http_stream.enabled,
            sse: sse.enabled,
            tokens: ClientTokens::new(secret.as_deref()),
            channels: Channels {
                plain: options(&channel.without_namespace),
                namespaces: namespaces
                    .map(|namespace| (namespace.name.clone(), options(namespace)))
                    .collect(),
                takes_any: false,
            },
        })))
    }

    /// The policies that keep the history of channels within its limits. Each takes from `[[policy]]` what that one
    /// would say of its timelines.
    pub(super) fn channel_policies(&self) -> Result<Vec<Policy>, ConfigError> {
        let Some(section) = &self.centrifuge else {
            return Ok(Vec::new());
        };
        let plain = &section.channel.without_namespace;
        let is_plain_limited = kept(plain).is_some();
        let all = section.channel.namespaces.iter().chain([plain]);
        let mut policies = Vec::new();
        for options in all {
            let prefix = match options.name.as_str() {
                "" => String::new(),
                name => format!("{name}:"),
            };
            let kept = kept(options);
            // One without limits must not be kept as channels without a namespace are.
            if kept.is_none() && !is_plain_limited {
                continue;
            }
            let own = self.own_policy(&prefix);
            let same = own.as_ref().filter(|own| own.prefix == prefix);
            if kept.is_some() && same.is_some_and(|own| own.settings.retention.is_some()) {
                return Err(ConfigError(format!(
                    "the policy of {prefix:?} has a retention, and [centrifuge] has history_size or history_ttl of the \
                     same timelines: set one of them"
                )));
            }
            let settings = Settings {
                retention: kept,
                ..Settings::default()
            };
            let inherited = own.map(|own| own.settings).unwrap_or_default();
            policies.push(Policy {
                prefix,
                settings: settings.or(&inherited),
            });
        }
        Ok(policies)
    }

    /// The `[[policy]]` with the longest prefix that all timelines of this prefix have.
    fn own_policy(&self, prefix: &str) -> Option<Policy> {
        let own = self.own_policies().into_iter();
        own.filter(|policy| prefix.starts_with(&policy.prefix))
            .max_by_key(|policy| policy.prefix.len())
    }
}

/// What is kept of a channel; `None` = everything.
fn kept(options: &ChannelOptionsKey) -> Option<Retention> {
    let age_ms = u64::try_from(options.history_ttl.0.as_millis()).unwrap_or(u64::MAX);
    let limit = |number: u64| Some(number).filter(|number| *number > 0);
    let kept = Retention {
        age_ms: limit(age_ms),
        messages: limit(options.history_size),
        bytes: None,
    };
    Some(kept).filter(|kept| *kept != Retention::default())
}

/// A secret, or the one in the file that stands in its place.
fn secret_of(own: &Option<Hidden>, file: &Option<PathBuf>) -> Result<Option<String>, ConfigError> {
    match (own, file) {
        (Some(own), _) => Ok(Some(own.0.clone())),
        (None, Some(file)) => secret::read_text(file).map(Some).map_err(ConfigError),
        (None, None) => Ok(None),
    }
}

fn options(key: &ChannelOptionsKey) -> ChannelOptions {
    let allow = |client, subscriber, anonymous| Allow {
        client,
        subscriber,
        anonymous,
    };
    ChannelOptions {
        presence: key.presence,
        join_leave: key.join_leave,
        force_push_join_leave: key.force_push_join_leave,
        deltas: !key.allowed_delta_types.is_empty(),
        subscribe: allow(
            key.allow_subscribe_for_client,
            false,
            key.allow_subscribe_for_anonymous,
        ),
        publish: allow(
            key.allow_publish_for_client,
            key.allow_publish_for_subscriber,
            key.allow_publish_for_anonymous,
        ),
        history: allow(
            key.allow_history_for_client,
            key.allow_history_for_subscriber,
            key.allow_history_for_anonymous,
        ),
        asks_presence: allow(
            key.allow_presence_for_client,
            key.allow_presence_for_subscriber,
            key.allow_presence_for_anonymous,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;
    use crate::gateway::centrifuge::Ask;

    const TOKENS: &str = r#"
        [centrifuge.client]
        token.hmac_secret_key = "canary-canary-canary-canary-canary"
        subscribe_to_user_personal_channel.enabled = true
        [centrifuge.channel.without_namespace]
        presence = true
        join_leave = true
        force_push_join_leave = true
        history_size = 100
        history_ttl = "300s"
        force_recovery = true
        force_positioning = true
        allowed_delta_types = ["fossil"]
        delta_publish = true
        allow_publish_for_subscriber = true
        allow_presence_for_subscriber = true
        allow_history_for_subscriber = true
    "#;

    const INSECURE: &str = r#"
        [centrifuge]
        http_api.key = "canary-canary-canary-canary-canary"
        http_stream.enabled = true
        sse.enabled = true
        [centrifuge.client]
        insecure = true
        token.hmac_secret_key = "canary-canary-canary-canary-canary"
        [centrifuge.channel.without_namespace]
        presence = true
        [[centrifuge.channel.namespaces]]
        name = "recovery"
        history_size = 2
        history_ttl = "5m"
        allow_subscribe_for_client = true
        [[centrifuge.channel.namespaces]]
        name = "open"
    "#;

    #[test]
    fn both_usual_set_ups_are_taken_and_their_secrets_shown_nowhere() {
        for text in [TOKENS, INSECURE] {
            let config = read(text).unwrap();
            let shown = config.to_toml();
            let options = config.centrifuge_options().unwrap().unwrap();
            let written = format!(
                "{shown}{config:?}{options:?}{:?}",
                config
                    .gateway_options(&std::sync::Arc::default(), &std::sync::Arc::default())
                    .unwrap()
            );
            assert!(!written.contains("canary"), "{written}");
            assert!(shown.contains("hmac_secret_key = \"(hidden)\""), "{shown}");
            let table: toml::Table = shown.parse().unwrap();
            let mut again = Config::default();
            let why = again.set("centrifuge", &table["centrifuge"]).unwrap_err().0;
            assert!(why.contains("hidden"), "{why}");
            let shown = shown.replace("(hidden)", "canary-canary-canary-canary-canary");
            let table: toml::Table = shown.parse().unwrap();
            again.set("centrifuge", &table["centrifuge"]).unwrap();
            assert_eq!(again.centrifuge, config.centrifuge);
            let mut by_text = Config::default();
            let text = table["centrifuge"].to_string();
            by_text.set_text("centrifuge", &text).unwrap();
            assert_eq!(by_text.centrifuge, config.centrifuge);
        }
        let options = read(TOKENS).unwrap().centrifuge_options().unwrap().unwrap();
        assert!(options.personal_channel && !options.insecure && options.api_key.is_none());
        assert!(options.allows(Ask::Publish, "x", "ann", true));
        assert!(!options.allows(Ask::Publish, "x", "ann", false));
        assert!(!options.allows(Ask::Subscribe, "x", "ann", false));
    }

    #[test]
    fn an_option_that_is_not_there_is_refused_by_its_name() {
        for (text, why) in [
            ("[centrifuge]\nengin = 1", "engin is no option"),
            (
                "[centrifuge]\nengine.type = \"redis\"",
                "engine is an option of Centrifugo, but not supported",
            ),
            (
                "[centrifuge.client.token]\nrsa_public_key = \"x\"",
                "client.token.rsa_public_key is an option of Centrifugo, but not supported",
            ),
            (
                "[[centrifuge.channel.namespaces]]\nname = \"a\"\nallow_tags_filter = true",
                "channel.namespaces[0].allow_tags_filter is an option of Centrifugo, but not supported",
            ),
            (
                "[centrifuge.channel.without_namespace]\nhistory_ttl = 300",
                "channel.without_namespace.history_ttl: expected a time",
            ),
            (
                "[centrifuge.channel.without_namespace]\npresence = 1",
                "channel.without_namespace.presence: ",
            ),
            (
                "[centrifuge.client.token]\nhmac_secret_key = 12345",
                "client.token.hmac_secret_key: expected a text",
            ),
            (
                "[centrifuge.http_api]\nkey = \"\"",
                "http_api.key: is empty",
            ),
            ("centrifuge = true", "expected [centrifuge]"),
            (
                "[centrifuge.channel.without_namespace]\nallowed_delta_types = [\"xdelta\"]",
                "\"xdelta\" is no delta",
            ),
            (
                "[centrifuge.channel.without_namespace]\nname = \"a\"",
                "only a namespace",
            ),
            (
                "[[centrifuge.channel.namespaces]]\nname = \"a:b\"",
                "namespaces[0].name: 1 to 100",
            ),
            (
                "[[centrifuge.channel.namespaces]]\nname = \"a\"\n[[centrifuge.channel.namespaces]]\nname = \"a\"",
                "namespaces[1].name: it is there twice",
            ),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(!refused.contains("12345"), "{refused}");
        }
    }

    #[test]
    fn what_is_kept_of_a_channel_is_a_policy_beside_the_others() {
        let policies = |text: &str| read(text).map(|config| config.policies());
        let kept = policies(TOKENS).unwrap();
        let of = |timeline: &str| kept.of(timeline).and_then(|of| of.retention);
        let all = Retention {
            age_ms: Some(300_000),
            messages: Some(100),
            bytes: None,
        };
        assert_eq!((of("x"), of("#42"), of("$x")), (Some(all), Some(all), None));
        let kept = policies(INSECURE).unwrap();
        assert_eq!(
            kept.of("recovery:a").unwrap().retention.unwrap().messages,
            Some(2)
        );
        assert!(kept.of("open:a").is_none() && kept.of("x").is_none());
        // A namespace that keeps everything is not kept as channels without one are.
        let both = format!("{TOKENS}\n[[centrifuge.channel.namespaces]]\nname = \"all\"\n");
        assert_eq!(
            policies(&both).unwrap().of("all:a").unwrap().retention,
            None
        );
        let with = |policy: &str| policies(&format!("{policy}\n{INSECURE}"));
        let members = with("[[policy]]\nprefix = \"\"\nmembers_only = true").unwrap();
        let of = members.of("recovery:a").unwrap();
        assert_eq!(
            (of.members_only, of.retention.unwrap().messages),
            (Some(true), Some(2))
        );
        let same = "[[policy]]\nprefix = \"recovery:\"\n";
        let merged = with(&format!("{same}members_only = true")).unwrap();
        let of = merged.of("recovery:a").unwrap();
        assert_eq!(
            (of.members_only, of.retention.unwrap().messages),
            (Some(true), Some(2))
        );
        let refused = with(&format!("{same}retention = {{ messages = 9 }}")).unwrap_err();
        assert!(refused.contains("set one of them"), "{refused}");
    }

    #[test]
    fn without_the_section_it_is_as_open_as_the_server() {
        let open = Config::default().centrifuge_options().unwrap().unwrap();
        assert!(open.insecure && open.api_key.is_none());
        assert!(
            read("[auth]\n")
                .unwrap()
                .centrifuge_options()
                .unwrap()
                .is_none()
        );
        let off = read("[auth]\n[centrifuge]\n").unwrap();
        assert!(!off.centrifuge_options().unwrap().unwrap().insecure);
        let strict = read("[centrifuge]\n").unwrap();
        assert!(!strict.centrifuge_options().unwrap().unwrap().insecure);
    }

    #[test]
    fn nobody_in_particular_is_let_in_only_from_this_machine() {
        let refused = |text: &str, listen: &str| {
            let config = Config {
                listen: listen.parse().unwrap(),
                ..read(text).unwrap()
            };
            config.check_exposure().err().map(|error| error.0)
        };
        assert_eq!(refused(INSECURE, "127.0.0.1:1"), None);
        let with_auth = format!("[auth]\n{INSECURE}");
        for (text, listen) in [(with_auth.as_str(), "127.0.0.1:1"), (INSECURE, "0.0.0.0:1")] {
            refused(text, listen).unwrap();
        }
        let why = refused(&with_auth, "127.0.0.1:1").unwrap();
        assert!(why.contains("centrifuge.client.insecure"), "{why}");
        let allowed = format!("insecure = true\n{with_auth}");
        assert_eq!(refused(&allowed, "0.0.0.0:1"), None);
        assert_eq!(refused(&format!("[auth]\n{TOKENS}"), "127.0.0.1:1"), None);
    }
}
