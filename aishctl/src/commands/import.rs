//! `import`: a file of messages, sent in pieces, becomes a conversation that is there when it is whole.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aish_proto::id::ConversationId;
use aish_proto::transfer::{
    ConversationImportParams, ConversationImportResult, Import, ImportDone, ImportedAs,
};
use clap::Args;
use ulid::Ulid;

use crate::client::connect::{Caller, RpcCallError};
use crate::client::daemon_link::{DaemonReach, DaemonWait};
use crate::command_output::{CommandOutput, PrintResult, print};
use crate::commands::command_context::CommandContext;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file;
use crate::global_args::GlobalArgs;

/// A piece waits for the disk of the daemon.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// JSON lines, each one message or each {"messages": [...]}; `-` is stdin
    pub file: PathBuf,
    /// What it is called; absent: the first question
    #[arg(long)]
    pub title: Option<String>,
}

/// Reads a text piece by piece, without ever cutting a character.
struct TextPieces<R> {
    from: R,
    /// The beginning of a character whose end has not come.
    open: Vec<u8>,
    piece_bytes: usize,
    line: u64,
    /// Characters of the line so far.
    column: u64,
}

impl<R: Read> TextPieces<R> {
    fn new(from: R, piece_bytes: usize) -> Self {
        Self {
            from,
            open: vec![],
            piece_bytes,
            line: 1,
            column: 0,
        }
    }

    /// `None`: that was all.
    fn next(&mut self) -> Result<Option<String>, String> {
        let mut bytes = std::mem::take(&mut self.open);
        let room = self.piece_bytes.saturating_sub(bytes.len()).max(1);
        let read = (&mut self.from).take(room as u64).read_to_end(&mut bytes);
        read.map_err(|error| format!("it cannot be read: {error}"))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let is_end = bytes.len() < self.piece_bytes;
        let whole = match std::str::from_utf8(&bytes) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() && !is_end => error.valid_up_to(),
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                self.pass(&String::from_utf8_lossy(valid));
                let (line, column) = (self.line, self.column + 1);
                return Err(format!("line {line}, column {column}: this is not UTF-8"));
            }
        };
        self.open = bytes.split_off(whole);
        let text = String::from_utf8(bytes).map_err(|_bytes| "this is not UTF-8".to_owned())?;
        self.pass(&text);
        Ok(Some(text))
    }

    fn pass(&mut self, text: &str) {
        self.line += text.bytes().filter(|it| *it == b'\n').count() as u64;
        match text.rsplit_once('\n') {
            Some((_, open)) => self.column = open.chars().count() as u64,
            None => self.column += text.chars().count() as u64,
        }
    }
}

/// On the command line.
pub async fn run(
    reach: &DaemonReach,
    global: &GlobalArgs,
    args: &ImportArgs,
) -> Result<(CommandOutput, Vec<String>), Failure> {
    let link = reach.open(DaemonWait::No).await?;
    import(&link.caller, Some(reach), &reach.around, global, args).await
}

/// In a window.
pub async fn in_window(context: &CommandContext, args: &ImportArgs) -> PrintResult {
    let (around, global) = (&context.around, &context.global);
    let (printed, notes) = import(&context.caller, None, around, global, args).await?;
    if printed.is_json() {
        return Ok(printed);
    }
    let notes = notes.join("\n");
    Ok(CommandOutput::text(format!("{}{notes}\n", printed.text)))
}

