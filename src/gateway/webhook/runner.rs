//! The task of one webhook: follow, post, move on.
//!
//! Owns: the order of these steps, and when changes are given up. Promises: the place moves only after the receiver has
//! taken the changes or they are a dead letter; one that was set from outside is never passed by a delivery that began
//! before. Must not: know HTTP.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::dead::DeadLetter;
use super::post::message_id;
use super::{Failing, Hook};
use tideline_base::trace::TraceParent;
use tideline_table::{DEAD, FollowError, Followed, PageBounds, Places};
use tideline_timelines::feed::{Begin, ChangeGroup, ChangeReader, Changes};
use tideline_timelines::timeline::What;

/// After a first failure; twice as long after each further one.
const REST_MIN: Duration = Duration::from_millis(250);
/// Of one POST, about.
const BODY_BYTES: usize = 256 << 10;
/// What a cell or key column takes as text beside its own bytes.
const CELL_BYTES: usize = 64;
/// Dead letters that are replayed between two posts.
const REPLAYS_MAX: usize = 16;
/// How many dead letters are looked at to find the oldest that can still be replayed.
const KEPT_MAX: usize = 1_000;
/// Bytes of an error that are kept.
const ERROR_BYTES_MAX: usize = 360;

impl Hook {
    /// Runs until it is dropped.
    pub(super) async fn run(&self) {
        let mut rest = REST_MIN;
        loop {
            match self.follow().await {
                Ok(()) => rest = REST_MIN,
                Err(error) => {
                    let webhook = &self.webhook.name;
                    tracing::warn!(webhook, ?error, "a webhook can't follow; tried again");
                    self.failed(format!("{error:?}"));
                    sleep(rest).await;
                    rest = (rest * 2).min(self.webhook.retry_max);
                }
            }
        }
    }

    /// Follows from the stored place, until that is set from outside.
    async fn follow(&self) -> Result<(), FollowError> {
        let turn = *self.turns.lock().await;
        let mut reader = match self.reader(&Begin::Now, Some(&self.cursor())).await {
            Err(FollowError::PositionLost) => return self.skip_lost().await,
            reader => reader?,
        };
        self.keep_dead().await?;
        loop {
            self.replay_dead().await?;
            let turned = tokio::select! {
                () = reader.news() => false,
                () = self.poke.notified() => true,
            };
            if *self.turns.lock().await != turn {
                return Ok(());
            }
            if turned {
                continue;
            }
            let from = reader.places().clone();
            let group = match reader.read(self.bounds()).await {
                Err(FollowError::PositionLost) => return self.skip_lost().await,
                group => group?,
            };
            let is_empty = group.changes.is_empty();
            if !is_empty && !self.deliver(&from, &group, turn).await? {
                return Ok(());
            }
            if !is_empty || reader.has_moved() {
                reader.told();
                if !self.store(group.places, turn).await? {
                    return Ok(());
                }
            }
        }
    }

    async fn reader(
        &self,
        begin: &Begin,
        cursor: Option<&str>,
    ) -> Result<ChangeReader, FollowError> {
        let of = (&self.tables, &self.timelines);
        ChangeReader::open(of, self.webhook.followed.clone(), begin, cursor).await
    }

    fn bounds(&self) -> PageBounds {
        PageBounds {
            count: self.webhook.changes_max,
            bytes: BODY_BYTES,
            cell_bytes: CELL_BYTES,
        }
    }

    /// Posts until the receiver takes it or it is given up; `false` = the place was set from outside meanwhile.
    async fn deliver(
        &self,
        from: &Places,
        group: &ChangeGroup,
        turn: u64,
    ) -> Result<bool, FollowError> {
        let (began, mut rest) = (Instant::now(), REST_MIN);
        loop {
            let error = match self.post(from, group).await {
                Ok(()) => {
                    self.show_lag(&group.places).await;
                    return Ok(true);
                }
                Err(error) => error,
            };
            self.failed(error.clone());
            self.show_lag(from).await;
            if began.elapsed() >= self.webhook.give_up {
                self.give_up(from, &group.places, group.changes.len() as u64, error)
                    .await?;
                return Ok(true);
            }
            tokio::select! {
                () = sleep(jittered(rest)) => {}
                () = self.poke.notified() => self.replay_dead().await?,
            }
            if *self.turns.lock().await != turn {
                return Ok(false);
            }
            rest = (rest * 2).min(self.webhook.retry_max);
        }
    }

    async fn post(&self, from: &Places, group: &ChangeGroup) -> Result<(), String> {
        let table = match &self.webhook.followed {
            Followed::Table(table) => table.as_str(),
            Followed::Timelines(_) => "",
        };
        let body = (self.encode)(&group.changes, table);
        let (from, to) = (from.to_string(), group.places.to_string());
        let id = message_id(&self.webhook.name, &from, &to);
        let (trace, now_ms) = (trace_of(&group.changes), self.clock.now_ms());
        let posted = self.receiver.post(&id, trace, body, now_ms).await;
        match &posted {
            Ok(()) => {
                let count = group.changes.len() as u64;
                self.figures.delivered.increment(count);
                self.figures.failing.set(0.0);
                self.set_failing(None);
            }
            Err(_) => self.figures.failed.increment(1),
        }
        posted
    }

