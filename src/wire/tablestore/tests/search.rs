//! Searches and search indexes at their limits, and beyond.
//!
//! Owns: a line for each limit of docs/TABLESTORE.md. Promises: what is at a limit is taken, what is one beyond it is
//! refused with the limit in its text. Must not: need an index.

use prost::Message;

use super::super::{Code, Operation, Request, proto};

fn decoded(operation: Operation, message: &impl Message) -> Result<Request, String> {
    let found = Request::decode(operation, message.encode_to_vec().into());
    found.map_err(|failure| {
        assert_eq!(failure.code, Code::ParameterInvalid);
        failure.message.into_owned()
    })
}

/// A search with this in it.
fn asked(search: proto::SearchQuery) -> Result<Request, String> {
    let message = proto::SearchRequest {
        table_name: Some("t".to_owned()),
        index_name: Some("i".to_owned()),
        search_query: Some(search.encode_to_vec().into()),
        ..Default::default()
    };
    decoded(Operation::Search, &message)
}

fn query(kind: proto::QueryType, body: &impl Message) -> proto::Query {
    proto::Query {
        r#type: Some(kind.into()),
        query: Some(body.encode_to_vec().into()),
    }
}

fn of(query: proto::Query) -> proto::SearchQuery {
    proto::SearchQuery {
        query: Some(query),
        ..Default::default()
    }
}

fn pattern(kind: proto::QueryType, count: usize) -> proto::SearchQuery {
    let body = proto::PatternQuery {
        field_name: Some("f".to_owned()),
        pattern: Some("a".repeat(count)),
        ..Default::default()
    };
    of(query(kind, &body))
}

fn near(top: usize, dimension: usize) -> proto::SearchQuery {
    let body = proto::KnnVectorQuery {
        field_name: Some("f".to_owned()),
        top_k: i32::try_from(top).ok(),
        float32_query_vector: vec![0.5; dimension],
        ..Default::default()
    };
    of(query(proto::QueryType::KnnVectorQuery, &body))
}

fn all() -> proto::Query {
    query(
        proto::QueryType::MatchAllQuery,
        &proto::ExistsQuery::default(),
    )
}

/// So many queries beside each other; itself is one more.
fn beside(count: usize) -> proto::SearchQuery {
    let body = proto::BoolQuery {
        must_queries: vec![all(); count],
        ..Default::default()
    };
    of(query(proto::QueryType::BoolQuery, &body))
}

/// So many queries in each other.
fn deep(depth: usize) -> proto::SearchQuery {
    let mut inner = all();
    for _ in 1..depth {
        let body = proto::ConstScoreQuery {
            filter: Some(inner),
        };
        inner = query(proto::QueryType::ConstScoreQuery, &body);
    }
    of(inner)
}

fn highlighted(fields: usize, fragments: i32, size: i32, tag: usize) -> proto::SearchQuery {
    let one = proto::HighlightParameter {
        field_name: Some("f".to_owned()),
        number_of_fragments: Some(fragments),
        fragment_size: Some(size),
        pre_tag: Some("<".repeat(tag)),
        ..Default::default()
    };
    let body = proto::Highlight {
        highlight_parameters: vec![one; fields],
        ..Default::default()
    };
    proto::SearchQuery {
        highlight: Some(body.encode_to_vec().into()),
        ..Default::default()
    }
}

fn inner_hits(limit: i32) -> proto::SearchQuery {
    let hits = proto::InnerHits {
        limit: Some(limit),
        ..Default::default()
    };
    let body = proto::NestedQuery {
        path: Some("p".to_owned()),
        query: Some(all()),
        inner_hits: Some(hits.encode_to_vec().into()),
        ..Default::default()
    };
    of(query(proto::QueryType::NestedQuery, &body))
}

