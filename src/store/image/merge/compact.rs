//! Compaction: one slice at a time of the most urgent work.
//!
//! Owns: the life of a job: started in the catalog, carried on slice by slice (each one transaction with the job's last
//! key), taken up again after a restart, ended by putting the output in the inputs' place. Promises: at any moment the
//! catalog shows the same rows: up to the last key from the output, above it from the inputs. Must not: choose what to
//! merge (`plan.rs`) or what to drop (`sieve.rs`). Called by the partition's one background thread, before and between
//! flushes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use heed::RwTxn;

use super::super::catalog::{Catalog, Job, Part, Run};
use super::super::rows::part::PartWriter;
use super::super::{Error, Image, Inner, Reclaimed, WritingState};
use super::Merge;
use super::plan;
use super::plan::{Plan, Room};
use super::sieve::Sieve;

/// What one call of [`Image::compact`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// There is more to do: call again soon.
    pub more: bool,
    /// Rows read from inputs.
    pub rows_read: u64,
    /// Rows written.
    pub rows_written: u64,
    /// Bytes written, about.
    pub bytes_written: u64,
    /// Rows that were looked at, with no merge to do.
    pub rows_surveyed: u64,
    /// What row rules have given up.
    pub reclaimed: Reclaimed,
    /// Damage that was met: what it concerns stays as it is until the next start, other work goes on.
    pub damaged: Option<String>,
}

impl Compacted {
    fn met(damaged: String) -> Compacted {
        Compacted {
            more: true,
            damaged: Some(damaged),
            ..Compacted::default()
        }
    }
}

impl Image {
    /// Does one slice of the most urgent work: clearing what is no longer needed, a running or a new merge, or, with
    /// nothing of that to do, looking at some rows for what could be dropped. `now_ms` is the partition's clock; `read`
    /// gives the newest visible value of another row, as [`super::super::DropContext`] says.
    pub(crate) fn compact(
        &self,
        now_ms: u64,
        read: &dyn Fn(&[u8]) -> Option<Bytes>,
    ) -> Result<Compacted, Error> {
        let done = self.compact_step(now_ms, read);
        if matches!(&done, Ok(done) if done.damaged.is_some()) {
            self.inner.damage.fetch_add(1, Ordering::Relaxed);
        }
        done.map_err(|error| error.with_room(|| self.inner.store.left()))
    }

    fn compact_step(
        &self,
        now_ms: u64,
        read: &dyn Fn(&[u8]) -> Option<Bytes>,
    ) -> Result<Compacted, Error> {
        let inner = &*self.inner;
        let mut state = inner.lock()?;
        if inner.rests() {
            return Ok(Compacted::default());
        }
        if inner.clear_one(&mut state.slots)? {
            return Ok(Compacted {
                more: true,
                ..Compacted::default()
            });
        }
        let catalog = inner.catalog();
        let running = sound_jobs(&catalog, &state).map(|job| job.level).min();
        let plan = inner.plan(&catalog, &state, now_ms);
        let level = match plan {
            Some(plan) if running.is_none_or(|level| plan.level < level) => {
                inner.start(&mut state, &plan)?;
                plan.level
            }
            _ => match running {
                Some(level) => level,
                None => {
                    let step = match inner.survey_step(&mut state, now_ms, read) {
                        Err(Error::Damaged(place)) => {
                            state.leave_surveyed(now_ms);
                            return Ok(Compacted::met(place));
                        }
                        step => step?,
                    };
                    // A run that was just found to be mostly dead makes a plan.
                    let found = inner.plan(&catalog, &state, now_ms);
                    return Ok(Compacted {
                        more: step.ended && found.is_some(),
                        rows_surveyed: step.rows,
                        ..Compacted::default()
                    });
                }
            },
        };
        let done = inner.job_slice(&mut state, level, now_ms, read);
        if done.is_err() {
            inner.forget_growing(&mut state);
        }
        if let Err(Error::Damaged(place)) = done {
            let catalog = inner.catalog();
            let inputs = sound_jobs(&catalog, &state).find(|job| job.level == level);
            let inputs = inputs.map(|job| job.inputs.clone()).unwrap_or_default();
            state.damaged.extend(inputs);
            return Ok(Compacted::met(place));
        }
        done
    }
}

