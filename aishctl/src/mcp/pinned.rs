//! `mcp pin`: resources that a conversation keeps in its context.

use aish_proto::id::ConversationId;
use aish_proto::mcp::{ConversationParams, Pin, PinParams, Pinned, PinnedResult, Unpin};

use super::patience;
use crate::desk::{Desk, Printed};
use crate::failure::Failure;
use crate::{resolve, safe};

pub(super) async fn pin(desk: &Desk, alias: &str, uri: &str) -> Result<Printed, Failure> {
    let params = params(here(desk).await?, alias, uri);
    let pinned = desk.caller.call_within::<Pin>(params, Some(patience(desk)));
    shown(desk, &pinned.await?)
}

pub(super) async fn unpin(desk: &Desk, alias: &str, uri: &str) -> Result<Printed, Failure> {
    let params = params(here(desk).await?, alias, uri);
    let left = desk
        .caller
        .call_within::<Unpin>(params, Some(patience(desk)));
    shown(desk, &left.await?)
}

pub(super) async fn list(desk: &Desk) -> Result<Printed, Failure> {
    let conversation = here(desk).await?;
    let params = ConversationParams { conversation };
    let pinned = desk.caller.call::<Pinned>(params).await?;
    shown(desk, &pinned)
}

async fn here(desk: &Desk) -> Result<ConversationId, Failure> {
    let found = resolve::meant(&desk.caller, &desk.around, desk.name(None));
    Ok(found.await?.id)
}

fn params(conversation: ConversationId, alias: &str, uri: &str) -> PinParams {
    PinParams {
        conversation,
        alias: alias.to_owned(),
        uri: uri.to_owned(),
    }
}

fn shown(desk: &Desk, result: &PinnedResult) -> Result<Printed, Failure> {
    desk.print(result, || {
        if result.pinned.is_empty() {
            return "nothing is pinned here\n".to_owned();
        }
        let each = result.pinned.iter();
        each.map(|it| format!("@{}:{}\n", it.alias, safe::one_line(&it.uri)))
            .collect()
    })
}