    /// Notes a failure; the first of several is logged.
    fn failed(&self, error: String) {
        let now_ms = self.clock.now_ms();
        let (since, attempts) = match self.failing() {
            Some(before) => (before.since, before.attempts),
            None => {
                let webhook = &self.webhook.name;
                tracing::warn!(webhook, error, "a webhook's receiver fails; tried again");
                (now_ms, 0)
            }
        };
        self.figures.failing.set(1.0);
        self.set_failing(Some(Failing {
            since,
            attempts: attempts + 1,
            error: cut(error),
        }));
    }

    async fn give_up(
        &self,
        from: &Places,
        to: &Places,
        changes: u64,
        error: String,
    ) -> Result<(), FollowError> {
        let webhook = &self.webhook.name;
        tracing::warn!(webhook, %from, %to, error, "changes became a dead letter");
        let letter = DeadLetter {
            from: from.to_string(),
            to: to.to_string(),
            changes,
            error: cut(error),
            failed_at: self.clock.now_ms(),
            ..DeadLetter::default()
        };
        self.dead.add(letter).await?;
        self.keep_dead().await
    }

    /// Stores the place; `false` = it was set from outside meanwhile.
    async fn store(&self, places: Places, turn: u64) -> Result<bool, FollowError> {
        let turns = self.turns.lock().await;
        if *turns != turn {
            return Ok(false);
        }
        self.tables
            .commit_cursor(&self.cursor(), places, false)
            .await?;
        Ok(true)
    }

    /// The log has let go of what comes next: that is a dead letter which can't be replayed, and it goes on from now.
    async fn skip_lost(&self) -> Result<(), FollowError> {
        let turns = self.turns.lock().await;
        let now = self.tables.places(&self.webhook.followed, true).await?;
        let (cursor, followed) = (self.cursor(), &self.webhook.followed);
        let lost = self.tables.open_cursor(&cursor, followed, now.clone());
        let (lost, error) = (lost.await?, "the log has let go of it".to_owned());
        self.give_up(&lost, &now, 0, error).await?;
        self.tables.commit_cursor(&cursor, now, true).await?;
        drop(turns);
        Ok(())
    }

    /// Posts the dead letters that are to be replayed, once. Where there may be more, it is woken again.
    async fn replay_dead(&self) -> Result<(), FollowError> {
        let letters = self.dead.list(0, true, REPLAYS_MAX).await?;
        if letters.len() == REPLAYS_MAX {
            self.poke.notify_one();
        }
        for letter in letters {
            let number = letter.number;
            let error = match self.post_again(&letter).await {
                Ok(()) => None,
                Err(error) => Some(cut(error)),
            };
            let now_ms = self.clock.now_ms();
            let changed = self.dead.change(number, move |letter| {
                error.map(|error| DeadLetter {
                    replaying: false,
                    error,
                    failed_at: now_ms,
                    ..letter
                })
            });
            changed.await?;
            self.keep_dead().await?;
        }
        Ok(())
    }

    async fn post_again(&self, letter: &DeadLetter) -> Result<(), String> {
        let told = |error: FollowError| match error {
            FollowError::PositionLost => "the log has let go of it".to_owned(),
            error => format!("{error:?}"),
        };
        let from = Places::parse(&letter.from).ok_or("no position")?;
        let begin = Begin::At(from);
        let reader = self.reader(&begin, None).await.map_err(told)?;
        let end = Places::parse(&letter.to).ok_or("no position")?;
        let mut reader = reader.up_to(end);
        while !reader.is_done() {
            let from = reader.places().clone();
            let group = reader.read(self.bounds()).await.map_err(told)?;
            if !group.changes.is_empty() {
                self.post(&from, &group).await?;
            }
        }
        Ok(())
    }

    /// Shows how many dead letters there are, and has the log kept from the oldest one that can still be replayed. A
    /// named cursor does that, within the bounds of named cursors.
    async fn keep_dead(&self) -> Result<(), FollowError> {
        let count = self.dead.count().await?;
        self.figures.dead.count(count);
        let cursor = format!("{}{DEAD}", self.cursor());
        let letters = self.dead.list(0, false, KEPT_MAX).await?;
        let mut begins = letters
            .iter()
            .filter_map(|letter| Places::parse(&letter.from));
        let kept = begins.find(|places| self.tables.check_places(places).is_ok());
        let Some(begin) = kept else {
            self.tables.forget_cursor(&cursor).await?;
            return Ok(());
        };
        let followed = &self.webhook.followed;
        let opened = self.tables.open_cursor(&cursor, followed, begin.clone());
        if opened.await? != begin {
            self.tables.commit_cursor(&cursor, begin, true).await?;
        }
        Ok(())
    }

    async fn show_lag(&self, places: &Places) {
        if let Ok((_, since)) = self.tables.lag(&self.webhook.followed, places).await {
            let now_ms = self.clock.now_ms();
            let lag_ms = since.map_or(0, |since| now_ms.saturating_sub(since));
            self.figures.lag_seconds.set(lag_ms as f64 / 1e3);
        }
    }
}

/// The trace of the first new message that is a part of one.
fn trace_of(changes: &Changes) -> Option<TraceParent> {
    let Changes::Timelines(changes) = changes else {
        return None;
    };
    changes.iter().find_map(|change| match &change.what {
        What::Appended(message, _) => message.traceparent.as_deref().copied(),
        _ => None,
    })
}

/// Between half of it and all.
fn jittered(rest: Duration) -> Duration {
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    rest.mul_f64(0.5 + (random % 1_000) as f64 / 2_000.0)
}

fn cut(mut error: String) -> String {
    error.truncate(error.floor_char_boundary(ERROR_BYTES_MAX));
    error
}
