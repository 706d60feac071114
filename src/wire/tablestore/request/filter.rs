//! Filters of reads and column conditions of writes, decoded.
//!
//! Owns: the messages of a filter, and what makes one invalid. Promises: at most 32 nodes, so that neither depth nor
//! breadth of a client's filter is a danger; its expressions together are no larger than one may be. Must not:
//! evaluate.

use bytes::Bytes;
use prost::Message;

use super::super::failure::Failure;
use super::super::fields::count;
use super::super::plainbuffer::decode_variant;
use super::super::proto::{
    ColumnPaginationFilter, ComparatorType, CompositeColumnValueFilter, Filter as FilterMessage,
    FilterType, LogicalOperator, SingleColumnValueFilter, ValueTransferRule, VariantType,
};
use super::cells::attribute_value;
use tideline_model::limits::FILTER_NODES_MAX;
use tideline_model::{
    Cast, ColumnPage, Comparator, EXPRESSIONS_BYTES_MAX, Filter, Predicate, Relation, Transfer,
    check_column_name,
};

/// The filter of a read.
pub(in super::super) fn decode_filter(bytes: &Bytes) -> Result<Filter, Failure> {
    let message = message(bytes)?;
    if message.r#type() == FilterType::FtColumnPagination && message.r#type.is_some() {
        return page(message.filter.as_ref()).map(Filter::Columns);
    }
    predicate(&message, &mut Size::default()).map(Filter::Rows)
}

/// The column condition of a write.
pub(in super::super) fn decode_predicate(bytes: &Bytes) -> Result<Predicate, Failure> {
    predicate(&message(bytes)?, &mut Size::default())
}

fn message(bytes: &Bytes) -> Result<FilterMessage, Failure> {
    FilterMessage::decode(bytes.clone()).map_err(|_| broken())
}

fn broken() -> Failure {
    Failure::invalid("Deserialize filter failed.")
}

/// What the whole tree comes to.
#[derive(Default)]
struct Size {
    /// Their number bounds the depth, too.
    nodes: usize,
    /// Of its compiled expressions.
    expression_bytes: usize,
}

fn predicate(message: &FilterMessage, size: &mut Size) -> Result<Predicate, Failure> {
    size.nodes += 1;
    check_nodes(size.nodes)?;
    let code = message.r#type.ok_or_else(broken)?;
    let inner = message.filter.as_ref().ok_or_else(broken)?;
    match FilterType::try_from(code) {
        Ok(FilterType::FtSingleColumnValue) => relation(inner, size).map(Predicate::Single),
        Ok(FilterType::FtCompositeColumnValue) => composite(inner, size),
        Ok(FilterType::FtColumnPagination) if size.nodes > 1 => {
            let text = format!("Invalid type of sub-filter: {code}.");
            Err(Failure::invalid(text))
        }
        _ => Err(Failure::invalid(format!("Invalid type of filter: {code}."))),
    }
}

fn check_nodes(nodes: usize) -> Result<(), Failure> {
    if nodes <= FILTER_NODES_MAX {
        return Ok(());
    }
    let text = format!("The count of filter exceeds the max: {FILTER_NODES_MAX}.");
    Err(Failure::invalid(text))
}

/// The number of a group's field for its filters.
const SUB_FILTERS: u32 = 2;

fn composite(bytes: &Bytes, size: &mut Size) -> Result<Predicate, Failure> {
    check_nodes(size.nodes + count(bytes, SUB_FILTERS)?)?;
    let message = CompositeColumnValueFilter::decode(bytes.clone());
    let failed = || Failure::invalid("Deserialize composite filter failed.");
    let CompositeColumnValueFilter {
        combinator,
        sub_filters,
    } = message.map_err(|_| failed())?;
    let combinator = combinator.and_then(|code| LogicalOperator::try_from(code).ok());
    let combinator = combinator.ok_or_else(failed)?;
    let mut inner = Vec::new();
    for message in &sub_filters {
        inner.push(predicate(message, size)?);
    }
    match combinator {
        LogicalOperator::LoNot => {
            let text = "Invalid NOT operator: the number of sub-filters must be 1.";
            let [one] = <[Predicate; 1]>::try_from(inner).map_err(|_| Failure::invalid(text))?;
            Ok(Predicate::Not(Box::new(one)))
        }
        _ if inner.len() < 2 => {
            let text = "Invalid AND/OR operator: the number of sub-filters must be more than 1.";
            Err(Failure::invalid(text))
        }
        LogicalOperator::LoAnd => Ok(Predicate::And(inner)),
        LogicalOperator::LoOr => Ok(Predicate::Or(inner)),
    }
}

