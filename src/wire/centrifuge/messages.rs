//! Messages as a `.proto` describes them: a row for each field, which both encodings share.
//!
//! Owns: what a row is to prost and to serde. Promises: in JSON a field that is a default is left out, unless its row
//! says `required`; `null` counts as absent, and unknown fields are passed over. Must not: know any message.

/// Makes a struct of each message.
macro_rules! messages {
    ($($(#[$about:meta])* message $name:ident { $($rows:tt)* })*) => {
        $(messages! { @row [$(#[$about])* $name] [] $($rows)* })*
    };
    (@row [$(#[$about:meta])* $name:ident] [$($fields:tt)*]) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, prost::Message, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name { $($fields)* }
    };
    (@row $to:tt $fields:tt $(#[$about:meta])* required $($row:tt)*) => {
        messages! { @kind $to $fields [$(#[$about])*] "crate::centrifuge::payload::never" $($row)* }
    };
    (@row $to:tt $fields:tt $(#[$about:meta])* $kind:ident $($row:tt)*) => {
        messages! { @kind $to $fields [$(#[$about])*] "crate::centrifuge::payload::is_default" $kind $($row)* }
    };
    (@kind $to:tt $fields:tt $about:tt $skip:tt bytes $name:ident = $tag:tt; $($rest:tt)*) => {
        messages! { @field $to $fields $about [bytes = "bytes", tag = $tag]
            [with = "crate::centrifuge::payload", skip_serializing_if = $skip] $name bytes::Bytes; $($rest)* }
    };
    (@kind $to:tt $fields:tt $about:tt $skip:tt optional $of:ident $name:ident = $tag:tt; $($rest:tt)*) => {
        messages! { @plain $to $fields $about $skip [message, optional, tag = $tag] $name Option<$of>; $($rest)* }
    };
    (@kind $to:tt $fields:tt $about:tt $skip:tt repeated $of:ident $name:ident = $tag:tt; $($rest:tt)*) => {
        messages! { @plain $to $fields $about $skip [message, repeated, tag = $tag] $name Vec<$of>; $($rest)* }
    };
    (@kind $to:tt $fields:tt $about:tt $skip:tt map<string, string> $name:ident = $tag:tt; $($rest:tt)*) => {
        messages! { @plain $to $fields $about $skip [btree_map = "string, string", tag = $tag]
            $name std::collections::BTreeMap<String, String>; $($rest)* }
    };
    (@kind $to:tt $fields:tt $about:tt $skip:tt map<string, $of:ident> $name:ident = $tag:tt; $($rest:tt)*) => {
        messages! { @plain $to $fields $about $skip [btree_map = "string, message", tag = $tag]
            $name std::collections::BTreeMap<String, $of>; $($rest)* }
    };
    (@kind $to:tt $fields:tt $about:tt $skip:tt $kind:ident $name:ident = $tag:tt; $($rest:tt)*) => {
        messages! { @plain $to $fields $about $skip [$kind, tag = $tag]
            $name crate::centrifuge::messages::scalars::$kind; $($rest)* }
    };
    (@plain $to:tt $fields:tt $about:tt $skip:tt $prost:tt $($rest:tt)*) => {
        messages! { @field $to $fields $about $prost
            [deserialize_with = "crate::params::or_default", skip_serializing_if = $skip] $($rest)* }
    };
    (@field $to:tt [$($fields:tt)*] [$($about:tt)*] [$($prost:tt)*] [$($serde:tt)*]
        $name:ident $type:ty; $($rest:tt)*) => {
        messages! { @row $to [$($fields)* $($about)* #[prost($($prost)*)] #[serde($($serde)*)]
            pub $name: $type,] $($rest)* }
    };
}
pub(super) use messages;

/// Rust's types under the names that protobuf has for them.
pub(super) mod scalars {
    pub(crate) use std::primitive::bool;
    pub(crate) use std::primitive::{i32 as int32, i64 as int64, u32 as uint32, u64 as uint64};
    pub(crate) use std::string::String as string;
}
