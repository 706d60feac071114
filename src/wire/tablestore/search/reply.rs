//! What is answered about search indexes and searches.
//!
//! Owns: the messages. Promises: each field is there that an SDK does not default; as many hits as rows. Must not: know
//! how a row was found.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;

use super::super::proto;
use super::aggregated::aggregated;
use super::request::NamedIndex;
use super::schema::schema_message;
use super::show::hit;
use tideline_model::search::{Aggregated, SearchIndex, Shown};

/// A search index as it is now.
#[derive(Clone, Debug)]
pub struct DescribedIndex {
    /// What it is.
    pub index: SearchIndex,
    /// Whether rows that were there before it are still being brought in.
    pub is_building: bool,
    /// It has everything that was written before this time, ms since 1970.
    pub current_ms: u64,
    /// How many rows it has.
    pub rows: u64,
    /// What its files take.
    pub bytes: u64,
}

/// A page of a search.
#[derive(Clone, Debug, Default)]
pub struct FoundPage {
    /// Each its own buffer, with its score if rows are sorted by it.
    pub rows: Vec<(Bytes, Option<f32>)>,
    /// What is shown of each of them; empty = nothing was asked for.
    pub shown: Vec<Shown>,
    /// Rows that `aggregated` names, by their encoded keys.
    pub named: BTreeMap<Vec<u8>, Bytes>,
    /// How many rows match, if it was asked for.
    pub total: Option<u64>,
    /// What was computed of all that match.
    pub aggregated: Aggregated,
    /// Whether everything was looked at.
    pub is_all: bool,
    /// Behind which the next page goes on; `None` = that was all.
    pub next: Option<Vec<u8>>,
}

/// A step of a scan.
#[derive(Clone, Debug, Default)]
pub struct ScannedPage {
    /// Each its own buffer.
    pub rows: Vec<Bytes>,
    /// Behind which the next step goes on; `None` = that was all.
    pub next: Option<Vec<u8>>,
}

pub(in super::super) fn listed(all: Vec<NamedIndex>) -> proto::ListSearchIndexResponse {
    let one = |of: NamedIndex| proto::SearchIndexRequest {
        table_name: Some(of.table),
        index_name: Some(of.index),
    };
    proto::ListSearchIndexResponse {
        indices: all.into_iter().map(one).collect(),
    }
}

pub(in super::super) fn described(of: &DescribedIndex) -> proto::DescribeSearchIndexResponse {
    let phase = match of.is_building {
        true => proto::SearchPhase::Full,
        false => proto::SearchPhase::Incr,
    };
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let index = &of.index;
    proto::DescribeSearchIndexResponse {
        schema: Some(schema_message(&index.schema)),
        sync_stat: Some(proto::SyncStat {
            sync_phase: Some(phase.into()),
            current_sync_timestamp: Some(whole(of.current_ms.saturating_mul(1_000_000))),
        }),
        metering_info: Some(proto::MeteringInfo {
            storage_size: Some(whole(of.bytes)),
            row_count: Some(whole(of.rows)),
            reserved_read_cu: Some(0),
            timestamp: Some(whole(of.current_ms / 1_000)),
        }),
        create_time: Some(whole(index.created_us / 1_000_000)),
        time_to_live: Some(i32::try_from(index.time_to_live_s).unwrap_or(i32::MAX)),
        index_status: Some(proto::IndexStatus {
            status: Some(proto::IndexStatusEnum::Running.into()),
            status_description: None,
        }),
    }
}

pub(in super::super) fn found(page: FoundPage) -> proto::SearchResponse {
    let (aggs, group_bys) = aggregated(&page.aggregated, &page.named);
    let (rows, scores): (Vec<_>, Vec<_>) = page.rows.into_iter().unzip();
    let mut shown = page.shown.into_iter();
    let hits = scores.into_iter().map(|score: Option<f32>| {
        let score = score.map_or(f64::NAN, f64::from);
        hit(score, &shown.next().unwrap_or_default())
    });
    let search_hits = hits.collect();
    let total = page
        .total
        .map(|total| i64::try_from(total).unwrap_or(i64::MAX));
    proto::SearchResponse {
        total_hits: Some(total.unwrap_or(-1)),
        rows,
        is_all_succeed: Some(page.is_all),
        search_hits,
        next_token: page.next.map(Into::into),
        aggs: aggs.map(|aggs| aggs.encode_to_vec().into()),
        group_bys: group_bys.map(|group_bys| group_bys.encode_to_vec().into()),
    }
}

pub(in super::super) fn splits(session: Vec<u8>) -> proto::ComputeSplitsResponse {
    proto::ComputeSplitsResponse {
        session_id: Some(session.into()),
        splits_size: Some(1),
    }
}

pub(in super::super) fn scanned(page: ScannedPage) -> proto::ParallelScanResponse {
    proto::ParallelScanResponse {
        rows: page.rows,
        next_token: page.next.map(Into::into),
    }
}