/// What is printed, and what a person should know besides.
pub async fn import(
    caller: &Caller,
    again: Option<&DaemonReach>,
    around: &ClientEnvironment,
    global: &GlobalArgs,
    args: &ImportArgs,
) -> Result<(CommandOutput, Vec<String>), Failure> {
    let name = file::name(&args.file);
    let in_file = |what: &str| {
        // The daemon speaks of its params, a person of the file.
        let what = what.strip_prefix("invalid params: ").unwrap_or(what);
        format!("{name}: {what}")
    };
    let from = opened(&args.file)
        .map_err(|error| Failure::new(Exit::FAILED, in_file(&error.to_string())))?;
    let mut pieces = TextPieces::new(from, caller.line_bytes() / 8);
    let mut params = ConversationImportParams {
        id: ConversationId(Ulid::new()),
        offset: 0,
        text: String::new(),
        end: false,
        new: Some(ImportedAs {
            title: args.title.clone(),
            model: global.model.clone(),
            cwd: around.cwd_text(),
        }),
    };
    let refused = |error: RpcCallError| {
        let failure = Failure::from(error);
        let message = in_file(&failure.message);
        Failure { message, ..failure }
    };
    loop {
        let piece = pieces.next();
        let piece = piece.map_err(|what| Failure::new(Exit::FAILED, in_file(&what)))?;
        params.end = piece.is_none();
        params.text = piece.unwrap_or_default();
        match send(caller, params.clone()).await {
            Ok(ConversationImportResult { taken, done: None }) => params.offset = taken,
            Ok(ConversationImportResult {
                done: Some(done), ..
            }) => return reported(global, &done),
            Err(error) => match again.filter(|_| error.is_transient() && params.end) {
                // It may have been made: the next daemon knows.
                Some(reach) => {
                    let link = reach.open(DaemonWait::UntilBack).await?;
                    let last = ConversationImportParams {
                        new: None,
                        ..params
                    };
                    let said = send(&link.caller, last).await.map_err(refused)?;
                    let unclear = || {
                        Failure::new(
                            Exit::FAILED,
                            in_file("it is not known whether it was imported"),
                        )
                        .hint("aishctl conv ls shows whether it is there")
                    };
                    return reported(global, &said.done.ok_or_else(unclear)?);
                }
                None => return Err(refused(error)),
            },
        }
        params.new = None;
    }
}

async fn send(
    caller: &Caller,
    params: ConversationImportParams,
) -> Result<ConversationImportResult, RpcCallError> {
    let deadline = Some(caller.deadline().max(DEADLINE));
    caller.call_within::<Import>(params, deadline).await
}

fn opened(file: &Path) -> io::Result<Box<dyn Read + Send>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(File::open(file)?))
}

fn reported(
    global: &GlobalArgs,
    done: &ImportDone,
) -> Result<(CommandOutput, Vec<String>), Failure> {
    let printed = print(global, done, || format!("{}\n", done.conversation))?;
    let counted = |count: u64, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let (messages, exchanges) = (
        counted(done.messages, "message"),
        counted(done.exchanges, "exchange"),
    );
    let mut notes = vec![format!(
        "imported {messages} in {exchanges}; none of it was asked, called or allowed here"
    )];
    if done.left_out > 0 {
        let left_out = counted(done.left_out, "system message");
        notes.push(format!("{left_out} left out: aish has its own"));
    }
    if done.unanswered > 0 {
        let unanswered = counted(done.unanswered, "call");
        notes.push(format!(
            "{unanswered} without a result; each has one that says so"
        ));
    }
    Ok((printed, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], piece_bytes: usize, expected: &[&str]) {
        let mut pieces = TextPieces::new(bytes, piece_bytes);
        let mut read = vec![];
        loop {
            match pieces.next() {
                Ok(Some(piece)) => read.push(piece),
                Ok(None) => break,
                Err(what) => {
                    read.push(what);
                    break;
                }
            }
        }
        assert_eq!(expected, read);
    }

    #[test]
    fn pieces_are_cut_between_characters() {
        check("aé漢🙂".as_bytes(), 4, &["aé", "漢", "🙂"]);
        check(b"", 4, &[]);
        check("漢字".as_bytes(), 100, &["漢字"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_told_with_their_place() {
        let what = "line 2, column 3: this is not UTF-8";
        check(b"a\nb\xc3\xa9\xff", 100, &[what]);
        check(b"a\nb\xc3\xa9\xffccccccc", 5, &["a\nb\u{e9}", what]);
        // A character that never ends.
        check(b"ab\xe6", 100, &["line 1, column 3: this is not UTF-8"]);
    }
}
