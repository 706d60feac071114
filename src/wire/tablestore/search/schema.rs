//! The fields and settings of a search index, each way.
//!
//! Owns: which message belongs to which analyzer, and the defaults that are sent back. Must not: check what needs no
//! message; `model/search/` does.

use prost::Message as _;

use super::super::failure::Failure;
use super::super::proto;
use super::super::request::table::missing;
use super::sort;
use tideline_model::search::{
    Analyzer, Field, FieldType, InvalidSearch, Metric, SearchSchema, VectorOptions,
};

/// Deeper messages are refused before they are looked at: a field, its fields, and so on.
const DEPTH_MAX: usize = 6;

/// The schema that a request gives.
pub(super) fn schema(message: proto::IndexSchema) -> Result<SearchSchema, Failure> {
    let fields = message.field_schemas.into_iter();
    let fields = fields.map(|one| field(one, 1)).collect::<Result<_, _>>()?;
    let order = message.index_sort.map(sort::sort).transpose()?;
    let schema = SearchSchema {
        fields,
        routing_fields: message.index_setting.unwrap_or_default().routing_fields,
        order: order.map(|sort| sort.sorters).unwrap_or_default(),
    };
    Ok(schema.checked()?)
}

fn field(message: proto::FieldSchema, depth: usize) -> Result<Field, Failure> {
    if depth > DEPTH_MAX {
        return Err(InvalidSearch::FieldDepth.into());
    }
    let name = message.field_name.ok_or_else(missing)?.trim().to_owned();
    let code = message.field_type.ok_or_else(missing)?;
    let kind = kind(code)?;
    let fields = message.field_schemas.into_iter();
    let fields = fields.map(|one| field(one, depth + 1));
    let mut sources = message.source_field_names.into_iter();
    let source = match message.is_virtual_field.unwrap_or(false) {
        false => None,
        true => match (sources.next(), sources.next()) {
            (Some(source), None) => Some(source),
            _ => {
                let what = "a virtual field has one source field";
                return Err(InvalidSearch::Field(name, what).into());
            }
        },
    };
    let analyzer = match message.analyzer.filter(|name| !name.is_empty()) {
        None if kind == FieldType::Text => Some(Analyzer::default()),
        None => None,
        Some(analyzer) => Some(decode_analyzer(&analyzer, message.analyzer_parameter)?),
    };
    Ok(Field {
        name,
        kind,
        index: message.index.unwrap_or(true),
        sorts: message.enable_sort_and_agg,
        store: message.store,
        is_array: message.is_array.unwrap_or(false),
        analyzer,
        source,
        date_formats: message.date_formats,
        highlights: message.enable_highlighting,
        vector: message.vector_options.as_ref().map(vector).transpose()?,
        fields: fields.collect::<Result<_, _>>()?,
    })
}

fn kind(code: i32) -> Result<FieldType, Failure> {
    let unsupported = |what| Err(InvalidSearch::Unsupported(what).into());
    Ok(match proto::FieldType::try_from(code) {
        Ok(proto::FieldType::Long) => FieldType::Long,
        Ok(proto::FieldType::Double) => FieldType::Double,
        Ok(proto::FieldType::Boolean) => FieldType::Boolean,
        Ok(proto::FieldType::Keyword) => FieldType::Keyword,
        Ok(proto::FieldType::FuzzyKeyword) => FieldType::FuzzyKeyword,
        Ok(proto::FieldType::Text) => FieldType::Text,
        Ok(proto::FieldType::Nested) => FieldType::Nested,
        Ok(proto::FieldType::GeoPoint) => FieldType::GeoPoint,
        Ok(proto::FieldType::Date) => FieldType::Date,
        Ok(proto::FieldType::Vector) => FieldType::Vector,
        Ok(proto::FieldType::Ip) => return unsupported("field type IP"),
        Ok(proto::FieldType::Json) => return unsupported("field type JSON"),
        Ok(proto::FieldType::Flattened) => return unsupported("field type FLATTENED"),
        Err(_) => return Err(Failure::invalid(format!("Invalid field type: {code}."))),
    })
}

fn kind_message(kind: FieldType) -> proto::FieldType {
    match kind {
        FieldType::Long => proto::FieldType::Long,
        FieldType::Double => proto::FieldType::Double,
        FieldType::Boolean => proto::FieldType::Boolean,
        FieldType::Keyword => proto::FieldType::Keyword,
        FieldType::FuzzyKeyword => proto::FieldType::FuzzyKeyword,
        FieldType::Text => proto::FieldType::Text,
        FieldType::Nested => proto::FieldType::Nested,
        FieldType::GeoPoint => proto::FieldType::GeoPoint,
        FieldType::Date => proto::FieldType::Date,
        FieldType::Vector => proto::FieldType::Vector,
    }
}

