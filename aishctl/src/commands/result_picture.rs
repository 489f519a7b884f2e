//! A picture of a tool's result, on its way to a terminal that draws it.

use aish_proto::event::ToolResult;
use aish_proto::id::{ConversationId, ResultId};
use aish_proto::kept::BlockKind;

use crate::client::connect::Caller;
use crate::commands::result;
use crate::picture::area::PictureArea;
use crate::picture::decode;
use crate::picture::drawing::{self, DrawnPicture};
use crate::picture::protocol::PictureTerminal;
use crate::render::size;
use crate::safe;

/// A picture that a result has named.
#[derive(Clone, Debug)]
pub(crate) struct ResultPicture {
    pub(crate) conversation: ConversationId,
    result: ResultId,
    tool: String,
    bytes: u64,
}

impl ResultPicture {
    /// Those of a result, without what is too large to be drawn.
    pub(crate) fn of(
        conversation: ConversationId,
        result: &ToolResult,
    ) -> impl Iterator<Item = Self> {
        let pictures = result.blocks.iter();
        let pictures =
            pictures.filter(|it| it.kind == BlockKind::Image && it.bytes <= decode::FILE_BYTES);
        pictures.map(move |it| Self {
            conversation,
            result: it.result,
            tool: result.name.clone(),
            bytes: it.bytes,
        })
    }

    /// What stands above it, with the command that reads it.
    pub(crate) fn name(&self, command: &str) -> String {
        let tool = safe::one_line(&self.tool);
        let bytes = size::bytes(self.bytes);
        format!("picture of {tool} · {bytes} · {command} {}", self.result)
    }

    /// `None`: it cannot be drawn, and stays a name.
    pub(crate) async fn drawn(
        &self,
        caller: &Caller,
        terminal: PictureTerminal,
        area: PictureArea,
    ) -> Option<DrawnPicture> {
        let read = result::read(caller, self.conversation, self.result).await;
        let bytes = read.ok()?.bytes;
        let drawing = move || drawing::drawn(&bytes, terminal, area).ok();
        tokio::task::spawn_blocking(drawing).await.ok()?
    }
}
