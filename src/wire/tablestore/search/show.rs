//! What is shown of a row that was found, beside its columns, each way.
//!
//! Owns: the messages of highlights and of objects that match. Promises: what is asked for is within its limits. Must
//! not: know which fields there are.

use bytes::Bytes;
use prost::Message as _;

use super::super::failure::Failure;
use super::super::fields::count;
use super::super::proto;
use super::parts::{at_most, field};
use super::refusal::within;
use super::sort::{POINTS_MAX, sort};
use tideline_model::search::{
    FRAGMENT_CHARS_MAX, FRAGMENTS_MAX, Fragments, HIGHLIGHTS_MAX, Highlight, HighlightField,
    INNER_HITS_MAX, InnerHits, InvalidSearch, SORTERS_MAX, Shown, TAG_BYTES_MAX,
};

/// What is meant if nobody says it.
const FRAGMENTS_DEFAULT: i32 = 1;
const FRAGMENT_CHARS_DEFAULT: i32 = 100;
const INNER_HITS_DEFAULT: i32 = 3;
const TAGS_DEFAULT: [&str; 2] = ["<em>", "</em>"];

/// The pieces of texts that a message asks for.
pub(super) fn highlight(body: Option<Bytes>) -> Result<Highlight, Failure> {
    let body = body.unwrap_or_default();
    within("highlighted fields", count(&body, 1)?, 0, HIGHLIGHTS_MAX)?;
    let message = proto::Highlight::decode(body)?;
    let is_html = message.highlight_encoder() == proto::HighlightEncoder::HtmlMode;
    let fields = message.highlight_parameters.into_iter().map(|one| {
        let order = match one.fragments_order() {
            proto::HighlightFragmentOrder::TextSequence => Fragments::AsInText,
            proto::HighlightFragmentOrder::Score => Fragments::Best,
        };
        let [before, behind] = TAGS_DEFAULT;
        Ok::<_, Failure>(HighlightField {
            field: field(one.field_name)?,
            count: number(
                "number_of_fragments",
                one.number_of_fragments.unwrap_or(FRAGMENTS_DEFAULT),
                (1, FRAGMENTS_MAX),
            )?,
            size: number(
                "fragment_size",
                one.fragment_size.unwrap_or(FRAGMENT_CHARS_DEFAULT),
                (1, FRAGMENT_CHARS_MAX),
            )?,
            before: tag(one.pre_tag, before)?,
            behind: tag(one.post_tag, behind)?,
            order,
        })
    });
    Ok(Highlight {
        fields: fields.collect::<Result<_, _>>()?,
        is_html,
    })
}

/// The objects that a message asks for.
pub(super) fn inner_hits(body: Bytes) -> Result<InnerHits, Failure> {
    at_most("sorters", SORTERS_MAX, &body, &[1, 1])?;
    at_most("points", SORTERS_MAX * POINTS_MAX, &body, &[1, 1, 2, 2])?;
    let message = proto::InnerHits::decode(body)?;
    let range = (0, INNER_HITS_MAX);
    Ok(InnerHits {
        sort: message.sort.map(sort).transpose()?,
        offset: number("offset of inner_hits", message.offset.unwrap_or(0), range)?,
        limit: number(
            "limit of inner_hits",
            message.limit.unwrap_or(INNER_HITS_DEFAULT),
            range,
        )?,
        highlight: highlight(message.highlight)?,
    })
}

fn number(name: &'static str, given: i32, (low, high): (usize, usize)) -> Result<usize, Failure> {
    let number = usize::try_from(given).unwrap_or(usize::MAX);
    within(name, number, low, high)?;
    Ok(number)
}

fn tag(given: Option<String>, default: &str) -> Result<String, Failure> {
    match given {
        None => Ok(default.to_owned()),
        Some(tag) if tag.len() > TAG_BYTES_MAX => {
            Err(InvalidSearch::TooLong("pre_tag or post_tag", TAG_BYTES_MAX).into())
        }
        Some(tag) => Ok(tag),
    }
}

/// A hit: its score, and what is shown of it.
pub(super) fn hit(score: f64, shown: &Shown) -> proto::SearchHit {
    let fields = shown.fields.iter().map(|one| proto::HighlightField {
        field_name: Some(one.field.clone()),
        field_fragments: one.fragments.clone(),
    });
    let fields = fields.collect::<Vec<_>>();
    let inside = shown.inside.iter().map(|inside| {
        let hits = inside.hits.iter().map(|one| proto::SearchHit {
            nested_doc_offset: i32::try_from(one.place).ok(),
            ..hit(one.score.into(), &one.shown)
        });
        proto::SearchInnerHit {
            path: Some(inside.path.clone()),
            search_hits: hits.collect(),
        }
    });
    proto::SearchHit {
        score: Some(score),
        highlight_result: (!fields.is_empty()).then_some(proto::HighlightResult {
            highlight_fields: fields,
        }),
        search_inner_hits: inside.collect(),
        nested_doc_offset: None,
    }
}
