//! Subscribing to a channel, by the client or by the server.
//!
//! Owns: whether the client may, and where it is afterwards. Promises: what follows a position is there whole, or
//! the reply says that it is not; the reply has a first page at most, and the rest comes as pushes; nothing is pushed
//! before the reply or after the end. Must not: follow a timeline; the native subscription does.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;

use super::super::subscriptions::deltas::Deltas;
use super::super::subscriptions::parts::OpenedChannel;
use super::channels::Channel;
use super::recovery::{FIRST_PAGE, Placed, open, ttl};
use super::refused::Refused;
use super::{Session, Stage};
use crate::centrifuge::hub::{Member, Order, Wish};
use crate::centrifuge::{Ask, ChannelOptions};
use crate::credentials::{ChannelClaim, Subscriber, Subscription, TokenRefused};
use crate::dispatch::subscribe::Asked;
use crate::session::answer::Weight;
use tideline_model::access::Asker;
use tideline_timelines::feed::With;
use tideline_wire::centrifuge::{
    ClientInfo, Code, Disconnect, Empty, FOSSIL, Push, Reply, Subscribe, SubscribeRequest,
    Unsubscribe, check_channel,
};
use tideline_wire::{Ended, Method};

impl Session {
    pub(super) fn subscribe(
        &mut self,
        id: u32,
        request: SubscribeRequest,
        bytes: usize,
    ) -> Result<(), Refused> {
        let (channel, asker) = self.admit_channel(&request)?;
        let (expires_at, deltas) = (channel.expires_at, channel.deltas);
        let encoding = self.own().encoding;
        let weight = match request.recover {
            true => Weight::Page,
            false => Weight::Light,
        };
        let placed = self.place(request.channel.clone(), channel, asker, Some(request));
        let shared = Arc::clone(&self.shared);
        let mailbox = Arc::clone(&self.subscriptions.mailbox);
        let work = async move {
            let (result, opened) = open(&shared, &mailbox, placed).await;
            let reply = result.map(|mut result| {
                (result.expires, result.ttl) = ttl(&shared, expires_at);
                if deltas {
                    result.take_deltas(encoding);
                }
                Reply {
                    subscribe: Some(result),
                    ..Reply::default()
                }
            });
            (reply, vec![opened])
        };
        self.begin_command(id, Method::Subscribe, (bytes, weight), work);
        Ok(())
    }

    /// Whether a client may subscribe, and as which asker.
    fn admit_channel(&mut self, request: &SubscribeRequest) -> Result<(Channel, Asker), Refused> {
        let channel = &request.channel;
        check_channel(channel).map_err(|_| Code::BadRequest)?;
        if request.kind != 0 {
            return Err(Code::NotAvailable.into());
        }
        if request.tf.is_some() {
            return Err(Code::BadRequest.into());
        }
        let is_full = self.subscriptions.share.is_full();
        let own = self.own();
        let options = Arc::clone(&own.options);
        let of_channel = options.channels.of(channel).ok_or(Code::UnknownChannel)?;
        if own.channels.get(channel).is_some() {
            return Err(Code::AlreadySubscribed.into());
        }
        if own.channels.len() >= CHANNELS_MAX {
            return Err(Code::LimitExceeded.into());
        }
        if is_full {
            self.subscriptions.share.bound().refuse();
            return Err(Code::LimitExceeded.into());
        }
        if request.token.is_empty() {
            let asker = self.asker_for(Ask::Subscribe, channel)?;
            let claim = ChannelClaim::default();
            return Ok((described(of_channel, Some(request), &claim, None), asker));
        }
        let shown = self.shown_for(channel, &request.token)?;
        let described = described(of_channel, Some(request), &shown.claim, shown.expires_at);
        Ok((described, self.believed_in(channel)))
    }

    /// Judges a token to subscribe with.
    pub(super) fn shown_for(
        &mut self,
        channel: &str,
        token: &str,
    ) -> Result<Subscription, TokenRefused> {
        let shared = Arc::clone(&self.shared);
        let authority = shared.door.as_ref().map(|door| &*door.authority);
        let own = self.own();
        let subscriber = Subscriber {
            user: own.user(),
            client: &own.client(),
            channel,
        };
        let now_ms = shared.clock.now_ms();
        own.options
            .subscription(token, subscriber, authority, now_ms)
    }

    /// Takes a place for a channel and watches it.
    pub(super) fn place(
        &mut self,
        name: String,
        mut channel: Channel,
        asker: Asker,
        position: Option<SubscribeRequest>,
    ) -> Placed {
        let asker = asker.needing(Method::Subscribe.needs().rights());
        let (at, watch) = self.subscriptions.open(&self.shared.feed, &name);
        let name = Arc::clone(watch.timeline());
        if channel.deltas
            && let Some(slot) = self.subscriptions.get(at)
        {
            slot.deltas = Deltas::Unknown;
        }
        channel.at = at;
        self.own().channels.insert(name, channel);
        Placed {
            at,
            watch,
            asked: Asked {
                asker: Arc::new(asker),
                limit: FIRST_PAGE,
                create: true,
                with: With::default(),
                window_ms: 0,
            },
            position: position.filter(|position| position.recover),
            data: Bytes::new(),
        }
    }

    /// Takes a place for a channel that the server subscribes the client to; `None` = there is no such namespace.
    pub(super) fn place_wish(&mut self, wish: Wish) -> Option<Placed> {
        let of_channel = self.own().options.channels.of(&wish.channel)?;
        let mut channel = described(of_channel, None, &wish.claim, wish.expires_at);
        (channel.is_server_side, channel.is_of_token) = (true, wish.is_of_token);
        let asker = self.believed_in(&wish.channel);
        let mut placed = self.place(wish.channel, channel, asker, wish.position);
        placed.data = wish.claim.data.unwrap_or_default();
        Some(placed)
    }

