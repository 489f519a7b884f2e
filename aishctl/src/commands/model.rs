//! `model`: the presets, the servers behind them, and which one a conversation uses.

use std::time::Duration;

use aish_proto::conversation::{SetModel, SetModelParams};
use aish_proto::method::Empty;
use aish_proto::model::{KeyStatus, List, ModelSource, Probe};
use clap::Subcommand;

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::model_add::ModelAddArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::table;

#[derive(Clone, Debug, Subcommand)]
pub enum ModelCommand {
    /// The presets
    #[command(alias = "ls")]
    List,
    /// Ask the servers what they serve
    Probe,
    /// Put a preset into your configuration, and try it
    Add(Box<ModelAddArgs>),
}

/// Slow servers are asked too.
const PROBE_DEADLINE: Duration = Duration::from_secs(60);

pub async fn run(
    context: &CommandContext,
    name: Option<&str>,
    command: Option<&ModelCommand>,
) -> PrintResult {
    match (name, command) {
        (None, None | Some(ModelCommand::List)) => list(context).await,
        (None, Some(ModelCommand::Probe)) => probe(context).await,
        (Some(name), None) => choose(context, name).await,
        (_, Some(ModelCommand::Add(_))) => {
            Err(Failure::new(Exit::USAGE, "that command has its own output"))
        }
        (Some(_), Some(_)) => {
            Err(Failure::new(Exit::USAGE, "one model at a time").hint("aishctl model list"))
        }
    }
}

async fn list(context: &CommandContext) -> PrintResult {
    let result = context.call::<List>(Empty {}).await?;
    context.print(&result, || {
        let rows: Vec<Vec<String>> = result
            .models
            .iter()
            .map(|it| {
                let source = match it.source {
                    ModelSource::Configured => "configured",
                    ModelSource::Discovered => "found",
                    ModelSource::Demo => "a script, not a model",
                    ModelSource::None => "no model",
                    ModelSource::Imported => "imported",
                };
                let key = match it.key {
                    KeyStatus::None => "none",
                    KeyStatus::Present => "present",
                    KeyStatus::Missing => "missing",
                };
                let mark = if it.default { "*" } else { "" };
                let endpoint = it.endpoint.clone().unwrap_or_else(|| "–".to_owned());
                vec![
                    mark.to_owned(),
                    it.name.clone(),
                    it.model.clone(),
                    it.api.name().to_owned(),
                    endpoint,
                    key.to_owned(),
                    source.to_owned(),
                ]
            })
            .collect();
        table::columns(
            &["", "name", "model", "api", "endpoint", "key", "source"],
            &rows,
        )
    })
}

async fn probe(context: &CommandContext) -> PrintResult {
    let deadline = context.global.timeout.unwrap_or(PROBE_DEADLINE);
    let result = context
        .caller
        .call_within::<Probe>(Empty {}, Some(deadline))
        .await?;
    context.print(&result, || {
        let rows: Vec<Vec<String>> = result
            .servers
            .iter()
            .map(|it| {
                let says = it.error.clone().unwrap_or_else(|| it.models.join(", "));
                let apis: Vec<&str> = it.apis.iter().map(|it| it.name()).collect();
                let mark = if it.ok { "ok" } else { "no" };
                let preset = it.preset.clone().unwrap_or_else(|| "–".to_owned());
                vec![
                    mark.to_owned(),
                    preset,
                    it.endpoint.clone(),
                    apis.join(" "),
                    format!("{} ms", it.ms),
                    says,
                ]
            })
            .collect();
        table::columns(
            &["", "preset", "endpoint", "speaks", "time", "serves"],
            &rows,
        )
    })
}

async fn choose(context: &CommandContext, name: &str) -> PrintResult {
    let conversation = context.meant(context.name(None)).await?;
    let model = (name != "default").then(|| name.to_owned());
    let result = context
        .call::<SetModel>(SetModelParams {
            id: conversation.id,
            model,
        })
        .await?;
    context.print(&result, || {
        format!("{} uses {name} from its next turn on\n", conversation.title)
    })
}
