//! `schemas/` and the code say the same.
//!
//! Owns: the comparison of every generated file with the one that stands, and the golden examples. Promises: fails when
//! a type and its file part ways, when a method or push lacks an example, and when an example is not decoded and
//! encoded as it stands. `TIDELINE_BLESS=1 cargo test --test contract` writes the files anew; examples are written by
//! hand. Must not: need a server.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tideline::access::Right;
use tideline::config::centrifuge_schema;
use tideline::wire::jsonrpc::{self, Body, Encoding, JSON};
use tideline::wire::messages::{grow, hide, message, pin, reaction, schedule, search};
use tideline::wire::openrpc;
use tideline::wire::people::{conversation, feed, position, receipt};
use tideline::wire::schema::schemas;
use tideline::wire::server::{backup, key, log, partition, session, sessions, webhook};
use tideline::wire::tables::changes::Change;
use tideline::wire::tables::{row, sql, stream, table};
use tideline::wire::timelines::{member, prefixes, readers, signal, sync, timeline};
use tideline::wire::{
    Actual, Closed, Dialect as _, Failure, Id, Limits, Method, Needs, Push, Reason, Reply, Request,
    Said, push, server,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schemas")
}

fn read(path: &PathBuf) -> Value {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Name (without `.json`) and content of each example.
fn examples() -> Vec<(String, Value)> {
    let mut examples: Vec<_> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|file| file.unwrap().path())
        // What an editor or a system leaves beside them is none of ours.
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .map(|path| {
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                read(&path),
            )
        })
        .collect();
    examples.sort_by(|one, two| one.0.cmp(&two.0));
    examples
}

#[test]
fn files_are_as_the_types_make_them() {
    let bless = std::env::var_os("TIDELINE_BLESS").is_some();
    let mut expected = BTreeSet::new();
    let of_section = serde_json::to_value(centrifuge_schema()).unwrap();
    let of_section = ("config.centrifuge.json".to_owned(), of_section);
    for (name, schema) in schemas::files().into_iter().chain([of_section]) {
        let path = root().join(&name);
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if bless {
            fs::write(&path, &text).unwrap();
        }
        let stands = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stands == text,
            "{name} differs: TIDELINE_BLESS=1 cargo test --test contract"
        );
        assert!(expected.insert(name), "two files of one name");
    }
    for file in fs::read_dir(root()).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        assert!(
            !name.ends_with(".json") || expected.contains(&name),
            "{name} is made by no type: remove it"
        );
    }
}

/// What each right allows, from the list of methods.
fn rights() -> String {
    let mut table = "| right | what it allows | methods |\n|---|---|---|\n".to_owned();
    let mut row = |name: &str, what: &str, is_of: &dyn Fn(Needs) -> bool| {
        let of = Method::ALL.iter().filter(|method| is_of(method.needs()));
        let of: Vec<String> = of.map(|method| format!("`{}`", method.name())).collect();
        table.push_str(&format!("| {name} | {what} | {} |\n", of.join(", ")));
    };
    row("none", "Before a credential was shown.", &|needs| {
        matches!(needs, Needs::Nothing(_))
    });
    let what = "Any credential; what the caller may not read is left out.";
    row("none", what, &|needs| matches!(needs, Needs::Session(_)));
    for right in Right::ALL {
        let is_of = |needs: Needs| needs.rights().has(*right);
        row(&format!("`{right}`"), right.summary(), &is_of);
    }
    table
}

#[test]
fn the_page_on_access_has_the_right_of_every_method() {
    let path = root().join("../docs/ACCESS.md");
    let page = fs::read_to_string(&path).expect("readable");
    let (before, rest) = page
        .split_once("<!-- rights -->\n")
        .expect("the table's place");
    let (found, behind) = rest.split_once("<!-- end of rights -->").expect("its end");
    if std::env::var_os("TIDELINE_BLESS").is_some() {
        let table = rights();
        let page = format!("{before}<!-- rights -->\n{table}<!-- end of rights -->{behind}");
        fs::write(&path, page).expect("writable");
        return;
    }
    assert_eq!(
        found,
        rights(),
        "TIDELINE_BLESS=1 cargo test --test contract"
    );
}

#[test]
fn every_method_and_push_has_an_example() {
    let named: BTreeSet<String> = examples().into_iter().map(|(name, _)| name).collect();
    let listed = |list: &Value, prefix: &str| -> Vec<String> {
        let name = |one: &Value| format!("{prefix}{}", one["name"].as_str().unwrap());
        list.as_array().unwrap().iter().map(name).collect()
    };
    let mut wanted = listed(&openrpc()["methods"], "");
    wanted.extend(listed(&openrpc()["x-pushes"], "push."));
    assert_eq!(named, wanted.into_iter().collect());
}

