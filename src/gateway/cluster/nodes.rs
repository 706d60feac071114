//! Where the nodes of a cluster are, for each other.
//!
//! Owns: their addresses as the configuration has them, and as names resolve. Promises: what a node is asked goes to
//! the node of that name, by TLS where its address says so; a name that resolves no more keeps its addresses. Must not:
//! know which of them owns the log.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use rustls::ClientConfig;
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};

use super::secret::NodeSecret;

/// A node's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Both, as a request's `Host`.
    pub authority: String,
    /// By TLS.
    pub is_secure: bool,
}

/// The nodes, as one of them knows them.
#[derive(Debug)]
pub struct Nodes {
    pub(super) me: String,
    pub(super) places: BTreeMap<String, Arc<Place>>,
    pub(super) tls: Arc<ClientConfig>,
    pub(in super::super) secret: NodeSecret,
    /// What each node's name resolved to when it last did.
    addresses: ArcSwap<BTreeMap<String, Vec<IpAddr>>>,
}

impl Nodes {
    /// `me`: the node's own name; `tls`: by which it knows the others.
    #[must_use]
    pub fn new(
        me: String,
        places: BTreeMap<String, Place>,
        tls: ClientConfig,
        secret: NodeSecret,
    ) -> Nodes {
        let places = places.into_iter();
        Nodes {
            me,
            places: places
                .map(|(name, place)| (name, Arc::new(place)))
                .collect(),
            tls: Arc::new(tls),
            secret,
            addresses: ArcSwap::default(),
        }
    }

    /// Whether one of them seems to be at this address. What comes from there may be others' calls.
    pub(in super::super) fn has(&self, ip: IpAddr) -> bool {
        let addresses = self.addresses.load();
        addresses.values().flatten().any(|one| *one == ip)
    }

    /// Looks all names up, for a moment at most: clients wait for it.
    pub(in super::super) async fn begin(&self) {
        if timeout(BEGIN_TIME_MAX, self.look(resolve)).await.is_err() {
            tracing::warn!("not all names of nodes have resolved yet");
        }
    }

    /// Looks names up, now and then, for as long as it is polled.
    pub(in super::super) async fn look_up(&self) {
        loop {
            sleep(LOOK_EVERY).await;
            self.look(resolve).await;
        }
    }

    async fn look(&self, resolve: impl AsyncFn(&Place) -> io::Result<Vec<IpAddr>>) {
        let looks = self.places.iter().map(async |(name, place)| {
            let found = resolve(place).await;
            let found = found.inspect_err(|error| {
                tracing::debug!(%error, node = name, "a node's name does not resolve");
            });
            Some((name.clone(), found.ok()?))
        });
        let found = join_all(looks).await.into_iter().flatten();
        let mut known = BTreeMap::clone(&self.addresses.load());
        known.extend(found);
        self.addresses.store(Arc::new(known));
    }
}

async fn resolve(place: &Place) -> io::Result<Vec<IpAddr>> {
    let found = lookup_host((place.host.as_str(), place.port)).await?;
    Ok(found.map(|address| address.ip().to_canonical()).collect())
}

const LOOK_EVERY: Duration = Duration::from_secs(30);
const BEGIN_TIME_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use rustls::RootCertStore;

    use super::*;

    #[tokio::test]
    async fn a_name_that_resolves_no_more_keeps_its_addresses() {
        let place = |host: &str| Place {
            host: host.to_owned(),
            port: 1,
            authority: host.to_owned(),
            is_secure: false,
        };
        let places = ["n1", "n2"].map(|name| (name.to_owned(), place(name)));
        let tls = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
        let secret = NodeSecret::new("chat", "hush");
        let tls = tls.with_no_client_auth();
        let nodes = Nodes::new("n1".to_owned(), places.into(), tls, secret);
        let ips = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|ip| ip.parse().unwrap());
        let has = || ips.map(|ip| nodes.has(ip));
        nodes
            .look(async |place: &Place| Ok(vec![ips[usize::from(place.host == "n2")]]))
            .await;
        assert_eq!(has(), [true, true, false]);
        nodes
            .look(async |place: &Place| match place.host == "n2" {
                true => Ok(vec![ips[2]]),
                false => Err(io::ErrorKind::NotFound.into()),
            })
            .await;
        assert_eq!(has(), [true, false, true]);
    }
}
