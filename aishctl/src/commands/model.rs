//! `model`: the presets, the servers behind them, and which one a conversation uses.

use std::time::Duration;

use aish_proto::conversation::{SetModel, SetModelParams};
use aish_proto::method::Empty;
use aish_proto::model::{
    Forget, KeyStatus, List, ModelParams, ModelShowResult, ModelSource, Probe, ProbeParams, Show,
};
use clap::Subcommand;

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::model_add::ModelAddArgs;
use crate::commands::model_catalog::{self, CatalogCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::table;

#[derive(Clone, Debug, Subcommand)]
pub enum ModelCommand {
    /// The presets
    #[command(alias = "ls")]
    List,
    /// Ask the servers what they serve
    Probe {
        /// Only that of this preset
        name: Option<String>,
    },
    /// What is known of a preset's model, and what its server was found not to take
    Show { name: String },
    /// Forget what a preset's server was found not to take, so that it is sent again
    Forget { name: String },
    /// What is known of models before they are asked
    Catalog {
        #[command(subcommand)]
        command: Option<CatalogCommand>,
    },
    /// Put a preset into your configuration, and try it
    Add(Box<ModelAddArgs>),
    /// Take a preset out of your configuration
    #[command(alias = "rm")]
    Remove { name: String },
    /// Make NAME the default of your configuration; without NAME, let this conversation use the default again
    Default {
        /// The preset
        name: Option<String>,
    },
}

/// Of what neither the preset nor the catalog says.
const UNKNOWN: &str = "not known";

/// Slow servers are asked too.
const PROBE_DEADLINE: Duration = Duration::from_secs(60);

pub async fn run(
    context: &CommandContext,
    name: Option<&str>,
    command: Option<&ModelCommand>,
) -> PrintResult {
    match (name, command) {
        (None, None | Some(ModelCommand::List)) => list(context).await,
        (None, Some(ModelCommand::Probe { name })) => probe(context, name.clone()).await,
        (None, Some(ModelCommand::Show { name })) => show(context, name).await,
        (None, Some(ModelCommand::Forget { name })) => forget(context, name).await,
        (None, Some(ModelCommand::Catalog { command })) => {
            model_catalog::run(context, command.as_ref()).await
        }
        (None, Some(ModelCommand::Default { name: None })) => choose(context, None).await,
        (Some(name), None) => choose(context, Some(name)).await,
        (
            None,
            Some(
                ModelCommand::Add(_)
                | ModelCommand::Remove { .. }
                | ModelCommand::Default { name: Some(_) },
            ),
        ) => Err(Failure::for_a_shell()),
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

async fn probe(context: &CommandContext, preset: Option<String>) -> PrintResult {
    let deadline = context.global.timeout.unwrap_or(PROBE_DEADLINE);
    let result = context
        .caller
        .call_within::<Probe>(ProbeParams { preset }, Some(deadline))
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

async fn show(context: &CommandContext, name: &str) -> PrintResult {
    let name = name.to_owned();
    let result = context.call::<Show>(ModelParams { name }).await?;
    context.print(&result, || {
        let ModelShowResult { status, .. } = &result;
        let endpoint = status.endpoint.as_deref().unwrap_or("–");
        let tokens =
            |count: Option<u64>| count.map_or(UNKNOWN.to_owned(), |it| format!("{it} tokens"));
        let flag = |known: Option<bool>| match known {
            None => UNKNOWN,
            Some(true) => "yes",
            Some(false) => "no",
        };
        let price = result.price.as_ref().map(|it| {
            let cached = it.cached_input.as_ref().map(|it| format!(", ${it} cached"));
            let cached = cached.unwrap_or_default();
            format!(
                "${} in{cached}, ${} out, for a million tokens",
                it.input, it.output
            )
        });
        let catalog = result
            .catalog
            .as_ref()
            .map(|day| format!("knows it, as of {day}"));
        let learned = match &result.learned[..] {
            [] => "takes all that it was sent".to_owned(),
            some => format!("is not sent: {}", some.join("; ")),
        };
        let rows = [
            ("preset", status.name.clone()),
            ("model", status.model.clone()),
            ("server", format!("{endpoint} ({})", status.api.name())),
            ("context", tokens(result.context_tokens)),
            (
                "answers",
                result
                    .max_tokens
                    .map_or(UNKNOWN.to_owned(), |it| format!("at most {it} tokens")),
            ),
            ("temperature", flag(Some(result.temperature)).to_owned()),
            ("tools", flag(Some(result.tools)).to_owned()),
            ("pictures", flag(result.pictures).to_owned()),
            ("PDFs", flag(result.pdfs).to_owned()),
            ("price", price.unwrap_or(UNKNOWN.to_owned())),
            ("catalog", catalog.unwrap_or("does not know it".to_owned())),
            ("learned", learned),
        ];
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect();
        table::columns(&["", ""], &rows)
    })
}

async fn forget(context: &CommandContext, name: &str) -> PrintResult {
    let params = ModelParams {
        name: name.to_owned(),
    };
    let result = context.call::<Forget>(params).await?;
    context.print(&result, || match &result.forgotten[..] {
        [] => format!("nothing was learned of the server of {name}\n"),
        some => format!("the server of {name} is sent again: {}\n", some.join("; ")),
    })
}

/// `None`: the conversation has none of its own any more.
async fn choose(context: &CommandContext, name: Option<&str>) -> PrintResult {
    let conversation = context.meant(context.name(None)).await?;
    let model = name.map(str::to_owned);
    let result = context
        .call::<SetModel>(SetModelParams {
            id: conversation.id,
            model,
        })
        .await?;
    context.print(&result, || {
        let title = &conversation.title;
        match name {
            Some(name) if context.name(None).is_some() => {
                format!("{title} uses {name} from its next turn on\n")
            }
            // A question behind it, which named none either, may begin a conversation of its own.
            Some(name) => format!(
                "{title} uses {name} from its next turn on\nto have it in new ones too: aishctl model default {name}\n"
            ),
            None => format!(
                "{title} uses the default of your configuration from its next turn on\nanother default: aishctl model default NAME\n"
            ),
        }
    })
}
