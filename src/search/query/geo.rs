//! Points in boxes, circles and polygons.
//!
//! Owns: what is asked of each point of a row. Promises: a point is compared as it is kept, a bound as it is written;
//! of a list one point is enough; past the deadline no point is looked at. Must not: compute a distance
//! (`model/search/geo.rs`).

use std::sync::Arc;

use tantivy::columnar::Column;
use tantivy::query::doc_predicate_query::{DocPredicateQuery, FunctionPredicate};
use tantivy::{DocId, SegmentReader};

use tideline_model::search::{
    FieldType, InvalidSearch, Point, Query, StoredPoint, distance_m, is_inside,
};

use super::{Compiled, Scope};

/// Rows with a point inside of what the query names.
pub(super) fn points(scope: &Scope<'_>, query: &Query) -> Result<Compiled, InvalidSearch> {
    match query.clone() {
        Query::GeoBox {
            field,
            top_left,
            bottom_right,
        } => {
            let lats = bottom_right.lat..=top_left.lat;
            let (west, east) = (top_left.lon, bottom_right.lon);
            where_point(scope, &field, move |point| {
                let is_between = match west <= east {
                    true => (west..=east).contains(&point.lon),
                    // Across the date line.
                    false => point.lon >= west || point.lon <= east,
                };
                is_between && lats.contains(&point.lat)
            })
        }
        Query::GeoDistance {
            field,
            center,
            metres,
        } => where_point(scope, &field, move |point| {
            distance_m(center, point) <= metres
        }),
        Query::GeoPolygon { field, points } => {
            where_point(scope, &field, move |point| is_inside(&points, point))
        }
        _ => Ok(super::nothing()),
    }
}

fn where_point(
    scope: &Scope<'_>,
    field: &str,
    holds: impl Fn(Point) -> bool + Clone + Send + Sync + 'static,
) -> Result<Compiled, InvalidSearch> {
    let placed = scope.layout.field(field)?;
    placed.searched("geo query")?;
    if placed.field.kind != FieldType::GeoPoint {
        return Err(placed.no("geo query"));
    }
    let (name, deadline) = (placed.name.clone(), Arc::clone(scope.deadline));
    let of_segment = move |segment: &SegmentReader| {
        let column: Column<u64> = segment.fast_fields().u64(&name)?;
        let (holds, deadline) = (holds.clone(), Arc::clone(&deadline));
        Ok(move |row: DocId| {
            let mut points = column.values_for_doc(row);
            points.any(|steps| !deadline.is_over() && holds(StoredPoint(steps).into()))
        })
    };
    let query = DocPredicateQuery::from(FunctionPredicate::from(of_segment));
    Ok(Box::new(query))
}