fn counts(count: usize) -> Vec<proto::Aggregation> {
    let body = proto::MetricAggregation {
        field_name: Some("f".to_owned()),
        ..Default::default()
    };
    let one = |number: usize| proto::Aggregation {
        name: Some(format!("a{number}")),
        r#type: Some(proto::AggregationType::AggCount.into()),
        body: Some(body.encode_to_vec().into()),
    };
    (0..count).map(one).collect()
}

fn computed(aggs: Vec<proto::Aggregation>, group_bys: Vec<proto::GroupBy>) -> proto::SearchQuery {
    proto::SearchQuery {
        aggs: Some(proto::Aggregations { aggs }.encode_to_vec().into()),
        group_bys: Some(proto::GroupBys { group_bys }.encode_to_vec().into()),
        ..Default::default()
    }
}

fn group(number: usize, kind: proto::GroupByType, body: &impl Message) -> proto::GroupBy {
    proto::GroupBy {
        name: Some(format!("g{number}")),
        r#type: Some(kind.into()),
        body: Some(body.encode_to_vec().into()),
    }
}

fn by_field(size: Option<i32>, aggs: usize, inner: Vec<proto::GroupBy>) -> proto::GroupByField {
    let (aggs, group_bys) = (counts(aggs), inner);
    proto::GroupByField {
        field_name: Some("f".to_owned()),
        size,
        sub_aggs: Some(proto::Aggregations { aggs }.encode_to_vec().into()),
        sub_group_bys: Some(proto::GroupBys { group_bys }.encode_to_vec().into()),
        ..Default::default()
    }
}

fn fields(number: usize, body: &proto::GroupByField) -> proto::GroupBy {
    group(number, proto::GroupByType::GroupByField, body)
}

/// So many groupings in each other.
fn groups_deep(depth: usize) -> proto::SearchQuery {
    let inner = (1..depth).fold(by_field(None, 0, Vec::new()), |inner, _| {
        by_field(None, 0, vec![fields(0, &inner)])
    });
    computed(Vec::new(), vec![fields(0, &inner)])
}

/// Ten groupings, the first of which have ten aggregations each, in all so many.
fn groups_all(count: usize) -> proto::SearchQuery {
    let left = count - 10;
    let inner = |number: usize| left.saturating_sub(number * 10).min(10);
    let groups = (0..10).map(|number| fields(number, &by_field(None, inner(number), Vec::new())));
    computed(Vec::new(), groups.collect())
}

fn composite(sources: usize, size: Option<i32>, suggested: Option<i32>) -> proto::SearchQuery {
    let body = proto::GroupByField {
        field_name: Some("f".to_owned()),
        ..Default::default()
    };
    let group_bys = (0..sources).map(|number| fields(number, &body)).collect();
    let body = proto::GroupByComposite {
        sources: Some(proto::GroupBys { group_bys }),
        size,
        suggested_size: suggested,
        ..Default::default()
    };
    let by = group(0, proto::GroupByType::GroupByComposite, &body);
    computed(Vec::new(), vec![by])
}

fn ranges(count: usize) -> proto::SearchQuery {
    let range = proto::GroupRange {
        begin: Some(0.0),
        end: Some(1.0),
    };
    let body = proto::GroupByRange {
        field_name: Some("f".to_owned()),
        ranges: vec![range; count],
        ..Default::default()
    };
    let by = group(0, proto::GroupByType::GroupByRange, &body);
    computed(Vec::new(), vec![by])
}

fn filters(count: usize) -> proto::SearchQuery {
    let body = proto::GroupByFilter {
        filters: vec![all(); count],
        ..Default::default()
    };
    let by = group(0, proto::GroupByType::GroupByFilter, &body);
    computed(Vec::new(), vec![by])
}

/// Two groups by one filter each, of so many queries beside each other.
fn filters_of(counts: [usize; 2]) -> proto::SearchQuery {
    let by = |(number, count): (usize, usize)| {
        let body = proto::GroupByFilter {
            filters: beside(count).query.into_iter().collect(),
            ..Default::default()
        };
        group(number, proto::GroupByType::GroupByFilter, &body)
    };
    let groups = counts.into_iter().enumerate().map(by);
    computed(Vec::new(), groups.collect())
}

