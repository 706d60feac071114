//! The clients that are connected by the Centrifuge dialect, and their channels.
//!
//! Owns: presence, the news of joins and leaves, and the orders for sessions. Promises: a connection that has ended is
//! in no channel; joins and leaves of a channel reach all its sessions in one order; a session that does not listen
//! keeps a bounded number of such news. Must not: keep anything of a connection that has ended, or know sockets.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use foldhash::fast::RandomState;
use futures_util::task::AtomicWaker;

use crate::credentials::ChannelClaim;
use tideline_base::metrics::{Held, Metrics};
use tideline_wire::Close;
use tideline_wire::centrifuge::{
    ClientInfo, Disconnect, ENCODINGS, Encoding, Passing, Push, Reply, SubscribeRequest,
};

/// All connections of this dialect.
pub(crate) struct Hub {
    clients: Mutex<HashMap<Arc<str>, Arc<Client>>>,
    /// By the hash of the channel.
    shards: Vec<Mutex<Channels>>,
    hasher: RandomState,
    metrics: Arc<Metrics>,
}

type Channels = HashMap<Arc<str>, HashMap<Arc<str>, Member>>;

/// A connection.
pub(crate) struct Client {
    pub id: Arc<str>,
    /// Empty = nobody in particular.
    pub user: Arc<str>,
    /// The name by which clients send to it, if it has no socket of its own.
    pub(crate) emulated: Option<String>,
    info: Mutex<Bytes>,
    told: Mutex<Told>,
    /// Whether something waits in `told`; changes with it.
    has_news: AtomicBool,
    waker: AtomicWaker,
}

/// What waits for a session to take it.
#[derive(Default)]
struct Told {
    orders: VecDeque<Order>,
    passed: VecDeque<Arc<Passed>>,
}

/// Something that a session is ordered to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Close.
    Disconnect(Disconnect),
    /// Close, as if its token had expired.
    Expire,
    /// The connection ends at another time (ms), and shows something else.
    Refresh {
        expires_at: Option<u64>,
        info: Option<Bytes>,
    },
    /// Subscribe the client.
    Subscribe(Box<Wish>),
    /// End a subscription.
    Unsubscribe(String),
}

/// A subscription that the server makes.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub channel: String,
    pub(crate) claim: ChannelClaim,
    /// When it ends unless it is refreshed, ms.
    pub(crate) expires_at: Option<u64>,
    /// Where the client is in it.
    pub position: Option<SubscribeRequest>,
    /// The token of the connection asks for it.
    pub(crate) is_of_token: bool,
}

impl Order {
    /// The channel that it is about.
    pub(crate) fn channel(&self) -> Option<&str> {
        match self {
            Order::Subscribe(wish) => Some(&wish.channel),
            Order::Unsubscribe(channel) => Some(channel),
            Order::Disconnect(_) | Order::Expire | Order::Refresh { .. } => None,
        }
    }
}

/// What a session hears next.
pub(crate) enum Heard {
    Order(Order),
    Passed(Arc<Passed>),
}

/// Somebody came or went.
pub(crate) struct Passed {
    pub channel: Arc<str>,
    /// The push in each encoding.
    frames: [Bytes; ENCODINGS.len()],
}

/// A connection in a channel.
pub(crate) struct Member {
    pub client: Arc<Client>,
    pub info: ClientInfo,
    /// Whether presence shows it.
    pub(crate) is_shown: bool,
    /// Whether others in the channel hear of its joins and leaves.
    pub(crate) is_told: bool,
    /// Whether it hears of others' joins and leaves.
    pub hears: bool,
}

/// A connection among the others, until this is dropped.
pub(crate) struct Registered {
    pub client: Arc<Client>,
    hub: Arc<Hub>,
    channels: HashSet<Arc<str>>,
    _counted: Held,
}

impl Passed {
    pub(crate) fn frame(&self, encoding: Encoding) -> Bytes {
        self.frames[encoding as usize].clone()
    }

    fn new(channel: &Arc<str>, info: ClientInfo, came: bool) -> Arc<Passed> {
        let passing = Passing { info: Some(info) };
        let (join, leave) = match came {
            true => (Some(passing), None),
            false => (None, Some(passing)),
        };
        let reply = Reply::of(Push {
            channel: channel.as_ref().to_owned(),
            join,
            leave,
            ..Push::default()
        });
        Arc::new(Passed {
            channel: Arc::clone(channel),
            frames: ENCODINGS.map(|encoding| encoding.frame([&reply])),
        })
    }
}

impl Client {
    /// Orders the session to do something. If too many orders wait for it already, the order to close replaces them.
    pub(crate) fn order(&self, order: Order) {
        self.tell(|told| match told.orders.len() < ORDERS_MAX {
            true => told.orders.push_back(order),
            // The client has to connect again, and begins anew: no order is lost in silence.
            false => told.orders = [Order::Disconnect(Disconnect::of(Close::SlowConsumer))].into(),
        });
    }

