//! `export`: what was said, in a form for people, for programs, for training or for replaying; page by page, so that the
//! length of a conversation is in nobody's memory. It is the conversation as it was when the export began.

mod cast;
mod instant;
mod json;
mod jsonl;
mod markdown;
mod quote;
mod sink;

use std::path::PathBuf;

use aish_proto::conversation::ConversationStatus;
use aish_proto::transfer::{
    ConversationExportParams, ConversationExportResult, Export, ExportFormat,
};
use clap::{Args, ValueEnum};

use crate::client::connect::Caller;
use crate::client::conversation_choice;
use crate::client::daemon_link::{DaemonReach, DaemonWait};
use crate::command_output::{CommandOutput, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::commands::export::cast::CastExport;
use crate::commands::export::json::JsonExport;
use crate::commands::export::jsonl::JsonLinesExport;
use crate::commands::export::markdown::MarkdownExport;
pub use crate::commands::export::sink::ExportSink;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file;
use crate::global_args::GlobalArgs;

#[derive(Args, Clone, Debug, Default)]
pub struct ExportArgs {
    /// The conversation, by title or id
    pub conversation: Option<String>,
    /// For people (md), for training and retrieval (jsonl), whole (json), or to be replayed (cast)
    #[arg(long, value_enum)]
    pub format: Option<ExportForm>,
    /// Only what left the model's context; jsonl unless --format says otherwise
    #[arg(long)]
    pub archive: bool,
    /// Write it there; the file is there when it is whole
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it is there
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Straight to the terminal
    #[arg(long)]
    pub no_pager: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// Markdown
    Md,
    /// One line for each question with all that followed on it, as OpenAI's fine-tuning takes it
    Jsonl,
    /// One document with every event
    Json,
    /// asciicast v2, for asciinema
    Cast,
}

impl ExportArgs {
    fn format(&self, global: &GlobalArgs) -> ExportForm {
        let flag = match (global.json, global.jsonl || self.archive) {
            (true, _) => ExportForm::Json,
            (false, true) => ExportForm::Jsonl,
            (false, false) => ExportForm::Md,
        };
        self.format.unwrap_or(flag)
    }

    /// Where it goes, if that is a file.
    pub fn sink(&self, otherwise: impl FnOnce() -> ExportSink) -> Result<ExportSink, Failure> {
        match &self.output {
            Some(file) => ExportSink::file(file, self.force),
            None => Ok(otherwise()),
        }
    }
}

/// What an export is made into, piece by piece.
enum ExportDocument {
    Markdown(Box<MarkdownExport>),
    Lines(JsonLinesExport),
    Json(JsonExport),
    Cast(Box<CastExport>),
}

impl ExportDocument {
    fn new(format: ExportForm, of: &ConversationStatus) -> Self {
        match format {
            ExportForm::Md => Self::Markdown(Box::new(MarkdownExport::new(of))),
            ExportForm::Jsonl => Self::Lines(JsonLinesExport::default()),
            ExportForm::Json => Self::Json(JsonExport::new(of)),
            ExportForm::Cast => Self::Cast(Box::new(CastExport::new(of))),
        }
    }

    fn needs(&self) -> ExportFormat {
        match self {
            Self::Lines(_) => ExportFormat::Messages,
            Self::Markdown(_) | Self::Json(_) | Self::Cast(_) => ExportFormat::Events,
        }
    }

    fn is_json(&self) -> bool {
        match self {
            Self::Lines(_) | Self::Json(_) | Self::Cast(_) => true,
            Self::Markdown(_) => false,
        }
    }

    fn page(&mut self, page: ConversationExportResult) -> String {
        let ConversationExportResult {
            through,
            events,
            messages,
            next_cursor: _,
        } = page;
        match self {
            Self::Markdown(it) => events.iter().map(|event| it.event(event)).collect(),
            Self::Json(it) => it.page(through, &events),
            Self::Cast(it) => events.iter().map(|event| it.event(event)).collect(),
            Self::Lines(it) => it.page(messages),
        }
    }

    fn end(&mut self) -> String {
        match self {
            Self::Markdown(it) => it.end(),
            Self::Json(it) => it.end(),
            Self::Cast(it) => it.end(),
            Self::Lines(it) => it.end(),
        }
    }
}

/// On the command line: goes on with the next daemon where this one ends.
pub async fn run(
    reach: &DaemonReach,
    global: &GlobalArgs,
    args: &ExportArgs,
    sink: ExportSink,
) -> Result<Exit, Failure> {
    let link = reach.open(DaemonWait::No).await?;
    let (caller, again) = (&link.caller, Some(reach));
    write(caller, again, &reach.around, global, args, sink).await?;
    Ok(Exit::DONE)
}

/// In a window, where stdout is the screen: only into a file.
pub async fn to_file(context: &CommandContext, args: &ExportArgs) -> PrintResult {
    let Some(output) = &args.output else {
        return Err(Failure::new(Exit::USAGE, "here an export goes into a file")
            .hint(":export --output FILE"));
    };
    let sink = ExportSink::file(output, args.force)?;
    let (around, global) = (&context.around, &context.global);
    write(&context.caller, None, around, global, args, sink).await?;
    let name = file::name(output);
    Ok(CommandOutput::text(format!("written to {name}\n")))
}

/// All of it, to where it belongs.
pub async fn write(
    caller: &Caller,
    again: Option<&DaemonReach>,
    around: &ClientEnvironment,
    global: &GlobalArgs,
    args: &ExportArgs,
    mut sink: ExportSink,
) -> Result<ConversationStatus, Failure> {
    let name = args.conversation.as_deref();
    let name = name.or(global.conversation.as_deref());
    let status = conversation_choice::resolve(caller, around, name).await?;
    let mut document = ExportDocument::new(args.format(global), &status);
    let is_json = document.is_json();
    let mut params = ConversationExportParams {
        id: status.id,
        format: document.needs(),
        archive: args.archive,
        cursor: None,
    };
    let mut caller = caller.clone();
    let mut link;
    loop {
        let page = match caller.call::<Export>(params.clone()).await {
            Ok(page) => page,
            Err(error) => match again.filter(|_| error.is_transient()) {
                Some(reach) => {
                    link = reach.open(DaemonWait::UntilBack).await?;
                    caller = link.caller;
                    continue;
                }
                None => return Err(error.into()),
            },
        };
        params.cursor.clone_from(&page.next_cursor);
        sink.write(&document.page(page), is_json).await?;
        if params.cursor.is_none() {
            break;
        }
    }
    sink.write(&document.end(), is_json).await?;
    sink.finish().await?;
    Ok(status)
}

#[cfg(test)]
mod tests;
