//! `data-tool`: the shared context of the conversation, for models and lists of calls.

use aishd_log::access::Access;
use aishd_log::resource::{
    ChangeAuthor, ResourceAction, ResourceChange, ResourceData, ResourceHead, ResourceName,
};
use aishd_log::tool::{Tool, ToolReach};
use aishd_mcp_messages::schema::SchemaMisfit;
use aishd_platform::clock;
use serde_json::{Map, Value, json};

use super::tool;
use crate::text;

pub(super) const PROVIDER: &str = "data-tool";
const PROVIDED: &str = "aishd, data-tool 1.0.0";

/// Resources that one call lists, unless it says fewer.
const PAGE: u64 = 100;

/// A call of one of its capabilities.
#[derive(Clone, Debug, PartialEq)]
pub enum DataCall {
    Change(ResourceChange),
    Read(ResourceName),
    List {
        after: Option<ResourceName>,
        limit: usize,
    },
    /// Without a schema: whether it is there.
    Validate {
        name: ResourceName,
        schema: Option<Value>,
    },
}

pub(super) fn tools() -> [Tool; 6] {
    let name = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": 128,
        "pattern": "^[A-Za-z0-9._/][A-Za-z0-9._/-]*$",
        "description": "what the resource is called",
    });
    let data = json!({"description": "any JSON, at most 1 MiB"});
    let expected = json!({
        "type": "integer",
        "minimum": 1,
        "description": "fail unless the resource is at this revision",
    });
    [
        writes(
            "create-resource",
            "Creates a resource in the conversation's shared context; an error if there is one of this name.",
            false,
            object(&json!({"name": name, "data": data}), &["name", "data"]),
        ),
        reads(
            "read-resource",
            "Reads a resource of the conversation's shared context: its data, its revision, and who wrote it when.",
            object(&json!({"name": name}), &["name"]),
        ),
        writes(
            "update-resource",
            "Replaces the data of a resource in the conversation's shared context.",
            true,
            object(
                &json!({"name": name, "data": data, "expectedRevision": expected}),
                &["name", "data"],
            ),
        ),
        writes(
            "delete-resource",
            "Deletes a resource from the conversation's shared context.",
            true,
            object(
                &json!({"name": name, "expectedRevision": expected}),
                &["name"],
            ),
        ),
        reads(
            "list-resources",
            "Lists the resources of the conversation's shared context by name, without their data.",
            object(
                &json!({
                    "after": {"type": "string", "description": "list only names behind this one"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": PAGE},
                }),
                &[],
            ),
        ),
        reads(
            "validate-resource",
            "Checks a resource of the conversation's shared context against a JSON Schema; without one, that it is there.",
            object(
                &json!({
                    "name": name,
                    "schema": {
                        "type": ["object", "boolean"],
                        "description": "a JSON Schema that refers to nothing outside itself",
                    },
                }),
                &["name"],
            ),
        ),
    ]
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn reads(capability: &str, description: &str, schema: Value) -> Tool {
    let name = format!("{PROVIDER}__{capability}");
    tool(
        &name,
        PROVIDED,
        description,
        schema,
        ToolReach::Conversation,
    )
}

fn writes(capability: &str, description: &str, destroys: bool, schema: Value) -> Tool {
    let name = format!("{PROVIDER}__{capability}");
    Tool {
        annotations: json!({
            "readOnlyHint": false,
            "destructiveHint": destroys,
            "openWorldHint": false,
        }),
        needs: Access::Write,
        reads_only: false,
        ..tool(&name, PROVIDED, description, schema, ToolReach::World)
    }
}

/// What a call of a capability means; `None`: there is no such capability.
pub(super) fn call(
    capability: &str,
    arguments: &Map<String, Value>,
) -> Option<Result<DataCall, String>> {
    Some(match capability {
        "create-resource" => change(arguments, |it| Ok(ResourceAction::Create(data(it)?))),
        "update-resource" => change(arguments, |it| {
            Ok(ResourceAction::Update(data(it)?, expected(it)?))
        }),
        "delete-resource" => change(arguments, |it| Ok(ResourceAction::Delete(expected(it)?))),
        "read-resource" => name_argument(arguments, "name").map(DataCall::Read),
        "list-resources" => list(arguments),
        "validate-resource" => name_argument(arguments, "name").map(|name| DataCall::Validate {
            name,
            schema: arguments.get("schema").cloned(),
        }),
        _ => return None,
    })
}

fn change(
    arguments: &Map<String, Value>,
    action: impl FnOnce(&Map<String, Value>) -> Result<ResourceAction, String>,
) -> Result<DataCall, String> {
    let name = name_argument(arguments, "name")?;
    let action = action(arguments)?;
    Ok(DataCall::Change(ResourceChange { name, action }))
}

fn list(arguments: &Map<String, Value>) -> Result<DataCall, String> {
    let after = match arguments.get("after") {
        Some(_) => Some(name_argument(arguments, "after")?),
        None => None,
    };
    let limit = number(arguments, "limit")?.unwrap_or(PAGE).clamp(1, PAGE);
    let limit = usize::try_from(limit).unwrap_or(1);
    Ok(DataCall::List { after, limit })
}

/// A member of a call's arguments that has to be a resource's name.
pub(super) fn name_argument(
    arguments: &Map<String, Value>,
    member: &str,
) -> Result<ResourceName, String> {
    let name = text(arguments, member)?;
    name.parse()
        .map_err(|error: aishd_log::resource::BadName| error.to_string())
}

fn data(arguments: &Map<String, Value>) -> Result<ResourceData, String> {
    let data = arguments.get("data");
    let data = data.ok_or("\"data\" has to be there, and may be any JSON")?;
    ResourceData::of(data).map_err(|error| error.to_string())
}

fn expected(arguments: &Map<String, Value>) -> Result<Option<u64>, String> {
    number(arguments, "expectedRevision")
}

fn number(arguments: &Map<String, Value>, member: &str) -> Result<Option<u64>, String> {
    let Some(value) = arguments.get(member) else {
        return Ok(None);
    };
    let number = value.as_u64();
    let number = number.ok_or_else(|| format!("{member:?} has to be a whole number"))?;
    Ok(Some(number))
}

/// A resource as `read-resource` gives it.
pub fn resource_text(name: &ResourceName, head: &ResourceHead, data: &ResourceData) -> String {
    let mut shown = head_json(name, head);
    // What the store has is what was checked when it came.
    let data = serde_json::from_str(data.as_str()).unwrap_or(Value::Null);
    shown.insert("data".to_owned(), data);
    Value::Object(shown).to_string()
}

/// A page of resources as `list-resources` gives it.
pub fn list_text(page: &[(ResourceName, ResourceHead)], total: u32, more: bool) -> String {
    let rows: Vec<Value> = page
        .iter()
        .map(|(name, head)| Value::Object(head_json(name, head)))
        .collect();
    let mut listed = json!({"total": total, "resources": rows});
    if let Some((last, _)) = page.last().filter(|_| more) {
        listed["next"] = json!({"after": last.as_str()});
    }
    listed.to_string()
}

/// What `validate-resource` says.
pub fn validated(name: &ResourceName, head: &ResourceHead, misfits: &[SchemaMisfit]) -> String {
    let errors: Vec<Value> = misfits
        .iter()
        .map(|it| json!({"path": it.path, "message": it.reason}))
        .collect();
    json!({
        "name": name.as_str(),
        "revision": head.revision,
        "valid": errors.is_empty(),
        "errors": errors,
    })
    .to_string()
}

fn head_json(name: &ResourceName, head: &ResourceHead) -> Map<String, Value> {
    let who = |author: &ChangeAuthor| match author {
        ChangeAuthor::Provider(alias) => alias.to_string(),
        ChangeAuthor::Person(_) => "a person".to_owned(),
    };
    let about = [
        ("name", json!(name.as_str())),
        ("revision", json!(head.revision)),
        ("bytes", json!(head.bytes)),
        ("createdBy", json!(who(&head.created_by))),
        ("createdAt", json!(clock::rfc3339(head.created_at))),
        ("updatedBy", json!(who(&head.updated_by))),
        ("updatedAt", json!(clock::rfc3339(head.updated_at))),
    ];
    let about = about.map(|(member, value)| (member.to_owned(), value));
    about.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a call is, or why it is none.
    #[track_caller]
    fn check(capability: &str, arguments: &str, expected: &str) {
        let arguments = serde_json::from_str(arguments).unwrap();
        let came = match call(capability, &arguments) {
            None => "none".to_owned(),
            Some(Err(why)) => why,
            Some(Ok(DataCall::Change(ResourceChange { name, action }))) => match action {
                ResourceAction::Create(data) => format!("create {name} {}", data.as_str()),
                ResourceAction::Update(data, it) => {
                    format!("update {name} {} {it:?}", data.as_str())
                }
                ResourceAction::Delete(it) => format!("delete {name} {it:?}"),
                ResourceAction::Put(data, _) => format!("put {name} {}", data.as_str()),
            },
            Some(Ok(DataCall::Read(name))) => format!("read {name}"),
            Some(Ok(DataCall::List { after, limit })) => format!(
                "list {} {limit}",
                after.map(|it| it.to_string()).unwrap_or_default()
            ),
            Some(Ok(DataCall::Validate { name, schema })) => format!("validate {name} {schema:?}"),
        };
        assert_eq!(expected, came, "{capability}");
    }

    #[test]
    fn a_call_says_what_it_wants_or_is_refused() {
        check(
            "create-resource",
            r#"{"name": "a", "data": null}"#,
            "create a null",
        );
        check(
            "create-resource",
            r#"{"name": "a"}"#,
            "\"data\" has to be there, and may be any JSON",
        );
        check(
            "update-resource",
            r#"{"name": "a", "data": [1, 2], "expectedRevision": 3}"#,
            "update a [1,2] Some(3)",
        );
        check(
            "update-resource",
            r#"{"name": "a", "data": 1, "expectedRevision": "3"}"#,
            "\"expectedRevision\" has to be a whole number",
        );
        check("delete-resource", r#"{"name": "a"}"#, "delete a None");
        check("read-resource", r#"{"name": "a/b"}"#, "read a/b");
        check(
            "read-resource",
            r#"{"name": "-a"}"#,
            &aishd_log::resource::BadName.to_string(),
        );
        check("read-resource", "{}", "\"name\" has to be a text");
        check("list-resources", "{}", "list  100");
        check(
            "list-resources",
            r#"{"after": "m", "limit": 7000}"#,
            "list m 100",
        );
        check("list-resources", r#"{"limit": 0}"#, "list  1");
        check(
            "validate-resource",
            r#"{"name": "a", "schema": true}"#,
            "validate a Some(Bool(true))",
        );
        check("drop-resources", "{}", "none");
    }

    #[test]
    fn what_is_larger_than_a_resource_may_be_is_refused_at_once() {
        let data = "x".repeat(1 << 20);
        let arguments = json!({"name": "a", "data": data});
        let Value::Object(arguments) = arguments else {
            panic!("no object");
        };
        let refused = call("create-resource", &arguments).unwrap().unwrap_err();
        let expected = "1048578 bytes of JSON are more than the 1048576 that a resource may have";
        assert_eq!(expected, refused);
    }
}
