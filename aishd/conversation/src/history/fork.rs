//! Copying a conversation: its finished turns, under new names, in one commit.

use std::collections::{HashMap, HashSet};

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_log::confirm::AnsweringPerson;
use aishd_log::event::{Event, Record, TurnOrigin};
use aishd_log::norris::NorrisEvent;
use aishd_log::resource::ResourceOutcome;
use aishd_log::rolling_summary::RollingSummary;
use aishd_log::state::ConversationState;
use aishd_platform::clock;
use aishd_store::ReadError;
use aishd_turn::transcript::Transcript;

use crate::directory::ConversationDirectory;
use crate::handle::ConversationHandle;
use crate::new_conversation::place;
use crate::request_error::RequestError;

impl ConversationDirectory {
    /// Copies a conversation up to the last turn that ended at or before `at`.
    pub async fn fork(
        &self,
        id: ConversationId,
        at: Option<Seq>,
        by: AnsweringPerson,
    ) -> Result<(ConversationId, Seq), RequestError> {
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let handle = self.open(id).await?;
        let source = handle.view().borrow().state.clone();
        let (records, gone) = self
            .blocking(move |_| settled_records(&handle, at))
            .await??;
        let copy = ConversationId(clock::ulid());
        let cut = records.last().map_or(Seq(0), |it| it.seq);
        let mut state = ConversationState::default();
        let created = Event::Created {
            title: Some(format!("{} (fork)", source.title())),
            model: source.model.clone(),
            cwd: source.cwd.clone(),
            forked_from: Some((id, cut)),
            // As they are now: a copy of an older part is no way around them.
            constraints: source.constraints.clone(),
            importing: false,
            budget: source.budget,
        };
        let mut batch = vec![place(&mut state, None, created)];
        let mut turns = HashMap::new();
        let mut through = Seq(0);
        for record in records {
            let turn = record
                .turn
                .map(|old| *turns.entry(old).or_insert_with(|| TurnId(clock::ulid())));
            batch.push(place(
                &mut state,
                turn,
                copied(unpaid(record.event), &turns),
            ));
            if record.seq <= gone.through {
                through = state.last_seq;
            }
        }
        let left = evictions_left(&batch, through, gone.summary, &state);
        batch.extend(left.map(|event| place(&mut state, None, event)));
        // One commit, so that nobody ever sees half a copy.
        let seq = state.last_seq;
        self.commit(copy, batch, state, by).await?;
        Ok((copy, seq))
    }
}

/// What had left the context of the original.
#[derive(Default)]
struct ForkEvictions {
    through: Seq,
    summary: Option<Box<RollingSummary>>,
}

/// What has left the copy's context with its first record: what had left the original's, and how that is summed up.
fn evictions_left(
    batch: &[Record],
    through: Seq,
    summary: Option<Box<RollingSummary>>,
    state: &ConversationState,
) -> impl Iterator<Item = Event> + use<> {
    let mut transcript = Transcript::default();
    batch.iter().for_each(|it| transcript.apply(it));
    let left = transcript.exchanges().take_while(|it| it.last() <= through);
    let eviction = transcript.eviction(left.count(), state);
    let summary = summary.filter(|_| eviction.is_some());
    let summary =
        summary.map(|it| Event::SummaryUpdated(Box::new(RollingSummary { through, ..*it })));
    let eviction = eviction.map(|it| Event::Evicted(Box::new(it)));
    eviction.into_iter().chain(summary)
}

/// Records of finished turns up to `at`, without the first and without what only concerned waiting; and what had left by
/// then.
fn settled_records(
    handle: &ConversationHandle,
    at: Option<Seq>,
) -> Result<(Vec<Record>, ForkEvictions), ReadError> {
    let last = at.unwrap_or(Seq(u64::MAX));
    let mut records = vec![];
    for record in handle.records(Seq(1)) {
        let record = record?;
        if record.seq > last {
            break;
        }
        records.push(Record::clone(&record));
    }
    let finished: HashSet<_> = records
        .iter()
        .filter(|it| matches!(it.event, Event::TurnFinished { .. }))
        .filter_map(|it| it.turn)
        .collect();
    let mut gone = ForkEvictions::default();
    for record in &records {
        if let Event::Evicted(eviction) = &record.event {
            gone.through = gone.through.max(eviction.through);
        }
        if let Event::SummaryUpdated(summary) = &record.event {
            gone.summary = Some(summary.clone());
        }
    }
    as_they_are(&mut records);
    without_running(&mut records);
    records.retain(|it| it.turn.is_none_or(|turn| finished.contains(&turn)));
    records.retain(|it| {
        !matches!(
            it.event,
            // The copy has one of its own.
            Event::Evicted(_)
                | Event::Restored(_)
                | Event::ModelUsed(_)
                | Event::BudgetChanged(_)
                | Event::BudgetReached(_)
                | Event::SummaryUpdated(_)
                | Event::Renamed { .. }
                | Event::Imported(_)
                | Event::ArchivedChanged { .. }
                | Event::TurnQueued { .. }
                // Consent was given for the original.
                | Event::ConfirmRequested(_)
                | Event::ConfirmResolved(_)
                | Event::PermissionChanged { .. }
                | Event::Norris(NorrisEvent::Launched(_))
                | Event::ConstraintsChanged { .. }
        )
    });
    Ok((records, gone))
}

/// A command that runs goes on in the original, and ends there.
fn without_running(records: &mut Vec<Record>) {
    let ended: HashSet<String> = records
        .iter()
        .filter_map(|it| command_of(it, true))
        .collect();
    records.retain(|it| command_of(it, false).is_none_or(|call| ended.contains(&call)));
}

/// The command of a person that a record is the start or the end of.
fn command_of(record: &Record, end: bool) -> Option<String> {
    let own = record.turn.is_none();
    let call = if let Event::ShellFinished { call, .. } = &record.event {
        end.then_some(call)
    } else if let Event::ShellStarted { call, .. } = &record.event {
        (!end).then_some(call)
    } else {
        None
    };
    call.filter(|_| own).cloned()
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
        changed.change = ResourceOutcome::Created;
        let made = (record.at, changed.by.clone());
        changed.created.get_or_insert(made);
        changed.data.is_some() && last.get(&changed.name) == Some(&record.seq)
    });
}

/// The original has paid for it.
fn unpaid(mut event: Event) -> Event {
    if let Event::AssistantMessage { usage, payee, .. } = &mut event {
        *usage = None;
        *payee = None;
    }
    event
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
            environment,
        } => Event::UserMessage {
            text,
            attachments,
            model,
            origin: match origin {
                TurnOrigin::Asked | TurnOrigin::Imported => origin,
                TurnOrigin::Retry(old) => TurnOrigin::Retry(renamed(old)),
                TurnOrigin::Continue(old) => TurnOrigin::Continue(renamed(old)),
            },
            key: None,
            on_confirm: None,
            max_tool_depth: None,
            calls,
            environment,
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
        other => other,
    }
}
