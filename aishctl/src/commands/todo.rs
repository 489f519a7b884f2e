//! `todo`: the tasks that a model has set itself in a conversation.

use aish_proto::conversation::{ConversationParams, Todos};

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::render::todos;

pub async fn run(context: &CommandContext, conversation: Option<&str>) -> PrintResult {
    let meant = context.meant(context.name(conversation)).await?;
    let params = ConversationParams { id: meant.id };
    let result = context.call::<Todos>(params).await?;
    context.print(&result, || todos::every_row(&result.todos))
}
