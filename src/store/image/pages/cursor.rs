//! A place in a tree of checked pages: found by a key, moved both ways.
//!
//! Owns: looking up and walking. Promises: "it is not there" rests on more than the page where it would be: a caller
//! that asks for what lies behind a leaf's last key has met the next leaf, and the rows beside the place have passed
//! their checksums. Must not: outlive the transaction that shows the tree.

use std::sync::Arc;

use bytes::Bytes;

use super::super::Error;
use super::page::Page;
use super::tree::{Link, Step, Tree};

/// A place between or at entries of a tree.
pub(in super::super) struct TreeCursor {
    tree: Arc<Tree>,
    /// From the root to a leaf; the leaf's place is its count at the very end. Empty = an empty tree.
    path: Vec<Step>,
}

impl TreeCursor {
    /// At the first entry that is not below `key`, or at the end.
    pub(in super::super) fn seek(tree: &Arc<Tree>, key: &[u8]) -> Result<TreeCursor, Error> {
        let mut cursor = TreeCursor::new(tree);
        cursor.descend(tree.root(), true, &|page| page.find(key))?;
        if cursor.key() == Some(key) {
            return Ok(cursor);
        }
        // It is not there only if its neighbours are whole: else one of them may be it, with a wrong key; no other row
        // can be, because keys rise. Perhaps the next leaf's separator is wrong: only the leaf itself shows it.
        if let Some(leaf) = cursor.path.last()
            && leaf.at > 0
        {
            tree.value(&leaf.page, leaf.at - 1)?;
        }
        cursor.settle()?;
        cursor.value()?;
        Ok(cursor)
    }

    /// At the first entry.
    pub(in super::super) fn first(tree: &Arc<Tree>) -> Result<TreeCursor, Error> {
        let mut cursor = TreeCursor::new(tree);
        cursor.descend(tree.root(), true, &|_| 0)?;
        Ok(cursor)
    }

    /// Behind the last entry.
    pub(in super::super) fn end(tree: &Arc<Tree>) -> Result<TreeCursor, Error> {
        let mut cursor = TreeCursor::new(tree);
        cursor.descend(tree.root(), true, &|page| {
            page.count() - usize::from(!page.is_last())
        })?;
        Ok(cursor)
    }

    fn new(tree: &Arc<Tree>) -> TreeCursor {
        TreeCursor {
            tree: Arc::clone(tree),
            path: Vec::with_capacity(usize::from(tree.height())),
        }
    }

    /// Goes down to a leaf; `choose` picks the place in each page.
    fn descend(
        &mut self,
        from: Option<Link>,
        keep: bool,
        choose: &dyn Fn(&Page) -> usize,
    ) -> Result<(), Error> {
        let mut next = from;
        while let Some(link) = next.take() {
            let is_branch = link.height > self.tree.leaf_height();
            let page = self.tree.load(&link, keep || is_branch)?;
            let at = choose(&page);
            let step = Step {
                page,
                at,
                upper: link.upper,
            };
            if !step.page.is_last() {
                next = Some(self.tree.child(&step, link.lower.as_ref(), link.height));
            }
            self.path.push(step);
        }
        Ok(())
    }

    /// From behind a leaf's last entry to the next leaf's first, if there is one.
    fn settle(&mut self) -> Result<(), Error> {
        let is_behind = self
            .path
            .last()
            .is_some_and(|leaf| leaf.at >= leaf.page.count());
        let leads_on = |step: &Step| step.at + 1 < step.page.count() && !step.page.is_last();
        if !is_behind || !self.path.iter().any(leads_on) {
            return Ok(());
        }
        self.turn(1, &|_| 0)
    }

    /// To the neighbouring leaf, which is there.
    fn turn(&mut self, by: isize, choose: &dyn Fn(&Page) -> usize) -> Result<(), Error> {
        let place = self.path.iter().rposition(|step| {
            let to = step.at.checked_add_signed(by);
            !step.page.is_last() && to.is_some_and(|to| to < step.page.count())
        });
        let Some(place) = place else {
            return Ok(());
        };
        self.path.truncate(place + 1);
        // A branch that is not the first of its level has its own separator from further up.
        let height = self.tree.height() - u16::try_from(place).unwrap_or_default();
        let step = &mut self.path[place];
        step.at = step.at.saturating_add_signed(by);
        let lower = match step.at {
            0 => self.lower(place),
            _ => None,
        };
        let link = self.tree.child(&self.path[place], lower.as_ref(), height);
        self.descend(Some(link), false, choose)
    }

    /// The key that the page on this level begins with.
    fn lower(&self, place: usize) -> Option<Bytes> {
        for step in self.path[..place].iter().rev() {
            if step.at > 0 {
                return Some(step.page.shared_key(step.at));
            }
        }
        self.tree.ends.as_ref().map(|(first, _)| first.clone())
    }

    fn leaf(&self) -> Option<&Step> {
        self.path.last().filter(|leaf| leaf.at < leaf.page.count())
    }

    /// The entry's key; `None` = at the end.
    pub(in super::super) fn key(&self) -> Option<&[u8]> {
        self.leaf().map(|leaf| leaf.page.key(leaf.at))
    }

    /// The entry's key, keeping its page in memory.
    pub(in super::super) fn shared_key(&self) -> Bytes {
        let key = self.leaf().map(|leaf| leaf.page.shared_key(leaf.at));
        key.unwrap_or_default()
    }

    /// The entry's value.
    pub(in super::super) fn value(&self) -> Result<Bytes, Error> {
        match self.leaf() {
            Some(leaf) => self.tree.value(&leaf.page, leaf.at),
            None => Ok(Bytes::new()),
        }
    }

    /// To the next entry, or the end.
    pub(in super::super) fn next(&mut self) -> Result<(), Error> {
        if let Some(leaf) = self.path.last_mut() {
            leaf.at = (leaf.at + 1).min(leaf.page.count());
        }
        self.settle()
    }

    /// To the entry before; `false` = there is none.
    pub(in super::super) fn previous(&mut self) -> Result<bool, Error> {
        let Some(leaf) = self.path.last_mut() else {
            return Ok(false);
        };
        if leaf.at > 0 {
            leaf.at -= 1;
            return Ok(true);
        }
        let is_first = self.path.iter().all(|step| step.at == 0);
        if !is_first {
            self.turn(-1, &|page| page.count() - 1)?;
        }
        Ok(!is_first)
    }
}

/// The value under exactly this key.
pub(in super::super) fn get(tree: &Arc<Tree>, key: &[u8]) -> Result<Option<Bytes>, Error> {
    let cursor = TreeCursor::seek(tree, key)?;
    match cursor.key() {
        Some(found) if found == key => Ok(Some(cursor.value()?)),
        _ => Ok(None),
    }
}
