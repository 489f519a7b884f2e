//! `result`: what the log keeps of tools' results besides what a model is shown; on stdout where it is text, drawn where it
//! is a picture that the terminal can show, else into a file.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use aish_proto::conversation::{History, HistoryParams};
use aish_proto::envelope::Envelope;
use aish_proto::event::{AnswerPictures, ToolResult};
use aish_proto::id::{ConversationId, ResultId};
use aish_proto::kept::{BlockEncoding, BlockKind, KeptBlock, ReadResult, ReadResultParams};
use aish_proto::picture::PictureKind;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use serde::Serialize;

use crate::client::connect::{Caller, RpcCallError};
use crate::command_output::{CommandOutput, OutputKind, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::commands::{last_said, result_picture};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::picture::area::PictureArea;
use crate::picture::decode::UndrawnPicture;
use crate::picture::protocol::PictureSupport;
use crate::picture::{asking, drawing, whole};
use crate::render::table;
use crate::safe;

const PAGE_EVENTS: u32 = 500;
/// What came of the last call, kept beside the context or not.
const LAST: &str = "last";

#[derive(Args, Clone, Debug, Default)]
pub struct ResultsCommand {
    /// Its id, as the result says, or `last`; absent: what is kept in the conversation
    pub id: Option<String>,
    /// Write it there; needed for what is no text, and no picture that this terminal shows
    #[arg(short, long, value_name = "FILE", requires = "id")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it is there
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// A row of the list.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultRow {
    result: ResultId,
    kind: &'static str,
    mime_type: String,
    bytes: u64,
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
}

/// One of them, whole.
pub(crate) struct WholeResult {
    mime_type: Option<String>,
    pub(crate) bytes: Vec<u8>,
    is_text: bool,
}

/// The object of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultsReport<'a> {
    result: ResultId,
    mime_type: Option<&'a str>,
    bytes: usize,
    encoding: Option<BlockEncoding>,
    text: String,
}

pub async fn run(context: &CommandContext, args: &ResultsCommand) -> PrintResult {
    let conversation = context.meant(context.name(None)).await?;
    let conversation = conversation.id;
    let Some(id) = &args.id else {
        let rows = list(&context.caller, conversation).await?;
        return context.print(&rows, || table(&rows));
    };
    if id == LAST && args.output.is_none() {
        let found = last_said::result(&context.caller, conversation).await?;
        let found = found
            .ok_or_else(|| Failure::new(Exit::UNKNOWN, "no tool has given a result here yet"))?;
        return context.print(&found, || {
            format!("{}\n", found.content.trim_end_matches('\n'))
        });
    }
    let unknown = || {
        let id = safe::one_line(id);
        Failure::new(Exit::UNKNOWN, format!("no result {id} is kept here"))
            .hint("aishctl result lists them; with -C CONVERSATION those of another conversation")
    };
    let result: ResultId = id.parse().map_err(|_| unknown())?;
    let read = read(&context.caller, conversation, result).await;
    let whole = read.map_err(|error| {
        if error.is_not_found() {
            unknown()
        } else {
            error.into()
        }
    })?;
    if let Some(file) = &args.output {
        save(file, &whole.bytes, args.force)?;
        let (bytes, file) = (whole.bytes.len(), file.display().to_string());
        return Ok(CommandOutput::text(format!(
            "{bytes} bytes written to {}\n",
            safe::one_line(&file)
        )));
    }
    let asks_for_json = context.global.json || context.global.jsonl;
    if !whole.is_text && !asks_for_json {
        let why = match drawn(context, &whole.bytes).await {
            Ok(Some(text)) => {
                return Ok(CommandOutput {
                    kind: OutputKind::Picture,
                    ..CommandOutput::text(text)
                });
            }
            Ok(None) => String::new(),
            Err(undrawn) => format!(", {undrawn}"),
        };
        let mime = safe::one_line(whole.mime_type.as_deref().unwrap_or("no text"));
        let message = format!("{result} is {mime}, {} bytes{why}", whole.bytes.len());
        return Err(Failure::new(Exit::USAGE, message)
            .hint(format!("aishctl result {result} --output FILE")));
    }
    let reported = ResultsReport {
        result,
        mime_type: whole.mime_type.as_deref(),
        bytes: whole.bytes.len(),
        encoding: (!whole.is_text).then_some(BlockEncoding::Base64),
        text: if whole.is_text {
            String::from_utf8_lossy(&whole.bytes).into_owned()
        } else {
            BASE64_STANDARD.encode(&whole.bytes)
        },
    };
    context.print(&reported, || {
        let mut text = reported.text.clone();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    })
}

