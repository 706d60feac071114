//! Statements as a gateway runs them.
//!
//! Owns: [`Sql`]: the way of one statement from its text to its answer. Promises: as many statements run at a time as
//! there are processors, on threads that may block; one whose caller has gone ends at its next step, but for a write
//! that has begun. Must not: know a wire.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use tideline_base::bounds::{Holder, Resource};
use tideline_model::Error;
use tideline_search::Searches;
use tideline_table::Tables;

use crate::answer::{Answer, StatementKind};
use crate::context::Run;
use crate::door::Door;
use crate::parse::{Statement, parse};
use crate::plan::plan;
use crate::refusal::Refusal;
use crate::run::{Executor, Own};
use crate::work::{self, Memory, Time};
use crate::{define, write};

/// How long a statement may take.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Of the thread of a statement: trees are as deep as a statement has operators, and are walked by recursion.
const STACK_BYTES: usize = 32 << 20;

/// See the top. Cheap to clone.
#[derive(Clone)]
pub struct Sql {
    tables: Tables,
    searches: Option<Searches>,
    /// Statements that run.
    turns: Arc<Semaphore>,
}

impl Sql {
    /// SQL on these tables and their search indexes; `None` = nobody fills these, so rows are found without them.
    #[must_use]
    pub fn new(tables: Tables, searches: Option<Searches>) -> Sql {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Sql {
            tables,
            searches,
            turns: Arc::new(Semaphore::new(processors)),
        }
    }

    /// The same, for calls that count in this caller's shares.
    #[must_use]
    pub fn of_caller(&self, holder: Option<Holder>) -> Sql {
        Sql {
            tables: self.tables.of_caller(holder),
            searches: self.searches.as_ref().map(|all| all.of_caller(holder)),
            turns: Arc::clone(&self.turns),
        }
    }

    /// Runs one statement. `patience` = how long its caller waits; `None` and more than 30 s mean 30 s.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn run(
        &self,
        door: Arc<dyn Door>,
        statement: &str,
        patience: Option<Duration>,
    ) -> Result<Answer, Refusal> {
        let began = Instant::now();
        let until = began + patience.map_or(TIME_MAX, |patience| patience.min(TIME_MAX));
        let bounds = self.tables.search_source().bounds();
        let holder = self.tables.holder();
        // A statement counts as a search does.
        let present = bounds.of(Resource::Searches).take(holder, 1);
        let _present = present.map_err(|_| Refusal::Busy)?;
        let turn = timeout_at(until.into(), Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Refusal::Busy);
        };
        let waits = Waits(Arc::new(AtomicBool::new(false)));
        let time = Time {
            began,
            until,
            is_gone: Arc::clone(&waits.0),
        };
        let share = bounds.of(Resource::SearchBytes).share(holder);
        let (tables, searches) = (self.tables.clone(), self.searches.clone());
        let handle = Handle::current();
        let text = statement.to_owned();
        let work = move || {
            let now_us = i64::try_from(tables.search_ms()).unwrap_or(0);
            let run = Run {
                tables,
                searches,
                door,
                handle,
                memory: Memory::new(share),
                time,
                now_us: now_us.saturating_mul(1_000),
                scanned: RefCell::default(),
            };
            let _counted = work::begin(&run.memory, &run.time);
            answer(&run, &text)
        };
        let done = spawn_blocking(move || {
            let _turn = turn;
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new()
                    .name("sql".to_owned())
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, work)
                    .map_err(|_| Refusal::Busy)?;
                let done = thread.join();
                done.unwrap_or(Err(Refusal::Table(Error::Internal)))
            })
        });
        done.await.unwrap_or(Err(Refusal::Table(Error::Internal)))
    }
}

/// Says to a statement that its caller has gone.
struct Waits(Arc<AtomicBool>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a statement on a thread that may block.
fn answer(run: &Run, text: &str) -> Result<Answer, Refusal> {
    let mut answer = match parse(text)? {
        Statement::Select(query, texts) => {
            let plan = plan(run, &query, &texts)?;
            let rows = Own.rows(&plan, run)?;
            Answer {
                columns: plan.columns,
                rows,
                ..Answer::done(StatementKind::Select)
            }
        }
        Statement::Insert(insert) => write::insert(run, &insert)?,
        Statement::Update(update) => write::update(run, &update)?,
        Statement::Delete(delete) => write::delete(run, &delete)?,
        Statement::Define(definition) => define::perform(run, definition)?,
    };
    answer.scanned = run.scanned.take();
    Ok(answer)
}
