//! Confirms that have ended, by what people call them: a late answer is told who came first, also to `c7`.

use aish_proto::audit::{AuditKind, AuditListParams, AuditOrder, List};
use aish_proto::confirm::{ConfirmParams, ConfirmRecord, Get};
use aish_proto::id::{ConfirmId, ConversationId};

use crate::commands::command_context::CommandContext;
use crate::failure::Failure;

/// Records of the trail that are looked through, the newest first.
const RECORDS: u32 = 500;
/// So many confirms back nobody means one by its number.
const CONFIRMS: usize = 50;

/// The one that ended last of those that are called so.
pub(super) async fn find(
    context: &CommandContext,
    conversation: Option<ConversationId>,
    name: &str,
) -> Result<Option<ConfirmRecord>, Failure> {
    let params = AuditListParams {
        conversation,
        order: AuditOrder::NewestFirst,
        limit: Some(RECORDS),
        ..AuditListParams::default()
    };
    let page = context.call::<List>(params).await?;
    let ended = page.records.iter();
    let ended = ended.filter(|it| it.kind == AuditKind::ConfirmResolved);
    let ended: Vec<ConfirmId> = ended.filter_map(|it| it.confirm).collect();
    for confirm in ended.into_iter().take(CONFIRMS) {
        // A conversation that was deleted has taken its own along.
        let Ok(record) = context.call::<Get>(ConfirmParams { confirm }).await else {
            continue;
        };
        if crate::commands::confirm::is_called(&record, name) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}
