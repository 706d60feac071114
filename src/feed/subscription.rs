//! A subscription: the way from a cursor to what comes next.
//!
//! Owns: the moves of the cursor. Promises: every sequence above the start once and in order, every change of what lies
//! behind the cursor; ends are final. Must not: hold payloads: a page or a group belongs to its sender.

use std::sync::Arc;

use super::cursor::{Cursor, Next, Page, PageKey};
use super::ephemeral::{Following, Pulled, With};
use super::fresh::Fresh;
use super::mailbox::{Mailbox, Who};
use super::registry::Watch;
use crate::timeline::{Error, Meta, Resume, ResumeState, Standing, Target};

/// Why a subscription ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The timeline is gone.
    Deleted,
    /// The timeline has another history.
    EpochChanged,
    /// A trim overtook the reader.
    TooOld,
    /// The store cannot be read.
    Unavailable,
}

/// What a look at the store brought.
#[derive(Debug)]
pub enum Pull {
    /// Messages and changes; perhaps none.
    Page(Arc<Page>),
    /// The meta and its version.
    Meta(Meta, u64),
    /// It ended.
    Ended(Ended),
}

/// One client's subscription on one timeline.
pub struct Subscription {
    watch: Watch,
    /// Whose it is; empty = a back end's.
    user: Arc<str>,
    cursor: Cursor,
    /// `None` = it asked for no lane.
    following: Option<Box<Following>>,
}

impl Subscription {
    pub(super) fn new(
        watch: Watch,
        user: Arc<str>,
        mut cursor: Cursor,
        (with, standing): (With, Option<Standing>),
    ) -> Subscription {
        cursor.epoch = watch.topic.shared_epoch(cursor.epoch);
        Subscription {
            following: watch.subscribe(with, standing),
            watch,
            user,
            cursor,
        }
    }

    /// The timeline's ID.
    #[must_use]
    pub fn timeline(&self) -> &Arc<str> {
        self.watch.timeline()
    }

    /// Its position.
    #[must_use]
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// What comes next; a look at memory only. Send fresh messages, and call [`Subscription::sent`].
    #[must_use]
    pub fn look(&self) -> Next {
        match self.watch.topic.next(&self.cursor) {
            // Not to be shown any more, before the log says so: the store leaves it out.
            Next::Fresh(fresh) if fresh.has_expired(|| self.watch.registry.timelines.now_ms()) => {
                Next::Read {
                    doubt: self.cursor.doubt,
                    foreign: None,
                }
            }
            next => next,
        }
    }

    /// Fresh messages are on their way.
    pub fn sent(&mut self, fresh: &Fresh) {
        self.cursor.sequence = fresh.last();
    }

    /// The next ephemeral push of those that it asked for; `own` is the connection's mailbox.
    pub fn pull(&mut self, own: &Arc<Mailbox>) -> Option<Pulled> {
        let (pulled, lane, missed) = self.following.as_mut()?.pull(own)?;
        let counted = &self.watch.registry.metrics.ephemeral;
        counted.pushes[lane as usize].increment(1);
        if missed > 0 {
            counted.missed[lane as usize].increment(missed);
        }
        Some(pulled)
    }

    /// The user of the connection is another one now; `before` is who it was.
    pub fn renamed(&self, before: Option<Arc<Who>>) {
        self.watch.renamed(before);
    }

    /// Asks the store for what `next` said; the answer goes into [`Subscription::arrived`]. One at a time.
    pub fn read(&self, next: &Next) -> impl Future<Output = Pull> + Send + 'static {
        let topic = Arc::clone(&self.watch.topic);
        let registry = Arc::clone(&self.watch.registry);
        let key = PageKey {
            epoch: Arc::clone(&self.cursor.epoch),
            sequence: self.cursor.sequence,
            change: self.cursor.change,
        };
        let user = Arc::clone(&self.user);
        let meta = matches!(next, Next::Meta);
        async move {
            let (timelines, metrics) = (&registry.timelines, &registry.metrics);
            if meta {
                let target = Target {
                    timeline: topic.name.as_ref().to_owned(),
                    epoch: Some(key.epoch.as_ref().to_owned()),
                    user: user.as_ref().to_owned(),
                };
                return match timelines.get(target).await {
                    Ok(info) => Pull::Meta(info.meta, info.version),
                    Err(error) => Pull::Ended(ended(&error)),
                };
            }
            let cell = topic.page(key.clone());
            let mut own = false;
            let page = cell
                .get_or_try_init(async || {
                    own = true;
                    let since = key.change;
                    let changed = timelines.resume(resume(&topic.name, key)).await?;
                    Ok(Arc::new(Page::new(changed, since)))
                })
                .await;
            let counted = &metrics.feed;
            if own {
                &counted.store_pages
            } else {
                &counted.store_pages_shared
            }
            .increment(1);
            match page {
                Ok(page) => match page.changed.state {
                    ResumeState::Ok => {
                        let messages = page.changed.messages.len();
                        metrics.pages.push.count(messages);
                        Pull::Page(Arc::clone(page))
                    }
                    ResumeState::TooOld => Pull::Ended(Ended::TooOld),
                    ResumeState::EpochChanged => Pull::Ended(Ended::EpochChanged),
                },
                Err(error) => Pull::Ended(ended(&error)),
            }
        }
    }

    /// Moves the cursor behind what [`Subscription::read`] brought for `next`.
    pub fn arrived(&mut self, next: Next, pull: &Pull) {
        match pull {
            Pull::Page(page) => {
                self.cursor.sequence = page.changed.position;
                self.cursor.change = page.changed.change_position;
                self.cursor.more = page.changed.more;
                if let Next::Read { doubt, foreign } = next {
                    self.cursor.doubt = doubt;
                    if foreign.is_some() {
                        self.cursor.foreign = foreign;
                    }
                }
            }
            Pull::Meta(_, version) => self.cursor.meta_version = *version,
            Pull::Ended(_) => {}
        }
    }
}

/// Messages in one page that a lagging subscription reads.
const PAGE_MESSAGES: usize = 1_000;
/// About how many bytes such a page may have: it becomes at most two frames to the client, and JSON can be a third
/// longer than what it encodes.
pub const PAGE_BYTES: usize = 256 << 10;

fn resume(timeline: &str, key: PageKey) -> Resume {
    Resume {
        timeline: timeline.to_owned(),
        user: String::new(),
        after: Some(key.sequence),
        rewind: None,
        epoch: Some(key.epoch.as_ref().to_owned()),
        changes_after: Some(key.change),
        limit: PAGE_MESSAGES,
        bytes_max: PAGE_BYTES,
    }
}

fn ended(error: &Error) -> Ended {
    match error {
        Error::TimelineNotFound => Ended::Deleted,
        Error::EpochChanged { .. } => Ended::EpochChanged,
        _ => Ended::Unavailable,
    }
}
