//! What `tideline serve` runs: a server by itself, or a node of a cluster.
//!
//! Owns: the choice. Promises: without `[cluster]` nothing is asked of one. Must not: do what either does.

use tokio_util::sync::CancellationToken;

use super::member::Member;
use super::{Server, StartError};
use crate::config::{Config, ConfigError};

/// See the file's opening.
pub struct Served(Kind);

enum Kind {
    Alone(Box<Server>),
    Member(Box<Member>),
}

impl Served {
    /// Starts it. A node that waits for others while `ends` is cancelled gives that up: [`StartError::Ended`].
    pub async fn start(config: &Config, ends: &CancellationToken) -> Result<Served, StartError> {
        let kind = match &config.cluster {
            None => Kind::Alone(Box::new(Server::start(config).await?)),
            Some(key) => Kind::Member(Box::new(Member::start(key, config, ends).await?)),
        };
        Ok(Served(kind))
    }

    /// Waits until the node's role in its cluster must change; never without one.
    pub async fn changes(&self) {
        match &self.0 {
            Kind::Alone(_) => std::future::pending().await,
            Kind::Member(member) => member.changes().await,
        }
    }

    /// Changes it. After an error nothing is served; [`StartError::Ended`] as at the start.
    pub async fn change(&mut self) -> Result<(), StartError> {
        match &mut self.0 {
            Kind::Alone(_) => Ok(()),
            Kind::Member(member) => member.change().await,
        }
    }

    /// See [`Server::reload`].
    pub fn reload(&self, config: &Config) -> Result<(), ConfigError> {
        match &self.0 {
            Kind::Alone(server) => server.reload(config),
            Kind::Member(member) => member.reload(config),
        }
    }

    /// Stops everything, in the reverse order of the start.
    pub async fn stop(self) {
        match self.0 {
            Kind::Alone(server) => server.stop().await,
            Kind::Member(member) => member.stop().await,
        }
    }
}
