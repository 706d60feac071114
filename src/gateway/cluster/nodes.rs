//! Where the nodes of a cluster are, for each other.
//!
//! Owns: their addresses as the configuration has them, and as names resolve. Promises: what a node is asked goes to
//! the node of that name, by TLS where its address says so. Must not: know which of them owns the log.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use tokio::net::lookup_host;
use tokio::time::sleep;

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
    /// What the names resolved to when they were last looked up.
    addresses: ArcSwap<Vec<IpAddr>>,
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
        self.addresses.load().contains(&ip)
    }

    /// Looks names up, now and then, for as long as it is polled.
    pub(in super::super) async fn look_up(&self) {
        loop {
            let mut found = Vec::new();
            for (name, place) in &self.places {
                match lookup_host((place.host.as_str(), place.port)).await {
                    Ok(all) => found.extend(all.map(|address| address.ip().to_canonical())),
                    Err(error) => {
                        tracing::debug!(%error, node = name, "a node's name does not resolve");
                    }
                }
            }
            self.addresses.store(Arc::new(found));
            sleep(LOOK_EVERY).await;
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(30);
