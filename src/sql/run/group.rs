//! Groups of rows.
//!
//! Owns: which rows are one group, and the aggregates of each. Promises: groups come in the order of their first rows;
//! without keys there is one group, also of no rows. Must not: know names.

use std::collections::HashMap;

use super::Rows;
use crate::answer::Datum;
use crate::context::Run;
use crate::expr::Groups;
use crate::expr::aggregate::Part;
use crate::refusal::Refusal;
use crate::value::size_of_row;

/// The keys and the aggregates of each group as one row.
pub(super) fn rows<'r>(run: &Run, rows: Rows<'r>, groups: &'r Groups) -> Result<Rows<'r>, Refusal> {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut made: Vec<(Vec<Datum>, Vec<Part>)> = Vec::new();
    let parts = || groups.aggregates.iter().map(|_| Part::default()).collect();
    if groups.keys.is_empty() {
        made.push((Vec::new(), parts()));
        places.insert(Vec::new(), 0);
    }
    for row in rows {
        run.step()?;
        let row = row?;
        let (mut bytes, mut held) = (Vec::new(), 0);
        let mut keys = Vec::with_capacity(groups.keys.len());
        for key in &groups.keys {
            let value = key.expr.value(&row)?;
            run.memory.take(value.size())?;
            held += value.size();
            value.encode(&mut bytes);
            keys.push(value);
        }
        let place = match places.get(&bytes) {
            Some(place) => *place,
            None => {
                let keys: Vec<Datum> = keys.into_iter().map(std::borrow::Cow::into_owned).collect();
                let of_parts = groups.aggregates.len() * size_of::<Part>();
                run.memory
                    .take(size_of_row(&keys) + bytes.len() + of_parts + 64)?;
                places.insert(bytes, made.len());
                made.push((keys, parts()));
                made.len() - 1
            }
        };
        run.memory.give(held);
        for (part, (aggregate, _)) in made[place].1.iter_mut().zip(&groups.aggregates) {
            part.add(aggregate, &row, &run.memory)?;
        }
    }
    Ok(Box::new(made.into_iter().map(|(mut row, parts)| {
        let values = parts.iter().zip(&groups.aggregates);
        row.extend(values.map(|(part, (aggregate, _))| part.value(aggregate)));
        Ok(row)
    })))
}
