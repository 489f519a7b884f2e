//! `context/*`: what the model is shown, what has left that, and what comes back.

use aish_proto::context::{
    Archive, ArchiveParams, ArchiveResult, ArchivedTurn, ChosenTools, ContextPreviewParams,
    ContextPreviewResult, ContextTurn, Forget, Preview, Restore, RestoreParams, TokenCount,
};
use aish_proto::conversation::SeqResult;
use aish_proto::error::ErrorKind;
use aishd_conversation::context::evicted_exchanges::{ArchivePosition, ArchivedExchange};
use aishd_conversation::context::preview::{
    self as conversation, NoRequest, PreviewQuestion, PreviewTarget, PreviewedRequest,
};
use aishd_log::eviction::EvictedExchange;
use aishd_model::context_budget::BytesPerToken;
use aishd_platform::clock;
use aishd_turn::exchange::Exchange;
use aishd_turn::transcript::TranscriptMessage;
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, line_limit, register, turn};

/// Characters of a question that are shown.
const SHOWN_CHARS: usize = 200;
const ARCHIVE_DEFAULT: u32 = 100;
const ARCHIVE_MOST: u32 = 500;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Preview, _, _>(module, preview);
    register::<Archive, _, _>(module, archive);
    register::<Restore, _, _>(module, restore);
    register::<Forget, _, _>(module, forget);
}

async fn preview(call: MethodCall<Preview>) -> Result<ContextPreviewResult, MethodError> {
    let ContextPreviewParams {
        conversation,
        text,
        attachments,
        model,
        on_confirm,
    } = call.params;
    let on_confirm = on_confirm.as_ref().map(turn::on_confirm).transpose()?;
    let question = match text {
        Some(text) => {
            let attachments = turn::attachments(attachments, &text, &call.connection)?;
            Some(PreviewQuestion { text, attachments })
        }
        None if attachments.is_empty() => None,
        None => return Err(MethodError::params("attachments go with a text")),
    };
    let mut previewing = PreviewTarget {
        question,
        model,
        on_confirm: on_confirm.unwrap_or_default(),
        gathered: None,
    };
    let mut previewed = looked_at(&call.server, conversation, &previewing).await?;
    if let PreviewedRequest::Read(beside) = previewed {
        previewing.gathered = Some(beside.gather().await);
        previewed = looked_at(&call.server, conversation, &previewing).await?;
    }
    match previewed {
        PreviewedRequest::Nobody => {
            let message = "no preset is configured, and none is looked for by looking on";
            Err(MethodError::new(ErrorKind::NotFound, message).hint("name one with model"))
        }
        PreviewedRequest::Read(..) => Err(MethodError::internal(
            "what is told beside the log was not read",
        )),
        PreviewedRequest::Fits(preview) => Ok(line_limit::record(fits(*preview))),
        PreviewedRequest::TooLong(none) => Ok(too_long(&none)),
    }
}

async fn looked_at(
    server: &RpcServer,
    conversation: aish_proto::id::ConversationId,
    previewing: &PreviewTarget,
) -> Result<PreviewedRequest, MethodError> {
    let looked = server.directory.with(conversation, |handle| {
        let previewing = previewing.clone();
        async move { handle.preview(previewing).await }
    });
    Ok(looked.await?)
}

fn fits(preview: conversation::ContextPreview) -> ContextPreviewResult {
    let ratio = preview.ratio;
    let limit = preview.limit;
    let tokens = |bytes: usize| ratio.tokens(bytes as u64);
    let parts = preview.parts;
    ContextPreviewResult {
        model: preview.preset.name.clone(),
        bytes: preview.body.text.len() as u64,
        tokens: TokenCount {
            total: tokens(preview.body.weight),
            system: tokens(parts.system),
            summary: tokens(parts.summary),
            project: tokens(parts.project),
            tools: tokens(parts.tools),
            pinned: tokens(parts.pinned),
            messages: ratio.tokens(preview.messages),
            limit: limit.tokens.map(|it| it.whole),
            reserve: limit.tokens.map_or(0, |it| it.reserve),
            bytes_per_token: ratio.get(),
        },
        turns: preview.turns as u64,
        max_turns: limit.turns as u64,
        evicts: preview.leaving.iter().map(|it| turn(it, ratio)).collect(),
        next: preview.next.iter().map(|it| turn(it, ratio)).collect(),
        shortened: preview.shortened as u64,
        chosen_tools: preview.offer.selection().map(|it| ChosenTools {
            sent: preview.offer.iter().len() as u64,
            available: it.available as u64,
            because: it.because.to_string(),
        }),
        too_long: None,
        remarks: preview.remarks,
        system: Some(preview.system),
        body: preview.body.text,
    }
}

