//! What a session hears from others: joins and leaves, and the orders of back ends.
//!
//! Owns: which of it the client gets. Promises: of a channel that the client has left it hears nothing more; orders
//! about a channel are obeyed in their order. Must not: be asked while the client does not read: what waits for it is
//! bounded elsewhere.

use std::task::{Context, Poll};

use super::{Session, Stage};
use crate::centrifuge::hub::{Heard, Order};
use crate::session::End;
use tideline_wire::centrifuge::{Disconnect, Unsubscribe};

impl Session {
    /// Leaves the channels whose subscriptions have ended. Nothing may begin between those ends and this call: then
    /// each name still means the channel that has ended.
    pub(in crate::session) fn leave_ended(&mut self) {
        let gone = self.subscriptions.gone.get_or_insert_default();
        for (channel, why) in std::mem::take(gone) {
            self.channel_ended(&channel, why);
        }
    }

    /// Takes what has come, while there is room for it.
    pub(in crate::session) fn poll_heard(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<bool, End> {
        let mut moved = false;
        while self.outbox.has_room() {
            let own = self.own();
            let Some(registered) = own
                .registered
                .as_ref()
                .filter(|_| own.stage == Stage::Connected)
            else {
                break;
            };
            // An order about a channel waits for the answer to the channel's subscribe.
            let may = |order: &Order| {
                let channel = order.channel();
                !channel.is_some_and(|channel| own.channels.is_opening(channel))
            };
            let Poll::Ready(heard) = registered.client.poll_heard(context, may) else {
                break;
            };
            moved = true;
            match heard {
                Heard::Order(order) => self.obey(order)?,
                Heard::Passed(passed) => {
                    let channel = own.channels.get(&passed.channel);
                    if channel.is_some_and(|channel| channel.is_open && channel.hears) {
                        let frame = passed.frame(own.encoding);
                        self.send(frame);
                    }
                }
            }
        }
        Ok(moved)
    }

    fn obey(&mut self, order: Order) -> Result<(), End> {
        match order {
            Order::Disconnect(why) => Err(End::Disconnect(why)),
            Order::Unsubscribe(channel) => {
                self.leave_saying(&channel, Unsubscribe::by_server());
                Ok(())
            }
            Order::Subscribe(wish) => {
                self.make(*wish);
                Ok(())
            }
            Order::Refresh { expires_at, info } => {
                // What a token gives ends with the token, whatever a back end orders.
                let live = self.caller.live.as_ref();
                let ends_at = live.and_then(|live| live.credential()?.expires_at);
                let own = self.own();
                own.expires_at = [expires_at, ends_at].into_iter().flatten().min();
                if let (Some(registered), Some(info)) = (&own.registered, info) {
                    registered.client.set_info(info);
                }
                Ok(())
            }
            Order::Expire => Err(End::Disconnect(Disconnect::EXPIRED)),
        }
    }
}
