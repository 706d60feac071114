//! What operators and browsers get over plain HTTP: readiness, metrics, the files of the console and the demo.
//!
//! Owns: the bodies of these answers. Promises: none but the metrics touches the store or waits. Must not: know routes,
//! sockets or anything that a client has stored; `gateway/http/mod.rs` serves the pages.

mod files;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::gateway::{File, Pages};
use crate::health::Scrape;

/// What the pages show. One per server.
pub struct Admin {
    ready: AtomicBool,
    metrics: Scrape,
}

impl Admin {
    /// Not ready yet. `metrics` brings gauges up to date and returns Prometheus' text; it may wait for the disk.
    #[must_use]
    pub fn new(metrics: Scrape) -> Admin {
        Admin {
            ready: AtomicBool::new(false),
            metrics,
        }
    }

    /// Whether writes can be taken: true after the start, false again once a shutdown has begun.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
    }
}

impl Pages for Admin {
    fn file(&self, path: &str) -> Option<&'static File> {
        files::find(path)
    }

    fn readiness(&self, can_commit: bool) -> Result<(), &'static str> {
        if !self.ready.load(Ordering::SeqCst) {
            Err("not ready: starting, or shutting down")
        } else if !can_commit {
            Err("not ready: a disk failure has stopped the writes, see the log; restart")
        } else {
            Ok(())
        }
    }

    fn metrics(&self) -> String {
        (self.metrics)()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_server_that_is_not_ready_says_why() {
        let admin = Admin::new(Arc::new(String::new));
        assert!(
            admin
                .readiness(true)
                .is_err_and(|why| why.contains("starting"))
        );
        admin.set_ready(true);
        assert_eq!(admin.readiness(true), Ok(()));
        assert!(
            admin
                .readiness(false)
                .is_err_and(|why| why.contains("disk failure"))
        );
        admin.set_ready(false);
        assert!(
            admin
                .readiness(false)
                .is_err_and(|why| why.contains("shutting down"))
        );
    }
}