    /// The work on a channel's subscribe is done.
    pub(super) fn opened(&mut self, opened: OpenedChannel) {
        let OpenedChannel {
            at,
            name,
            subscription,
            push,
        } = opened;
        let is_refused = subscription.is_none();
        self.subscriptions.opened(at, subscription);
        let own = self.own();
        if own.channels.at(&name, at).is_none() {
            return;
        }
        if is_refused {
            own.channels.remove(&name);
            return;
        }
        let Some(channel) = own.channels.open(&name).cloned() else {
            return;
        };
        push.into_iter().for_each(|push| self.send(push));
        let Some(registered) = &mut self.own().registered else {
            return;
        };
        let client = Arc::clone(&registered.client);
        let member = Member {
            info: ClientInfo {
                chan_info: channel.info,
                ..client.info()
            },
            client,
            is_shown: channel.is_shown,
            is_told: channel.is_told,
            hears: channel.hears,
        };
        registered.join(&name, member);
    }

    pub(super) fn unsubscribe(&mut self, id: u32, channel: &str) {
        self.leave(channel);
        let reply = Reply {
            unsubscribe: Some(Empty {}),
            ..Reply::default()
        };
        self.reply(id, Method::Unsubscribe, reply);
    }

    /// Ends a subscription; whether there was one.
    pub(super) fn leave(&mut self, channel: &str) -> bool {
        let own = self.own();
        let was = own.channels.remove(channel).is_some();
        if let Some(registered) = &mut own.registered {
            registered.leave(channel);
        }
        let _ = self.subscriptions.close(channel, None);
        was
    }

    /// Ends a subscription and says so.
    pub(super) fn leave_saying(&mut self, channel: &str, why: Unsubscribe) {
        if self.leave(channel) {
            self.say(Reply::of(Push {
                channel: channel.to_owned(),
                unsubscribe: Some(why),
                ..Push::default()
            }));
        }
    }

    /// The native subscription has ended. SDKs subscribe again by themselves, but not to what the server has subscribed
    /// them to: there they have to connect again, and are not told of the end, as they would forget where they are.
    pub(super) fn channel_ended(&mut self, channel: &str, why: Ended) {
        let own = self.own();
        if let Some(one) = own.channels.get(channel)
            && one.is_server_side
            && why.resubscribe()
            && let Some(registered) = &own.registered
        {
            let order = Order::Disconnect(Disconnect::INSUFFICIENT_STATE);
            registered.client.order(order);
            self.leave(channel);
            return;
        }
        self.leave_saying(channel, why.into());
    }

    /// Makes a subscription that the server wishes, if the client has none.
    pub(super) fn make(&mut self, wish: Wish) {
        let own = self.own();
        let is_there = own.channels.get(&wish.channel).is_some();
        if is_there || own.channels.len() >= CHANNELS_MAX || own.stage != Stage::Connected {
            return;
        }
        let weight = match wish.position {
            Some(_) => Weight::Page,
            None => Weight::Light,
        };
        let Some(placed) = self.place_wish(wish) else {
            return;
        };
        let (shared, encoding) = (Arc::clone(&self.shared), self.own().encoding);
        let mailbox = Arc::clone(&self.subscriptions.mailbox);
        let work = async move {
            let (result, mut opened) = open(&shared, &mailbox, placed).await;
            let pushed = result.map(|result| {
                let subscribe = Push {
                    subscribe: Some(Subscribe {
                        recoverable: result.recoverable,
                        epoch: result.epoch,
                        offset: result.offset,
                        positioned: result.positioned,
                        data: result.data,
                    }),
                    ..Push::default()
                };
                // This push has no room for what was recovered, so that comes behind it.
                let recovered = result.publications.into_iter().map(|publication| Push {
                    publication: Some(publication),
                    ..Push::default()
                });
                let channel = &*opened.name;
                let pushes = iter::once(subscribe).chain(recovered).map(|push| {
                    let channel = channel.to_owned();
                    Reply::of(Push { channel, ..push })
                });
                encoding.frame(&pushes.collect::<Vec<_>>())
            });
            opened.push = pushed.as_ref().ok().cloned();
            (pushed.map(|_| Reply::default()), vec![opened])
        };
        self.begin_command(0, Method::Subscribe, (0, weight), work);
    }
}

/// A channel as a subscriber has it; `asked` is what the client itself asked for.
pub(super) fn described(
    options: &ChannelOptions,
    asked: Option<&SubscribeRequest>,
    claim: &ChannelClaim,
    expires_at: Option<u64>,
) -> Channel {
    let overrides = claim.overrides;
    let is_told = overrides.join_leave.unwrap_or(options.join_leave);
    let is_pushed = overrides.force_push_join_leave;
    let is_pushed = is_pushed.unwrap_or(options.force_push_join_leave);
    Channel {
        expires_at,
        info: claim.info.clone().unwrap_or_default(),
        is_shown: overrides.presence.unwrap_or(options.presence),
        is_told,
        hears: is_pushed || (is_told && asked.is_some_and(|asked| asked.join_leave)),
        deltas: options.deltas && asked.is_some_and(|asked| asked.delta == FOSSIL),
        ..Channel::default()
    }
}

/// Channels of one connection: SDKs subscribe to all that they have in their first frame.
pub(super) const CHANNELS_MAX: usize = 10_000;
