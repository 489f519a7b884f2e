//! `conversation/*`, attaching apart.

use aish_proto::conversation::{
    Archive, ConversationCreateParams, ConversationHistoryResult, ConversationLimits,
    ConversationListParams, ConversationListResult, ConversationStatus, Create, CreateResult,
    Delete, ErasureResult, Fork, History, List, ListState, Rename, Search, SearchHit, SearchResult,
    SeqResult, SetBudget, SetConstraints, SetModel, StatusOf, Todos, Unarchive,
};
use aish_proto::envelope::Envelope;
use aish_proto::error::ErrorKind;
use aish_proto::id::{ConversationId, Seq};
use aish_proto::limits::TITLE_CHARS;
use aish_proto::todo::TodosResult;
use aishd_conversation::directory::{ListFilter, ListPosition, ListQuery};
use aishd_conversation::handle::RequestError;
use aishd_conversation::history::search::{MAX_QUERY_CHARS, SearchPosition, SearchScope};
use aishd_conversation::new_conversation::NewConversation;
use aishd_conversation::requests::ConversationChange;
use aishd_log::constraints::{ConstraintRoot, Constraints, MAX_ROOTS};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use jsonrpsee::RpcModule;

use super::connection::ClientConnection;
use super::line_limit::FITTING_BYTES;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, event_conversion, notices, register, usage};
use crate::log_owner::LogOwner;

const LIST_DEFAULT: u32 = 100;
const LIST_MOST: u32 = 500;
const SEARCH_DEFAULT: u32 = 50;
const SEARCH_MOST: u32 = 200;
const HISTORY_MOST: u32 = 1000;
/// Stored form of one page of history; its wire form may be longer, and is measured too.
const HISTORY_BYTES: usize = 1 << 20;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Create, _, _>(module, create);
    register::<SetConstraints, _, _>(module, |call: MethodCall<SetConstraints>| async move {
        let params = call.params;
        let constraints = kept_from(params.constraints)?;
        let change_to = ConversationChange::Constraints(constraints);
        change(&call.server, &call.connection, params.id, change_to).await
    });
    register::<SetBudget, _, _>(module, |call: MethodCall<SetBudget>| async move {
        let change_to = ConversationChange::Budget(usage::budget_limits(call.params.budget));
        change(&call.server, &call.connection, call.params.id, change_to).await
    });
    register::<List, _, _>(module, list);
    register::<StatusOf, _, _>(module, status);
    register::<Todos, _, _>(module, todos);
    register::<Rename, _, _>(module, rename);
    register::<Fork, _, _>(module, fork);
    register::<Archive, _, _>(module, |call: MethodCall<Archive>| async move {
        change(
            &call.server,
            &call.connection,
            call.params.id,
            ConversationChange::Archived(true),
        )
        .await
    });
    register::<Unarchive, _, _>(module, |call: MethodCall<Unarchive>| async move {
        change(
            &call.server,
            &call.connection,
            call.params.id,
            ConversationChange::Archived(false),
        )
        .await
    });
    register::<Delete, _, _>(module, delete);
    register::<History, _, _>(module, history);
    register::<Search, _, _>(module, search);
    register::<SetModel, _, _>(module, |call: MethodCall<SetModel>| async move {
        let model = ConversationChange::Model(call.params.model.clone());
        change(&call.server, &call.connection, call.params.id, model).await
    });
}

async fn create(call: MethodCall<Create>) -> Result<CreateResult, MethodError> {
    let new = checked(call.params)?;
    let notices = notices::of(&call.server, &new.cwd).await;
    let (id, seq) = call
        .server
        .directory
        .create(new, call.connection.person())
        .await?;
    Ok(CreateResult { id, seq, notices })
}

/// What a new conversation is made with, if it may be made so.
pub(super) fn checked(params: ConversationCreateParams) -> Result<NewConversation, MethodError> {
    let ConversationCreateParams {
        title,
        model,
        cwd,
        constraints,
        budget,
        temporary,
    } = params;
    if let Some(title) = &title {
        check_title(title)?;
    }
    if !cwd.starts_with('/') {
        return Err(MethodError::params("cwd must be an absolute path"));
    }
    let constraints = constraints.unwrap_or_default();
    Ok(NewConversation {
        title,
        model,
        cwd,
        constraints: kept_from(constraints)?,
        budget: usage::budget_limits(budget),
        temporary,
    })
}

