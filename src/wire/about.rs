//! What a request is about.
//!
//! Owns: which timeline a request names. Promises: it is one that the request has in its parameters, alone. Must not:
//! know what is done with it.

use super::Request;

impl Request {
    /// The timeline that it is about; `None` = none, several, or one that the server has to find.
    #[must_use]
    pub fn timeline(&self) -> Option<&str> {
        Some(match self {
            Request::TimelineCreate(one) => &one.timeline,
            Request::TimelineGet(one) => &one.timeline,
            Request::TimelineUpdate(one) => &one.timeline,
            Request::TimelineDelete(one) => &one.timeline,
            Request::TimelineTrim(one) => &one.timeline,
            Request::TimelineConfigure(one) => &one.timeline,
            Request::MemberAdd(one) => &one.timeline,
            Request::MemberUpdate(one) => &one.timeline,
            Request::MemberRemove(one) => &one.timeline,
            Request::MemberGet(one) => &one.timeline,
            Request::MemberList(one) => &one.timeline,
            Request::MessageAppend(one) => &one.timeline,
            Request::MessageAppendBatch(one) => &one.timeline,
            Request::MessageGet(one) => &one.timeline,
            Request::MessageRange(one) => &one.timeline,
            Request::MessageUpdate(one) => &one.timeline,
            Request::MessageDelete(one) => &one.timeline,
            Request::MessageRecall(one) => &one.timeline,
            Request::ReactionAdd(one) => &one.timeline,
            Request::ReactionRemove(one) => &one.timeline,
            Request::ReactionList(one) => &one.timeline,
            Request::PinAdd(one) => &one.timeline,
            Request::PinRemove(one) => &one.timeline,
            Request::PinList(one) => &one.timeline,
            Request::Subscribe(one) => one.timeline.as_ref()?,
            _ => return None,
        })
    }
}
