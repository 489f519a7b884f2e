//! Two tools by which a model reads on in commands that go on in the background of its conversation, and ends them. Both do only
//! what concerns such a command, which was let through when it began, so nobody is asked.

use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::JobId;
use aishd_log::access::Access;
use aishd_log::job::{OUTPUT_TOOL, STOP_TOOL};
use aishd_log::shell;
use aishd_log::tool::{ClaimSource, NetworkUse, Tool, ToolReach};
use aishd_log::tool_name::ToolName;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) const PROVIDER: &str = shell::PROVIDER;
const PROVIDED: &str = "this machine";
/// A call waits no longer, so that its turn goes on.
const MOST_WAIT_SECONDS: u64 = 300;

/// A call of one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobCall {
    /// What came since the last such call, once there is something, or it has ended, or the time is over.
    Output {
        job: JobId,
        wait: Duration,
    },
    Stop {
        job: JobId,
    },
}

pub(super) fn tools() -> [Tool; 2] {
    let job = json!({"type": "string", "description": "the name of the job, such as job-1"});
    [
        tool(
            OUTPUT_TOOL,
            "What a command that you run in the background has printed since you read it last, and whether it still runs.",
            json!({"readOnlyHint": true, "openWorldHint": false}),
            &json!({
                "job": job,
                "wait": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MOST_WAIT_SECONDS,
                    "description": "wait so many seconds for something new, or for its end",
                },
            }),
        ),
        tool(
            STOP_TOOL,
            "Ends a command that you run in the background, with all that it started.",
            json!({"readOnlyHint": false, "destructiveHint": false, "openWorldHint": false}),
            &json!({ "job": job }),
        ),
    ]
}

/// One that takes a job. Calls come one after another: each moves on where the next one reads.
fn tool(name: &str, description: &str, annotations: Value, properties: &Value) -> Tool {
    #[expect(clippy::expect_used, reason = "these names are written in this room")]
    let name: ToolName = name.parse().expect("a well-formed name");
    Tool {
        name,
        description: description.to_owned(),
        schema: json!({
            "type": "object",
            "properties": properties,
            "required": ["job"],
            "additionalProperties": false,
        }),
        annotations,
        server: PROVIDED.into(),
        place: PROVIDED.into(),
        needs: Access::Read,
        needs_by: ClaimSource::Ours,
        reads_only: false,
        reach: ToolReach::Conversation,
        network: NetworkUse::Stays,
        packages: Arc::default(),
        directory: None,
    }
}

/// Whether a tool is one of the two.
pub fn is_for_jobs(name: &ToolName) -> bool {
    name.alias().as_str() == PROVIDER
}

#[derive(Deserialize)]
struct JobArguments {
    job: JobId,
    #[serde(default)]
    wait: u64,
}

/// What a call of a capability means; `None`: there is no such capability.
pub(super) fn call(
    capability: &str,
    arguments: &Map<String, Value>,
) -> Option<Result<JobCall, String>> {
    let is_stop = match format!("{PROVIDER}__{capability}").as_str() {
        OUTPUT_TOOL => false,
        STOP_TOOL => true,
        _ => return None,
    };
    let read = serde_json::from_value(Value::Object(arguments.clone()));
    let read = read.map_err(|error| format!("its arguments are not right: {error}"));
    Some(read.map(|JobArguments { job, wait }| {
        if is_stop {
            return JobCall::Stop { job };
        }
        let wait = Duration::from_secs(wait.min(MOST_WAIT_SECONDS));
        JobCall::Output { job, wait }
    }))
}
