//! A subscription: a cursor into one timeline, and the way from it to what comes next.
//!
//! Owns: the cursor and its moves. Promises: every sequence above the start once and in order, every change of what lies
//! behind the cursor; ends are final. Must not: hold payloads: a page or a group belongs to whoever sends it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Options;
use super::fresh::{ENCODINGS, Fresh};
use super::registry::Watch;
use super::topic::PageKey;
use crate::metrics;
use crate::timeline::{Changed, Error, Meta, Resume, ResumeState, Timelines};

/// Where a reader stands.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Of the timeline.
    pub epoch: Arc<str>,
    /// Everything up to this was delivered.
    pub sequence: u64,
    /// Every change up to this was delivered.
    pub change: u64,
    /// The newest meta that was told.
    pub(super) meta_version: u64,
    /// The topic's doubt that was settled with the store.
    pub(super) doubt: u64,
    /// Another epoch that the log told of and the store did not confirm.
    pub(super) foreign: Option<Arc<str>>,
    /// The last page ended early: there is more in the store, whatever the log has told.
    pub(super) more: bool,
}

impl Cursor {
    /// A cursor that stands nowhere yet. Take it after the watch and before the store is read.
    #[must_use]
    pub fn begin(watch: &Watch) -> Cursor {
        let (doubt, meta_version) = watch.topic.seen();
        Cursor {
            epoch: Arc::from(""),
            sequence: 0,
            change: 0,
            // The making of a timeline is version 1 and is no news to who subscribes.
            meta_version: meta_version.max(1),
            doubt,
            foreign: None,
            more: false,
        }
    }

    #[cfg(test)]
    pub(super) fn at(epoch: &str, sequence: u64, change: u64) -> Cursor {
        Cursor {
            epoch: Arc::from(epoch),
            sequence,
            change,
            meta_version: 1,
            doubt: 0,
            foreign: None,
            more: false,
        }
    }

    /// The cursor behind what a `resume` has returned.
    #[must_use]
    pub fn resumed(mut self, changed: &Changed) -> Cursor {
        self.epoch = Arc::from(changed.head.epoch.as_str());
        self.sequence = changed.position;
        self.change = match changed.changed {
            Some(_) => changed.change_position,
            // Nobody asked for changes before now; those from now on are told.
            None => changed.head.change_head,
        };
        self.more = changed.more;
        self
    }
}

/// What comes next for a cursor.
#[derive(Debug)]
pub enum Next {
    /// Nothing: wait for the mailbox.
    CaughtUp,
    /// Fresh messages, from the cursor on.
    Fresh(Arc<Fresh>),
    /// The store has to be asked.
    Read {
        /// The doubt that this read settles.
        doubt: u64,
        /// The epoch that this read checks.
        foreign: Option<Arc<str>>,
    },
    /// The meta has changed.
    Meta,
}

/// A page that was read from the store, shared by all who stand at the same place.
#[derive(Debug)]
pub struct Page {
    /// What the store returned.
    pub changed: Changed,
    frames: [OnceLock<Arc<[Bytes]>>; ENCODINGS],
}

impl Page {
    /// The push frames in an encoding, made by `encode` if nobody has asked before.
    pub fn frames(
        &self,
        encoding: usize,
        encode: impl FnOnce(&Changed) -> Vec<Bytes>,
    ) -> Arc<[Bytes]> {
        Arc::clone(self.frames[encoding].get_or_init(|| encode(&self.changed).into()))
    }
}

/// Why a subscription is over.
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
    /// It is over.
    Ended(Ended),
}

/// One client's subscription on one timeline.
pub struct Subscription {
    watch: Watch,
    cursor: Cursor,
    timelines: Timelines,
    options: Arc<Options>,
}

impl Subscription {
    pub(super) fn new(
        watch: Watch,
        cursor: Cursor,
        timelines: Timelines,
        options: Arc<Options>,
    ) -> Subscription {
        Subscription {
            watch,
            cursor,
            timelines,
            options,
        }
    }

    /// The timeline's ID.
    #[must_use]
    pub fn timeline(&self) -> &Arc<str> {
        self.watch.timeline()
    }

    /// Where it stands.
    #[must_use]
    pub fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// What comes next; a look at memory only. Fresh messages must be sent, and [`Subscription::sent`] told.
    #[must_use]
    pub fn look(&self) -> Next {
        self.watch.topic.next(&self.cursor)
    }

    /// Fresh messages are on their way.
    pub fn sent(&mut self, fresh: &Fresh) {
        self.cursor.sequence = fresh.last();
    }

    /// Asks the store for what `next` said; the answer goes into [`Subscription::arrived`]. One at a time.
    pub fn read(&self, next: &Next) -> impl Future<Output = Pull> + Send + 'static {
        let topic = Arc::clone(&self.watch.topic);
        let timelines = self.timelines.clone();
        let options = Arc::clone(&self.options);
        let key = PageKey {
            epoch: Arc::clone(&self.cursor.epoch),
            sequence: self.cursor.sequence,
            change: self.cursor.change,
        };
        let meta = matches!(next, Next::Meta);
        async move {
            if meta {
                let epoch = Some(key.epoch.as_ref().to_owned());
                return match timelines.get(&topic.name, epoch).await {
                    Ok(info) => Pull::Meta(info.meta, info.version),
                    Err(error) => Pull::Ended(ended(&error)),
                };
            }
            let cell = topic.page(key.clone());
            let mut own = false;
            let page = cell
                .get_or_try_init(async || {
                    own = true;
                    let changed = timelines.resume(resume(&topic.name, key, &options)).await?;
                    Ok(Arc::new(Page {
                        changed,
                        frames: Default::default(),
                    }))
                })
                .await;
            let counted = metrics::feed();
            if own {
                &counted.store_pages
            } else {
                &counted.store_pages_shared
            }
            .increment(1);
            match page {
                Ok(page) => match page.changed.state {
                    ResumeState::Ok => Pull::Page(Arc::clone(page)),
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

fn resume(timeline: &str, key: PageKey, options: &Options) -> Resume {
    Resume {
        timeline: timeline.to_owned(),
        after: Some(key.sequence),
        rewind: None,
        epoch: Some(key.epoch.as_ref().to_owned()),
        changes_after: Some(key.change),
        limit: options.page_messages_max,
        bytes_max: options.page_bytes_max,
    }
}

fn ended(error: &Error) -> Ended {
    match error {
        Error::TimelineNotFound => Ended::Deleted,
        Error::EpochChanged { .. } => Ended::EpochChanged,
        _ => Ended::Unavailable,
    }
}
