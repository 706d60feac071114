//! The first command: which user connects, and what the server subscribes it to.
//!
//! Owns: the way from a token to a session's caller. Promises: without a good token, where one is needed, nothing was
//! done and the connection closes; the answer has every subscription that the server makes. Must not: judge a token.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::recovery::{Placed, open, ttl};
use super::refused::Refused;
use super::subscribe::CHANNELS_MAX;
use super::{Session, Stage};
use crate::centrifuge::hub::{Order, Wish};
use crate::credentials::{ChannelClaim, Connection};
use crate::limits::CallerGuards;
use crate::session::answer::Weight;
use crate::session::login::Login;
use crate::session::{peer, random, unasked_for};
use tideline_wire::Method;
use tideline_wire::centrifuge::{
    ANONYMOUS, Code, ConnectRequest, ConnectResult, Disconnect, Reply, SubscribeRequest,
};

impl Session {
    pub(super) fn connect(
        &mut self,
        id: u32,
        mut request: ConnectRequest,
        bytes: usize,
    ) -> Result<(), Refused> {
        let connection = self.judge(&request.token)?;
        let wishes = self.wishes(&connection, &mut request.subs);
        if wishes.len() > CHANNELS_MAX {
            return Err(Code::LimitExceeded.into());
        }
        let own = self.own();
        if wishes
            .iter()
            .any(|wish| own.options.channels.of(&wish.channel).is_none())
        {
            return Err(Code::UnknownChannel.into());
        }
        if !self.enter(connection) {
            return Err(Code::TooManyRequests.into());
        }
        self.own().stage = Stage::Connecting;
        self.is_of_caller();
        let place = |wish| self.place_wish(wish);
        let opening = wishes.into_iter().filter_map(place).collect();
        let result = self.connect_result();
        self.begin_connect(id, result, opening, bytes);
        Ok(())
    }

    fn judge(&mut self, token: &str) -> Result<Connection, Refused> {
        if !token.is_empty() {
            return self.shown(token);
        }
        let options = &self.own().options;
        // A client without a token is a user without a name, where that is accepted.
        match options.insecure || options.anonymous {
            true => Ok(Connection {
                user: String::new(),
                expires_at: None,
                info: None,
                subs: Vec::new(),
                credential: None,
            }),
            false => Err(Refused::End(Disconnect::BAD_REQUEST)),
        }
    }

    /// Judges a token to connect with.
    pub(super) fn shown(&mut self, token: &str) -> Result<Connection, Refused> {
        let now_ms = self.shared.clock.now_ms();
        let options = Arc::clone(&self.own().options);
        let authority = self.shared.door.as_ref().map(|door| &*door.authority);
        let judged = options.connection(token, authority, now_ms);
        judged.map_err(Refused::to_connect)
    }

    /// What the server subscribes a client to, and where the client is there.
    fn wishes(
        &mut self,
        connection: &Connection,
        positions: &mut BTreeMap<String, SubscribeRequest>,
    ) -> Vec<Wish> {
        let asked = connection.subs.iter().cloned();
        let asked = asked.map(|(channel, claim)| (channel, (claim, true)));
        let mut claims: BTreeMap<String, (ChannelClaim, bool)> = asked.collect();
        let user = &connection.user;
        // With one of these in the user's name, the channel would belong to other users.
        let is_plain = !user.is_empty() && !user.contains(['#', ',']);
        if self.own().options.personal_channel && is_plain {
            claims.entry(format!("#{user}")).or_default();
        }
        let wish = |(channel, (claim, is_of_token)): (String, _)| Wish {
            position: positions.remove(&channel),
            channel,
            claim,
            expires_at: None,
            is_of_token,
        };
        claims.into_iter().map(wish).collect()
    }

    /// Subscribes the client to the channels of a newer token, and ends those that only the token before asked for.
    /// This comes after all that is under way.
    pub(super) fn move_to(&mut self, subs: Vec<(String, ChannelClaim)>) {
        let own = self.own();
        let Some(registered) = &own.registered else {
            return;
        };
        let subs: BTreeMap<String, ChannelClaim> = subs.into_iter().collect();
        for gone in own.channels.of_token() {
            if !subs.contains_key(&**gone) {
                let order = Order::Unsubscribe(gone.as_ref().to_owned());
                registered.client.order(order);
            }
        }
        for (channel, claim) in subs {
            registered.client.order(Order::Subscribe(Box::new(Wish {
                channel,
                claim,
                expires_at: None,
                position: None,
                is_of_token: true,
            })));
        }
    }

