//! The feed family: follow, unfollow, following, followers, range.
//!
//! Owns: the calls behind these methods. Promises: a reply of messages fits into a frame. Must not: check what the wire
//! has checked.

use std::sync::Arc;

use super::super::shape::{page_bytes, size};
use super::super::{Caller, Shared, Started, Work, refusal};
use super::conversation::check_room;
use tideline_timelines::people::FeedRange;
use tideline_timelines::timeline::Timelines;
use tideline_wire::people::feed;
use tideline_wire::{Failure, Method, Reply};

pub(in super::super) fn follow(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: feed::Follow,
) -> Started {
    let user = may_follow(shared, caller)?;
    let feed::Follow {
        timeline,
        copy,
        epoch,
    } = request;
    let people = shared.people.clone();
    let target = caller.target(Method::FeedFollow, timeline.clone(), epoch);
    let asked = shared.timelines.incarnation_in_turn(target);
    let place = caller.line.place();
    Ok(Work::Write(Box::pin(async move {
        let found = asked.await.map_err(refusal)?;
        let turn = place.await;
        let room = people.may_follow(&user, &timeline).await;
        room.map_err(refusal)?;
        let followed = turn.queue(people.follow(&user, &timeline, found, copy));
        Ok(Reply::FeedFollow(feed::Followed {
            following: true,
            from: followed.await.map_err(refusal)?,
        }))
    })))
}

pub(in super::super) fn unfollow(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: feed::Unfollow,
) -> Started {
    let user = may_follow(shared, caller)?;
    let (people, place) = (shared.people.clone(), caller.line.place());
    Ok(Work::Write(Box::pin(async move {
        let turn = place.await;
        let unfollowed = turn.queue(people.unfollow(&user, &request.timeline));
        unfollowed.await.map_err(refusal)?;
        Ok(Reply::FeedUnfollow(feed::Unfollowed { following: false }))
    })))
}

/// The caller's user, if what a follow leads to elsewhere has room.
fn may_follow(shared: &Shared, caller: &Caller) -> Result<String, Failure> {
    let user = caller.user()?;
    check_room(shared, &Timelines::inbox_of(&user))?;
    Ok(user)
}

pub(in super::super) fn following(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: feed::Following,
) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        let asker = caller.person(Method::FeedFollowing)?;
        let (after, limit) = (request.after.as_deref(), size(request.limit));
        let page = shared.people.following(&asker, after, limit).await;
        let (follows, next) = page.map_err(refusal)?;
        let timelines = follows.into_iter().map(|follow| feed::FollowedTimeline {
            timeline: follow.timeline,
            from: follow.from,
        });
        Ok(Reply::FeedFollowing(feed::FollowingPage {
            timelines: timelines.collect(),
            next,
        }))
    }))
}

pub(in super::super) fn followers(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: feed::Followers,
) -> Work {
    let timelines = shared.timelines.clone();
    let target = caller.target(Method::FeedFollowers, request.timeline, request.epoch);
    Work::Read(Box::pin(async move {
        let limit = size(request.limit);
        let page = timelines.followers(target, request.after, limit).await;
        let (users, followers_count, next) = page.map_err(refusal)?;
        Ok(Reply::FeedFollowers(feed::FollowersPage {
            users,
            followers_count,
            next,
        }))
    }))
}

pub(in super::super) fn range(shared: &Arc<Shared>, caller: &Caller, request: feed::Range) -> Work {
    let (shared, caller) = (Arc::clone(shared), caller.clone());
    Work::Read(Box::pin(async move {
        let asked = FeedRange {
            asker: caller.person(Method::FeedRange)?,
            before: request.before,
            limit: size(request.limit),
            bytes_max: page_bytes(&shared.options.limits),
        };
        let page = shared.people.feed(asked).await.map_err(refusal)?;
        shared.metrics.pages.feed.count(page.messages.len());
        Ok(Reply::FeedRange(feed::Page {
            messages: page.messages,
            next: page.next,
        }))
    }))
}
