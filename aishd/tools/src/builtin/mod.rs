//! Providers that are part of the daemon: `aish` itself, two around the shared context of a conversation, the files of this machine,
//! the tasks of a conversation, pages of the web, and commands in the background.

mod aish;
pub mod data;
pub mod example;
mod files;
mod job;
mod todo;
mod web;

use std::sync::Arc;

use aishd_fetch::FetchCall;
use aishd_files::FileCall;
use aishd_log::access::Access;
use aishd_log::tool::{ClaimSource, NetworkUse, Tool, ToolReach};
use aishd_log::tool_name::{Alias, ToolName};
use serde_json::{Map, Value, json};

pub use self::aish::{
    ReadResult, finder, finds_tools, how_to_read_on, reads_resources, reads_results, time,
};
pub use self::job::{JobCall, is_for_jobs};
pub use self::todo::{TodoCall, keeps_todos, todo_text};
pub(crate) use self::web::PROVIDER as WEB_PROVIDER;
pub use self::web::reads_web;

/// A call of one of their tools.
#[derive(Clone, Debug, PartialEq)]
pub enum BuiltinCall {
    Time,
    ReadResult(ReadResult),
    ReadResource { server: Alias, uri: String },
    FindTools { query: String },
    Data(data::DataCall),
    Example(example::ExampleCall),
    File(FileCall),
    Todo(TodoCall),
    Job(JobCall),
    Fetch(FetchCall),
}

pub(super) fn tools() -> impl Iterator<Item = Tool> {
    let own = aish::tools().into_iter();
    own.chain(data::tools())
        .chain(example::tools())
        .chain(files::tools())
        .chain(job::tools())
        .chain(todo::tools())
        .chain(web::tools())
}

/// What a call of a name means; `None`: the name is no built-in tool's.
pub(super) fn call(
    name: &ToolName,
    arguments: &Map<String, Value>,
) -> Option<Result<BuiltinCall, String>> {
    match name.alias().as_str() {
        aish::PROVIDER => aish::call(name, arguments),
        data::PROVIDER => Some(data::call(name.tool(), arguments)?.map(BuiltinCall::Data)),
        example::PROVIDER => Some(example::call(name.tool(), arguments)?.map(BuiltinCall::Example)),
        files::PROVIDER => Some(files::call(name.tool(), arguments)?.map(BuiltinCall::File)),
        job::PROVIDER => Some(job::call(name.tool(), arguments)?.map(BuiltinCall::Job)),
        todo::PROVIDER => Some(todo::call(name.tool(), arguments)?.map(BuiltinCall::Todo)),
        web::PROVIDER => Some(web::call(name.tool(), arguments)?.map(BuiltinCall::Fetch)),
        _ => None,
    }
}

/// Whether a tool is one for files.
pub fn is_for_files(name: &ToolName) -> bool {
    name.alias().as_str() == files::PROVIDER
}

/// What a call changes in files, or why it means nothing. `None`: it is another kind of call.
pub fn file_change(name: &ToolName, arguments: &str) -> Option<Result<FileCall, String>> {
    if !is_for_files(name) {
        return None;
    }
    let arguments = serde_json::from_str(arguments).ok()?;
    files::call(name.tool(), &arguments)
        .filter(|it| !it.as_ref().is_ok_and(|it| it.access() == Access::Read))
}

/// Whether a tool is part of the daemon.
pub fn is_builtin(name: &ToolName) -> bool {
    name.alias().is_own()
}

/// One that only reads. `provided` is what people are shown as its place.
fn tool(name: &str, provided: &str, description: &str, schema: Value, reach: ToolReach) -> Tool {
    #[expect(clippy::expect_used, reason = "these names are written in this room")]
    let name: ToolName = name.parse().expect("a well-formed name");
    Tool {
        name,
        description: description.to_owned(),
        schema,
        annotations: json!({"readOnlyHint": true, "openWorldHint": false}),
        server: provided.into(),
        place: provided.into(),
        needs: Access::Read,
        needs_by: ClaimSource::Ours,
        reads_only: true,
        reach,
        network: NetworkUse::Stays,
        packages: Arc::default(),
        directory: None,
    }
}

#[cfg(test)]
mod tests;
