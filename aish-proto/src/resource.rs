//! `resource/*`: the shared context of a conversation, JSON under names that its tools and its people can read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answerer::Answerer;
use crate::id::{BlobId, ConversationId, Seq};
use crate::method::methods;

methods! {
    /// Makes a resource. One that is there already is an error. Returns once it is durable.
    Create: "resource/create", Driver, Conversation, ResourceCreateParams => ChangedResult;
    /// A resource with its data.
    Get: "resource/get", Observer, Unordered, ResourceGetParams => ResourceGetResult;
    /// Replaces the data of a resource. Returns once that is durable.
    Update: "resource/update", Driver, Conversation, UpdateParams => ChangedResult;
    /// The resources of a conversation in the order of their names, without their data.
    List: "resource/list", Observer, Unordered, ResourceListParams => ResourceListResult;
    /// Returns once it is durable.
    Delete: "resource/delete", Driver, Conversation, ResourceDeleteParams => ChangedResult;
    /// Checks a resource against a JSON Schema.
    Validate: "resource/validate", Observer, Unordered, ValidateParams => ValidateResult;
}

/// Who made a change: exactly one of the two is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAuthor {
    /// A tool's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<Answerer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ResourceChangeKind {
    Created,
    Updated,
    Deleted,
}

/// What there is to say of a resource beside its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetadata {
    pub name: String,
    pub revision: u64,
    /// Of its data as JSON without blanks.
    pub bytes: u64,
    pub created_at: String,
    pub created_by: ResourceAuthor,
    pub updated_at: String,
    pub updated_by: ResourceAuthor,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceCreateParams {
    pub conversation: ConversationId,
    /// 1 to 128 letters, digits and `. _ - /`, not beginning with `-`.
    pub name: String,
    /// Any JSON, at most 1 MiB without blanks. Exactly one of `data` and `blob` is given.
    #[serde(
        default,
        deserialize_with = "some_value",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<Value>,
    /// The same as text, put before by `blob/put`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateParams {
    pub conversation: ConversationId,
    pub name: String,
    /// As in `resource/create`.
    #[serde(
        default,
        deserialize_with = "some_value",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobId>,
    /// Nothing happens unless the resource is at this revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
    /// Make it if there is none; not together with `expectedRevision`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create: bool,
}

/// Of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedResult {
    pub name: String,
    pub change: ResourceChangeKind,
    /// It goes on over a deletion, so that nobody takes a new resource for the old one.
    pub revision: u64,
    pub bytes: u64,
    pub seq: Seq,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceGetParams {
    pub conversation: ConversationId,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGetResult {
    pub resource: ResourceMetadata,
    pub data: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceListParams {
    pub conversation: ConversationId,
    /// `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// At most 500; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceListResult {
    pub resources: Vec<ResourceMetadata>,
    /// Of the whole conversation, which has 10,000 at most.
    pub total: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceDeleteParams {
    pub conversation: ConversationId,
    pub name: String,
    /// Nothing happens unless the resource is at this revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValidateParams {
    pub conversation: ConversationId,
    pub name: String,
    /// A JSON Schema of at most 64 KiB that refers to nothing outside itself.
    pub schema: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidateResult {
    pub valid: bool,
    pub revision: u64,
    /// At most twenty.
    pub errors: Vec<SchemaMismatch>,
}

/// Where a resource is not as the schema says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaMismatch {
    /// A JSON Pointer (RFC 6901) into the data; empty: all of it.
    pub path: String,
    pub message: String,
}

/// `null` is data, too: only what is not said is absent.
fn some_value<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}
