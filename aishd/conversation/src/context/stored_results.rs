//! What the log keeps of results besides what the model is shown: the whole of one that was too long, and
//! its blocks that are no text.

use aish_proto::id::{ConversationId, ResultId, Seq};
use aishd_log::block::{BlockForm, KeptBlock};
use aishd_log::event::Event;
use aishd_store::{ReadError, Store};
use aishd_tools::builtin;
use aishd_tools::builtin::ReadResult;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Said once in a conversation.
pub(crate) const BLOCKS_ARE_KEPT: &str = "the model is shown one line for what is no text in a result (sounds, files, links), and pictures where it takes them; all of it is kept: aishctl result";

/// Some bytes of a kept result, or of a kept block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPart {
    /// The bytes themselves, or for a block that is no text those bytes in base64.
    pub text: String,
    /// Where the part begins; in a text, where a character does.
    pub offset: u64,
    /// Of the whole.
    pub bytes: u64,
    /// `None`: it is the text of a result.
    pub block: Option<KeptBlock>,
}

impl KeptPart {
    /// What a model is shown of it, or why it is not.
    pub(crate) fn render(self, wanted: ReadResult) -> Result<String, String> {
        if let Some(block) = self.block.filter(|it| it.form == BlockForm::Base64) {
            return Err(format!(
                "{} is {} of {} bytes, which is no text; the user can save it: aishctl result {} --output FILE",
                block.result, block.mime, block.bytes, block.result
            ));
        }
        let end = self.offset + self.text.len() as u64;
        if end >= self.bytes {
            return Ok(format!("{}\n[aish] the end of the result", self.text));
        }
        let next = usize::try_from(end).unwrap_or(usize::MAX);
        Ok(format!(
            "{}\n[aish] {} of {} bytes follow: {}",
            self.text,
            self.bytes - end,
            self.bytes,
            builtin::how_to_read_on(wanted.result, next)
        ))
    }
}

/// Looks through the log, from its head backwards, for what is wanted.
pub(crate) fn find_kept(
    store: &Store,
    conversation: ConversationId,
    head: Seq,
    wanted: ReadResult,
) -> Result<Option<KeptPart>, ReadError> {
    let Some((whole, block)) = find(store, conversation, head, wanted.result)? else {
        return Ok(None);
    };
    let form = block.as_ref().map_or(BlockForm::Text, |it| it.form);
    let (text, offset, bytes) = match form {
        BlockForm::Text => part_of_text(&whole, wanted),
        BlockForm::Base64 => {
            let bytes = BASE64_STANDARD
                .decode(whole)
                .map_err(|error| ReadError::Damaged(format!("block {}: {error}", wanted.result)))?;
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            let from = place(wanted.offset);
            let to = place(wanted.offset.saturating_add(wanted.bytes.max(1)));
            (BASE64_STANDARD.encode(&bytes[from..to]), from, bytes.len())
        }
    };
    Ok(Some(KeptPart {
        text,
        offset: offset as u64,
        bytes: bytes as u64,
        block,
    }))
}

pub(crate) fn part_of_text(whole: &str, wanted: ReadResult) -> (String, usize, usize) {
    let place = |at: u64| {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(whole.len());
        whole.floor_char_boundary(at)
    };
    let from = place(wanted.offset);
    let to = place(wanted.offset.saturating_add(wanted.bytes)).max(from);
    // At least one character, so that whoever reads on gets on.
    let to = if to == from {
        whole.ceil_char_boundary((from + 1).min(whole.len()))
    } else {
        to
    };
    (whole[from..to].to_owned(), from, whole.len())
}

/// All of it, and as which block if it is one.
pub(crate) fn find(
    store: &Store,
    conversation: ConversationId,
    head: Seq,
    wanted: ResultId,
) -> Result<Option<(String, Option<KeptBlock>)>, ReadError> {
    // Parts stand side by side, the last of them first to be met, and behind them the event that says what they are.
    let mut parts: Vec<String> = vec![];
    let mut is: Option<KeptBlock> = None;
    for record in store.newest_records(conversation, head.next()) {
        let record = record?;
        if let Event::ResultKept { result, text } = record.event {
            if result == wanted {
                parts.push(text);
            } else if !parts.is_empty() {
                break;
            }
        } else if !parts.is_empty() {
            break;
        } else if let Event::ToolResult { blocks, .. } | Event::AnswerPictures { blocks, .. } =
            record.event
        {
            is = blocks.into_iter().find(|it| it.result == wanted).or(is);
            if is.as_ref().is_some_and(|it| it.bytes == 0) {
                return Ok(Some((String::new(), is)));
            }
        }
    }
    parts.reverse();
    Ok((!parts.is_empty()).then(|| (parts.concat(), is)))
}