#[test]
fn every_reason_stands_once_in_the_error_schema() {
    let schema = read(&root().join("error.json"));
    let stands: Vec<&str> = schema["$defs"]["Reason"]["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["const"].as_str().unwrap())
        .collect();
    let listed: Vec<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(stands, listed);
    for reason in Reason::ALL {
        assert_eq!(json!(reason), reason.name());
    }
    assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), listed.len());
}

#[test]
fn examples_fit_their_schemas() {
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    let mut fits = |file: String, value: &Value| {
        let path = root().join(&file);
        let index = compiler.compile(path.to_str().unwrap(), &mut schemas);
        let index = index.unwrap_or_else(|error| panic!("{file}: {error:#}"));
        if let Err(error) = schemas.validate(value, index) {
            panic!("{file}: {error:#}");
        }
    };
    for (name, example) in examples() {
        if let Some(push) = example.get("push") {
            fits(format!("{name}.json"), &push["params"]);
            continue;
        }
        let params = example["request"]
            .get("params")
            .cloned()
            .unwrap_or_else(|| json!({}));
        fits(format!("{name}.params.json"), &params);
        if let Some(reply) = example.get("reply") {
            fits(format!("{name}.result.json"), &reply["result"]);
        }
        fits("error.json".to_owned(), &example["error"]["error"]);
    }
}

/// Decodes a request in both encodings; they must agree.
fn request(example: &Value) -> Request {
    let limits = Limits::default();
    let json = jsonrpc::decode(Encoding::Json, example.to_string().as_bytes(), &limits);
    let packed = rmp_serde::to_vec_named(example).unwrap();
    let packed = jsonrpc::decode(Encoding::MessagePack, &packed, &limits);
    assert_eq!(json, packed, "{example}");
    let Ok(Body::Single(call)) = json else {
        panic!("{example}: {json:?}")
    };
    assert_eq!(call.id, Some(id(&example["id"])));
    call.request
        .unwrap_or_else(|failure| panic!("{example}: {failure:?}"))
}

fn id(id: &Value) -> Id {
    serde_json::from_value(id.clone()).unwrap()
}

fn of<T: DeserializeOwned>(result: &Value) -> T {
    // Through text: nested values are kept as text, which only the text has.
    serde_json::from_str(&result.to_string()).unwrap_or_else(|error| panic!("{result}: {error}"))
}

