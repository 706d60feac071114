//! Making a timeline, with its meta, settings and members in one batch.
//!
//! Owns: `timeline.create`, and what a subscribe to an unknown timeline makes. Promises: a timeline that exists stays
//! as it is; nobody learns that there is one that they may not read. Must not: number messages.

use crate::table::Txn;

use super::head::HeadRow;
use super::members::settings_row::SettingsRow;
use super::members::{Create, change, configure};
use super::tables::Name;
use super::write::{Site, new_head, put_head, put_new_meta, sort};
use super::{Error, TimelineInfo};

impl Site {
    pub(super) fn create(
        &self,
        txn: &mut Txn<'_>,
        create: Create,
    ) -> Result<(TimelineInfo, bool), Error> {
        let Create {
            target,
            mut meta,
            settings,
            members,
            implicit,
        } = create;
        let epoch = target.epoch.as_deref();
        let name = Name::new(&target.timeline);
        let found = HeadRow::load(txn, &name)?;
        let existing = found.filter(|head| !head.dropped);
        let may_begin = existing.is_none() && !implicit;
        if !may_begin && self.is_shut_out(txn, &name, existing.as_ref(), &target.user)? {
            return Err(self.as_unknown(&name, true, epoch));
        }
        self.check_epoch_or_create(&name, &existing, true, epoch)?;
        if let Some(head) = existing {
            let seen = self.reader(txn, &name, &head, &target.user)?.sees(head);
            return Ok((self.info(txn, target.timeline, &seen)?, false));
        }
        let mut head = new_head(txn, found);
        sort(&mut meta);
        put_new_meta(txn, &name, meta);
        configure::set(txn, &name, &mut head, SettingsRow::default(), settings);
        change::add(txn, &name, &mut head, members, None)?;
        self.turn(txn, &name, &mut head)?;
        put_head(txn, &name, &head);
        Ok((self.info(txn, target.timeline, &head)?, true))
    }
}
