//! Whether calls that come here reach an owner that serves, for `/readyz`.
//!
//! Owns: when the owner is asked. Promises: once a second at most, however often somebody wants to know; the owner's
//! own word counts. Must not: decide where a call goes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::Passer;
use super::link::readiness;
use super::owner::Owner;

/// The last word.
pub(super) struct Reached {
    asking: Semaphore,
    word: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Default for Reached {
    fn default() -> Reached {
        Reached {
            asking: Semaphore::new(1),
            word: Mutex::default(),
        }
    }
}

impl Passer {
    /// `Err` = why calls would not be served.
    pub(in super::super) async fn reaches(&self) -> Result<(), String> {
        let _turn = self.reached.asking.acquire().await;
        if let Some(word) = self.word() {
            return word;
        }
        let owner = self.owner.borrow().clone();
        let word = match owner {
            Owner::Awaited | Owner::Unknown => Err("nobody owns the log".to_owned()),
            Owner::At(_, place) => match readiness(&place, &self.nodes).await {
                Ok((StatusCode::OK, _)) => Ok(()),
                Ok((_, why)) => Err(format!("it is not ready: {why}")),
                Err(why) => Err(format!("it is not reached: {why}")),
            },
        };
        let last = self.reached.word.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), word.clone()));
        word
    }

    fn word(&self) -> Option<Result<(), String>> {
        let word = self.reached.word.lock();
        let word = word.unwrap_or_else(PoisonError::into_inner).clone();
        let word = word.filter(|(at, _)| at.elapsed() < COUNTS);
        word.map(|(_, word)| word)
    }
}

const COUNTS: Duration = Duration::from_secs(1);
