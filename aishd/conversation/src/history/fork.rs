//! Copying a conversation: its finished turns, under new names, in one commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::event::{Event, Record, TurnOrigin};
use aishd_log::norris::NorrisEvent;
use aishd_log::resource::{ResourceName, ResourceOutcome};
use aishd_log::rolling_summary::RollingSummary;
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
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
        let copy = ConversationId(clock::ulid());
        let forked = self.blocking(move |_| copied_log(&handle, &source, at));
        let (batch, state) = forked.await??;
        // One commit, so that nobody ever sees half a copy.
        let seq = state.last_seq;
        self.commit(copy, batch, state, by).await?;
        Ok((copy, seq))
    }
}

/// The log of a copy, and the state after it. The original is gone through twice, so that only what is copied is held.
fn copied_log(
    handle: &ConversationHandle,
    source: &ConversationState,
    at: Option<Seq>,
) -> Result<(Vec<Record>, ConversationState), ReadError> {
    let settled = SettledParts::of(handle, at)?;
    let mut state = ConversationState::default();
    let created = |cut| Event::Created {
        title: Some(title_of_copy(source.title())),
        model: source.model.clone(),
        cwd: source.cwd.clone(),
        forked_from: Some((handle.id, cut)),
        // As they are now: a copy of an older part is no way around them.
        constraints: source.constraints.clone(),
        importing: false,
        temporary: false,
        budget: source.budget,
    };
    let mut batch = vec![place(&mut state, None, created(Seq(0)))];
    let mut turns = HashMap::new();
    let (mut cut, mut through) = (Seq(0), Seq(0));
    for record in records_to(handle, at) {
        let record = record?;
        if !settled.has(&record) {
            continue;
        }
        let turn = record.turn.filter(|_| !is_resource(&record));
        let turn = turn.map(|old| *turns.entry(old).or_insert_with(|| TurnId(clock::ulid())));
        let event = copied(unpaid(as_it_is(record.event.clone(), record.at)), &turns);
        batch.push(place(&mut state, turn, event));
        cut = record.seq;
        if record.seq <= settled.gone.through {
            through = state.last_seq;
        }
    }
    batch[0].event = created(cut);
    let left = evictions_left(&batch, through, settled.gone.summary, &state);
    batch.extend(left.map(|event| place(&mut state, None, event)));
    Ok((batch, state))
}

/// `x (fork)`, and of that `x (fork 2)`.
fn title_of_copy(title: &str) -> String {
    let counted = title
        .strip_suffix(')')
        .and_then(|it| it.rsplit_once(" (fork"));
    let (name, number) = match counted {
        Some((name, "")) => (name, Some(2)),
        Some((name, number)) => {
            let number = number
                .strip_prefix(' ')
                .and_then(|it| it.parse::<u32>().ok());
            (name, number.map(|it| it.saturating_add(1)))
        }
        None => (title, None),
    };
    match number {
        Some(number) => format!("{name} (fork {number})"),
        None => format!("{title} (fork)"),
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

/// What of a log up to some record is settled, and what had left the context by then.
#[derive(Default)]
struct SettledParts {
    /// Turns that ended.
    finished: HashSet<TurnId>,
    /// Commands of a person that ended; one that runs goes on in the original, and ends there.
    ended: HashSet<String>,
    /// Where each resource changed last.
    resources: HashMap<ResourceName, Seq>,
    gone: ForkEvictions,
}

impl SettledParts {
    fn of(handle: &ConversationHandle, at: Option<Seq>) -> Result<Self, ReadError> {
        let mut settled = Self::default();
        for record in records_to(handle, at) {
            let record = record?;
            if let Event::TurnFinished { .. } = &record.event {
                settled.finished.extend(record.turn);
            } else if let Event::ResourceChanged(changed) = &record.event {
                settled.resources.insert(changed.name.clone(), record.seq);
            } else if let Event::Evicted(eviction) = &record.event {
                settled.gone.through = settled.gone.through.max(eviction.through);
            } else if let Event::SummaryUpdated(summary) = &record.event {
                settled.gone.summary = Some(summary.clone());
            }
            settled.ended.extend(command_of(&record, true));
        }
        Ok(settled)
    }

    /// Whether a copy has this record: of a finished turn, and not what only concerned waiting. Each resource is there once, as it
    /// was in the end, also those of turns that the copy does not have.
    fn has(&self, record: &Record) -> bool {
        if let Event::ResourceChanged(changed) = &record.event {
            return changed.data.is_some()
                && self.resources.get(&changed.name) == Some(&record.seq);
        }
        let is_settled = record.turn.is_none_or(|turn| self.finished.contains(&turn));
        let has_ended = command_of(record, false).is_none_or(|call| self.ended.contains(&call));
        is_settled && has_ended && is_taken_along(&record.event)
    }
}

fn is_taken_along(event: &Event) -> bool {
    !matches!(
        event,
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
            // It says something of the original's log, and nothing that was said.
            | Event::RecordLost {}
            // They run in the original, and not in the copy.
            | Event::JobStarted(_)
            | Event::JobEnded(_)
            // Consent was given for the original.
            | Event::ConfirmRequested(_)
            | Event::CommandTried(_)
            | Event::ConfirmResolved(_)
            | Event::PermissionChanged { .. }
            | Event::Norris(NorrisEvent::Launched(_))
            | Event::ConstraintsChanged { .. }
    )
}

/// Records without the first, up to `at`.
fn records_to(
    handle: &ConversationHandle,
    at: Option<Seq>,
) -> impl Iterator<Item = Result<Arc<Record>, ReadError>> {
    let last = at.unwrap_or(Seq(u64::MAX));
    let records = handle.records(Seq(1));
    records.take_while(move |it| it.as_ref().is_ok_and(|it| it.seq <= last) || it.is_err())
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

fn is_resource(record: &Record) -> bool {
    matches!(record.event, Event::ResourceChanged(_))
}

/// To the copy a resource is new, but it was made when it was made.
fn as_it_is(mut event: Event, at: Timestamp) -> Event {
    if let Event::ResourceChanged(changed) = &mut event {
        changed.change = ResourceOutcome::Created;
        let made = (at, changed.by.clone());
        changed.created.get_or_insert(made);
    }
    event
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

#[cfg(test)]
mod tests {
    use super::title_of_copy;

    #[test]
    fn a_copy_of_a_copy_is_counted() {
        for (title, copy) in [
            ("x", "x (fork)"),
            ("x (fork)", "x (fork 2)"),
            ("x (fork 2)", "x (fork 3)"),
            ("x (fork y)", "x (fork y) (fork)"),
            ("(fork)", "(fork) (fork)"),
        ] {
            assert_eq!(copy, title_of_copy(title));
        }
    }
}