fn kept_from(limits: ConversationLimits) -> Result<Constraints, MethodError> {
    if limits.roots.len() > MAX_ROOTS {
        let rule = format!("a conversation has at most {MAX_ROOTS} roots");
        return Err(MethodError::params(&rule));
    }
    let roots = limits.roots.into_iter().map(ConstraintRoot::try_from);
    let roots = roots.collect::<Result<Vec<_>, _>>();
    Ok(Constraints {
        read_only: limits.read_only,
        no_network: limits.no_network,
        roots: roots.map_err(|error| MethodError::params(&format!("roots: {error}")))?,
    })
}

fn check_title(title: &str) -> Result<(), MethodError> {
    let chars = title.chars().count();
    if title.trim().is_empty() || chars > TITLE_CHARS || title.chars().any(char::is_control) {
        let rule = format!("a title has 1 to {TITLE_CHARS} characters and no control character");
        return Err(MethodError::params(&rule));
    }
    Ok(())
}

async fn list(call: MethodCall<List>) -> Result<ConversationListResult, MethodError> {
    let ConversationListParams {
        state,
        title,
        cursor,
        limit,
    } = call.params;
    let limit = limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MOST) as usize;
    let query = ListQuery {
        filter: match state {
            ListState::Open => ListFilter::Open,
            ListState::Archived => ListFilter::Archived,
            ListState::All => ListFilter::All,
        },
        title,
        // The list is ordered by last use and then by id, so that a position survives changes elsewhere.
        after: cursor.map(|it| position(&it)).transpose()?,
        limit,
    };
    let page = call.server.directory.list(query).await?;
    let next_cursor = page
        .next
        .map(|it| format!("{}-{}", it.updated_at.0, it.conversation));
    let show = |(id, state): &(ConversationId, ConversationState)| {
        event_conversion::status(*id, state, call.server.attached.count(*id))
    };
    Ok(ConversationListResult {
        conversations: page.conversations.iter().map(show).collect(),
        next_cursor,
    })
}

fn position(cursor: &str) -> Result<ListPosition, MethodError> {
    cursor
        .split_once('-')
        .and_then(|(at, id)| {
            Some(ListPosition {
                updated_at: Timestamp(at.parse().ok()?),
                conversation: id.parse().ok()?,
            })
        })
        .ok_or_else(|| MethodError::params("cursor is not one that conversation/list gave"))
}

async fn status(call: MethodCall<StatusOf>) -> Result<ConversationStatus, MethodError> {
    let id = call.params.id;
    let handle = call.server.directory.open(id).await?;
    let state = handle.view().borrow().state.clone();
    Ok(event_conversion::status(
        id,
        &state,
        call.server.attached.count(id),
    ))
}

async fn change(
    server: &RpcServer,
    connection: &ClientConnection,
    id: ConversationId,
    change: ConversationChange,
) -> Result<SeqResult, MethodError> {
    let by = connection.person();
    let seq = server.directory.with(id, |handle| {
        let (change, by) = (change.clone(), by.clone());
        async move { handle.change(change, by).await }
    });
    Ok(SeqResult { seq: seq.await? })
}

async fn rename(call: MethodCall<Rename>) -> Result<SeqResult, MethodError> {
    check_title(&call.params.title)?;
    let title = ConversationChange::Title(call.params.title.clone());
    change(&call.server, &call.connection, call.params.id, title).await
}

async fn fork(call: MethodCall<Fork>) -> Result<CreateResult, MethodError> {
    let (id, seq) = call
        .server
        .directory
        .fork(call.params.id, call.params.at_seq, call.connection.person())
        .await?;
    Ok(CreateResult {
        id,
        seq,
        notices: vec![],
    })
}