fn grid(precision: i32) -> proto::SearchQuery {
    let body = proto::GroupByGeoGrid {
        field_name: Some("f".to_owned()),
        precision: Some(precision),
        ..Default::default()
    };
    let by = group(0, proto::GroupByType::GroupByGeoGrid, &body);
    computed(Vec::new(), vec![by])
}

fn measured(kind: proto::AggregationType, body: &impl Message) -> proto::SearchQuery {
    let one = proto::Aggregation {
        name: Some("a".to_owned()),
        r#type: Some(kind.into()),
        body: Some(body.encode_to_vec().into()),
    };
    computed(vec![one], Vec::new())
}

fn top_rows(limit: i32) -> proto::SearchQuery {
    let body = proto::TopRowsAggregation {
        limit: Some(limit),
        ..Default::default()
    };
    measured(proto::AggregationType::AggTopRows, &body)
}

fn percentiles(count: usize) -> proto::SearchQuery {
    let body = proto::PercentilesAggregation {
        field_name: Some("f".to_owned()),
        percentiles: vec![50.0; count],
        ..Default::default()
    };
    measured(proto::AggregationType::AggPercentiles, &body)
}

fn window(offset: i32, limit: i32) -> proto::SearchQuery {
    proto::SearchQuery {
        offset: Some(offset),
        limit: Some(limit),
        ..Default::default()
    }
}

fn phrase(slop: i32, text: usize) -> proto::SearchQuery {
    let body = proto::MatchPhraseQuery {
        field_name: Some("f".to_owned()),
        text: Some("a".repeat(text)),
        slop: Some(slop),
        ..Default::default()
    };
    of(query(proto::QueryType::MatchPhraseQuery, &body))
}

fn polygon(corners: usize) -> proto::SearchQuery {
    let body = proto::GeoPolygonQuery {
        field_name: Some("f".to_owned()),
        points: vec!["1,1".to_owned(); corners],
    };
    of(query(proto::QueryType::GeoPolygonQuery, &body))
}

fn terms(count: usize) -> proto::SearchQuery {
    let body = proto::TermsQuery {
        field_name: Some("f".to_owned()),
        terms: vec![vec![0, 1, 0, 0, 0, 0, 0, 0, 0].into(); count],
        ..Default::default()
    };
    of(query(proto::QueryType::TermsQuery, &body))
}