fn reply(method: &str, result: &Value) -> Reply {
    match method {
        "session.open" => Reply::SessionOpen(Box::new(of::<session::Opened>(result))),
        "ping" => Reply::Ping(of::<session::Pong>(result)),
        "timeline.create" => Reply::TimelineCreate(of::<timeline::Created>(result)),
        "timeline.get" => Reply::TimelineGet(Box::new(of::<timeline::Info>(result))),
        "timeline.update" => Reply::TimelineUpdate(of::<timeline::Updated>(result)),
        "timeline.delete" => Reply::TimelineDelete(of::<timeline::Deleted>(result)),
        "timeline.trim" => Reply::TimelineTrim(of::<timeline::Trimmed>(result)),
        "timeline.list" => Reply::TimelineList(of::<timeline::Listed>(result)),
        "timeline.prefixes" => Reply::TimelinePrefixes(of::<prefixes::Level>(result)),
        "timeline.readers" => Reply::TimelineReaders(of::<readers::Read>(result)),
        "timeline.configure" => Reply::TimelineConfigure(of::<timeline::Configured>(result)),
        "member.add" => Reply::MemberAdd(of::<member::Added>(result)),
        "member.update" => Reply::MemberUpdate(Box::new(of::<member::Updated>(result))),
        "member.remove" => Reply::MemberRemove(of::<member::Removed>(result)),
        "member.get" => Reply::MemberGet(Box::new(of::<member::Got>(result))),
        "member.list" => Reply::MemberList(of::<member::Listed>(result)),
        "message.append" => Reply::MessageAppend(of::<message::AppendOutcome>(result)),
        "message.append_batch" => Reply::MessageAppendBatch(of::<message::AppendedBatch>(result)),
        "message.get" => Reply::MessageGet(Box::new(of::<message::Got>(result))),
        "message.range" => Reply::MessageRange(of::<message::Page>(result)),
        "message.update" => Reply::MessageUpdate(Box::new(of::<message::Got>(result))),
        "message.delete" => Reply::MessageDelete(of::<message::Deleted>(result)),
        "reaction.add" => Reply::ReactionAdd(of::<reaction::Reacted>(result)),
        "reaction.remove" => Reply::ReactionRemove(of::<reaction::Reacted>(result)),
        "reaction.list" => Reply::ReactionList(of::<reaction::Listed>(result)),
        "pin.add" => Reply::PinAdd(of::<pin::Added>(result)),
        "pin.remove" => Reply::PinRemove(of::<pin::Removed>(result)),
        "pin.list" => Reply::PinList(of::<pin::Listed>(result)),
        "message.extend" => Reply::MessageExtend(of::<grow::Extended>(result)),
        "message.finish" => Reply::MessageFinish(Box::new(of::<grow::Finished>(result))),
        "message.stop" => Reply::MessageStop(Box::new(of::<message::Got>(result))),
        "message.recall" => Reply::MessageRecall(of::<message::Deleted>(result)),
        "conversation.list" => Reply::ConversationList(of::<conversation::Listed>(result)),
        "conversation.sync" => Reply::ConversationSync(of::<conversation::Synced>(result)),
        "conversation.count" => Reply::ConversationCount(of::<conversation::Counted>(result)),
        "conversation.get" => Reply::ConversationGet(Box::new(of::<conversation::Got>(result))),
        "conversation.update" => Reply::ConversationUpdate(of::<conversation::Updated>(result)),
        "conversation.direct" => Reply::ConversationDirect(of::<conversation::DirectMade>(result)),
        "conversation.hide" => Reply::ConversationHide(of::<conversation::Hidden>(result)),
        "feed.follow" => Reply::FeedFollow(of::<feed::Followed>(result)),
        "feed.unfollow" => Reply::FeedUnfollow(of::<feed::Unfollowed>(result)),
        "feed.following" => Reply::FeedFollowing(of::<feed::FollowingPage>(result)),
        "feed.followers" => Reply::FeedFollowers(of::<feed::FollowersPage>(result)),
        "message.search" => Reply::MessageSearch(found_messages(result)),
        "timeline.search" => Reply::TimelineSearch(search::FoundTimelines {
            timelines: of(&result["timelines"]),
            next: of(&result["next"]),
            behind: result["behind"] == true,
        }),
        "feed.range" => Reply::FeedRange(feed_page(result)),
        "schedule.list" => Reply::ScheduleList(of::<schedule::Listed>(result)),
        "schedule.cancel" => Reply::ScheduleCancel(of::<schedule::Cancelled>(result)),
        "message.hide" => Reply::MessageHide(of::<hide::Hid>(result)),
        "message.hidden" => Reply::MessageHidden(of::<hide::HiddenPage>(result)),
        "conversation.clear" => Reply::ConversationClear(of::<hide::Cleared>(result)),
        "read.set" => Reply::ReadSet(of::<receipt::ReadStates>(result)),
        "receipt.list" => Reply::ReceiptList(of::<receipt::Listed>(result)),
        "position.set" => Reply::PositionSet(of::<position::Stored>(result)),
        "position.list" => Reply::PositionList(of::<position::Listed>(result)),
        "position.remove" => Reply::PositionRemove(of::<position::Removed>(result)),
        "sync" => Reply::Sync(of::<sync::Synced>(result)),
        "subscribe" => Reply::Subscribe(match result.get("timelines") {
            Some(_) => sync::Following::Many(many(result)),
            None => sync::Following::One(Box::new(of::<sync::Subscribed>(result))),
        }),
        "unsubscribe" => Reply::Unsubscribe(of::<sync::Unsubscribed>(result)),
        "stream.open" => Reply::StreamOpen(of::<stream::Opened>(result)),
        "stream.close" => Reply::StreamClose(of::<stream::Closed>(result)),
        "stream.commit" => Reply::StreamCommit(of::<stream::Committed>(result)),
        "stream.cursors" => Reply::StreamCursors(of::<stream::CursorsPage>(result)),
        "stream.forget" => Reply::StreamForget(of::<stream::Forgotten>(result)),
        "session.renew" => Reply::SessionRenew(of::<sessions::Renewed>(result)),
        "session.ticket" => Reply::SessionTicket(of::<sessions::Ticket>(result)),
        "session.list" => Reply::SessionList(of::<sessions::Listed>(result)),
        "session.get" => Reply::SessionGet(Box::new(of::<sessions::Got>(result))),
        "session.close" => Reply::SessionClose(of::<sessions::Closed>(result)),
        "session.revoke" => Reply::SessionRevoke(of::<sessions::Revoked>(result)),
        "key.create" => Reply::KeyCreate(of::<key::Created>(result)),
        "key.list" => Reply::KeyList(of::<key::Listed>(result)),
        "key.revoke" => Reply::KeyRevoke(of::<key::Revoked>(result)),
        "webhook.list" => Reply::WebhookList(of::<webhook::Listed>(result)),
        "webhook.dead" => Reply::WebhookDead(of::<webhook::DeadPage>(result)),
        "webhook.replay" => Reply::WebhookReplay(of::<webhook::Replaying>(result)),
        "table.list" => Reply::TableList(of::<table::Listed>(result)),
        "table.get" => Reply::TableGet(Box::new(of::<table::Info>(result))),
        "row.get" => Reply::RowGet(of::<row::Got>(result)),
        "row.range" => Reply::RowRange(of::<row::Page>(result)),
        "row.put" => Reply::RowPut(of::<row::Stored>(result)),
        "sql.query" => Reply::SqlQuery(of::<sql::Answer>(result)),
        "partition.list" => Reply::PartitionList(of::<partition::Listed>(result)),
        "partition.split" => Reply::PartitionSplit(of::<partition::Begun>(result)),
        "partition.merge" => Reply::PartitionMerge(of::<partition::Begun>(result)),
        "backup.start" => Reply::BackupStart(of::<backup::Begun>(result)),
        "backup.status" => Reply::BackupStatus(Box::new(of::<backup::StatusNow>(result))),
        "backup.cancel" => Reply::BackupCancel(of::<backup::Cancelled>(result)),
        "server.status" => Reply::ServerStatus(Box::new(of::<server::StatusNow>(result))),
        "server.history" => Reply::ServerHistory(of::<server::Past>(result)),
        "log.tail" => Reply::LogTail(of::<log::Tailed>(result)),
        "signal" => Reply::Signal(of::<signal::Signalled>(result)),
        "presence.get" => Reply::PresenceGet(of::<signal::Got>(result)),
        unknown => panic!("{unknown} has a reply that nobody decodes"),
    }
}

