//! What things are called in NATS.
//!
//! Owns: stream and subjects. Promises: names of clusters that were checked (`tideline_cluster::guards::check_name`)
//! make names without a further meaning. Must not: talk to a server.

/// The names of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// Of its stream.
    pub(crate) stream: String,
    /// Of its frames.
    pub(crate) subject: String,
    /// Of what nodes say of themselves.
    pub(crate) beats: String,
}

impl Names {
    pub(crate) fn new(cluster: &str, partition: u16) -> Names {
        Names {
            stream: format!("TL_{cluster}_{partition}"),
            subject: format!("tl.{cluster}.{partition}"),
            beats: format!("tl.{cluster}.beats.{partition}"),
        }
    }
}