    /// Becomes the session of the user that has connected; `false` = that user has too many.
    fn enter(&mut self, connection: Connection) -> bool {
        let Connection {
            user,
            expires_at,
            info,
            credential,
            ..
        } = connection;
        let per_client = &self.shared.per_client;
        let mut guards = CallerGuards::default();
        let entered = match &credential {
            Some(credential) => per_client
                .enter_as(&credential.identity)
                .map(|all| guards = all),
            None if user.is_empty() => Ok(()),
            None => per_client.enter(&user, &mut guards),
        };
        if let Err(reached) = entered {
            self.shared.metrics.refused(reached.limit, 1);
            return false;
        }
        self.guards = guards;
        let shared = Arc::clone(&self.shared);
        let own = self.own();
        let Some(mut entered) = own.entered.take() else {
            return false;
        };
        own.expires_at = expires_at;
        let emulated = own.emulated.clone();
        let registered = shared
            .hub
            .register(&user, info.unwrap_or_default(), emulated);
        own.registered = Some(registered);
        let asker = own.believed();
        match (&shared.door, credential) {
            (Some(door), Some(credential)) => {
                entered.credential = Some(credential);
                let peer = peer(&entered, self.form, &self.subscriptions);
                let login = Login::new(&shared, door, &mut self.caller, (entered, peer));
                self.login = Some(Box::new(login));
            }
            _ => {
                let peer = peer(&entered, self.form, &self.subscriptions);
                if let Some(waits) = entered.waits {
                    waits.arrived();
                }
                let kept = unasked_for(&shared, &mut self.caller, peer);
                let user = (!user.is_empty()).then_some(user);
                kept.live.believe(user);
                self.unasked = Some(kept);
                self.caller.asker = asker;
            }
        }
        if self.caller.asker.user() != ANONYMOUS {
            self.subscriptions.name(self.caller.who());
        }
        true
    }

    fn connect_result(&mut self) -> ConnectResult {
        let heartbeat = self.shared.options.heartbeat;
        let shared = Arc::clone(&self.shared);
        let own = self.own();
        let (expires, ttl) = ttl(&shared, own.expires_at);
        let emulated = own.emulated.clone();
        ConnectResult {
            client: own.client().as_ref().to_owned(),
            version: VERSION.to_owned(),
            expires,
            ttl,
            ping: u32::try_from(heartbeat.as_secs())
                .unwrap_or(u32::MAX)
                .max(1),
            pong: true,
            node: emulated
                .as_ref()
                .map(|_| NODE.to_owned())
                .unwrap_or_default(),
            session: emulated.unwrap_or_default(),
            ..ConnectResult::default()
        }
    }

    fn begin_connect(
        &mut self,
        id: u32,
        mut result: ConnectResult,
        opening: Vec<Placed>,
        bytes: usize,
    ) {
        let shared = Arc::clone(&self.shared);
        let mailbox = Arc::clone(&self.subscriptions.mailbox);
        let work = async move {
            let mut channels = Vec::new();
            let mut room = PUBLICATIONS_MAX;
            for mut placed in opening {
                placed.asked.limit = room;
                let (subscribed, opened) = open(&shared, &mailbox, placed).await;
                // Of one that is refused the client sees that it has no such subscription.
                if let Ok(subscribed) = subscribed {
                    room = room
                        .saturating_sub(subscribed.publications.len() as u64)
                        .max(1);
                    let channel = opened.name.as_ref().to_owned();
                    result.subs.insert(channel, subscribed);
                }
                channels.push(opened);
            }
            let reply = Reply {
                connect: Some(result),
                ..Reply::default()
            };
            (Ok(reply), channels)
        };
        self.begin_command(id, Method::SessionOpen, (bytes, Weight::Page), work);
    }

    /// The connect was answered.
    pub(in super::super) fn connected(&mut self) {
        self.own().stage = Stage::Connected;
        // Connections that came together are not all pinged together.
        let heartbeat = self.shared.options.heartbeat;
        let share = f64::from(u32::try_from(random() & 0xffff).unwrap_or(0)) / 131_072.0;
        self.ping_at = Instant::now() + heartbeat / 2 + heartbeat.mul_f64(share);
        self.look_soon();
    }
}

impl super::Centrifuge {
    /// The ID of the connection.
    pub(super) fn client(&self) -> Arc<str> {
        let registered = self.registered.as_ref();
        registered.map_or_else(|| "".into(), |registered| Arc::clone(&registered.client.id))
    }

    /// By when a connect command must have been accepted; `None` = one was.
    pub(super) fn connect_by(&self) -> Option<Instant> {
        (self.stage == Stage::New).then(|| self.began + CONNECT_TIME_MAX)
    }
}

/// Publications of all subscriptions together in the answer.
const PUBLICATIONS_MAX: u64 = 100;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
pub(super) const VERSION: &str = concat!("Tideline ", env!("CARGO_PKG_VERSION"));
/// The name of the one server that there is.
pub(crate) const NODE: &str = "tideline";