/// The jobs that go on.
fn sound_jobs<'c>(catalog: &'c Catalog, state: &WritingState) -> impl Iterator<Item = &'c Job> {
    let is_sound = |job: &&Job| !job.inputs.iter().any(|run| state.damaged.contains(run));
    catalog.jobs.iter().filter(is_sound)
}

/// How far a slice got: the last key dealt with, and whether that was the last of all.
type Passed = (Option<Bytes>, bool);

/// The output of one slice.
struct Output {
    writer: PartWriter,
    /// Whether the writer's part is in the catalog already.
    entered: bool,
    done: Compacted,
}

impl Inner {
    fn room(&self, catalog: &Catalog) -> Room {
        let bytes_used = catalog.parts().map(|part| part.page_bytes).sum();
        let free = self.store.file_bytes().saturating_sub(bytes_used);
        Room {
            free_slots: self.slots_left.get(),
            bytes_used,
            map_bytes: self.store.map_bytes(),
            disk_bytes: self.store.left().map(|left| left.saturating_add(free)),
        }
    }

    fn plan(&self, catalog: &Catalog, state: &WritingState, now_ms: u64) -> Option<Plan> {
        let dead = self.dead(catalog, state, now_ms);
        let room = self.room(catalog);
        plan::next(catalog, &dead, &state.damaged, &self.options, room)
    }

    /// Enters a new job into the catalog.
    fn start(&self, state: &mut WritingState, plan: &Plan) -> Result<(), Error> {
        let mut catalog = Catalog::clone(&self.catalog());
        let inputs: Vec<&Arc<Run>> = catalog
            .runs
            .iter()
            .filter(|run| plan.inputs.contains(&run.number))
            .collect();
        let (Some(newest), Some(oldest)) = (inputs.first(), inputs.last()) else {
            return Ok(());
        };
        let job = Job {
            level: plan.level,
            inputs: plan.inputs.clone(),
            output: Run {
                number: catalog.next_run,
                level: plan.output_level,
                from: oldest.from,
                to: newest.to,
                parts: Vec::new(),
            },
            growing: false,
            passed: None,
        };
        catalog.next_run += 1;
        catalog.jobs.push(job);
        self.commit(state, self.store.write()?, catalog)
    }

    /// One slice of the job of a level.
    fn job_slice(
        &self,
        state: &mut WritingState,
        level: u8,
        now_ms: u64,
        read: &dyn Fn(&[u8]) -> Option<Bytes>,
    ) -> Result<Compacted, Error> {
        let catalog = self.catalog();
        let job = sound_jobs(&catalog, state).find(|job| job.level == level);
        let place = |job: &Job| {
            catalog
                .jobs
                .iter()
                .position(|other| std::ptr::eq(other, job))
        };
        let Some(at) = job.and_then(place) else {
            return Ok(Compacted::default());
        };
        let job = &catalog.jobs[at];
        let oldest = job.inputs.last().copied().unwrap_or_default();
        let mut output = self.take_up(state, job)?;
        let txn = self.store.read()?;
        let mut merge = Merge::new(&catalog, job, (&self.store, &txn), &*self.rules)?;
        let sieve = Sieve::new(&catalog, oldest, &*self.rules, now_ms, read);
        let mut wtxn = self.store.write()?;
        let (passed, ended) = self.write_slice(&mut output, &mut merge, &sieve, &mut wtxn)?;
        let mut next = Catalog::clone(&catalog);
        let next_job = &mut next.jobs[at];
        if let Some(passed) = passed {
            // A copy: a slice would keep its page in memory.
            next_job.passed = Some(Bytes::copy_from_slice(&passed));
        }
        let sealed = ended || output.writer.bytes >= self.options.part_bytes_max;
        self.enter_output(next_job, &mut output, sealed, &mut wtxn)?;
        match ended {
            true => replace_inputs(&mut next, at),
            false => drop_passed_parts(&mut next, at),
        }
        self.commit(state, wtxn, next)?;
        let Output { writer, done, .. } = output;
        let slots = [writer.slot, writer.side];
        if sealed || !writer.is_empty() {
            state.unentered.retain(|taken| *taken != slots);
        }
        match sealed {
            true if writer.is_empty() => state.slots.give_back(slots),
            true => {}
            false => drop(state.growing.insert(job.output.number, writer)),
        }
        Ok(done)
    }