    fn tell(&self, what: impl FnOnce(&mut Told)) {
        let mut told = lock(&self.told);
        what(&mut told);
        self.has_news.store(true, Ordering::Release);
        drop(told);
        self.waker.wake();
    }

    /// What it shows of itself.
    pub(crate) fn info(&self) -> ClientInfo {
        ClientInfo {
            user: self.user.as_ref().to_owned(),
            client: self.id.as_ref().to_owned(),
            conn_info: lock(&self.info).clone(),
            chan_info: Bytes::new(),
        }
    }

    /// It shows something else from now on.
    pub(crate) fn set_info(&self, info: Bytes) {
        *lock(&self.info) = info;
    }

    /// Orders come before news. They come in their order: while `may` holds the first one back, all of them wait.
    pub(crate) fn poll_heard(
        &self,
        context: &mut Context<'_>,
        may: impl Fn(&Order) -> bool,
    ) -> Poll<Heard> {
        self.waker.register(context.waker());
        if !self.has_news.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        let mut told = lock(&self.told);
        if let Some(order) = told.orders.pop_front_if(|order| may(order)) {
            return Poll::Ready(Heard::Order(order));
        }
        match told.passed.pop_front() {
            Some(passed) => Poll::Ready(Heard::Passed(passed)),
            None => {
                let has_news = !told.orders.is_empty();
                self.has_news.store(has_news, Ordering::Release);
                Poll::Pending
            }
        }
    }
}

impl Hub {
    pub(crate) fn new(metrics: &Arc<Metrics>) -> Arc<Hub> {
        Arc::new(Hub {
            clients: Mutex::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            metrics: Arc::clone(metrics),
        })
    }

    /// Adds a connection.
    pub(crate) fn register(
        self: &Arc<Hub>,
        user: &str,
        info: Bytes,
        emulated: Option<String>,
    ) -> Registered {
        let client = Arc::new(Client {
            id: uuid::Uuid::new_v4().hyphenated().to_string().into(),
            user: user.into(),
            emulated,
            info: Mutex::new(info),
            told: Mutex::default(),
            has_news: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        lock(&self.clients).insert(Arc::clone(&client.id), Arc::clone(&client));
        Registered {
            client,
            hub: Arc::clone(self),
            channels: HashSet::new(),
            _counted: self.metrics.centrifuge.connections.hold(1),
        }
    }

    fn shard(&self, channel: &str) -> MutexGuard<'_, Channels> {
        let hash = self.hasher.hash_one(channel);
        lock(&self.shards[hash as usize % SHARDS])
    }

    fn tell(&self, members: &HashMap<Arc<str>, Member>, passed: &Arc<Passed>) {
        for member in members.values().filter(|member| member.hears) {
            member.client.tell(|told| {
                if told.passed.len() >= PASSED_MAX {
                    told.passed.pop_front();
                    self.metrics.centrifuge.missed.increment(1);
                }
                told.passed.push_back(Arc::clone(passed));
            });
        }
    }

    fn join(&self, channel: &Arc<str>, member: Member) {
        let passed = member
            .is_told
            .then(|| Passed::new(channel, member.info.clone(), true));
        let mut shard = self.shard(channel);
        let members = shard.entry(Arc::clone(channel)).or_default();
        members.insert(Arc::clone(&member.client.id), member);
        if let Some(passed) = passed {
            self.tell(members, &passed);
        }
    }

    fn leave(&self, channel: &Arc<str>, client: &str) {
        let mut shard = self.shard(channel);
        let Some(members) = shard.get_mut(channel) else {
            return;
        };
        if let Some(gone) = members.remove(client)
            && gone.is_told
        {
            self.tell(members, &Passed::new(channel, gone.info, false));
        }
        if members.is_empty() {
            shard.remove(channel);
        }
    }

    /// The clients in a channel, up to so many bytes of them.
    pub(crate) fn presence(&self, channel: &str, mut bytes: usize) -> BTreeMap<String, ClientInfo> {
        let shard = self.shard(channel);
        let mut shown = BTreeMap::new();
        for (id, member) in shard.get(channel).into_iter().flatten() {
            let info = &member.info;
            let size = INFO_BYTES + info.user.len() + info.conn_info.len() + info.chan_info.len();
            if member.is_shown {
                let Some(rest) = bytes.checked_sub(size) else {
                    break;
                };
                bytes = rest;
                shown.insert(id.as_ref().to_owned(), info.clone());
            }
        }
        shown
    }

    /// How many clients and users are in a channel. Those without a name are one user.
    pub(crate) fn presence_stats(&self, channel: &str) -> (usize, usize) {
        let shard = self.shard(channel);
        let members = shard.get(channel).into_iter().flatten();
        let shown = members.filter(|(_, member)| member.is_shown);
        let (mut clients, mut users) = (0, HashSet::new());
        for (_, member) in shown {
            clients += 1;
            users.insert(&*member.client.user);
        }
        (clients, users.len())
    }

    /// Whether somebody is subscribed to a channel.
    pub(crate) fn has(&self, channel: &str) -> bool {
        self.shard(channel).contains_key(channel)
    }

    /// All connections, in no order.
    pub(crate) fn clients(&self) -> Vec<Arc<Client>> {
        lock(&self.clients).values().cloned().collect()
    }

    /// The channels in which somebody is, and how many connections.
    pub(crate) fn channels(&self) -> Vec<(Arc<str>, usize)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            all.extend(
                shard
                    .iter()
                    .map(|(name, members)| (Arc::clone(name), members.len())),
            );
        }
        all
    }
}