fn decode_analyzer(name: &str, parameter: Option<bytes::Bytes>) -> Result<Analyzer, Failure> {
    let parameter = parameter.unwrap_or_default();
    let count = |number: Option<i32>, default| match number {
        None => Ok(default),
        Some(number) => usize::try_from(number).map_err(|_| missing()),
    };
    match name {
        "single_word" => {
            let message = proto::SingleWordAnalyzerParameter::decode(parameter)?;
            Ok(Analyzer::SingleWord {
                case_sensitive: message.case_sensitive.unwrap_or(false),
                delimit_word: message.delimit_word.unwrap_or(false),
            })
        }
        "split" => Ok(Analyzer::Split {
            delimiter: proto::SplitAnalyzerParameter::decode(parameter)?.delimiter,
        }),
        "fuzzy" => {
            let message = proto::FuzzyAnalyzerParameter::decode(parameter)?;
            let (min, max) = (message.min_chars, message.max_chars);
            Ok(Analyzer::Fuzzy {
                min: count(min, FUZZY_MIN)?,
                max: count(max, FUZZY_MAX)?,
            })
        }
        "max_word" => Ok(Analyzer::MaxWord),
        "min_word" => Ok(Analyzer::MinWord),
        other => Err(Failure::invalid(format!("Invalid analyzer: {other}."))),
    }
}

/// As SDKs send them.
const FUZZY_MIN: usize = 1;
const FUZZY_MAX: usize = 7;

/// The name and the parameters of an analyzer.
fn analyzer_message(analyzer: &Analyzer) -> (&'static str, Vec<u8>) {
    let small = |count: &usize| i32::try_from(*count).ok();
    match analyzer {
        Analyzer::SingleWord {
            case_sensitive: false,
            delimit_word: false,
        } => ("single_word", Vec::new()),
        Analyzer::SingleWord {
            case_sensitive,
            delimit_word,
        } => {
            let message = proto::SingleWordAnalyzerParameter {
                case_sensitive: Some(*case_sensitive),
                delimit_word: Some(*delimit_word),
            };
            ("single_word", message.encode_to_vec())
        }
        Analyzer::Split { delimiter } => {
            let delimiter = delimiter.clone();
            let message = proto::SplitAnalyzerParameter { delimiter };
            ("split", message.encode_to_vec())
        }
        Analyzer::MaxWord => ("max_word", Vec::new()),
        Analyzer::MinWord => ("min_word", Vec::new()),
        Analyzer::Fuzzy { min, max } => {
            let message = proto::FuzzyAnalyzerParameter {
                min_chars: small(min),
                max_chars: small(max),
            };
            ("fuzzy", message.encode_to_vec())
        }
    }
}

fn vector(message: &proto::VectorOptions) -> Result<VectorOptions, Failure> {
    let metric = match message.metric_type() {
        proto::VectorMetricType::VmEuclidean => Metric::Euclidean,
        proto::VectorMetricType::VmCosine => Metric::Cosine,
        proto::VectorMetricType::VmDotProduct => Metric::DotProduct,
    };
    let dimension = usize::try_from(message.dimension.unwrap_or(0)).map_err(|_| missing())?;
    Ok(VectorOptions { dimension, metric })
}

/// The schema as it is described.
pub(super) fn schema_message(schema: &SearchSchema) -> proto::IndexSchema {
    proto::IndexSchema {
        field_schemas: schema.fields.iter().map(field_message).collect(),
        index_setting: Some(proto::IndexSetting {
            number_of_shards: Some(1),
            routing_fields: schema.routing_fields.clone(),
            routing_partition_size: None,
        }),
        index_sort: Some(sort::sort_message(&schema.order)),
    }
}

fn field_message(field: &Field) -> proto::FieldSchema {
    let analyzer = field.analyzer.as_ref().map(analyzer_message);
    let (analyzer, parameter) = analyzer.map_or((None, None), |(name, parameter)| {
        let parameter = (!parameter.is_empty()).then_some(parameter);
        (Some(name.to_owned()), parameter)
    });
    proto::FieldSchema {
        field_name: Some(field.name.clone()),
        field_type: Some(kind_message(field.kind).into()),
        analyzer,
        index: Some(field.index),
        enable_sort_and_agg: field.sorts,
        store: field.store,
        field_schemas: field.fields.iter().map(field_message).collect(),
        is_array: Some(field.is_array),
        analyzer_parameter: parameter.map(Into::into),
        is_virtual_field: field.source.is_some().then_some(true),
        source_field_names: field.source.clone().into_iter().collect(),
        date_formats: field.date_formats.clone(),
        enable_highlighting: field.highlights,
        vector_options: field.vector.map(|vector| {
            let metric = match vector.metric {
                Metric::Euclidean => proto::VectorMetricType::VmEuclidean,
                Metric::Cosine => proto::VectorMetricType::VmCosine,
                Metric::DotProduct => proto::VectorMetricType::VmDotProduct,
            };
            proto::VectorOptions {
                data_type: Some(FLOAT),
                dimension: i32::try_from(vector.dimension).ok(),
                metric_type: Some(metric.into()),
            }
        }),
    }
}

/// The only type of a vector's numbers.
const FLOAT: i32 = 2;