#[test]
#[allow(clippy::too_many_lines)] // a line for each limit
fn each_limit_of_a_search_is_held() {
    use proto::QueryType::{PrefixQuery, SuffixQuery, WildcardQuery};
    for (at, beyond, text) in [
        (window(0, 1_000), window(0, 1_001), "[0, 1000]"),
        (window(99_000, 1_000), window(99_001, 1_000), "[0, 100000]"),
        (
            pattern(PrefixQuery, 1_000),
            pattern(PrefixQuery, 1_001),
            "1000",
        ),
        (
            pattern(SuffixQuery, 1_000),
            pattern(SuffixQuery, 1_001),
            "1000",
        ),
        (
            pattern(WildcardQuery, 32),
            pattern(WildcardQuery, 33),
            "longer than 32",
        ),
        (phrase(1_000, 9), phrase(1_001, 9), "[0, 1000]"),
        (phrase(0, 64 << 10), phrase(0, (64 << 10) + 1), "65536"),
        (polygon(3), polygon(2), "[3, 1000]"),
        (polygon(1_000), polygon(1_001), "[3, 1000]"),
        (terms(1_023), terms(1_024), "1024 parts"),
        (beside(1_023), beside(1_024), "1024 parts"),
        (deep(32), deep(33), "deeper than 32"),
        (near(1_000, 2), near(1_001, 2), "[1, 1000]"),
        (near(1, 4_096), near(1, 4_097), "[1, 4096]"),
        (
            highlighted(10, 1, 1, 1),
            highlighted(11, 1, 1, 1),
            "[0, 10]",
        ),
        (
            highlighted(1, 10, 1, 1),
            highlighted(1, 11, 1, 1),
            "[1, 10]",
        ),
        (
            highlighted(1, 1, 1_000, 1),
            highlighted(1, 1, 1_001, 1),
            "[1, 1000]",
        ),
        (highlighted(1, 1, 1, 100), highlighted(1, 1, 1, 101), "100"),
        (inner_hits(256), inner_hits(257), "[0, 256]"),
        (
            computed(counts(10), Vec::new()),
            computed(counts(11), Vec::new()),
            "[0, 10]",
        ),
        (groups_deep(5), groups_deep(6), "[1, 5]"),
        (groups_all(100), groups_all(101), "[0, 100]"),
        (
            composite(20, None, None),
            composite(21, None, None),
            "[0, 20]",
        ),
        (
            composite(1, Some(2_000), None),
            composite(1, Some(2_001), None),
            "[1, 2000]",
        ),
        // What is only suggested is cut.
        (
            composite(1, None, Some(9_000)),
            composite(0, None, None),
            "[1, 20]",
        ),
        (ranges(100), ranges(101), "[1, 100]"),
        (filters(10), filters(11), "[1, 10]"),
        (filters_of([511, 511]), filters_of([511, 512]), "1024 parts"),
        (grid(12), grid(13), "[1, 12]"),
        (top_rows(100), top_rows(101), "[1, 100]"),
        (percentiles(100), percentiles(101), "[1, 100]"),
    ] {
        assert!(asked(at.clone()).is_ok(), "{text}: {:?}", asked(at));
        let refused = asked(beyond).unwrap_err();
        assert!(refused.contains(text), "{refused} has not {text}");
    }
}

#[test]
fn each_limit_of_a_scan_is_held() {
    let scan = |limit, alive_time, max_parallel| {
        let query = proto::ScanQuery {
            query: Some(all()),
            limit: Some(limit),
            alive_time: Some(alive_time),
            max_parallel: Some(max_parallel),
            ..Default::default()
        };
        let message = proto::ParallelScanRequest {
            table_name: Some("t".to_owned()),
            index_name: Some("i".to_owned()),
            scan_query: Some(query.encode_to_vec().into()),
            ..Default::default()
        };
        decoded(Operation::ParallelScan, &message)
    };
    assert!(scan(2_000, 3_600, 1).is_ok());
    for (refused, text) in [
        (scan(2_001, 60, 1), "[1, 2000]"),
        (scan(0, 60, 1), "[1, 2000]"),
        (scan(1, 3_601, 1), "[1, 3600]"),
        (scan(1, 60, 2), "(0 ,1]"),
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.contains(text), "{refused} has not {text}");
    }
}