fn too_long(none: &NoRequest) -> ContextPreviewResult {
    let error = &none.error;
    ContextPreviewResult {
        model: none.preset.name.clone(),
        body: String::new(),
        system: None,
        bytes: 0,
        tokens: TokenCount {
            total: error.tokens,
            system: 0,
            summary: 0,
            project: 0,
            tools: 0,
            pinned: error.pinned.iter().map(|(_, it)| it).sum(),
            messages: error.question + error.results + error.outputs.0,
            limit: Some(error.limit.whole),
            reserve: error.limit.reserve,
            bytes_per_token: none.ratio.get(),
        },
        turns: none.turns as u64,
        max_turns: none.limit.turns as u64,
        evicts: vec![],
        next: vec![],
        shortened: 0,
        chosen_tools: None,
        too_long: Some(error.to_string()),
        remarks: vec![],
    }
}

fn turn(exchange: &Exchange, ratio: BytesPerToken) -> ContextTurn {
    let question = exchange.messages().find_map(|it| match it {
        TranscriptMessage::User { text, .. } => Some(beginning(text)),
        TranscriptMessage::Assistant { .. } | TranscriptMessage::Tool { .. } => None,
    });
    ContextTurn {
        turn: exchange.turn(),
        text: question.unwrap_or_default(),
        tokens: ratio.tokens(exchange.bytes()),
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

async fn archive(call: MethodCall<Archive>) -> Result<ArchiveResult, MethodError> {
    let ArchiveParams {
        conversation,
        cursor,
        limit,
    } = call.params;
    let limit = limit.unwrap_or(ARCHIVE_DEFAULT).clamp(1, ARCHIVE_MOST) as usize;
    let from = cursor.map(|it| place(&it)).transpose()?;
    let handle = call.server.directory.open(conversation).await?;
    let state = handle.view().borrow().state.clone();
    let total = state.left;
    let found = handle.archive(state, from, limit).await?;
    Ok(ArchiveResult {
        exchanges: found.exchanges.into_iter().map(archived).collect(),
        total,
        summary: found.summary,
        next_cursor: found.next.map(|it| format!("{}-{}", it.eviction, it.told)),
    })
}

fn place(cursor: &str) -> Result<ArchivePosition, MethodError> {
    let parts = cursor.split_once('-');
    parts
        .and_then(|(eviction, told)| {
            Some(ArchivePosition {
                eviction: aish_proto::id::Seq(eviction.parse().ok()?),
                told: told.parse().ok()?,
            })
        })
        .ok_or_else(|| MethodError::params("cursor is not one that context/archive gave"))
}

fn archived(archived: ArchivedExchange) -> ArchivedTurn {
    let ArchivedExchange {
        left,
        question,
        asked_at,
        text,
        restored,
    } = archived;
    ArchivedTurn {
        turn: left.turn,
        seq: question,
        asked_at: clock::rfc3339(asked_at),
        text,
        tokens: BytesPerToken::default().tokens(left.bytes),
        restored,
    }
}

async fn restore(call: MethodCall<Restore>) -> Result<SeqResult, MethodError> {
    let RestoreParams {
        conversation,
        turn,
        event,
    } = call.params;
    let gone = match (turn, event) {
        (Some(turn), None) => EvictedExchange::Turn(turn),
        (None, Some(event)) => EvictedExchange::Event(event),
        (Some(_), Some(_)) | (None, None) => {
            return Err(MethodError::params("it takes a turn or an event"));
        }
    };
    let by = call.connection.person();
    let restored = call.server.directory.with(conversation, |it| {
        let by = by.clone();
        async move { it.restore(gone, by).await }
    });
    Ok(SeqResult {
        seq: restored.await?,
    })
}

async fn forget(call: MethodCall<Forget>) -> Result<SeqResult, MethodError> {
    let by = call.connection.person();
    let forgotten = call.server.directory.with(call.params.conversation, |it| {
        let by = by.clone();
        async move { it.forget(by).await }
    });
    Ok(SeqResult {
        seq: forgotten.await?,
    })
}
