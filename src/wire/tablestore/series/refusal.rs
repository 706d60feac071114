//! Why a request of time series is refused, as text.
//!
//! Owns: the texts; the service's own are not documented but for that of a missing field. Must not: decide anything.

use std::borrow::Cow;

use tideline_model::series::InvalidSeries;

/// The text.
pub(in super::super) fn text(why: InvalidSeries) -> Cow<'static, str> {
    let text = match why {
        InvalidSeries::Measurement(name) => format!("Invalid measurement name: '{name}'."),
        InvalidSeries::Source(length) => {
            format!(
                "The length of the data source exceeds the MaxLength:256 with CurrentLength:{length}."
            )
        }
        InvalidSeries::Pair(name) => format!("Invalid tag or attribute: '{name}'."),
        InvalidSeries::Pairs => {
            return "Tags and attributes must be in the [\"k1=v1\",\"k2=v2\"] format.".into();
        }
        InvalidSeries::Duplicate(name) => format!("Duplicated name: '{name}'."),
        InvalidSeries::PairsTooLong { what, most, length } => format!(
            "The length of the {what} exceeds the MaxLength:{most} with CurrentLength:{length}."
        ),
        InvalidSeries::Field(name) => format!("Invalid field name: '{name}'."),
        InvalidSeries::NoFields => return "No field is specified in a row.".into(),
        InvalidSeries::Time(at) => format!("Invalid time of a row: {at}."),
        InvalidSeries::NoColumn(what) => {
            format!("The timeseries key of the table has no {what}.")
        }
        InvalidSeries::MissingKey(name) => format!("missing timeseries key: {name}."),
        InvalidSeries::MissingField(name) => format!("missing primary key fields: {name}."),
        InvalidSeries::FieldType(name) => format!("Invalid type of field: '{name}'."),
        InvalidSeries::Count(what, most) => {
            format!("The number of {what} columns must be in range: [0, {most}].")
        }
        InvalidSeries::Life(least) => {
            format!("TimeToLive must be -1 or not less than {least}.")
        }
        InvalidSeries::MetasLife => {
            return "TimeToLive of metadata needs allow_update_attributes to be false and must \
                    not be less than that of the data."
                .into();
        }
        InvalidSeries::Options => {
            return "Exactly one of table options and meta options must be specified.".into();
        }
        InvalidSeries::Attributes => {
            return "Attributes can't be updated: allow_update_attributes of the table is false."
                .into();
        }
        InvalidSeries::Range => {
            return "Begin time must not be negative and must be less than end time.".into();
        }
        InvalidSeries::Limit(most) => format!("Limit must be in range: [1, {most}]."),
        InvalidSeries::Condition => return "Invalid condition of metadata.".into(),
        InvalidSeries::Token => return "Invalid token.".into(),
        InvalidSeries::Version => {
            return "The table needs supported_table_version to be 1 at least.".into();
        }
    };
    text.into()
}
