//! The options of the Centrifuge dialect: what its clients may do, and what channels have.
//!
//! Owns: how the options of a channel are found, and what they give to which callers. Promises: a channel whose
//! namespace does not exist has none; the server's own names are given to nobody. Must not: read a configuration, or
//! decide what native rights give.

use std::collections::HashMap;
use std::fmt;

use crate::credentials::{
    Authority, ClientTokens, Connection, Subscriber, Subscription, TokenRefused,
};
use tideline_wire::centrifuge::Code;

/// How the dialect is served.
pub struct Options {
    /// A client without a token is accepted too, as a user without a name, and every client may do everything.
    pub insecure: bool,
    /// A client without a token is accepted too, as a user without a name.
    pub anonymous: bool,
    /// Whether the connections of each user are subscribed to `#USER`.
    pub personal_channel: bool,
    /// What back ends show to the HTTP API; `None` = only API keys count.
    pub api_key: Option<String>,
    /// Whether back ends may show a key in the URL.
    pub api_key_in_url: bool,
    /// Whether connections over HTTP streams are taken.
    pub http_stream: bool,
    /// Whether connections over server-sent events are taken.
    pub sse: bool,
    /// By what tokens are judged.
    pub tokens: ClientTokens,
    /// What channels have.
    pub channels: Channels,
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Options({:?})", self.channels)
    }
}

/// The options of all channels.
#[derive(Clone, Debug, Default)]
pub struct Channels {
    /// Of those without a namespace.
    pub plain: ChannelOptions,
    /// By what is before the first colon.
    pub namespaces: HashMap<String, ChannelOptions>,
    /// Whether a namespace that is not among them has the options of those without one.
    pub takes_any: bool,
}

/// What channels have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Presence can be asked for.
    pub presence: bool,
    /// Joins and leaves are pushed.
    pub join_leave: bool,
    /// Also to subscribers that did not ask for it.
    pub force_push_join_leave: bool,
    /// A subscriber that asks for deltas gets them.
    pub deltas: bool,
    /// Callers that may subscribe without a token for the channel.
    pub subscribe: Allow,
    /// Callers that may publish.
    pub publish: Allow,
    /// Callers that may read the history.
    pub history: Allow,
    /// Callers that may ask for presence.
    pub asks_presence: Allow,
}

/// The callers that something is allowed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// To each user.
    pub client: bool,
    /// To users who are subscribed on the same connection.
    pub subscriber: bool,
    /// To those without a name as to users.
    pub anonymous: bool,
}

/// What is asked for on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To subscribe without a token for the channel.
    Subscribe,
    /// To publish.
    Publish,
    /// To read the history.
    History,
    /// To read presence.
    Presence,
}

impl Options {
    /// For a server without authentication and without a configuration of this dialect: everybody may do everything,
    /// as by the server's own protocol.
    #[must_use]
    pub fn open() -> Options {
        let all = ChannelOptions {
            presence: true,
            join_leave: true,
            deltas: true,
            ..ChannelOptions::default()
        };
        Options {
            insecure: true,
            anonymous: false,
            personal_channel: false,
            api_key: None,
            api_key_in_url: false,
            http_stream: false,
            sse: false,
            tokens: ClientTokens::new(None),
            channels: Channels {
                plain: all,
                namespaces: HashMap::new(),
                takes_any: true,
            },
        }
    }

    /// Whether the options give this to a user (empty = nobody in particular). A token for the channel, or native
    /// rights, may give it besides.
    #[must_use]
    pub fn allows(&self, what: Ask, channel: &str, user: &str, is_subscribed: bool) -> bool {
        let Some(options) = self.channels.of(channel) else {
            return false;
        };
        if channel.starts_with('$') {
            return false;
        }
        if self.insecure {
            return true;
        }
        let allow = match what {
            Ask::Subscribe => options.subscribe,
            Ask::Publish => options.publish,
            Ask::History => options.history,
            Ask::Presence => options.asks_presence,
        };
        // A channel of certain users is theirs, and a subscription that the server has made is their right to be there.
        let is_for = is_subscribed || is_for_user(channel, user);
        let is_given = allow.client || (allow.subscriber && is_subscribed);
        is_for && is_given && (!user.is_empty() || allow.anonymous)
    }

    /// Judges a token to connect with.
    pub fn connection(
        &self,
        token: &str,
        authority: Option<&Authority>,
        now_ms: u64,
    ) -> Result<Connection, TokenRefused> {
        let mut connection = self.tokens.connection(token, authority, now_ms)?;
        connection.expires_at = self.end(connection.expires_at, now_ms)?;
        Ok(connection)
    }

