//! Points of the globe: how they are written, how they are kept, how far they are from each other.
//!
//! Owns: the arithmetic. Promises: a point is kept in 64 bits, rounded down on both axes by less than 1 cm; what is
//! asked of points is asked of those, so that it is the same whichever way a row came in. Must not: know fields.

use serde::{Deserialize, Serialize};

use super::InvalidSearch;

/// A point as it is written, degrees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// From -90 to 90.
    pub lat: f64,
    /// From -180 to 180.
    pub lon: f64,
}

impl Point {
    /// Reads `latitude,longitude`; spaces may stand around both.
    ///
    /// # Errors
    /// Anything else, and what lies on no globe.
    pub fn parse(text: &str) -> Result<Point, InvalidSearch> {
        let read = || {
            let (lat, lon) = text.split_once(',')?;
            let (lat, lon) = (
                lat.trim().parse::<f64>().ok()?,
                lon.trim().parse::<f64>().ok()?,
            );
            let is_there = (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon);
            is_there.then_some(Point { lat, lon })
        };
        read().ok_or_else(|| InvalidSearch::Point(text.to_owned()))
    }
}

/// A point as it is kept: latitude, then longitude, each as the number of its step from the lowest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPoint(pub u64);

const STEPS: f64 = 4_294_967_296.0;

impl From<Point> for StoredPoint {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within its bounds by `min` and the ranges
    fn from(point: Point) -> StoredPoint {
        let step = |degrees: f64, whole: f64| {
            let step = (degrees / (whole / STEPS)).floor() + STEPS / 2.0;
            step.clamp(0.0, STEPS - 1.0) as u64
        };
        StoredPoint(step(point.lat, 180.0) << 32 | step(point.lon, 360.0))
    }
}

impl From<StoredPoint> for Point {
    #[allow(clippy::cast_precision_loss)] // 32 bits
    fn from(stored: StoredPoint) -> Point {
        let degrees = |step: u64, whole: f64| (step as f64 - STEPS / 2.0) * (whole / STEPS);
        Point {
            lat: degrees(stored.0 >> 32, 180.0),
            lon: degrees(stored.0 & 0xffff_ffff, 360.0),
        }
    }
}

/// Characters of a cell's name.
pub const CELL_CHARS_MAX: u32 = 12;
/// Each stands for five halvings of a cell, of longitude and latitude by turns.
const CELL_CHARS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

impl StoredPoint {
    /// The cell that it is in, whose name has so many characters: geohash.
    #[must_use]
    pub fn cell(self, chars: u32) -> u64 {
        let (lat, lon) = (self.0 >> 32, self.0 & 0xffff_ffff);
        (0..5 * chars.min(CELL_CHARS_MAX)).fold(0, |cell, at| {
            let axis = if at % 2 == 0 { lon } else { lat };
            cell << 1 | (axis >> (31 - at / 2)) & 1
        })
    }
}

/// The name of a cell.
#[must_use]
pub fn cell_name(cell: u64, chars: u32) -> String {
    let of = |at: u32| char::from(CELL_CHARS[(cell >> (5 * at) & 31) as usize]);
    (0..chars.min(CELL_CHARS_MAX)).rev().map(of).collect()
}

/// The corner of a cell with its highest latitude and lowest longitude, and the other one.
#[must_use]
#[allow(clippy::cast_precision_loss)] // 30 bits
pub fn cell_corners(cell: u64, chars: u32) -> (Point, Point) {
    let bits = 5 * chars.min(CELL_CHARS_MAX);
    let (mut lat, mut lon) = (0_u64, 0_u64);
    for at in (0..bits).rev() {
        let bit = cell >> at & 1;
        match (bits - 1 - at) % 2 {
            0 => lon = lon << 1 | bit,
            _ => lat = lat << 1 | bit,
        }
    }
    let lat_step = 180.0 / (1_u64 << (bits / 2)) as f64;
    let lon_step = 360.0 / (1_u64 << bits.div_ceil(2)) as f64;
    let point = |lat: u64, lon: u64| Point {
        lat: lat as f64 * lat_step - 90.0,
        lon: lon as f64 * lon_step - 180.0,
    };
    (point(lat + 1, lon), point(lat, lon + 1))
}

/// Metres of the globe's mean radius.
const RADIUS_M: f64 = 6_371_008.771_4;

/// Metres between two points along the globe.
#[must_use]
pub fn distance_m(one: Point, other: Point) -> f64 {
    let (lat_1, lat_2) = (one.lat.to_radians(), other.lat.to_radians());
    let (d_lat, d_lon) = (lat_2 - lat_1, (other.lon - one.lon).to_radians());
    let half =
        (d_lat / 2.0).sin().powi(2) + lat_1.cos() * lat_2.cos() * (d_lon / 2.0).sin().powi(2);
    2.0 * RADIUS_M * half.sqrt().min(1.0).asin()
}

/// Whether a point lies inside of a polygon: a ray from it crosses the sides an odd number of times.
#[must_use]
pub fn is_inside(polygon: &[Point], point: Point) -> bool {
    let mut is_inside = false;
    let sides = polygon.iter().zip(polygon.iter().cycle().skip(1));
    for (from, to) in sides {
        if (from.lat > point.lat) != (to.lat > point.lat) {
            let part = (point.lat - from.lat) / (to.lat - from.lat);
            is_inside ^= point.lon < from.lon + part * (to.lon - from.lon);
        }
    }
    is_inside
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_point_is_kept_within_a_centimetre(lat in -90.0..=90.0, lon in -180.0..=180.0) {
            let point = Point { lat, lon };
            let kept = Point::from(StoredPoint::from(point));
            prop_assert!(kept.lat <= lat && kept.lon <= lon);
            prop_assert!(distance_m(point, kept) < 0.02);
            prop_assert_eq!(StoredPoint::from(kept), StoredPoint::from(point));
        }
    }

    #[test]
    fn cells_are_named_as_geohashes() {
        let point = Point::parse("57.64911,10.40744").unwrap();
        let cell = |chars| StoredPoint::from(point).cell(chars);
        assert_eq!(cell_name(cell(11), 11), "u4pruydqqvj");
        for chars in 1..=CELL_CHARS_MAX {
            let (top_left, bottom_right) = cell_corners(cell(chars), chars);
            assert!(bottom_right.lat <= point.lat && point.lat < top_left.lat);
            assert!(top_left.lon <= point.lon && point.lon < bottom_right.lon);
            assert!("u4pruydqqvj".starts_with(&cell_name(cell(chars.min(11)), chars.min(11))));
        }
    }

    #[test]
    fn points_are_read_strictly() {
        assert_eq!(
            Point::parse(" 1.5 , -2 "),
            Ok(Point {
                lat: 1.5,
                lon: -2.0
            })
        );
        for text in ["", "1", "1,2,3", "91,0", "0,181", "NaN,0", "a,b"] {
            assert_eq!(
                Point::parse(text),
                Err(InvalidSearch::Point(text.to_owned()))
            );
        }
    }

    #[test]
    fn distances_and_polygons_are_as_on_a_map() {
        let (berlin, hamburg) = (
            Point {
                lat: 52.52,
                lon: 13.405,
            },
            Point {
                lat: 53.55,
                lon: 9.993,
            },
        );
        assert!((distance_m(berlin, hamburg) - 255_000.0).abs() < 1_500.0);
        let square = [(0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (2.0, 0.0)];
        let square = square.map(|(lat, lon)| Point { lat, lon });
        assert!(is_inside(&square, Point { lat: 1.0, lon: 1.0 }));
        assert!(!is_inside(&square, Point { lat: 1.0, lon: 3.0 }));
    }
}
