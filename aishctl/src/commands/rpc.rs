//! `rpc`: one raw call, for what has no command yet and for scripts.

use std::io::Read as _;

use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::connect::CallFailure;
use crate::command_output::{CommandOutput, OutputKind, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;

#[derive(Args, Clone, Debug)]
pub struct RpcArgs {
    /// For example daemon/status
    #[arg(required_unless_present = "schema")]
    pub method: Option<String>,
    /// One JSON object; `-` reads it from stdin
    pub params: Option<String>,
    /// Print the schema of the whole wire; needs no daemon
    #[arg(long, conflicts_with = "method")]
    pub schema: bool,
}

/// As JSON-RPC has it.
const METHOD_NOT_FOUND: i32 = -32601;

/// The schema of the whole wire, from this program's own types.
pub fn schema(pretty: bool) -> String {
    let document = aish_proto::schema::document();
    if pretty {
        format!("{document:#}\n")
    } else {
        format!("{document}\n")
    }
}

pub async fn run(context: &CommandContext, args: &RpcArgs) -> PrintResult {
    let Some(method) = &args.method else {
        return Ok(CommandOutput {
            text: schema(false),
            kind: OutputKind::Json,
            exit: Exit::DONE,
        });
    };
    let mut text = args.params.clone().unwrap_or_else(|| "{}".to_owned());
    if text == "-" {
        text.clear();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::new(Exit::FAILED, format!("cannot read stdin: {error}")))?;
    }
    let params = object(&text)?;
    // What waits by itself is not cut off by us.
    let deadline = if method == "turn/wait" {
        context.global.timeout
    } else {
        Some(context.caller.deadline())
    };
    let result = context.caller.raw(method, params, deadline).await;
    let result = result.map_err(|error| match error.kind {
        CallFailure::Protocol(METHOD_NOT_FOUND) => {
            Failure::new(Exit::FAILED, format!("aishd has no method {method}"))
                .hint("aishctl rpc --schema has them all")
        }
        _ => error.into(),
    })?;
    let pretty = context.around.stdout_terminal && !context.global.json && !context.global.jsonl;
    let text = match serde_json::from_str::<Value>(result.get()) {
        Ok(value) if pretty => format!("{value:#}\n"),
        Ok(_) | Err(_) => format!("{}\n", result.get()),
    };
    Ok(CommandOutput {
        text,
        kind: OutputKind::Json,
        exit: Exit::DONE,
    })
}

/// The params as they were written, if they are one object.
fn object(text: &str) -> Result<Box<RawValue>, Failure> {
    let wrong = |why: String| {
        Failure::new(
            Exit::USAGE,
            format!("params are not one JSON object: {why}"),
        )
        .hint("aishctl rpc conversation/list '{\"limit\":1}'")
    };
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => {}
        Ok(_) => return Err(wrong("another kind of value".to_owned())),
        Err(error) => return Err(wrong(error.to_string())),
    }
    // One line: the wire's frames end at a line feed.
    let value: Value = serde_json::from_str(text).map_err(|it| wrong(it.to_string()))?;
    serde_json::value::to_raw_value(&value).map_err(|it| wrong(it.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_one_object_on_one_line() {
        assert_eq!(
            "{\"a\":\"b\\n\"}",
            object("{\n \"a\": \"b\\n\" }").unwrap().get()
        );
        for wrong in ["", "[1]", "1", "{", "{} {}"] {
            assert_eq!(Exit::USAGE, object(wrong).unwrap_err().exit, "{wrong}");
        }
    }

    #[test]
    fn the_schema_needs_no_daemon() {
        let document: Value = serde_json::from_str(&schema(true)).unwrap();
        assert!(document["methods"]["turn/send"].is_object());
        assert_eq!(1, schema(false).lines().count());
    }
}
