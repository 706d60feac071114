//! Deltas: what a subscription that takes them is sent.
//!
//! Owns: whether the feed knows what such a subscription was sent last. Promises: a delta goes out only to a client
//! that has just what the delta is made from; all of them share its bytes; whatever comes first, or from the store,
//! goes out whole. Must not: hold a payload: the feed has the group before.

use std::sync::Arc;

use bytes::Bytes;

use crate::encode_push;
use crate::form::Form;
use tideline_timelines::feed::{Fresh, Page, PageFrame};

/// Whether a subscription takes deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Deltas {
    #[default]
    No,
    /// What it has is not what the feed has.
    Unknown,
    /// The newest message before its cursor came to it fresh from the feed.
    Known,
}

impl Deltas {
    /// Whole publications in the form of the subscription.
    fn whole(self, form: Form) -> Form {
        match self {
            Deltas::No => form,
            Deltas::Unknown | Deltas::Known => form.with_deltas(),
        }
    }

    /// Fresh messages, which begin at the subscription's cursor.
    pub(in super::super) fn frame(&mut self, name: &str, fresh: &Fresh, form: Form) -> Bytes {
        let form = self.whole(form);
        let number = form.number();
        let frame = match self {
            Deltas::Known => {
                fresh.frame(number + 1, |fresh| encode_push::deltas(name, fresh, form))
            }
            _ => fresh.frame(number, |fresh| encode_push::fresh(name, fresh, form)),
        };
        if *self == Deltas::Unknown {
            *self = Deltas::Known;
        }
        frame
    }

    /// A page of the store.
    pub(in super::super) fn frames(
        self,
        name: &str,
        page: &Page,
        form: Form,
        bytes_max: usize,
    ) -> Arc<[PageFrame]> {
        let form = self.whole(form);
        // A text of JSON in JSON is twice as long at most.
        let bytes_max = match self {
            Deltas::No => bytes_max,
            Deltas::Unknown | Deltas::Known => bytes_max / 2,
        };
        page.frames(form.number(), |page| {
            encode_push::page(name, page, form, bytes_max)
        })
    }

    /// It was sent something else than what is fresh.
    pub(in super::super) fn forget(&mut self) {
        if *self == Deltas::Known {
            *self = Deltas::Unknown;
        }
    }
}
