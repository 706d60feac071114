//! The macro that makes handles and list of the metrics out of the catalogue's lines.
//!
//! Owns: what a line of the catalogue becomes. Promises: a metric in the list has a handle, and the other way round.
//! Must not: name a metric.

use super::Metric;
use super::registry::Bind;

/// A struct of handles for each group. `by [...]` are the labels of all its metrics; those of a family have their own.
macro_rules! groups {
    ($( $title:literal by [$($by:literal),*] $(#[$doc:meta])* $group:ident { $(
        $field:ident: $kind:ty, $name:literal $([$($label:literal),+])? $help:literal, $moves:literal;
    )+ } )+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $group { $( #[doc = $help] pub $field: $kind, )+ }

            impl $group {
                const BY: &[&str] = &[$($by),*];
                const METRICS: &[Metric] = &[
                    $( line::<$kind>($name, Self::BY, &[$($($label),+)?], $help, $moves), )+
                ];

                /// Binds all handles of the group, with these values of its labels.
                pub(super) fn bind(registry: &Registry, by: &[Label]) -> $group {
                    $group { $(
                        $field: registry.bind(
                            &line::<$kind>($name, Self::BY, &[$($($label),+)?], $help, $moves),
                            by,
                        ),
                    )+ }
                }
            }
        )+

        /// The metrics by part of the server.
        pub(super) const GROUPS: &[(&str, &[Metric])] = &[$( ($title, $group::METRICS), )+];
    };
}

/// A line of the catalogue.
pub(super) const fn line<K: Bind>(
    name: &'static str,
    by: &'static [&'static str],
    own: &'static [&'static str],
    help: &'static str,
    moves: &'static str,
) -> Metric {
    Metric {
        name,
        kind: K::KIND,
        labels: if own.is_empty() { by } else { own },
        help,
        moves,
    }
}
