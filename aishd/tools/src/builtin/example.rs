//! `example-tool`: two harmless tools to try things with; one of them reads what another provider wrote.

use aishd_log::resource::ResourceName;
use aishd_log::tool::{Tool, ToolReach};
use serde_json::{Map, Value, json};

use super::{data, tool};
use crate::text;

pub(super) const PROVIDER: &str = "example-tool";
const PROVIDED: &str = "aishd, example-tool 1.0.0";

const GREETING: &str = "Hello from example-tool.";

/// A call of one of its capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExampleCall {
    Greet,
    Echo(String),
    /// The data of a resource of the shared context.
    EchoResource(ResourceName),
}

pub(super) fn tools() -> [Tool; 2] {
    let tool = |capability: &str, description: &str, schema: Value| {
        let name = format!("{PROVIDER}__{capability}");
        tool(
            &name,
            PROVIDED,
            description,
            schema,
            ToolReach::Conversation,
        )
    };
    [
        tool(
            "greet",
            "Says hello.",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        ),
        tool(
            "echo",
            "Gives back a text, or the data of a resource of the conversation's shared context.",
            json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "resource": {"type": "string", "description": "the resource's name"},
                },
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": false,
            }),
        ),
    ]
}

/// What a call of a capability means; `None`: there is no such capability.
pub(super) fn call(
    capability: &str,
    arguments: &Map<String, Value>,
) -> Option<Result<ExampleCall, String>> {
    match capability {
        "greet" => Some(Ok(ExampleCall::Greet)),
        "echo" => Some(echo(arguments)),
        _ => None,
    }
}

fn echo(arguments: &Map<String, Value>) -> Result<ExampleCall, String> {
    match (arguments.get("text"), arguments.get("resource")) {
        (Some(_), None) => Ok(ExampleCall::Echo(text(arguments, "text")?.to_owned())),
        (None, Some(_)) => {
            data::name_argument(arguments, "resource").map(ExampleCall::EchoResource)
        }
        (Some(_), Some(_)) | (None, None) => {
            Err("either \"text\" or \"resource\" has to be there".to_owned())
        }
    }
}

pub fn greeting() -> String {
    GREETING.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(capability: &str, arguments: &str, expected: Option<Result<ExampleCall, &str>>) {
        let arguments = serde_json::from_str(arguments).unwrap();
        let expected = expected.map(|it| it.map_err(str::to_owned));
        assert_eq!(expected, call(capability, &arguments));
    }

    #[test]
    fn it_greets_and_gives_back_one_thing() {
        let one = "either \"text\" or \"resource\" has to be there";
        check("greet", "{}", Some(Ok(ExampleCall::Greet)));
        check(
            "echo",
            r#"{"text": "a\nb"}"#,
            Some(Ok(ExampleCall::Echo("a\nb".to_owned()))),
        );
        check(
            "echo",
            r#"{"resource": "build-config"}"#,
            Some(Ok(ExampleCall::EchoResource(
                "build-config".parse().unwrap(),
            ))),
        );
        check("echo", "{}", Some(Err(one)));
        check("echo", r#"{"text": "a", "resource": "b"}"#, Some(Err(one)));
        check(
            "echo",
            r#"{"text": 7}"#,
            Some(Err("\"text\" has to be a text")),
        );
        check("shout", "{}", None);
    }
}
