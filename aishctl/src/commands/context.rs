//! `context`: what the model is shown of a conversation, what has left that, and what is to come back.

use aish_proto::context::{
    Archive, ArchiveParams, ArchiveResult, ArchivedTurn, ChosenTools, ContextPreviewParams,
    ContextPreviewResult, ContextTurn, Forget, ForgetParams, Preview, Restore, RestoreParams,
};
use aish_proto::id::{ConversationId, Seq, TurnId};
use aish_proto::turn::Attachment;
use clap::Subcommand;

use crate::ask_args::AskArgs;
use crate::command_output::{CommandOutput, OutputKind, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::commands::file_mention::{self, AttachedFile, AttachedKind, PersonLocation};
use crate::commands::{ask, directory_listing};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::table;
use crate::safe;

/// Sixteen of such texts fit into a line.
const SHORT_BYTES: usize = 8 << 10;
const PAGE: u32 = 500;
const TEXT_COLUMNS: usize = 60;

#[derive(Clone, Debug, Subcommand)]
pub enum ContextCommand {
    /// The next request: what it holds, what would leave for it, and what would leave next
    Preview {
        /// A question, as if it were asked now, with what `@FILE` names in it
        text: Vec<String>,
        /// The request itself, byte for byte
        #[arg(long, conflicts_with = "system")]
        body: bool,
        /// The system message: all that the model is told beside what was said
        #[arg(long)]
        system: bool,
    },
    /// Turns that left the context, the newest first
    #[command(alias = "archived")]
    Archive {
        /// At most this many
        #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
    },
    /// Put a turn that left back into the context
    Restore {
        /// An event of it in `context archive` and `search`, or its id
        turn: String,
    },
    /// Take the summary of what left out of the context
    Forget,
}

pub async fn run(context: &CommandContext, command: Option<&ContextCommand>) -> PrintResult {
    let meant = context.meant(context.name(None)).await?;
    match command {
        None => preview(context, meant.id, &[], PreviewPart::Figures).await,
        Some(ContextCommand::Preview { text, body, system }) => {
            let shown = match (body, system) {
                (true, _) => PreviewPart::Body,
                (false, true) => PreviewPart::System,
                (false, false) => PreviewPart::Figures,
            };
            preview(context, meant.id, text, shown).await
        }
        Some(ContextCommand::Archive { limit }) => {
            let limit = limit.and_then(|it| usize::try_from(it).ok());
            let archive = archived(context, meant.id, limit.unwrap_or(usize::MAX)).await?;
            context.print(&archive, || list(&archive))
        }
        Some(ContextCommand::Restore { turn }) => restore(context, meant.id, turn).await,
        Some(ContextCommand::Forget) => forget(context, meant.id).await,
    }
}

/// The files and directories that a question names.
async fn attachments(context: &CommandContext, text: &str) -> Result<Vec<Attachment>, Failure> {
    let here = PersonLocation::of(&context.around, Some(directory_listing::of));
    let mut attachments = vec![];
    for AttachedFile { name, text, kind } in file_mention::read(text, &here)? {
        let (text, base64) = match kind {
            AttachedKind::Picture(picture) => (picture.base64, true),
            AttachedKind::File { .. } | AttachedKind::Names { .. } => (text, false),
        };
        let is_short = text.len() < SHORT_BYTES;
        let blob = if is_short {
            None
        } else {
            Some(ask::put_blob(&context.caller, &text).await?)
        };
        attachments.push(Attachment {
            name,
            text: is_short.then_some(text),
            blob,
            base64,
        });
    }
    Ok(attachments)
}

/// What is printed of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PreviewPart {
    /// What it is made of, in tokens.
    Figures,
    Body,
    System,
}

async fn preview(
    context: &CommandContext,
    conversation: ConversationId,
    text: &[String],
    shown: PreviewPart,
) -> PrintResult {
    let text = text.join(" ");
    let attachments = attachments(context, &text).await?;
    let usual = AskArgs::default();
    let may_prompt = ask::may_prompt(&context.around, &context.global);
    let params = ContextPreviewParams {
        conversation,
        text: (!text.is_empty()).then_some(text),
        attachments,
        model: context.global.model.clone(),
        on_confirm: Some(ask::on_confirm(&usual, may_prompt)),
    };
    let found = context.call::<Preview>(params).await?;
    if shown == PreviewPart::Figures {
        return context.print(&found, || overview(&found));
    }
    if let Some(why) = &found.too_long {
        return Err(
            Failure::new(Exit::FAILED, format!("there would be no request: {why}"))
                .hint("aishctl context preview shows what fills it"),
        );
    }
    match shown {
        PreviewPart::Figures | PreviewPart::Body => Ok(CommandOutput {
            kind: OutputKind::Json,
            ..CommandOutput::text(format!("{}\n", found.body))
        }),
        PreviewPart::System => {
            let system = found.system.as_deref().unwrap_or_default();
            context.print(&found, || format!("{system}\n"))
        }
    }
}