fn relation(bytes: &Bytes, size: &mut Size) -> Result<Relation, Failure> {
    let failed = || Failure::invalid("Deserialize relation filter failed.");
    let message = SingleColumnValueFilter::decode(bytes.clone()).map_err(|_| failed())?;
    let comparator = message.comparator.ok_or_else(failed)?;
    let invalid = || Failure::invalid(format!("Invalid relation operator: {comparator}."));
    let comparator = match ComparatorType::try_from(comparator) {
        Ok(ComparatorType::CtEqual) => Comparator::Equal,
        Ok(ComparatorType::CtNotEqual) => Comparator::NotEqual,
        Ok(ComparatorType::CtGreaterThan) => Comparator::GreaterThan,
        Ok(ComparatorType::CtGreaterEqual) => Comparator::GreaterEqual,
        Ok(ComparatorType::CtLessThan) => Comparator::LessThan,
        Ok(ComparatorType::CtLessEqual) => Comparator::LessEqual,
        Ok(ComparatorType::CtExist) if message.value_trans_rule.is_some() => Comparator::Exist,
        Ok(ComparatorType::CtNotExist) if message.value_trans_rule.is_some() => {
            Comparator::NotExist
        }
        _ => return Err(invalid()),
    };
    let column = message.column_name.ok_or_else(failed)?;
    check_column_name(&column)?;
    let value = decode_variant(&message.column_value.ok_or_else(failed)?, &column)?;
    let value = attribute_value(&column, value)?;
    let transfer = message.value_trans_rule.map(transfer).transpose()?;
    size.expression_bytes += transfer.as_ref().map_or(0, Transfer::bytes);
    if size.expression_bytes > EXPRESSIONS_BYTES_MAX {
        let text = format!(
            "The total size of the regular expressions of the filter exceeds the limit, limit size: \
             {EXPRESSIONS_BYTES_MAX}."
        );
        return Err(Failure::invalid(text));
    }
    Ok(Relation {
        column,
        comparator,
        value,
        pass_if_missing: !message.filter_if_missing.unwrap_or(false),
        latest_version_only: message.latest_version_only.unwrap_or(true),
        transfer,
    })
}

fn transfer(rule: ValueTransferRule) -> Result<Transfer, Failure> {
    let failed = || Failure::invalid("Deserialize relation filter failed.");
    let pattern = rule.regex.ok_or_else(failed)?;
    let cast = match rule.cast_type.map(VariantType::try_from) {
        Some(Ok(VariantType::VtInteger)) => Cast::Integer,
        Some(Ok(VariantType::VtDouble)) => Cast::Double,
        None | Some(Ok(VariantType::VtString)) => Cast::String,
        _ => return Err(failed()),
    };
    Transfer::new(&pattern, cast).ok_or_else(failed)
}

fn page(bytes: Option<&Bytes>) -> Result<ColumnPage, Failure> {
    let failed = || Failure::invalid("Deserialize column pagination filter failed.");
    let bytes = bytes.ok_or_else(failed)?;
    let message = ColumnPaginationFilter::decode(bytes.clone()).map_err(|_| failed())?;
    let offset = message.offset.ok_or_else(failed)?;
    let limit = message.limit.ok_or_else(failed)?;
    let offset = usize::try_from(offset).map_err(|_| {
        let text = "Offset in ColumnPaginationFilter must be greater than or equal to 0.";
        Failure::invalid(text)
    })?;
    let limit = usize::try_from(limit).unwrap_or(0);
    if limit == 0 {
        let text = "Limit in ColumnPaginationFilter must be greater than 0.";
        return Err(Failure::invalid(text));
    }
    Ok(ColumnPage { offset, limit })
}