    /// The part that the job was writing, or a new one.
    fn take_up(&self, state: &mut WritingState, job: &Job) -> Result<Output, Error> {
        let run = job.output.number;
        let is_open = |part: &&Arc<Part>| job.growing && part.blocks > 0;
        // One that an earlier version began stays as it is, without a filter; a new one comes behind it.
        let entered = job.output.parts.last().filter(is_open);
        let writer = match (state.growing.remove(&run), entered) {
            (Some(writer), _) => writer,
            (None, Some(part)) => PartWriter::resume(&self.store, run, part, &*self.rules)?,
            (None, None) => {
                let [rows, side] = self.take_slots(&mut state.slots)?;
                state.unentered.push([rows.0, side.0]);
                let after = job.passed.as_deref().unwrap_or_default();
                PartWriter::new(run, rows, side, after)
            }
        };
        Ok(Output {
            writer,
            entered: entered.is_some(),
            done: Compacted {
                more: true,
                ..Compacted::default()
            },
        })
    }

    /// Merges until the slice is full.
    fn write_slice(
        &self,
        output: &mut Output,
        merge: &mut Merge<'_>,
        sieve: &Sieve<'_>,
        wtxn: &mut RwTxn<'_>,
    ) -> Result<Passed, Error> {
        let options = &self.options;
        let Output { writer, done, .. } = output;
        let start = writer.bytes;
        let mut passed = None;
        while done.bytes_written < options.slice_bytes
            && done.rows_read < options.slice_rows
            && writer.bytes < options.part_bytes_max
        {
            let Some(merged) = merge.next()? else {
                return Ok((passed, true));
            };
            done.rows_read += merged.inputs;
            let settled = sieve.settle(&merged.key, merged.entry, &mut done.reclaimed);
            if let Some(entry) = settled {
                let wide = options.wide_row_bytes;
                writer.put(wtxn, &*self.rules, wide, &merged.key, &entry)?;
                done.rows_written += 1;
                done.bytes_written = writer.bytes - start;
            }
            passed = Some(merged.key);
        }
        Ok((passed, false))
    }

    /// Enters the part as it is now into the job's output.
    fn enter_output(
        &self,
        job: &mut Job,
        output: &mut Output,
        seal: bool,
        wtxn: &mut RwTxn<'_>,
    ) -> Result<(), Error> {
        if output.entered {
            job.output.parts.pop();
        }
        let empty = output.writer.is_empty();
        if !empty {
            let part: Part = match seal {
                true => output.writer.seal(wtxn)?,
                false => output.writer.part(wtxn, 0)?,
            };
            job.output.parts.push(Arc::new(part));
        }
        job.growing = !seal && !empty;
        Ok(())
    }

    /// After a failed slice: parts that grow are taken up from the catalog again; slots that it does not name are given
    /// back.
    fn forget_growing(&self, state: &mut WritingState) {
        let catalog = self.catalog();
        state.growing.clear();
        for slots in state.unentered.drain(..) {
            if !catalog.parts().any(|part| part.slot == slots[0]) {
                state.slots.give_back(slots);
            }
        }
    }
}

/// Ends a job: its output takes the place of its inputs.
fn replace_inputs(catalog: &mut Catalog, at: usize) {
    let job = catalog.jobs.remove(at);
    let place = catalog
        .runs
        .iter()
        .position(|run| job.inputs.contains(&run.number))
        .unwrap_or_default();
    catalog.runs.retain(|run| !job.inputs.contains(&run.number));
    catalog.runs.insert(place, Arc::new(job.output));
}

/// Takes out of the inputs the parts that the job has passed.
fn drop_passed_parts(catalog: &mut Catalog, at: usize) {
    let job = &catalog.jobs[at];
    let Some(passed) = &job.passed else {
        return;
    };
    for run in &mut catalog.runs {
        let is_passed = |part: &Arc<Part>| part.last <= *passed;
        if job.inputs.contains(&run.number) && run.parts.iter().any(is_passed) {
            Arc::make_mut(run).parts.retain(|part| !is_passed(part));
        }
    }
}
