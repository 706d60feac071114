//! Rows whose columns are the fields of a struct.
//!
//! Owns: `columns!`, which makes `encode` and `decode` from one list; what fields can be; rows of one column.
//! Promises: a row is written in the order of its list and read in any; a column that is not in the list is refused,
//! unless the list says where others go. Must not: know what is in a row.

use super::super::Malformed;
use super::row::{Row, RowWriter};
use tideline_model::{Cell, Value, ValueRef};

/// Lists the columns of a row in the order of their names, each with the field that it is, and makes `encode` and
/// `decode` from that. The row's type has a [`Default`].
///
/// ```text
/// columns! { Example beside attributes {    columns of other names are in this field, sorted
///     "$at": joined_at,                     no column = nothing: 0, false, no text, not set
///     "$floor": floor = 1,                  no column = 1
///     "$place" always: place,               there is always such a column
/// } }
/// ```
#[macro_export]
macro_rules! columns {
    ($row:ident $(beside $others:ident)? {
        $($name:literal $($always:ident)?: $($field:tt).+ $(= $absent:expr)?,)+
    }) => {
        impl $row {
            /// The row, to be finished with its version.
            pub(crate) fn encode(&self) -> $crate::RowWriter {
                let bytes = 0 $(+ $crate::cell_bytes($name, &self.$($field).+))+;
                let others = [$(&self.$others[..])?].into_iter().next().unwrap_or_default();
                let (mut row, behind) = $crate::RowWriter::beside(others, bytes);
                $($crate::columns!(
                    @put row, $name, (self.$($field).+) $(, $always)? $(, = $absent)?
                );)+
                row.put_all(behind);
                row
            }

            pub(crate) fn decode(value: &[u8]) -> Result<$row, $crate::Malformed> {
                let mut row = $row::default();
                $($crate::columns!(@begin (row.$($field).+) $(, = $absent)?);)+
                for cell in $crate::Row::parse(value)?.columns() {
                    let cell = cell?;
                    match cell.name {
                        $($name => $crate::Stored::take(&mut row.$($field).+, cell.value)?,)+
                        _ => {
                            let others = [$(&mut row.$others)?].into_iter().next();
                            $crate::push_other(others, cell)?;
                        }
                    }
                }
                Ok(row)
            }
        }
    };
    (@begin ($field:expr)) => {};
    (@begin ($field:expr), = $absent:expr) => {
        $field = $absent.into()
    };
    (@put $row:ident, $name:literal, ($field:expr)) => {
        if !$crate::Stored::is_nothing(&$field) {
            $row.put_field($name, &$field);
        }
    };
    (@put $row:ident, $name:literal, ($field:expr), always) => {
        $row.put_field($name, &$field)
    };
    (@put $row:ident, $name:literal, ($field:expr), = $absent:expr) => {
        if $field != $absent {
            $row.put_field($name, &$field);
        }
    };
}

/// What the field of a row can be.
pub trait Stored {
    /// What is stored; `None` = it is not set.
    fn value(&self) -> Option<ValueRef<'_>>;

    /// Whether that is nothing: 0, false, no text, not set.
    fn is_nothing(&self) -> bool;

    /// Takes what was stored.
    fn take(&mut self, value: ValueRef<'_>) -> Result<(), Malformed>;
}

macro_rules! numbers {
    ($($number:ty)+) => {$(
        impl Stored for $number {
            #[inline]
            fn value(&self) -> Option<ValueRef<'_>> {
                Some(ValueRef::Integer(u64::from(*self).cast_signed()))
            }

            #[inline]
            fn is_nothing(&self) -> bool {
                *self == 0
            }

            #[inline]
            fn take(&mut self, value: ValueRef<'_>) -> Result<(), Malformed> {
                *self = number(value)?.try_into().map_err(|_| Malformed)?;
                Ok(())
            }
        }
    )+};
}

numbers! { u8 u32 u64 }

/// As 0 or 1.
impl Stored for bool {
    #[inline]
    fn value(&self) -> Option<ValueRef<'_>> {
        Some(ValueRef::Integer(i64::from(*self)))
    }

    #[inline]
    fn is_nothing(&self) -> bool {
        !*self
    }

    #[inline]
    fn take(&mut self, value: ValueRef<'_>) -> Result<(), Malformed> {
        *self = number(value)? != 0;
        Ok(())
    }
}

impl Stored for String {
    #[inline]
    fn value(&self) -> Option<ValueRef<'_>> {
        Some(ValueRef::String(self))
    }

    #[inline]
    fn is_nothing(&self) -> bool {
        self.is_empty()
    }

    #[inline]
    fn take(&mut self, value: ValueRef<'_>) -> Result<(), Malformed> {
        match value {
            ValueRef::String(text) => text.clone_into(self),
            _ => return Err(Malformed),
        }
        Ok(())
    }
}