/// What is beside a message's own members is read by itself, because a flattened one can't be read.
fn feed_page(result: &Value) -> feed::Page {
    let one = |one: &Value| feed::FeedMessage {
        timeline: of(&one["timeline"]),
        epoch: of(&one["epoch"]),
        message: of(one),
    };
    feed::Page {
        messages: result["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(one)
            .collect(),
        next: of(&result["next"]),
    }
}

fn found_messages(result: &Value) -> search::FoundMessages {
    let one = |one: &Value| search::FoundMessage {
        timeline: of(&one["timeline"]),
        epoch: of(&one["epoch"]),
        message: of(&one["message"]),
        found: of(&one["found"]),
    };
    let messages = result["messages"].as_array().unwrap();
    search::FoundMessages {
        messages: messages.iter().map(one).collect(),
        next: of(&result["next"]),
        behind: result["behind"] == true,
    }
}

/// Of many subscriptions each is read as what it is.
fn many(params: &Value) -> push::SubscribedMany {
    let one = |(timeline, part): (&String, &Value)| {
        let part = match part.get("reason") {
            Some(reason) => sync::SubscribedOne::Refused {
                reason: of::<Reason>(reason),
            },
            None => sync::SubscribedOne::Subscribed(Box::new(of::<sync::Subscribed>(part))),
        };
        (timeline.clone(), part)
    };
    push::SubscribedMany {
        timelines: params["timelines"]
            .as_object()
            .unwrap()
            .iter()
            .map(one)
            .collect(),
        more: of::<bool>(&params["more"]),
    }
}

/// Of changes each is read as what its kind says.
fn stream_changes(params: &Value) -> push::StreamChanges<'static> {
    let one = |one: &Value| match one["kind"].as_str().unwrap() {
        "message" => Change::Message(of(one)),
        "message.changed" => Change::MessageChanged(of(one)),
        "reaction" => Change::Reaction(of(one)),
        "timeline.created" => Change::TimelineCreated(of(one)),
        "timeline.changed" => Change::TimelineChanged(of(one)),
        "timeline.configured" => Change::TimelineConfigured(of(one)),
        "timeline.deleted" => Change::TimelineDeleted(of(one)),
        "member.changed" => Change::MemberChanged(of(one)),
        "receipt" => Change::Receipt(of(one)),
        "row.put" => Change::RowPut(of(one)),
        "row.updated" => Change::RowUpdated(of(one)),
        "row.deleted" => Change::RowDeleted(of(one)),
        unknown => panic!("nobody decodes {unknown}"),
    };
    push::StreamChanges {
        stream: of(&params["stream"]),
        changes: params["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(one)
            .collect(),
        position: of(&params["position"]),
        more: of(&params["more"]),
    }
}

fn pushed(name: &str, params: &Value) -> Push<'static> {
    match name {
        "message" => Push::Message(of::<push::Messages>(params)),
        "reaction" => Push::Reaction(of::<push::Reacted>(params)),
        "message.extended" => Push::MessageExtended(of::<push::MessageExtended>(params)),
        "message.changed" => Push::MessageChanged(of::<push::Changed>(params)),
        "timeline.changed" => Push::TimelineChanged(of::<push::TimelineChanged>(params)),
        "conversation.changed" => {
            Push::ConversationChanged(of::<push::ConversationChanged>(params))
        }
        "subscribed" => Push::Subscribed(many(params)),
        "signal" => Push::Signal(of::<push::Signal>(params)),
        "presence" => Push::Presence(of::<push::Presence>(params)),
        "member.changed" => Push::MemberChanged(of::<push::MemberChanged>(params)),
        "receipt" => Push::Receipt(of::<push::Receipts>(params)),
        "stream.changes" => Push::StreamChanges(stream_changes(params)),
        "stream.ended" => Push::StreamEnded(of::<push::StreamEnded>(params)),
        "subscription.ended" => Push::SubscriptionEnded(of::<push::SubscriptionEnded>(params)),
        "session.expiring" => Push::SessionExpiring(of::<push::SessionExpiring>(params)),
        "draining" => Push::Draining(of::<push::Draining>(params)),
        unknown => panic!("nobody decodes {unknown}"),
    }
}

