//! A subscription's looks at the store.
//!
//! Owns: what is read there for a cursor, and which user may have it. Promises: a page is read once for all that ask
//! for the same at the moment; where users are not all alike, each is checked after it. Must not: move a cursor.

use std::sync::Arc;

use super::cursor::{Page, PageKey};
use super::registry::Registry;
use super::topic::Topic;
use super::topic::grown::Grown;
use crate::timeline::{Error, Meta, NONE_YET, Resume, ResumeState, Target, Timelines};
use tideline_model::access::Asker;
use tideline_model::timelines::Ended;

/// What a look at the store brought.
#[derive(Debug)]
pub enum Pull {
    /// Messages and changes, perhaps none; and the user's own floor when they were read.
    Page(Arc<Page>, u64),
    /// The meta and its version.
    Meta(Meta, u64),
    /// Parts of an open message, perhaps none; `None` = it is not open.
    Parts(Option<Arc<Grown>>),
    /// It ended.
    Ended(Ended),
}

/// One look at the store for a user.
pub(super) struct Look {
    pub(super) registry: Arc<Registry>,
    pub(super) topic: Arc<Topic>,
    pub(super) asker: Arc<Asker>,
}

impl Look {
    fn target(&self, key: &PageKey) -> Target {
        Target {
            timeline: self.topic.name.as_ref().to_owned(),
            epoch: Some(key.epoch.as_ref().to_owned()),
            asker: Asker::clone(&self.asker),
        }
    }

    pub(super) async fn meta(&self, key: &PageKey) -> Result<Pull, Error> {
        let info = self.registry.timelines.get(self.target(key)).await?;
        Ok(Pull::Meta(info.meta, info.version))
    }

    pub(super) async fn parts(&self, key: &PageKey, place: (u64, u64)) -> Result<Pull, Error> {
        let timelines = &self.registry.timelines;
        let grown = timelines.grown(self.target(key), place, PAGE_BYTES).await?;
        Ok(Pull::Parts(grown.map(|growth| Arc::new(Grown::of(growth)))))
    }

    /// An open message that the reader does not have yet, whole, with what else has changed.
    pub(super) async fn whole(&self, key: PageKey, sequence: u64) -> Result<Pull, Error> {
        let timelines = &self.registry.timelines;
        let asked = Resume {
            asker: Asker::clone(&self.asker),
            open: vec![(sequence, NONE_YET)],
            ..resume(&self.topic.name, &key)
        };
        let mut changed = timelines.resume(asked).await?;
        match changed.state {
            ResumeState::EpochChanged => Ok(Pull::Ended(Ended::EpochChanged)),
            // The message is gone, and perhaps only for this user.
            ResumeState::TooOld => self.page(key).await,
            ResumeState::Ok => {
                timelines.mark(&self.topic.name, changed.messages.iter_mut());
                let floor = changed.admission.floor;
                Ok(Pull::Page(Arc::new(Page::new(changed, key.change)), floor))
            }
        }
    }

    /// The page is read first, for all readers of the same one. Where users are not all alike, the user's rights are
    /// looked at after that: a user that was shut out before the page was read gets nothing of it.
    pub(super) async fn page(&self, mut key: PageKey) -> Result<Pull, Error> {
        loop {
            let page = self.shared(&key).await?;
            if page.changed.state == ResumeState::EpochChanged {
                return Ok(Pull::Ended(Ended::EpochChanged));
            }
            let mut floor = 0;
            // What is open to all is decided by rights that are given by name.
            let name = self.topic.name.as_bytes();
            let bound = page.changed.admission.bound && !self.asker.user().is_empty();
            if bound || !self.asker.reads_by_name(name) {
                let timelines = &self.registry.timelines;
                floor = timelines.admission(self.target(&key)).await?.floor;
            }
            if floor == key.floor && floor <= key.sequence + 1 {
                if page.changed.state == ResumeState::TooOld {
                    return Ok(Pull::Ended(Ended::TooOld));
                }
                let pushed = &self.registry.metrics.pages.push;
                pushed.count(page.changed.messages.len());
                return Ok(Pull::Page(page, floor));
            }
            key.floor = floor;
            // What they cleared is behind them.
            key.sequence = key.sequence.max(floor.saturating_sub(1));
        }
    }

    /// The page that all readers at the same place with the same floor get.
    async fn shared(&self, key: &PageKey) -> Result<Arc<Page>, Error> {
        // Of an inbox each may be shown something else.
        let own_asker = Timelines::inbox_asker(&self.asker, &self.topic.name);
        let cell = match own_asker {
            Some(_) => Arc::default(),
            None => self.topic.page(key.clone()),
        };
        let mut own = false;
        let page = cell
            .get_or_try_init(async || {
                own = true;
                let (since, resume) = (key.change, resume(&self.topic.name, key));
                let timelines = &self.registry.timelines;
                let mut changed = timelines.resume_above(key.floor, resume).await?;
                if let Some(asker) = &own_asker {
                    let roles = self.topic.roles();
                    let hidden = timelines.hide_entries(asker, changed.shown_mut(), roles);
                    hidden.await?;
                }
                timelines.mark(&self.topic.name, changed.messages.iter_mut());
                Ok(Arc::new(Page::new(changed, since)))
            })
            .await;
        let counted = &self.registry.metrics.feed;
        if own {
            &counted.store_pages
        } else {
            &counted.store_pages_shared
        }
        .increment(1);
        page.cloned()
    }

    pub(super) async fn ended(&self, error: &Error) -> Ended {
        match error {
            Error::TimelineNotFound => {
                // Perhaps it is there, but not for this user.
                if !self.asker.reads_by_name(self.topic.name.as_bytes()) {
                    return self.shut_out().await;
                }
                let timelines = &self.registry.timelines;
                match timelines.head(&self.topic.name).await {
                    Ok(Some(_)) if !self.asker.user().is_empty() => self.shut_out().await,
                    _ => Ended::Deleted,
                }
            }
            Error::EpochChanged { .. } => Ended::EpochChanged,
            _ => Ended::Unavailable,
        }
    }

    async fn shut_out(&self) -> Ended {
        let user = Asker::believed(self.asker.user());
        let timelines = &self.registry.timelines;
        match timelines.membership(&user, &self.topic.name).await {
            Ok(None) => Ended::NotAMember,
            // They are one, or it can't be known.
            Ok(Some(_)) | Err(_) => Ended::Forbidden,
        }
    }
}

/// Messages in one page that a lagging subscription reads.
const PAGE_MESSAGES: usize = 1_000;
/// About how many bytes such a page may have: it becomes at most two frames to the client, and JSON can be a third
/// longer than what it encodes.
pub const PAGE_BYTES: usize = 256 << 10;

fn resume(timeline: &str, key: &PageKey) -> Resume {
    Resume {
        timeline: timeline.to_owned(),
        asker: Asker::default(),
        after: Some(key.sequence),
        rewind: None,
        epoch: Some(key.epoch.as_ref().to_owned()),
        changes_after: Some(key.change),
        open: Vec::new(),
        parts: false,
        limit: PAGE_MESSAGES,
        bytes_max: PAGE_BYTES,
    }
}