fn overview(found: &ContextPreviewResult) -> String {
    let tokens = found.tokens;
    let room = tokens.limit.map_or_else(
        || "no limit of tokens is known".to_owned(),
        |limit| {
            let answer = tokens.reserve;
            format!(
                "of {} ({limit} less {answer} for the answer)",
                limit - answer.min(limit)
            )
        },
    );
    let mut text = format!(
        "{} · about {} tokens, {room} · {} of {} turns\n",
        safe::one_line(&found.model),
        tokens.total,
        found.turns,
        found.max_turns
    );
    let parts = [
        ("system", tokens.system),
        ("project", tokens.project),
        ("summary", tokens.summary),
        ("tools", tokens.tools),
        ("pinned", tokens.pinned),
        ("messages", tokens.messages),
    ];
    for (name, count) in parts.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!("  {name:<9} {count:>9}\n"));
    }
    if let Some(ChosenTools {
        sent,
        available,
        because,
    }) = &found.chosen_tools
    {
        text.push_str(&format!(
            "{sent} of {available} tools are sent, for {}: aish's own, and those that are pinned (tools.pinned), named in a question, called before or found; the model searches with aish__find_tools\n",
            safe::one_line(because)
        ));
    }
    if let Some(why) = &found.too_long {
        text.push_str(&format!(
            "there would be no request: {}\n",
            safe::one_line(why)
        ));
    }
    for remark in &found.remarks {
        text.push_str(&format!("{}\n", safe::one_line(remark)));
    }
    if found.shortened > 0 {
        let count = found.shortened;
        text.push_str(&format!(
            "{count} results and outputs of commands are shown shortened, so that the last question fits\n"
        ));
    }
    for (head, turns) in [
        ("leaves for it", &found.evicts),
        ("would leave next", &found.next),
    ] {
        if !turns.is_empty() {
            text.push_str(&format!("{head}:\n"));
            turns.iter().for_each(|it| text.push_str(&line(it)));
        }
    }
    if found.too_long.is_none() {
        text.push_str(
            "--system prints what the model is told beside them, --body the whole request\n",
        );
    }
    text
}

fn line(turn: &ContextTurn) -> String {
    let text = table::cut(&safe::one_line(&turn.text), TEXT_COLUMNS);
    format!("  {:>7}  {text}\n", turn.tokens)
}

async fn archived(
    context: &CommandContext,
    conversation: ConversationId,
    limit: usize,
) -> Result<ArchiveResult, Failure> {
    let mut all: Option<ArchiveResult> = None;
    loop {
        let had = all.as_ref().map_or(0, |it| it.exchanges.len());
        let rest = u32::try_from(limit - had.min(limit)).unwrap_or(PAGE);
        let params = ArchiveParams {
            conversation,
            cursor: all.as_mut().and_then(|it| it.next_cursor.take()),
            limit: Some(rest.clamp(1, PAGE)),
        };
        let page = context.call::<Archive>(params).await?;
        let next = page.next_cursor.clone();
        match &mut all {
            None => all = Some(page),
            Some(all) => {
                all.exchanges.extend(page.exchanges);
                all.next_cursor = page.next_cursor;
            }
        }
        let found = all.as_ref().map_or(0, |it| it.exchanges.len());
        if next.is_none() || found >= limit {
            break;
        }
    }
    all.ok_or_else(|| Failure::new(Exit::FAILED, "there is no archive"))
}

fn list(archive: &ArchiveResult) -> String {
    if archive.exchanges.is_empty() {
        return "nothing has left the context\n".to_owned();
    }
    let row = |it: &ArchivedTurn| {
        vec![
            it.seq.to_string(),
            it.asked_at
                .get(..16)
                .unwrap_or(&it.asked_at)
                .replace('T', " "),
            it.tokens.to_string(),
            if it.restored { "back" } else { "" }.to_owned(),
            table::cut(&safe::one_line(&it.text), TEXT_COLUMNS),
        ]
    };
    let rows: Vec<Vec<String>> = archive.exchanges.iter().map(row).collect();
    let mut text = table::columns(&["event", "asked", "tokens", "", "question"], &rows);
    if archive.next_cursor.is_some() {
        text.push_str(&format!("… {} in all\n", archive.total));
    }
    if let Some(summary) = &archive.summary {
        text.push_str("summary:\n");
        for line in summary.lines() {
            text.push_str(&format!("  {}\n", safe::one_line(line)));
        }
    }
    text
}

async fn restore(
    context: &CommandContext,
    conversation: ConversationId,
    named: &str,
) -> PrintResult {
    let (turn, event) = match (named.parse::<TurnId>(), named.parse::<u64>()) {
        (Ok(turn), _) => (Some(turn), None),
        (Err(_), Ok(event)) => (None, Some(Seq(event))),
        (Err(_), Err(_)) => {
            let message = format!("{} is neither an event nor a turn", safe::one_line(named));
            return Err(Failure::new(Exit::USAGE, message).hint("aishctl context archive"));
        }
    };
    let params = RestoreParams {
        conversation,
        turn,
        event,
    };
    let done = context.call::<Restore>(params).await?;
    context.print(&done, || {
        "it is in the context again, until there is no room for it\n".to_owned()
    })
}

async fn forget(context: &CommandContext, conversation: ConversationId) -> PrintResult {
    let done = context
        .call::<Forget>(ForgetParams { conversation })
        .await?;
    context.print(&done, || {
        "the summary is out of the context; what left is in `context archive`\n".to_owned()
    })
}
