//! What clients of JSON-RPC and of Centrifuge send.
//!
//! Owns: nothing. Promises: a request that was read can be refused in words that are well-formed. Must not: know a
//! session.

use bytes::Bytes;
use tideline_base::decode;
use tideline_base::faults::Decoder;
use tideline_model::timelines::Message;
use tideline_wire::centrifuge::{
    ApiBatch, ApiCommand, ApiDisconnect, ApiLine, ApiRpc, Commands, EmulationRequest, Encoding,
    Publish, shown,
};
use tideline_wire::jsonrpc::{JSON, MESSAGE_PACK, by_name};
use tideline_wire::{Dialect, Failure, Id, Incoming, Limits, Reason};

pub(crate) const TARGETS: &[Decoder] = &[
    ("jsonrpc", |input| requests(&JSON, input)),
    ("messagepack", |input| requests(&MESSAGE_PACK, input)),
    ("call_by_name", call),
    ("centrifuge_json", |input| commands(Encoding::Json, input)),
    ("centrifuge_protobuf", |input| {
        commands(Encoding::Protobuf, input)
    }),
    ("centrifuge_post", post),
    ("centrifuge_api", api),
    ("centrifuge_message", publication),
];

fn requests(dialect: &'static dyn Dialect, input: &[u8]) {
    let limits = Limits::DEFAULT;
    let refusal: Failure = Reason::InvalidRequest.into();
    match dialect.decode(input, &limits) {
        Ok(Incoming::Batch(calls, mut together)) => {
            assert!(calls.len() as u64 <= limits.batch_calls_max());
            for call in &calls {
                if let Some(id) = &call.id {
                    together.add(id, Err(refusal.clone()));
                }
            }
            together.finish();
        }
        Ok(incoming) => {
            for call in incoming.calls() {
                let id = call.id.as_ref().unwrap_or(&Id::Null);
                let answer = call.request.as_ref().err().unwrap_or(&refusal);
                assert!(!dialect.encode(id, Err(answer)).is_empty());
            }
        }
        Err(failure) => assert!(!dialect.encode(&Id::Null, Err(&failure)).is_empty()),
    }
}

/// A method's name, a line end, its parameters.
fn call(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    if let Ok(method) = std::str::from_utf8(&input[..at]) {
        let _ = by_name(method, &input[at..], &Limits::DEFAULT);
    }
}

fn commands(encoding: Encoding, input: &[u8]) {
    let Ok(commands) = Commands::new(encoding, Bytes::copy_from_slice(input)) else {
        return;
    };
    let mut taken = 0;
    for command in commands.take_while(Result::is_ok).flatten() {
        taken += command.1;
        assert!(taken <= input.len());
    }
}

fn post(input: &[u8]) {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        if let Some(post) = EmulationRequest::read(encoding, Bytes::copy_from_slice(input)) {
            assert!(post.data.len() <= input.len());
        }
    }
}

fn api(input: &[u8]) {
    let _ = decode::from_slice::<ApiLine<'_>>(input).map(|line| line.method());
    let _ = decode::from_slice::<ApiCommand<'_>>(input).map(|command| command.one().is_some());
    let _ = decode::from_slice::<ApiBatch<'_>>(input).map(|batch| batch.commands.len());
    let _ = decode::from_slice::<ApiRpc>(input);
    if let Ok(publish) = decode::from_slice::<Publish>(input) {
        let _ = (publish.data().is_ok(), publish.is_json());
    }
    if let Ok(ApiDisconnect {
        disconnect: Some(close),
        ..
    }) = decode::from_slice(input)
    {
        let _ = close.is_fit();
    }
}

fn publication(input: &[u8]) {
    if let Ok(message) = decode::from_slice::<Message>(input) {
        let _ = shown(&message);
    }
}
