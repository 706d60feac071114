//! Pages of a range, one after the other: what each must hold, and whether it does.
//!
//! Owns: the check that pages join up. Promises: a row missing, shown twice, out of order or older than what was
//! acknowledged before the page was asked for is found, also between two pages. Must not: send anything.

use tideline::wire::tablestore::plainbuffer::{Row, decode_row, decode_rows};
use tideline::wire::tablestore::proto;

use super::sheet::Sheet;
use super::wire::{Trouble, decoded};

/// A range that is read page by page.
pub(super) struct Walk {
    pub(super) forward: bool,
    /// The key that the server gave, or the first.
    pub(super) start: Row,
    /// The row of that key.
    at: u64,
    pages: u32,
}

impl Walk {
    pub(super) fn new(sheet: &Sheet, at: u64, forward: bool, pages: u32) -> Walk {
        Walk {
            forward,
            start: sheet.key(at),
            at,
            pages,
        }
    }

    /// The walk from the page's next key, which is that of row `next`, if it goes on.
    pub(super) fn after(self, page: Page, next: Option<u64>) -> Option<Walk> {
        let (at, start) = next.zip(page.next)?;
        let pages = self.pages - 1;
        (pages > 0).then_some(Walk {
            at,
            start,
            pages,
            ..self
        })
    }
}

/// What each row that a page may hold must be at least, taken before the page is asked for.
pub(super) struct Oldest {
    first: u64,
    generations: Vec<u32>,
}

impl Oldest {
    pub(super) fn now(sheet: &Sheet, walk: &Walk, limit: usize) -> Oldest {
        let limit = limit as u64;
        let first = match walk.forward {
            true => walk.at,
            false => walk.at.saturating_sub(limit),
        };
        let end = sheet.size.rows.min(first + limit + 1);
        let acked = |row| sheet.ledger.acked(row as usize);
        Oldest {
            first,
            generations: (first..end).map(acked).collect(),
        }
    }

    /// Rows beyond come only where others have expired.
    fn of(&self, row: u64) -> u32 {
        let at = row.checked_sub(self.first);
        let known = at.and_then(|at| self.generations.get(at as usize));
        known.copied().unwrap_or(0)
    }
}

/// A page that came.
pub(super) struct Page {
    pub(super) rows: Vec<Row>,
    next: Option<Row>,
    pub(super) consumed: proto::ConsumedCapacity,
}

impl Page {
    pub(super) fn read(answer: proto::GetRangeResponse) -> Result<Page, Trouble> {
        let next = answer.next_start_primary_key.as_ref().map(decode_row);
        Ok(Page {
            rows: decoded(decode_rows(&answer.rows))?,
            next: next.map(decoded).transpose()?,
            consumed: answer.consumed,
        })
    }

    /// No row missing, twice or out of order, each as it must be. Gives the row that the next page begins with.
    pub(super) fn check(
        &self,
        sheet: &Sheet,
        walk: &Walk,
        oldest: &Oldest,
        limit: usize,
    ) -> Result<Option<u64>, String> {
        if self.rows.len() > limit {
            return Err(format!("{} rows, of at most {limit}", self.rows.len()));
        }
        let last = sheet.size.rows - 1;
        let mut expected = Some(walk.at);
        let step = |row: u64| match walk.forward {
            true => (row < last).then(|| row + 1),
            false => row.checked_sub(1),
        };
        // Steps over what has expired, up to the row.
        let mut reach = |row: Option<u64>| {
            while expected != row {
                let skipped = expected.ok_or("a row behind the end, or out of order")?;
                if !sheet.may_be_gone(skipped) {
                    return Err(format!("{} row {skipped} is missing", sheet.name));
                }
                expected = step(skipped);
            }
            expected = row.and_then(step);
            Ok(())
        };
        for came in &self.rows {
            let row = sheet.number(&came.primary_key);
            let row = row.ok_or_else(|| format!("nobody's key: {:?}", came.primary_key))?;
            reach(Some(row))?;
            sheet.check(came, row, 0..sheet.size.columns, |_| oldest.of(row))?;
        }
        let Some(next) = &self.next else {
            return reach(None).map(|()| None);
        };
        let row = sheet.number(&next.primary_key);
        let row = row.filter(|_| next.attributes.is_empty());
        let row = row.ok_or_else(|| format!("nobody's next key: {next:?}"))?;
        reach(Some(row))?;
        Ok(Some(row))
    }
}