impl Registered {
    /// It is in a channel from now on.
    pub(crate) fn join(&mut self, channel: &Arc<str>, member: Member) {
        self.channels.insert(Arc::clone(channel));
        self.hub.join(channel, member);
    }

    /// It has left a channel.
    pub(crate) fn leave(&mut self, channel: &str) {
        if let Some(channel) = self.channels.take(channel) {
            self.hub.leave(&channel, &self.client.id);
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        for channel in &self.channels {
            self.hub.leave(channel, &self.client.id);
        }
        lock(&self.hub.clients).remove(&self.client.id);
    }
}

/// These locks guard plain data that is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const SHARDS: usize = 64;
/// Orders that wait for one connection; one with more is closed.
const ORDERS_MAX: usize = 1_024;
/// Comings and goings that wait for one connection; of more it misses the oldest.
const PASSED_MAX: usize = 1_024;
/// Around one client in a list of presence.
const INFO_BYTES: usize = 160;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn member(of: &Registered, hears: bool) -> Member {
        Member {
            client: Arc::clone(&of.client),
            info: of.client.info(),
            is_shown: true,
            is_told: true,
            hears,
        }
    }

    async fn heard(of: &Registered) -> Vec<String> {
        let mut all = Vec::new();
        while let Poll::Ready(heard) =
            poll_fn(|context| Poll::Ready(of.client.poll_heard(context, |_| true))).await
        {
            all.push(match heard {
                Heard::Order(order) => format!("{order:?}"),
                Heard::Passed(passed) => {
                    let text = passed.frame(Encoding::Json);
                    let text = String::from_utf8(text.to_vec()).unwrap();
                    text.split('"').nth(7).unwrap().to_owned()
                }
            });
        }
        all
    }

    #[tokio::test]
    async fn who_comes_and_goes_is_told_and_leaves_nothing_behind() {
        let hub = Hub::new(&Arc::default());
        let channel: Arc<str> = "room".into();
        let mut ann = hub.register("ann", Bytes::new(), None);
        let mut anybody = hub.register("", Bytes::new(), None);
        let mut other = hub.register("", Bytes::new(), None);
        ann.join(&channel, member(&ann, true));
        anybody.join(&channel, member(&anybody, false));
        other.join(&channel, member(&other, true));
        assert_eq!(hub.presence_stats("room"), (3, 2));
        assert_eq!(hub.presence("room", 1 << 20).len(), 3);
        assert_eq!(hub.presence("room", 2 * INFO_BYTES + 3).len(), 2);
        assert_eq!(hub.channels(), [(Arc::clone(&channel), 3)]);
        other.leave("room");
        drop(anybody);
        assert_eq!(
            heard(&ann).await,
            ["join", "join", "join", "leave", "leave"]
        );
        assert_eq!(heard(&other).await, ["join"]);
        assert_eq!(hub.presence_stats("room"), (1, 1));
        ann.client.order(Order::Unsubscribe("room".to_owned()));
        assert_eq!(heard(&ann).await, ["Unsubscribe(\"room\")"]);
        drop((ann, other));
        assert_eq!(hub.presence_stats("room"), (0, 0));
        assert!(hub.channels().is_empty() && hub.clients().is_empty());
    }

    #[tokio::test]
    async fn orders_wait_in_their_order_and_are_not_piled_up() {
        let hub = Hub::new(&Arc::default());
        let ann = hub.register("ann", Bytes::new(), None);
        let order = |channel: &str| ann.client.order(Order::Unsubscribe(channel.to_owned()));
        order("opening");
        order("other");
        let blocked = |order: &Order| order.channel() != Some("opening");
        let polled = poll_fn(|context| Poll::Ready(ann.client.poll_heard(context, blocked))).await;
        assert!(polled.is_pending(), "the second waits behind the first");
        let both = ["Unsubscribe(\"opening\")", "Unsubscribe(\"other\")"];
        assert_eq!(heard(&ann).await, both);
        for _ in 0..=ORDERS_MAX {
            order("room");
        }
        let left = heard(&ann).await;
        assert!(left.len() == 1 && left[0].contains("3008"), "{left:?}");
    }

    #[tokio::test]
    async fn a_session_that_does_not_listen_misses_the_oldest_news() {
        let hub = Hub::new(&Arc::default());
        let channel: Arc<str> = "room".into();
        let mut deaf = hub.register("", Bytes::new(), None);
        deaf.join(&channel, member(&deaf, true));
        for _ in 0..PASSED_MAX {
            let mut guest = hub.register("", Bytes::new(), None);
            guest.join(&channel, member(&guest, false));
        }
        assert_eq!(heard(&deaf).await.len(), PASSED_MAX);
    }
}