    /// Judges a token to subscribe with.
    pub fn subscription(
        &self,
        token: &str,
        subscriber: Subscriber<'_>,
        authority: Option<&Authority>,
        now_ms: u64,
    ) -> Result<Subscription, TokenRefused> {
        let tokens = &self.tokens;
        let mut subscription = tokens.subscription(token, subscriber, authority, now_ms)?;
        subscription.expires_at = self.end(subscription.expires_at, now_ms)?;
        Ok(subscription)
    }

    /// When what a token gives ends, ms; refuses what would end at once. Where everybody may do everything, the end
    /// does not count.
    fn end(&self, expires_at: Option<u64>, now_ms: u64) -> Result<Option<u64>, TokenRefused> {
        match expires_at.filter(|_| !self.insecure) {
            Some(at) if at <= now_ms => Err(TokenRefused::Expired),
            at => Ok(at),
        }
    }
}

/// `#` in a channel's name is followed by the only users that it is for.
fn is_for_user(channel: &str, user: &str) -> bool {
    match channel.rsplit_once('#') {
        None => true,
        Some((_, users)) => !user.is_empty() && users.split(',').any(|one| one == user),
    }
}

impl Channels {
    /// The options of a channel; `None` = there is no such namespace.
    #[must_use]
    pub fn of(&self, channel: &str) -> Option<&ChannelOptions> {
        let name = channel.strip_prefix('$').unwrap_or(channel);
        match name.split_once(':') {
            None => Some(&self.plain),
            Some(_) if self.takes_any => Some(&self.plain),
            Some((namespace, _)) => self.namespaces.get(namespace),
        }
    }

    /// The options of a channel of which `what` is asked; refuses what they do not have.
    pub fn having(&self, what: Ask, channel: &str) -> Result<&ChannelOptions, Code> {
        if channel.is_empty() {
            return Err(Code::BadRequest);
        }
        let options = self.of(channel).ok_or(Code::UnknownChannel)?;
        match what {
            Ask::Presence if !options.presence => Err(Code::NotAvailable),
            _ => Ok(options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(plain: ChannelOptions) -> Options {
        let namespaces = HashMap::from([("open".to_owned(), ChannelOptions::default())]);
        Options {
            insecure: false,
            channels: Channels {
                plain,
                namespaces,
                takes_any: false,
            },
            ..Options::open()
        }
    }

    #[test]
    fn a_channel_has_the_options_of_its_namespace() {
        let all = options(ChannelOptions {
            presence: true,
            ..ChannelOptions::default()
        });
        let presence = |channel: &str| all.channels.of(channel).map(|of| of.presence);
        assert_eq!(presence("news"), Some(true));
        assert_eq!(presence("#42"), Some(true));
        assert_eq!(presence("open:a:b"), Some(false));
        assert_eq!(presence("$open:a"), Some(false));
        assert_eq!(presence("other:a"), None);
        assert_eq!(presence(":a"), None);
    }

    #[test]
    fn what_is_not_given_is_not_allowed() {
        let allow = |client, subscriber, anonymous| Allow {
            client,
            subscriber,
            anonymous,
        };
        let asked = |publish: Allow, channel: &str, user: &str, is_subscribed| {
            let plain = ChannelOptions {
                publish,
                ..ChannelOptions::default()
            };
            options(plain).allows(Ask::Publish, channel, user, is_subscribed)
        };
        assert!(!asked(allow(false, false, true), "a", "ann", true));
        assert!(asked(allow(true, false, false), "a", "ann", false));
        assert!(!asked(allow(true, false, false), "a", "", true));
        assert!(asked(allow(true, false, true), "a", "", false));
        assert!(!asked(allow(false, true, false), "a", "ann", false));
        assert!(asked(allow(false, true, false), "a", "ann", true));
        assert!(!asked(allow(true, true, true), "other:a", "ann", true));
        assert!(!asked(allow(true, true, true), "$inbox/ann", "ann", true));
    }

    #[test]
    fn a_channel_of_users_is_for_them() {
        let all = options(ChannelOptions {
            history: Allow {
                client: true,
                subscriber: true,
                anonymous: true,
            },
            ..ChannelOptions::default()
        });
        let reads = |channel: &str, user: &str| all.allows(Ask::History, channel, user, false);
        assert!(reads("#42", "42") && reads("talk#7,42", "42"));
        assert!(!reads("#42", "4") && !reads("#42", "") && !reads("#", ""));
        assert!(
            all.allows(Ask::History, "#42", "4", true),
            "a token let them subscribe"
        );
    }

    #[test]
    fn where_everybody_may_do_everything_there_are_still_namespaces() {
        let open = Options {
            insecure: true,
            ..options(ChannelOptions::default())
        };
        assert!(open.allows(Ask::Subscribe, "a", "", false));
        assert!(Options::open().allows(Ask::Subscribe, "other:a", "", false));
        assert!(!open.allows(Ask::Subscribe, "other:a", "", false));
        assert!(!open.allows(Ask::Subscribe, "$inbox/ann", "", false));
    }
}
