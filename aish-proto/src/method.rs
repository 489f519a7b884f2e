//! A method is a type: its name, who may call it, its params and its result in one place.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a client may do. Each role may do all that the ones before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum ClientRole {
    /// May only read.
    Observer,
    /// May read and answer confirms.
    Approver,
    /// May do all.
    Driver,
}

/// One method of the wire.
pub trait Method {
    /// `resource/verb`, the resource in singular.
    const NAME: &'static str;
    /// What it does, for people.
    const ABOUT: &'static str;
    /// The least role that may call it.
    const ROLE: ClientRole;
    /// What the call is ordered with.
    const ORDER: MethodOrder;
    type Params: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    type Result: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
}

/// The order that a method promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodOrder {
    /// It takes its place among the changes of its conversation; it returns when what it did is durable.
    Conversation,
    /// It is served when it comes, and waits for no other call.
    Unordered,
}

/// Declares methods: `Type: "resource/verb", Role, Order, Params => Result`.
macro_rules! methods {
    ($($(#[doc = $doc:literal])* $name:ident: $wire:literal, $role:ident, $order:ident, $params:ty => $result:ty;)*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Debug)]
            pub enum $name {}

            impl $crate::method::Method for $name {
                const NAME: &'static str = $wire;
                const ABOUT: &'static str = concat!($($doc, "\n"),*);
                const ROLE: $crate::method::ClientRole = $crate::method::ClientRole::$role;
                const ORDER: $crate::method::MethodOrder = $crate::method::MethodOrder::$order;
                type Params = $params;
                type Result = $result;
            }
        )*
    };
}
pub(crate) use methods;

/// Params or result of a method that has none: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Empty {}
