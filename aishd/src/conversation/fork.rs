//! Copying a conversation: its finished turns, under new names, in one commit.

use std::collections::{HashMap, HashSet};

use aish_proto::id::{ConversationId, Seq, TurnId};

use super::directory::{Directory, place};
use super::handle::{Handle, RequestError};
use crate::clock;
use crate::core::confirm::Person;
use crate::core::event::{Event, Origin, Record};
use crate::core::norris::NorrisEvent;
use crate::core::resource::Change;
use crate::core::state::State;
use crate::store::ReadError;

/// How much of the log is read in one go.
const PAGE_BYTES: usize = 1 << 20;

impl Directory {
    /// Copies a conversation up to the last turn that ended at or before `at`.
    pub async fn fork(
        &self,
        id: ConversationId,
        at: Option<Seq>,
        by: Person,
    ) -> Result<(ConversationId, Seq), RequestError> {
        if self.around.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let handle = self.open(id).await?;
        let source = handle.view().borrow().state.clone();
        let records = self
            .blocking(move |_| settled_records(&handle, at))
            .await??;
        let copy = ConversationId(clock::ulid());
        let cut = records.last().map_or(Seq(0), |it| it.seq);
        let mut state = State::default();
        let created = Event::Created {
            title: Some(format!("{} (fork)", source.title())),
            model: source.model.clone(),
            cwd: source.cwd.clone(),
            forked_from: Some((id, cut)),
            // As they are now: a copy of an older part is no way around them.
            constraints: source.constraints.clone(),
        };
        let mut batch = vec![place(&mut state, None, created)];
        let mut turns = HashMap::new();
        for record in records {
            let turn = record
                .turn
                .map(|old| *turns.entry(old).or_insert_with(|| TurnId(clock::ulid())));
            batch.push(place(&mut state, turn, copied(record.event, &turns)));
        }
        // One commit, so that nobody ever sees half a copy.
        let seq = state.last_seq;
        self.commit(copy, batch, state, by).await?;
        Ok((copy, seq))
    }
}

/// Records of finished turns up to `at`, without the first and without what only concerned waiting.
fn settled_records(handle: &Handle, at: Option<Seq>) -> Result<Vec<Record>, ReadError> {
    let last = at.unwrap_or(Seq(u64::MAX));
    let mut records = vec![];
    let mut cursor = Seq(1);
    loop {
        let page = handle.records_after(cursor, PAGE_BYTES)?;
        let Some(end) = page.last() else { break };
        cursor = end.seq;
        records.extend(
            page.iter()
                .filter(|it| it.seq <= last)
                .map(|it| Record::clone(it)),
        );
        if cursor >= last {
            break;
        }
    }
    let finished: HashSet<_> = records
        .iter()
        .filter(|it| matches!(it.event, Event::TurnFinished { .. }))
        .filter_map(|it| it.turn)
        .collect();
    as_they_are(&mut records);
    records.retain(|it| it.turn.is_none_or(|turn| finished.contains(&turn)));
    records.retain(|it| {
        !matches!(
            it.event,
            // To the copy nothing has left yet.
            Event::Evicted(_)
                | Event::Restored(_)
                | Event::SummaryUpdated(_)
                | Event::Renamed { .. }
                | Event::ArchivedChanged { .. }
                | Event::TurnQueued { .. }
                // Consent was given for the original.
                | Event::ConfirmRequested(_)
                | Event::RaiseRequested(_)
                | Event::ConfirmResolved(_)
                | Event::PermissionChanged { .. }
                | Event::Norris(NorrisEvent::Launched(_))
                | Event::ConstraintsChanged { .. }
        )
    });
    Ok(records)
}

/// A copy has each resource once, as it was in the end, also those of turns that it does not have.
fn as_they_are(records: &mut Vec<Record>) {
    let mut last = HashMap::new();
    for record in &*records {
        if let Event::ResourceChanged(changed) = &record.event {
            last.insert(changed.name.clone(), record.seq);
        }
    }
    records.retain_mut(|record| {
        let Event::ResourceChanged(changed) = &mut record.event else {
            return true;
        };
        record.turn = None;
        // To the copy it is new, but it was made when it was made.
        changed.change = Change::Created;
        let made = (record.at, changed.by.clone());
        changed.created.get_or_insert(made);
        changed.data.is_some() && last.get(&changed.name) == Some(&record.seq)
    });
}

/// The event as it stands in a copy: keys belong to the original, and turns have new names.
fn copied(event: Event, turns: &HashMap<TurnId, TurnId>) -> Event {
    let renamed = |old: TurnId| turns.get(&old).copied().unwrap_or(old);
    match event {
        Event::UserMessage {
            text,
            attachments,
            model,
            origin,
            calls,
            key: _,
            on_confirm: _,
            max_tool_depth: _,
        } => Event::UserMessage {
            text,
            attachments,
            model,
            origin: match origin {
                Origin::Asked => origin,
                Origin::Retry(old) => Origin::Retry(renamed(old)),
                Origin::Continue(old) => Origin::Continue(renamed(old)),
            },
            key: None,
            on_confirm: None,
            max_tool_depth: None,
            calls,
        },
        Event::TurnFinished {
            stop,
            text,
            usage,
            error,
            merged_into,
        } => Event::TurnFinished {
            stop,
            text,
            usage,
            error,
            merged_into: merged_into.map(renamed),
        },
        other @ (Event::Created { .. }
        | Event::TurnQueued { .. }
        | Event::RouteDecided(_)
        | Event::Norris(_)
        | Event::FellBack { .. }
        | Event::TurnStarted { .. }
        | Event::AssistantMessage { .. }
        | Event::ToolStarted { .. }
        | Event::ResultKept { .. }
        | Event::ToolResult { .. }
        | Event::ConfirmRequested(_)
        | Event::RaiseRequested(_)
        | Event::ConfirmResolved(_)
        | Event::PermissionChanged { .. }
        | Event::ResourcePinned(_)
        | Event::ResourceUnpinned(_)
        | Event::ResourceChanged(_)
        | Event::ConstraintsChanged { .. }
        | Event::Evicted(_)
        | Event::Restored(_)
        | Event::SummaryUpdated(_)
        | Event::ModelChanged { .. }
        | Event::Renamed { .. }
        | Event::ArchivedChanged { .. }
        | Event::Status { .. }) => other,
    }
}