async fn delete(call: MethodCall<Delete>) -> Result<ErasureResult, MethodError> {
    let id = call.params.id;
    let handle = call.server.directory.open(id).await?;
    let title = handle.view().borrow().state.title().to_owned();
    drop(handle);
    if title != call.params.confirm_title {
        return Err(MethodError::params(
            "confirmTitle is not the conversation's title",
        ));
    }
    let by = call.connection.person();
    call.server.directory.delete(id, by).await?;
    Ok(ErasureResult {
        remains: call.server.directory.erase().await.err(),
    })
}

async fn todos(call: MethodCall<Todos>) -> Result<TodosResult, MethodError> {
    let handle = call.server.directory.open(call.params.id).await?;
    let state = handle.view().borrow().state.clone();
    let todos = event_conversion::todos_of(handle.todos(&state)?);
    let seq = Some(state.todos_seq).filter(|it| *it > Seq(0));
    Ok(TodosResult { todos, seq })
}

async fn history(call: MethodCall<History>) -> Result<ConversationHistoryResult, MethodError> {
    let id = call.params.id;
    let limit = call.params.limit.clamp(1, HISTORY_MOST) as usize;
    let before = call.params.before_seq.unwrap_or(Seq(u64::MAX));
    let handle = call.server.directory.open(id).await?;
    let records = handle.records_before(before, limit, HISTORY_BYTES)?;
    let log = LogOwner {
        epoch: call.server.about.epoch,
        conversation: Some(id),
    };
    let first = records.first().map(|it| it.seq);
    let mut events: Vec<Envelope> = Vec::with_capacity(records.len());
    let mut bytes = 0;
    // The newest are what is asked for; one alone always fits.
    for record in records.iter().rev() {
        let text = log.stored(record);
        bytes += text.len() + 1;
        if bytes > FITTING_BYTES && !events.is_empty() {
            break;
        }
        let event = serde_json::from_str(&text);
        events.push(event.map_err(|error| MethodError::internal(&error.to_string()))?);
    }
    events.reverse();
    let left_out = events.len() < records.len();
    Ok(ConversationHistoryResult {
        more: left_out || first.is_some_and(|it| it > Seq(1)),
        events,
    })
}

async fn search(call: MethodCall<Search>) -> Result<SearchResult, MethodError> {
    let params = call.params;
    if params.query.trim().is_empty() {
        return Err(MethodError::params("the query is empty"));
    }
    if params.query.chars().nth(MAX_QUERY_CHARS).is_some() {
        let rule = format!("a query has at most {MAX_QUERY_CHARS} characters");
        return Err(MethodError::params(&rule));
    }
    let limit = params.limit.unwrap_or(SEARCH_DEFAULT).clamp(1, SEARCH_MOST) as usize;
    let scope = match params.id {
        Some(only) => SearchScope::One(only),
        None if params.include_archived => SearchScope::All,
        None => SearchScope::Open,
    };
    let after = params.cursor.as_deref().map(after).transpose()?;
    let found = call
        .server
        .directory
        .search(params.query, scope, after, limit);
    let mut found = found.await.map_err(|error| match (error, params.id) {
        (RequestError::Missing, Some(only)) => {
            let message = format!("there is no conversation {only}");
            MethodError::new(ErrorKind::NotFound, message).hint("aishctl conv list")
        }
        (other, _) => other.into(),
    })?;
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more);
    let next_cursor = last.map(|it| format!("{}-{}", it.conversation, it.record.seq));
    let hits = found.into_iter().map(|it| SearchHit {
        conversation: it.conversation,
        title: it.title,
        seq: it.record.seq,
        turn: it.record.turn,
        kind: it.kind.to_owned(),
        excerpt: it.excerpt,
        left_context: it.left,
    });
    Ok(SearchResult {
        hits: hits.collect(),
        more,
        next_cursor,
    })
}

fn after(cursor: &str) -> Result<SearchPosition, MethodError> {
    let parts = cursor.split_once('-');
    parts
        .and_then(|(conversation, seq)| {
            Some(SearchPosition {
                conversation: conversation.parse().ok()?,
                seq: Seq(seq.parse().ok()?),
            })
        })
        .ok_or_else(|| MethodError::params("cursor is not one that conversation/search gave"))
}
