//! `log`: the transcript on stdout, streamed from the daemon so that its length does not matter.

use std::io;

use aish_proto::attach::{Attach, AttachParams, Cursor, ReplayStart};
use aish_proto::conversation::{History, HistoryParams};
use aish_proto::envelope::EventData as _;
use aish_proto::event::{AssistantMessage, ClientEvent, Event, TurnFinished, UserMessage};
use aish_proto::id::{ConversationId, Seq};
use clap::Args;
use serde_json::json;
use tokio::io::AsyncWrite;

use crate::client::connect::Caller;
use crate::client::conversation_choice;
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};
use crate::command_output::{CommandOutput, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::output::{AnswerOutput, OutputForm};
use crate::render::rows::{ConversationRows, SafeRow};
use crate::render::{notice, screen};

#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    pub conversation: Option<String>,
    /// Go on as events come
    #[arg(short, long)]
    pub follow: bool,
    /// Only the last turns
    #[arg(short = 'n', long, value_name = "TURNS")]
    pub turns: Option<usize>,
    /// Straight to the terminal
    #[arg(long)]
    pub no_pager: bool,
}

const PAGE_EVENTS: u32 = 500;
/// What `:log` shows in attach without `-n`.
const TURNS_IN_ATTACH: usize = 10;

pub async fn run<O: AsyncWrite + Unpin>(
    reach: &DaemonReach,
    global: &GlobalArgs,
    args: &LogArgs,
    output: &mut AnswerOutput<O>,
) -> Result<Exit, Failure> {
    let mut link = reach.open(DaemonWait::No).await?;
    let name = args
        .conversation
        .as_deref()
        .or(global.conversation.as_deref());
    let conversation = conversation_choice::resolve(&link.caller, &reach.around, name)
        .await?
        .id;
    let mut since = match args.turns {
        None => ReplayStart::Start,
        Some(turns) => {
            let seq = start_of(&link.caller, conversation, turns).await?;
            ReplayStart::Cursor(Cursor {
                epoch: link.hello.epoch,
                seq,
            })
        }
    };
    let glyphs = screen::glyphs(global.looks, &reach.around);
    let mut rows = ConversationRows::new(None, global.verbose).framed_with(glyphs);
    let mut whole = Vec::new();
    loop {
        let params = AttachParams {
            id: conversation,
            since,
            deltas: false,
        };
        link.caller.call::<Attach>(params).await?;
        if read(
            &mut link,
            args.follow,
            &mut since,
            &mut rows,
            &mut whole,
            output,
        )
        .await?
        {
            break;
        }
        // It ended before the replay did, or while we followed: go on from where we are.
        link = reach.open(DaemonWait::UntilBack).await?;
    }
    if output.form == OutputForm::Json {
        let events: Vec<_> = whole.iter().map(|it| &**it).collect();
        let document = json!({"v": 1, "conversation": conversation, "events": events});
        output
            .json_line(&document.to_string())
            .await
            .map_err(|it| Failure::output(&it))?;
    }
    Ok(Exit::DONE)
}

