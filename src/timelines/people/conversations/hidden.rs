//! Conversations that are hidden from their own members.
//!
//! Owns: which of a user's conversations they may not read. Promises: a member whose role gives no right
//! to read is shown nothing of it, and it is not counted. Must not: decide.

use std::collections::BTreeSet;

use super::super::People;
use super::list::{CHUNK, Found};
use crate::timeline::{Columns, Error};
use tideline_model::access::Asker;

impl People {
    /// Those of a member's conversations that they may not read. Nearly always that needs no look.
    pub(in super::super) async fn hidden(
        &self,
        asker: &Asker,
        names: Vec<&str>,
    ) -> Result<BTreeSet<String>, Error> {
        let mut hidden = BTreeSet::new();
        let unsure = |name: &&str| !asker.reads_in_any_role(name.as_bytes());
        let unsure: Vec<&str> = names.into_iter().filter(unsure).collect();
        for chunk in unsure.chunks(CHUNK) {
            let looked = self.shown(asker, chunk, Some(&[]), &Columns::new()).await?;
            for (name, found) in chunk.iter().zip(looked) {
                if !matches!(found, Found::Shown(_)) {
                    hidden.insert((*name).to_owned());
                }
            }
        }
        Ok(hidden)
    }
}
