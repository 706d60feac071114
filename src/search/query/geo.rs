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

/// What is asked of a point.
pub(super) type Holds = Arc<dyn Fn(Point) -> bool + Send + Sync>;

/// What a query asks of a point.
pub(super) fn holds(query: &Query) -> Holds {
    match query.clone() {
        Query::GeoBox {
            top_left,
            bottom_right,
            ..
        } => Arc::new(move |point: Point| {
            let (west, east) = (top_left.lon, bottom_right.lon);
            let is_between = match west <= east {
                true => (west..=east).contains(&point.lon),
                // Across the date line.
                false => point.lon >= west || point.lon <= east,
            };
            is_between && (bottom_right.lat..=top_left.lat).contains(&point.lat)
        }),
        Query::GeoDistance { center, metres, .. } => {
            Arc::new(move |point| distance_m(center, point) <= metres)
        }
        Query::GeoPolygon { points, .. } => Arc::new(move |point| is_inside(&points, point)),
        _ => Arc::new(|_| false),
    }
}

/// Rows with a point of a field inside of what the query names.
pub(super) fn points(
    scope: &Scope<'_>,
    field: &str,
    query: &Query,
) -> Result<Compiled, InvalidSearch> {
    let placed = scope.field(field)?;
    placed.searched("geo query")?;
    if placed.field.kind != FieldType::GeoPoint {
        return Err(placed.no("geo query"));
    }
    let (name, deadline) = (placed.name.clone(), Arc::clone(scope.deadline));
    let holds = holds(query);
    let of_segment = move |segment: &SegmentReader| {
        let column: Column<u64> = segment.fast_fields().u64(&name)?;
        let (holds, deadline) = (Arc::clone(&holds), Arc::clone(&deadline));
        Ok(move |row: DocId| {
            let mut points = column.values_for_doc(row);
            points.any(|steps| !deadline.is_over() && holds(StoredPoint(steps).into()))
        })
    };
    let query = DocPredicateQuery::from(FunctionPredicate::from(of_segment));
    Ok(Box::new(query))
}
