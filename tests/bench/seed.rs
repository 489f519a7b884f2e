//! Conversations that were had before: written by the store's own writer, many turns in one commit.

use std::path::Path;

use aish_proto::id::{ConversationId, TurnId};
use aishd_log::budget::BudgetLimits;
use aishd_log::constraints::Constraints;
use aishd_log::event::{Event, IdempotencyKey, PresetSource, Record, StopReason, TurnOrigin};
use aishd_log::state::ConversationState;
use aishd_platform::clock;
use aishd_store::{Commit, Store};
use anyhow::Context as _;

/// Turns of one commit.
const TOGETHER: usize = 100;

/// Writes conversations of so many turns into the store of a daemon that does not run.
pub(crate) fn conversations(store: &Path, turns: &[usize]) -> anyhow::Result<Vec<ConversationId>> {
    let store = Store::open(store).context("open the store to seed it")?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let written = turns
        .iter()
        .map(|turns| runtime.block_on(conversation(&store, *turns)));
    let ids = written.collect::<Result<Vec<_>, _>>();
    store.close();
    ids
}

async fn conversation(store: &Store, turns: usize) -> anyhow::Result<ConversationId> {
    let id = ConversationId(clock::ulid());
    let mut state = ConversationState::default();
    let created = Event::Created {
        title: None,
        model: None,
        cwd: "/".to_owned(),
        forked_from: None,
        importing: false,
        constraints: Constraints::default(),
        budget: BudgetLimits::default(),
        temporary: false,
    };
    let mut events = vec![(None, created)];
    for at in 0..turns {
        let turn = TurnId(clock::ulid());
        events.extend(exchange(at).map(|it| (Some(turn), it)));
        if at % TOGETHER == TOGETHER - 1 || at + 1 == turns {
            let mut records = vec![];
            for (turn, event) in std::mem::take(&mut events) {
                let record = Record {
                    seq: state.last_seq.next(),
                    at: clock::now(),
                    turn,
                    client: None,
                    event,
                };
                state.apply(&record);
                records.push(record);
            }
            let state = state.clone();
            store
                .commit(Commit::new(id, records, state, vec![]))
                .await?;
        }
    }
    Ok(id)
}

/// The events of one turn, as an `ask` leaves them.
fn exchange(at: usize) -> [Event; 4] {
    let question = format!("Question {at}: what does step {at} of the plan change, and why?");
    let answer = format!(
        "Step {at} moves one more part behind the socket. It keeps the old name for callers, writes its state \
         before it says done, and leaves the way back open until the next step has landed.\n"
    );
    [
        Event::UserMessage {
            text: question,
            attachments: vec![],
            key: Some(IdempotencyKey {
                key: clock::ulid().to_string(),
                body: "0".repeat(64),
            }),
            model: None,
            on_confirm: None,
            max_tool_depth: None,
            calls: None,
            environment: None,
            origin: TurnOrigin::Asked,
        },
        Event::TurnStarted {
            model: "n1".to_owned(),
            model_id: "n1".to_owned(),
            source: PresetSource::Configured,
            context_tokens: None,
        },
        Event::AssistantMessage {
            item: 0,
            text: answer.as_str().into(),
            reasoning: String::new(),
            calls: vec![],
            commands: vec![],
            extra: serde_json::Map::new(),
            sealed: None,
            complete: true,
            served_by: None,
            usage: None,
            payee: None,
        },
        Event::TurnFinished {
            stop: StopReason::End,
            text: answer.into(),
            usage: None,
            error: None,
            merged_into: None,
        },
    ]
}