/// What draws it where the output goes; `None`: it is no picture, or nothing is drawn there.
async fn drawn(context: &CommandContext, bytes: &[u8]) -> Result<Option<String>, UndrawnPicture> {
    if PictureKind::of(bytes).is_none_or(|it| it == PictureKind::Pdf) {
        return Ok(None);
    }
    let terminal = match context.draws {
        PictureSupport::None => None,
        PictureSupport::Known(terminal) => Some(terminal),
        PictureSupport::ToBeAsked => {
            let asked = tokio::task::spawn_blocking(asking::sixels).await;
            asked.ok().flatten().map(Into::into)
        }
    };
    let Some(terminal) = terminal else {
        return Ok(None);
    };
    let area = match context.picture_area {
        Some(area) => area,
        None => {
            if let Some(text) = whole::drawn(terminal.protocol, bytes) {
                return Ok(Some(text));
            }
            PictureArea::whole(rustix::stdio::stdout(), terminal.cell)
        }
    };
    let bytes = bytes.to_vec();
    let drawing = move || drawing::drawn(&bytes, terminal, area).map(|it| Some(it.text));
    // A decoder that gives up has found it broken.
    let drawn = tokio::task::spawn_blocking(drawing).await;
    drawn.unwrap_or(Err(UndrawnPicture::Broken))
}

pub(crate) async fn read(
    caller: &Caller,
    conversation: ConversationId,
    result: ResultId,
) -> Result<WholeResult, RpcCallError> {
    let mut whole = WholeResult {
        mime_type: None,
        bytes: vec![],
        is_text: true,
    };
    loop {
        let params = ReadResultParams {
            conversation,
            result,
            offset: whole.bytes.len() as u64,
            bytes: None,
        };
        let part = caller.call::<ReadResult>(params).await?;
        let bytes = match part.encoding {
            None => part.text.into_bytes(),
            Some(BlockEncoding::Base64) => {
                whole.is_text = false;
                // The daemon wrote it: what cannot be read ends it, as an end does.
                BASE64_STANDARD.decode(part.text).unwrap_or_default()
            }
        };
        let is_end = bytes.is_empty();
        whole.bytes.extend(bytes);
        whole.mime_type = part.mime_type;
        if is_end || whole.bytes.len() as u64 >= part.bytes {
            return Ok(whole);
        }
    }
}

/// A new file, unless it may be replaced: its name is the user's, never a server's.
fn save(file: &Path, bytes: &[u8], replace: bool) -> Result<(), Failure> {
    let name = safe::one_line(&file.display().to_string());
    let mut options = OpenOptions::new();
    options.write(true);
    if replace {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = options.open(file).and_then(|mut it| it.write_all(bytes));
    written.map_err(|error| {
        let failure = Failure::new(Exit::FAILED, format!("cannot write {name}: {error}"));
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            failure.hint("--force replaces it")
        } else {
            failure
        }
    })
}

/// All that is kept in a conversation, oldest first.
async fn list(caller: &Caller, id: ConversationId) -> Result<Vec<ResultRow>, Failure> {
    let mut rows = vec![];
    let mut before_seq = None;
    loop {
        let params = HistoryParams {
            id,
            before_seq,
            limit: PAGE_EVENTS,
        };
        let page = caller.call::<History>(params).await?;
        let newest_first = page.events.iter().rev();
        rows.extend(newest_first.flat_map(|it| kept_rows(it).into_iter().rev()));
        before_seq = page.events.first().and_then(|it| it.seq);
        if !page.more || page.events.is_empty() {
            rows.reverse();
            return Ok(rows);
        }
    }
}

/// What the log keeps of one result.
fn kept_rows(event: &Envelope) -> Vec<ResultRow> {
    if let Some(made) = event.read::<AnswerPictures>() {
        let row = |it| block_row(it, result_picture::MODEL);
        return made.blocks.into_iter().map(row).collect();
    }
    let Some(result) = event.read::<ToolResult>() else {
        return vec![];
    };
    let tool = result.name;
    let whole = result.kept.map(|it| ResultRow {
        result: it.result,
        kind: "text",
        mime_type: "text/plain".to_owned(),
        bytes: it.bytes,
        tool: tool.clone(),
        uri: None,
    });
    let blocks = result.blocks.into_iter().map(|it| block_row(it, &tool));
    whole.into_iter().chain(blocks).collect()
}

fn block_row(block: KeptBlock, tool: &str) -> ResultRow {
    ResultRow {
        result: block.result,
        kind: match block.kind {
            BlockKind::Image => "image",
            BlockKind::Audio => "audio",
            BlockKind::Resource => "resource",
            BlockKind::Link => "link",
            BlockKind::Other => "other",
        },
        mime_type: block.mime_type,
        bytes: block.bytes,
        tool: tool.to_owned(),
        uri: block.uri,
    }
}

fn table(rows: &[ResultRow]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|it| {
            vec![
                it.result.to_string(),
                it.kind.to_owned(),
                it.mime_type.clone(),
                it.bytes.to_string(),
                it.tool.clone(),
                it.uri.clone().unwrap_or_default(),
            ]
        })
        .collect();
    table::columns(&["result", "kind", "type", "bytes", "tool", "uri"], &rows)
}