fn encoded(id: &Id, answer: Result<&Reply, &Failure>) -> Vec<u8> {
    let mut out = Vec::new();
    JSON.answer(&mut out, id, answer);
    out
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn requests_are_decoded_and_encoded_as_they_stand() {
    for (name, example) in examples() {
        let Some(asked) = example.get("request") else {
            continue;
        };
        let decoded = request(asked);
        assert_eq!(decoded.method().name(), name);
        // What is written again holds all that was said; what was left out may stand there with its default.
        let written = serde_json::to_value(&decoded).unwrap();
        let params = asked.get("params").cloned().unwrap_or_else(|| json!({}));
        for (member, value) in params.as_object().unwrap() {
            assert_eq!(&written[member], value, "{name}: {member}");
        }
        if written.is_object() {
            let mut again = asked.clone();
            again["params"] = written;
            assert_eq!(request(&again), decoded, "{name}");
        }
    }
}

#[test]
fn replies_errors_and_pushes_are_encoded_as_they_stand() {
    for (name, example) in examples() {
        if let Some(stands) = example.get("push") {
            let decoded = pushed(stands["method"].as_str().unwrap(), &stands["params"]);
            assert_eq!(format!("push.{}", decoded.name()), name);
            assert_eq!(json_of(&JSON.push(&decoded)), *stands);
            continue;
        }
        if let Some(stands) = example.get("reply") {
            let decoded = reply(&name, &stands["result"]);
            let bytes = encoded(&id(&stands["id"]), Ok(&decoded));
            assert_eq!(json_of(&bytes), *stands);
        }
        let stands = &example["error"];
        let said: Said = of(&stands["error"]);
        assert_eq!(said.code, said.data.reason.code(), "{name}");
        assert_eq!(said.data.retry, said.data.reason.retry(), "{name}");
        let mut failure = Failure::new(said.data.reason).saying(said.message);
        failure.field = said.data.field;
        failure.limit = said.data.limit;
        failure.actual = said.data.actual;
        if let Some(parts) = said.data.parts {
            failure.actual = Some(Actual::Closed(Box::new(Closed {
                outcome: said.data.outcome,
                parts,
                stopped_by: said.data.stopped_by,
            })));
        }
        failure.retry_after_ms = said
            .data
            .retry_after_ms
            .and_then(|ms| u32::try_from(ms).ok());
        let bytes = encoded(&id(&stands["id"]), Err(&failure));
        assert_eq!(json_of(&bytes), *stands);
    }
}

#[test]
fn discover_answers_with_the_document() {
    let reply = Reply::Discover(session::Discovered(openrpc()));
    let bytes = encoded(&Id::Integer(1), Ok(&reply));
    assert_eq!(&json_of(&bytes)["result"], openrpc());
    assert!(bytes.len() < 1 << 20);
}
