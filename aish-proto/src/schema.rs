//! The JSON schema of the whole wire, made from the types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema as _, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::envelope::Envelope;
use crate::id::Epoch;
use crate::method::{ClientRole, Method, MethodOrder};
use crate::{
    attach, audit, changes, config, confirm, context, conversation, daemon, doctor, error, event,
    intent, job, kept, log, mcp, mcp_complete, mcp_login, mcp_watch, memory, model, norris,
    permission, prompt, resource, route, shell, store, tool, transfer, turn, usage, version,
};

/// One method as the documentation and the schema show it.
#[derive(Clone, Debug)]
pub struct MethodSchema {
    pub name: &'static str,
    /// What it does, for people.
    pub about: &'static str,
    pub role: ClientRole,
    pub order: MethodOrder,
    pub params: Schema,
    pub result: Schema,
}

/// Every method of this protocol, group by group. docs/protocol.reference.md has them in this order.
#[expect(
    clippy::too_many_lines,
    reason = "one line for each method, and nothing else"
)]
pub fn methods(generator: &mut SchemaGenerator) -> Vec<MethodSchema> {
    macro_rules! all {
        ($($method:ty),* $(,)?) => { vec![$(describe::<$method>(generator)),*] };
    }
    all![
        daemon::Hello,
        daemon::Ping,
        daemon::Status,
        daemon::Shutdown,
        daemon::Reload,
        daemon::Schema,
        daemon::Metrics,
        doctor::Doctor,
        store::Stat,
        store::Check,
        store::Compact,
        log::Tail,
        daemon::BlobPut,
        conversation::Create,
        conversation::List,
        conversation::StatusOf,
        conversation::Todos,
        conversation::Rename,
        conversation::Fork,
        conversation::Archive,
        conversation::Unarchive,
        conversation::Delete,
        conversation::History,
        conversation::Search,
        transfer::Export,
        transfer::Import,
        conversation::SetModel,
        conversation::SetConstraints,
        conversation::SetBudget,
        attach::Attach,
        attach::Detach,
        turn::Send,
        turn::Cancel,
        turn::Wait,
        turn::Get,
        turn::Retry,
        turn::Continue,
        tool::List,
        tool::Describe,
        tool::Watch,
        tool::Register,
        tool::Reload,
        tool::Run,
        tool::Unregister,
        intent::Route,
        intent::Negotiate,
        turn::QueueList,
        turn::QueueRemove,
        turn::QueueMove,
        turn::QueueResume,
        shell::Run,
        shell::Cancel,
        job::List,
        job::Output,
        job::Stop,
        context::Preview,
        context::Archive,
        context::Restore,
        memory::Add,
        memory::List,
        memory::Pin,
        memory::Remove,
        context::Forget,
        confirm::List,
        confirm::Get,
        confirm::Preview,
        confirm::Watch,
        confirm::Try,
        confirm::Answer,
        changes::List,
        changes::Show,
        changes::Diff,
        changes::Keep,
        changes::Drop,
        changes::Undo,
        changes::Redo,
        permission::List,
        permission::Set,
        permission::Revoke,
        permission::SetAutoApprove,
        permission::History,
        permission::Check,
        permission::Rules,
        kept::ReadResult,
        prompt::Save,
        prompt::List,
        prompt::Get,
        prompt::Remove,
        prompt::Call,
        resource::Create,
        resource::Get,
        resource::Update,
        resource::List,
        resource::Delete,
        resource::Validate,
        audit::List,
        audit::Verify,
        audit::Export,
        model::List,
        model::Probe,
        model::Serves,
        model::Show,
        model::Forget,
        model::ModelCatalog,
        model::UpdateCatalog,
        model::ResetCatalog,
        route::Get,
        route::Set,
        route::Check,
        route::Classes,
        route::FallbackGet,
        route::FallbackSet,
        usage::Get,
        mcp::List,
        mcp::Tools,
        mcp::Tool,
        mcp::Connect,
        mcp::Disconnect,
        mcp::Restart,
        mcp::Refresh,
        mcp::Logs,
        mcp::Import,
        mcp::Resources,
        mcp::ReadResource,
        mcp::Prompts,
        mcp::GetPrompt,
        mcp::CallPrompt,
        mcp::Pin,
        mcp::Unpin,
        mcp::Pinned,
        mcp_complete::Complete,
        mcp_watch::Watch,
        mcp_login::Login,
        mcp_login::LoginFinish,
        mcp_login::LoginCancel,
        mcp_login::Logout,
        norris::Start,
        norris::Pause,
        norris::Resume,
        norris::Halt,
        config::Show,
        config::Check,
    ]
}

fn describe<M: Method>(generator: &mut SchemaGenerator) -> MethodSchema {
    MethodSchema {
        name: M::NAME,
        about: M::ABOUT,
        role: M::ROLE,
        order: M::ORDER,
        params: generator.subschema_for::<M::Params>(),
        result: generator.subschema_for::<M::Result>(),
    }
}

/// The schema as one document: `methods`, `events`, `envelope`, `errors` and the definitions they use.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let methods: Map<String, Value> = methods(&mut generator)
        .into_iter()
        .map(|it| {
            let lines: Vec<&str> = it.about.lines().map(str::trim).collect();
            let about = json!({
                "description": lines.join("\n").trim(),
                "ordered": it.order == MethodOrder::Conversation,
                "role": it.role,
                "params": it.params,
                "result": it.result,
            });
            (it.name.to_owned(), about)
        })
        .collect();
    let events: Map<String, Value> = event::kinds(&mut generator)
        .into_iter()
        .map(|(kind, stored, data)| (kind.to_owned(), json!({ "stored": stored, "data": data })))
        .collect();
    let envelope = generator.subschema_for::<Envelope>();
    let error_data = generator.subschema_for::<error::ErrorData>();
    let errors: Map<String, Value> = error::ErrorKind::ALL
        .iter()
        .map(|it| (it.code().to_string(), json!(it)))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "aish wire protocol",
        "protocol": version::PROTOCOL,
        "eventSchema": version::EVENT_SCHEMA,
        "methods": methods,
        "events": events,
        "envelope": envelope,
        "errors": { "codes": errors, "data": error_data },
        "$defs": generator.definitions(),
    })
}

/// [`attach::ReplayStart`] as it is written.
pub(crate) fn since(generator: &mut SchemaGenerator) -> Schema {
    let epoch = Epoch::json_schema(generator);
    json_schema!({
        "oneOf": [
            { "enum": ["start", "now"] },
            {
                "type": "object",
                "properties": { "tail": { "type": "integer", "minimum": 0 } },
                "required": ["tail"],
                "additionalProperties": false
            },
            {
                "type": "object",
                "properties": { "epoch": epoch, "seq": { "type": "integer", "minimum": 0 } },
                "required": ["epoch", "seq"],
                "additionalProperties": false
            }
        ]
    })
}
