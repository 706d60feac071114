//! Enums that know all of their variants.
//!
//! Owns: the macro `listed`. Promises: `ALL` holds each variant once, in the order of the declaration, because both are
//! made from the same lines. Must not: know what is listed.

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