/// Prints what comes; true once all has been printed, false when the connection ended before.
async fn read<O: AsyncWrite + Unpin>(
    link: &mut DaemonLink,
    follow: bool,
    since: &mut ReplayStart,
    rows: &mut ConversationRows,
    whole: &mut Vec<Box<serde_json::value::RawValue>>,
    output: &mut AnswerOutput<O>,
) -> Result<bool, Failure> {
    while let Some(event) = link.events.recv().await {
        let envelope = &event.event;
        let shown = match output.form {
            OutputForm::Json => {
                if envelope.seq.is_some() {
                    whole.push(event.raw);
                }
                Ok(())
            }
            OutputForm::Events if envelope.seq.is_some() || follow => {
                output.event(event.raw.get()).await
            }
            OutputForm::Events
            | OutputForm::Code
            | OutputForm::Commands
            | OutputForm::Line
            | OutputForm::Results => Ok(()),
            OutputForm::Text => show(output, &envelope.kind, &transcript(rows, envelope)).await,
        };
        shown.map_err(|it| Failure::output(&it))?;
        if let Some(seq) = envelope.seq {
            *since = ReplayStart::Cursor(Cursor {
                epoch: envelope.epoch,
                seq,
            });
        }
        if matches!(envelope.data, Event::ReplayComplete(_)) && !follow {
            if output.form == OutputForm::Text {
                let rest = show(output, AssistantMessage::KIND, &rows.rest()).await;
                rest.map_err(|it| Failure::output(&it))?;
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// The rows of an event in a transcript: what stands in the log, not who came and went meanwhile.
fn transcript(rows: &mut ConversationRows, envelope: &ClientEvent) -> Vec<SafeRow> {
    if envelope.seq.is_none() {
        rows.learn_names(envelope);
        return Vec::new();
    }
    rows.take(envelope)
}

/// Shows the rows of an event of that kind. Lines of an answer are Markdown; those of a question are not.
async fn show<O: AsyncWrite + Unpin>(
    output: &mut AnswerOutput<O>,
    kind: &str,
    rows: &[SafeRow],
) -> io::Result<()> {
    let is_answer = [AssistantMessage::KIND, TurnFinished::KIND].contains(&kind);
    if output.markdown.is_none() || !is_answer {
        return output.as_it_is(&text(rows)).await;
    }
    for row in rows {
        match row {
            SafeRow::Text(text) | SafeRow::Asked(_, text) | SafeRow::Aside(text) => {
                output.text(&format!("{text}\n")).await?;
            }
            SafeRow::Notice(text) => {
                output.end_text().await?;
                output.as_it_is(&notice::line(text, false)).await?;
            }
        }
    }
    output.end_text().await
}

fn text(rows: &[SafeRow]) -> String {
    rows.iter()
        .map(|row| match row {
            SafeRow::Text(text) | SafeRow::Asked(_, text) | SafeRow::Aside(text) => {
                format!("{text}\n")
            }
            SafeRow::Notice(text) => notice::line(text, false),
        })
        .collect()
}

/// The position before the question of the `turns`th turn from the end.
async fn start_of(caller: &Caller, id: ConversationId, turns: usize) -> Result<Seq, Failure> {
    let mut before_seq = None;
    let mut found = 0;
    loop {
        let page = caller
            .call::<History>(HistoryParams {
                id,
                before_seq,
                limit: PAGE_EVENTS,
            })
            .await?;
        for event in page.events.iter().rev() {
            let Some(seq) = event.seq else { continue };
            if found == turns {
                return Ok(seq);
            }
            if event.kind == UserMessage::KIND {
                found += 1;
            }
            before_seq = Some(seq);
        }
        if !page.more || page.events.is_empty() {
            return Ok(Seq(before_seq.map_or(0, |it| it.0.saturating_sub(1))));
        }
    }
}

/// `:log` in attach: the last turns as one text.
pub async fn page(context: &CommandContext, args: &LogArgs) -> PrintResult {
    let name = context.name(args.conversation.as_deref());
    let id = context.meant(name).await?.id;
    let from = start_of(&context.caller, id, args.turns.unwrap_or(TURNS_IN_ATTACH)).await?;
    let mut before_seq = None;
    let mut pages = Vec::new();
    loop {
        let page = context
            .call::<History>(HistoryParams {
                id,
                before_seq,
                limit: PAGE_EVENTS,
            })
            .await?;
        before_seq = page.events.first().and_then(|it| it.seq);
        let done = !page.more || page.events.is_empty() || before_seq.is_none_or(|it| it <= from);
        pages.push(page.events);
        if done {
            break;
        }
    }
    let glyphs = screen::glyphs(context.global.looks, &context.around);
    let mut rows = ConversationRows::new(None, false).framed_with(glyphs);
    let events = pages
        .into_iter()
        .rev()
        .flatten()
        .filter(|it| it.seq > Some(from));
    let shown: Vec<SafeRow> = events.flat_map(|it| rows.take(&it.into())).collect();
    Ok(CommandOutput::text(text(&shown)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::client::daemon_link::tests::reach;
    use crate::test_daemon::{self, GatewayPeer};

    /// What `log` prints of these stored events.
    async fn printed(form: OutputForm, events: &[(&str, Value)]) -> String {
        let peer = GatewayPeer::new();
        let reach = reach(&peer.socket);
        let script = async {
            let mut link = peer.greet().await;
            let call = link.expect("conversation/status").await;
            link.reply(&call, test_daemon::status("t", 2)).await;
            assert_eq!(
                json!("start"),
                link.attach(events.len() as u64, Value::Null).await
            );
            for (seq, (kind, data)) in (1..).zip(events) {
                link.event(Some(seq), kind, data.clone()).await;
            }
            link.event(None, "replayComplete", json!({"through": events.len()}))
                .await;
            link
        };
        let args = LogArgs {
            conversation: Some(test_daemon::conversation().to_string()),
            ..LogArgs::default()
        };
        let mut output = AnswerOutput {
            markdown: None,
            begun: false,
            to: Vec::new(),
            form,
            terminal: false,
            open_line: false,
            reported: false,
        };
        let global = GlobalArgs::default();
        let (done, _link) = tokio::join!(run(&reach, &global, &args, &mut output), script);
        assert_eq!(Exit::DONE, done.unwrap());
        String::from_utf8(output.to).unwrap()
    }

    fn events() -> Vec<(&'static str, Value)> {
        vec![
            ("userMessage", json!({"text": "hi\u{1b}[2J"})),
            (
                "assistantMessage",
                json!({"item": 0, "text": "\u{9b}yes\u{202e}\r", "complete": true, "usage": null}),
            ),
            (
                "turnFinished",
                json!({"stopReason": "end", "text": "\u{9b}yes\u{202e}\r", "usage": null}),
            ),
        ]
    }

    #[tokio::test]
    async fn the_transcript_has_the_text_and_never_a_control() {
        assert_eq!("› hi[2J\nyes\n", printed(OutputForm::Text, &events()).await);
    }

    #[tokio::test]
    async fn as_lines_it_is_the_stored_events_and_as_json_one_object() {
        let lines = printed(OutputForm::Events, &events()).await;
        let kinds: Vec<Value> = lines
            .lines()
            .map(|it| serde_json::from_str::<Value>(it).unwrap()["kind"].clone())
            .collect();
        assert_eq!(
            vec!["userMessage", "assistantMessage", "turnFinished"],
            kinds
        );
        let whole: Value =
            serde_json::from_str(&printed(OutputForm::Json, &events()).await).unwrap();
        assert_eq!(3, whole["events"].as_array().unwrap().len());
        assert!(!lines.contains('\u{1b}'));
    }
}