impl<T: Stored + Default> Stored for Option<T> {
    #[inline]
    fn value(&self) -> Option<ValueRef<'_>> {
        self.as_ref().and_then(T::value)
    }

    #[inline]
    fn is_nothing(&self) -> bool {
        self.is_none()
    }

    #[inline]
    fn take(&mut self, value: ValueRef<'_>) -> Result<(), Malformed> {
        self.insert(T::default()).take(value)
    }
}

/// A number in a cell.
#[inline]
pub fn number(value: ValueRef<'_>) -> Result<u64, Malformed> {
    match value {
        ValueRef::Integer(number) => Ok(number.cast_unsigned()),
        _ => Err(Malformed),
    }
}

/// The number in a column that a row must have.
pub fn number_in(row: &[u8], name: &str) -> Result<u64, Malformed> {
    number(Row::parse(row)?.column(name)?.ok_or(Malformed)?.value)
}

/// The version of a row whose cells were written at once: mostly when that was, ms.
pub fn version_of(row: &[u8]) -> Result<u64, Malformed> {
    Ok(Row::parse(row)?.base().cast_unsigned())
}

/// About what a field's cell takes.
#[inline]
pub fn cell_bytes(name: &str, field: &impl Stored) -> usize {
    let value = field.value();
    value.map_or(0, |value| name.len() + 2 + value.cell_bytes_about())
}

/// Takes a cell that is not in the list. It is refused if its name begins with `$`, or if the row has no field for
/// others' columns.
pub fn push_other(others: Option<&mut Vec<Column>>, cell: Cell<'_>) -> Result<(), Malformed> {
    let others = others.filter(|_| !cell.name.starts_with('$'));
    let others = others.ok_or(Malformed)?;
    others.push((cell.name.to_owned(), cell.value.to_value()));
    Ok(())
}

type Column = (String, Value);

impl RowWriter {
    /// Begins a row in which others' columns lie around ours, which begin with `$`: puts those that come before ours,
    /// and returns those that come behind. There is room for `bytes` of ours.
    pub fn beside(others: &[Column], bytes: usize) -> (RowWriter, &[Column]) {
        let about =
            |(name, value): &Column| name.len() + 4 + ValueRef::from(value).cell_bytes_about();
        let mut row = RowWriter::new(bytes + others.iter().map(about).sum::<usize>());
        let ours = others.partition_point(|(name, _)| name.as_str() < "$");
        let (before, behind) = others.split_at(ours);
        row.put_all(before);
        (row, behind)
    }

    /// A row of one column.
    #[must_use]
    pub fn of(name: &str, value: ValueRef<'_>) -> RowWriter {
        let mut row = RowWriter::new(name.len() + 2 + value.cell_bytes_about());
        row.put(name, value);
        row
    }

    /// Adds columns.
    pub fn put_all(&mut self, columns: &[Column]) {
        for (name, value) in columns {
            self.put(name, value.into());
        }
    }

    /// Adds what a field holds, if it is set.
    #[inline]
    pub fn put_field(&mut self, name: &str, field: &impl Stored) {
        if let Some(value) = field.value() {
            self.put(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Example {
        at: u64,
        floor: u32,
        is_new: bool,
        place: (u64, Option<u64>),
        role: String,
        others: Vec<Column>,
    }

    columns! { Example beside others {
        "$at": at,
        "$floor": floor = 1u32,
        "$new": is_new,
        "$place" always: place.0,
        "$place2": place.1,
        "$role": role = "member",
    } }

    fn names(row: &[u8]) -> Vec<&str> {
        let cells = Row::parse(row).unwrap().cells();
        cells.map(|cell| cell.unwrap().name).collect()
    }

    #[test]
    fn what_says_nothing_has_no_column() {
        let plain = Example {
            floor: 1,
            role: "member".to_owned(),
            ..Example::default()
        };
        let row = plain.encode().finish(7);
        assert_eq!(names(&row), ["$place"]);
        assert_eq!(
            (Example::decode(&row), version_of(&row)),
            (Ok(plain), Ok(7))
        );
        let one = |name: &str| (name.to_owned(), Value::Boolean(true));
        let full = Example {
            at: u64::MAX,
            is_new: true,
            place: (3, Some(0)),
            others: vec![one("!"), one("a")],
            ..Example::default()
        };
        let row = full.encode().finish(7);
        let all = [
            "!", "$at", "$floor", "$new", "$place", "$place2", "$role", "a",
        ];
        assert_eq!(names(&row), all);
        assert_eq!(
            (number_in(&row, "$place"), number_in(&row, "$role")),
            (Ok(3), Err(Malformed))
        );
        assert_eq!(Example::decode(&row), Ok(full));
        for (column, value) in [("$floor", u64::MAX), ("$other", 1)] {
            let wrong = RowWriter::of(column, value.into()).finish(7);
            assert_eq!(Example::decode(&wrong), Err(Malformed), "{column}");
        }
    }
}