#[test]
fn each_limit_of_an_index_is_held() {
    let create = |field_schemas: Vec<proto::FieldSchema>| {
        let schema = proto::IndexSchema {
            field_schemas,
            ..Default::default()
        };
        let message = proto::CreateSearchIndexRequest {
            table_name: Some("t".to_owned()),
            index_name: Some("i".to_owned()),
            schema: Some(schema),
            ..Default::default()
        };
        decoded(Operation::CreateSearchIndex, &message)
    };
    let field = |name: String, kind: proto::FieldType| proto::FieldSchema {
        field_name: Some(name),
        field_type: Some(kind.into()),
        ..Default::default()
    };
    let long = |number: usize| field(format!("f{number}"), proto::FieldType::Long);
    let longs = |count: usize| (0..count).map(long).collect::<Vec<_>>();
    let nested = |inner: Vec<proto::FieldSchema>| proto::FieldSchema {
        field_schemas: inner,
        ..field("n".to_owned(), proto::FieldType::Nested)
    };
    let deep = |depth: usize| (1..depth).fold(long(0), |inner, _| nested(vec![inner]));
    let dates = |count: usize| proto::FieldSchema {
        date_formats: vec!["yyyy".to_owned(); count],
        ..field("d".to_owned(), proto::FieldType::Date)
    };
    let vector = |dimension: i32| proto::FieldSchema {
        vector_options: Some(proto::VectorOptions {
            dimension: Some(dimension),
            ..Default::default()
        }),
        ..field("v".to_owned(), proto::FieldType::Vector)
    };
    let fuzzy = |min: i32, max: i32| {
        let parameter = proto::FuzzyAnalyzerParameter {
            min_chars: Some(min),
            max_chars: Some(max),
        };
        proto::FieldSchema {
            analyzer: Some("fuzzy".to_owned()),
            analyzer_parameter: Some(parameter.encode_to_vec().into()),
            ..field("t".to_owned(), proto::FieldType::Text)
        }
    };
    let named = |bytes: usize| field("f".repeat(bytes), proto::FieldType::Long);
    for (at, beyond, text) in [
        (longs(1_000), longs(1_001), "1001"),
        (vec![nested(longs(100))], vec![nested(longs(101))], "100"),
        (vec![deep(5)], vec![deep(6)], "deeper than 5"),
        (vec![named(255)], vec![named(256)], "Invalid field name"),
        (vec![dates(10)], vec![dates(11)], "10"),
        (vec![vector(4_096)], vec![vector(4_097)], "4096"),
        (vec![fuzzy(1, 7)], vec![fuzzy(1, 8)], "min_chars + 6"),
    ] {
        assert!(create(at.clone()).is_ok(), "{text}: {:?}", create(at));
        let refused = create(beyond).unwrap_err();
        assert!(refused.contains(text), "{refused} has not {text}");
    }
    for kind in [
        proto::FieldType::Ip,
        proto::FieldType::Json,
        proto::FieldType::Flattened,
    ] {
        let refused = create(vec![field("f".to_owned(), kind)]).unwrap_err();
        assert!(refused.contains(kind.as_str_name()), "{refused}");
    }
}

#[test]
fn what_is_not_there_yet_is_refused_by_its_name() {
    let sorted = |nested_filter: bool| {
        let by = proto::FieldSort {
            field_name: Some("n.f".to_owned()),
            nested_filter: nested_filter.then(|| vec![1].into()),
            ..Default::default()
        };
        let sorter = proto::Sorter {
            field_sort: Some(by),
            ..Default::default()
        };
        let sort = proto::Sort {
            sorter: vec![sorter],
            ..Default::default()
        };
        asked(proto::SearchQuery {
            sort: Some(sort),
            ..Default::default()
        })
    };
    assert!(sorted(false).is_ok());
    assert!(sorted(true).unwrap_err().contains("nested_filter"));
    let all = proto::ParallelScanRequest {
        table_name: Some("t".to_owned()),
        index_name: Some("i".to_owned()),
        columns_to_get: Some(proto::ColumnsToGet {
            return_type: Some(proto::ColumnReturnType::ReturnAll.into()),
            ..Default::default()
        }),
        scan_query: Some(proto::ScanQuery::default().encode_to_vec().into()),
        ..Default::default()
    };
    let refused = decoded(Operation::ParallelScan, &all).unwrap_err();
    assert!(
        refused.contains("ParallelScan with return type ALL"),
        "{refused}"
    );
    let added = proto::UpdateSearchIndexRequest {
        table_name: Some("t".to_owned()),
        index_name: Some("i".to_owned()),
        switch_index_name: Some("j".to_owned()),
        ..Default::default()
    };
    let refused = decoded(Operation::UpdateSearchIndex, &added).unwrap_err();
    assert!(refused.contains("switch_index_name"), "{refused}");
}
