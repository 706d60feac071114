//! Enums that know all of their variants, and what is made of the one list of methods.
//!
//! Owns: the macros `listed` and `methods`, and what the word of each method in its list means. Promises: `ALL` holds
//! each variant once, in the order of the declaration, because both are made from the same lines, and so are the names,
//! the decoding, the schemas and the effects of methods. Must not: know what is listed, but the methods that wait.

macro_rules! listed {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[doc = $doc:literal])+ $variant:ident,)+ }) => {
        $(#[$attribute])*
        pub enum $name { $($(#[doc = $doc])+ $variant,)+ }

        impl $name {
            /// Every one, in the order in which they are declared.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];
        }
    };
}

/// Makes everything that there is once for each method.
macro_rules! methods {
    ($($method:ident($params:ty) -> $reply:ty, $name:literal, $effect:ident,
        $needs:ident[$($right:ident),*], $summary:literal;)*) => {
        /// A method of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`: ", $summary, ".")] $method,)*
        }

        impl Method {
            /// All of them, in the order of the protocol's table.
            pub const ALL: &'static [Method] = &[$(Method::$method,)*];

            /// Its name on the wire; also the label in metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Method::$method => $name,)* }
            }

            /// The method of a name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Method> {
                match name {
                    $($name => Some(Method::$method),)*
                    _ => None,
                }
            }

            /// What it does, in a line.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(Method::$method => $summary,)* }
            }

            /// Whether a call is worth doing if nobody reads the answer.
            #[must_use]
            pub fn has_effect(self) -> bool {
                match self { $(Method::$method => has_effect!($effect),)* }
            }

            /// What a caller needs for it, where there is `[auth]`.
            #[must_use]
            pub fn needs(self) -> Needs {
                match self {
                    $(Method::$method => {
                        const RIGHTS: Rights = Rights::NONE $(.with(Right::$right))*;
                        Needs::$needs(RIGHTS)
                    })*
                }
            }

            /// The schema of its parameters.
            pub fn params(self, generator: &mut SchemaGenerator) -> Schema {
                match self { $(Method::$method => <$params>::json_schema(generator),)* }
            }

            /// The schema of its result.
            pub fn result(self, generator: &mut SchemaGenerator) -> Schema {
                match self { $(Method::$method => <$reply>::json_schema(generator),)* }
            }

            /// Its example in `schemas/examples/`, as JSON text.
            pub fn example(self) -> &'static str {
                match self {
                    $(Method::$method => {
                        include_str!(concat!("../../schemas/examples/", $name, ".json"))
                    })*
                }
            }
        }

        /// A decoded and checked call. Serialises as its parameters alone. An absent member is written as `null`,
        /// which readers take as absent.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Request {
            $(#[doc = concat!("`", $name, "`.")] $method($params),)*
        }

        impl Request {
            /// The method that is called.
            #[must_use]
            pub fn method(&self) -> Method {
                match self { $(Request::$method(_) => Method::$method,)* }
            }

            /// How long the call may wait for news, ms.
            #[must_use]
            pub fn wait_ms(&self) -> Option<u64> {
                match self {
                    Request::Sync(sync) => sync.wait_ms,
                    Request::ConversationSync(sync) => sync.wait_ms,
                    Request::LogTail(tail) => tail.wait_ms,
                    _ => None,
                }
            }

            /// Reads the parameters of a method.
            pub fn read(method: Method, params: impl Params) -> Result<Request, Failure> {
                match method { $(Method::$method => params.read().map(Request::$method),)* }
            }

            /// What the shortest answer may take beyond that of most methods, bytes.
            pub fn extra_bytes(&self) -> usize {
                match self { $(Request::$method(params) => extra_bytes!($effect, params),)* }
            }
        }

        /// The result of a call that succeeded. Serialises as the result alone, without a tag.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Reply {
            $(#[doc = concat!("`", $name, "`.")] $method($reply),)*
        }

        impl Reply {
            /// What is sent where there is room for the shortest answer only; `None` = a refusal, for the client
            /// can ask again.
            pub(crate) fn shortened(self) -> Option<Reply> {
                match self { $(Reply::$method(reply) => shortened!($effect, reply).map(Reply::$method),)* }
            }
        }
    };
}

// The word of each method in the list below says whether it has an effect, and how its answer gives way in a batch
// whose answers pass the limit:
//   changes   it has an effect, and its answer is always short
//   extends   the same, but the parameters say how much longer: [`ExtraBytes`]
//   shortens  the same, but what may be long in its answer is left out: [`Shorten`]
//   answers   it has none, and a refusal takes the place of its answer
//   counts    it has none, and its answer is always short

macro_rules! has_effect {
    (answers) => {
        false
    };
    (counts) => {
        false
    };
    ($other:ident) => {
        true
    };
}

macro_rules! extra_bytes {
    (extends, $params:ident) => {
        $params.extra_bytes()
    };
    ($other:ident, $params:ident) => {{
        let _ = $params;
        0
    }};
}

macro_rules! shortened {
    (answers, $reply:ident) => {{
        let _ = $reply;
        None
    }};
    (shortens, $reply:ident) => {{
        let mut reply = $reply;
        reply.shorten();
        Some(reply)
    }};
    ($other:ident, $reply:ident) => {
        Some($reply)
    };
}
