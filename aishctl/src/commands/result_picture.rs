//! A picture of a tool's result or of an answer, on its way to a terminal that draws it.

use aish_proto::id::{ConversationId, ResultId};
use aish_proto::kept::{BlockKind, KeptBlock};

use crate::client::connect::Caller;
use crate::commands::result;
use crate::picture::area::PictureArea;
use crate::picture::decode;
use crate::picture::drawing::{self, DrawnPicture};
use crate::picture::protocol::PictureTerminal;
use crate::render::size;
use crate::safe;

/// What stands for the tool where a model made the picture itself.
pub(crate) const MODEL: &str = "the model";

/// A picture that a result or an answer has named.
#[derive(Clone, Debug)]
pub(crate) struct ResultPicture {
    pub(crate) conversation: ConversationId,
    result: ResultId,
    /// Whose it is.
    tool: String,
    bytes: u64,
}

impl ResultPicture {
    /// Those among the blocks that a tool gave, without what is too large to be drawn.
    pub(crate) fn of(
        conversation: ConversationId,
        tool: &str,
        blocks: &[KeptBlock],
    ) -> impl Iterator<Item = Self> {
        let pictures = blocks.iter();
        let pictures =
            pictures.filter(|it| it.kind == BlockKind::Image && it.bytes <= decode::FILE_BYTES);
        pictures.map(move |it| Self {
            conversation,
            result: it.result,
            tool: tool.to_owned(),
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
