use std::sync::Arc;

mod pinned;

use aish_proto::id::{Seq, TurnId};
use aishd_log::api_dialect::ApiDialect;
use aishd_log::ending::CommandEnding;
use aishd_log::event::{Event, PresetSource, Record, StopReason, TurnOrigin};
use aishd_log::eviction::LeftExchange;
use aishd_log::pinned_resource::PinnedEntry;
use aishd_log::rolling_summary::RollingSummary;
use aishd_log::shell::OutputUse;
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_log::tool_call::ToolCall;
use aishd_model::catalog::CatalogFacts;
use aishd_model::context_budget::{BytesPerToken, ContextLimit, TokenLimit};
use aishd_model::optional_fields::LearnedFields;
use aishd_model::preset::{Backend, CacheLife, KeyHeader, KeySource, ModelEndpoint, Timeouts};
use aishd_model::preset_fields::PresetFields;
use aishd_model::thinking::ThinkingStart;
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::fit::{FitInput, fit};
use super::system_message::BASE_PROMPT;
use super::*;
use crate::exchange::Exchange;
use crate::turn::unfinished_command;

fn preset(use_tool_role: bool) -> Preset {
    Preset {
        name: "p".to_owned(),
        source: PresetSource::Configured,
        backend: Backend::Http(ModelEndpoint {
            url: "http://127.0.0.1:1".to_owned(),
            api: ApiDialect::Chat,
            auth: KeyHeader::Bearer,
            key: KeySource::None,
            headers: std::collections::BTreeMap::new(),
            timeouts: Timeouts::LOOPBACK,
        }),
        model: "m".to_owned(),
        temperature: None,
        max_tokens: None,
        effort: None,
        fields: PresetFields::default(),
        cache: CacheLife::default(),
        context_tokens: None,
        use_tool_role,
        tools: true,
        max_tools: None,
        retries: 0,
        pictures: None,
        include_usage: true,
        think: ThinkingStart::Auto,
        price: None,
        facts: CatalogFacts::default(),
        learned: LearnedFields::default(),
    }
}

/// What may happen in a conversation, in any order.
#[derive(Clone, Debug)]
enum Happening {
    Ask,
    Start,
    Say {
        text: bool,
        calls: u8,
    },
    Result,
    Finish,
    Merge,
    Retry,
    Continue,
    /// The last question that waits goes to the head of the queue.
    Steer,
    /// The server said that it was too much.
    Evict,
    /// The next request has to fit this budget.
    Fit {
        turns: u8,
        tokens: u16,
    },
    /// A command of a person is over, or one that the last answer proposed.
    Printed {
        own: bool,
        waits: bool,
        long: bool,
    },
    /// One of what left comes back.
    Restore {
        which: u8,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => Just(Happening::Ask),
        3 => Just(Happening::Start),
        3 => (any::<bool>(), 0..3_u8).prop_map(|(text, calls)| Happening::Say { text, calls }),
        3 => Just(Happening::Result),
        2 => Just(Happening::Finish),
        1 => Just(Happening::Merge),
        1 => Just(Happening::Retry),
        1 => Just(Happening::Continue),
        1 => Just(Happening::Steer),
        1 => Just(Happening::Evict),
        2 => (1..6_u8, 50..900_u16).prop_map(|(turns, tokens)| Happening::Fit { turns, tokens }),
        3 => any::<[bool; 3]>().prop_map(|[own, waits, long]| Happening::Printed { own, waits, long }),
        1 => any::<u8>().prop_map(|which| Happening::Restore { which }),
    ]
}

/// Plays happenings that make sense where they stand; the others are left out.
#[derive(Default)]
struct World {
    transcript: Transcript,
    seq: u64,
    turns: u8,
    waiting: Vec<TurnId>,
    running: Option<TurnId>,
    finished: Vec<TurnId>,
    open: Vec<String>,
    records: Vec<Record>,
    state: ConversationState,
    gone: Vec<LeftExchange>,
    /// The running turn has answered.
    answered: bool,
    printed: u32,
}

impl World {
    fn put(&mut self, turn: impl Into<Option<TurnId>>, event: Event) {
        self.seq += 1;
        let record = Record {
            seq: Seq(self.seq),
            at: Timestamp(0),
            turn: turn.into(),
            client: None,
            event,
        };
        self.transcript.apply(&record);
        self.state.apply(&record);
        self.records.push(record);
    }

    fn evict(&mut self, count: usize) {
        let eviction = self.transcript.eviction(count, &self.state);
        let (Some(turn), Some(eviction)) = (self.running, eviction) else {
            return;
        };
        let leaving = self.transcript.exchanges().take(count);
        self.gone
            .extend(leaving.filter_map(Exchange::left_exchange));
        self.put(turn, Event::Evicted(Box::new(eviction)));
    }

    /// An exchange that left, out of the log.
    fn read(&self, left: LeftExchange) -> Option<Exchange> {
        let records = self.records.iter();
        let part = records.filter(|it| left.begin <= it.seq && it.seq <= left.last);
        Exchange::read(left, part)
    }

    /// As a daemon reads it that was not there.
    fn reloaded(&self) -> Transcript {
        let mut transcript = Transcript::default();
        for left in &self.state.restored {
            transcript.shelve(self.read(*left).unwrap());
        }
        let begin = self.state.context_begins();
        let rest = self.records.iter().filter(|it| it.seq > begin);
        rest.for_each(|it| transcript.apply(it));
        transcript.clear_shelf();
        transcript
    }

    fn ask(&mut self, origin: TurnOrigin) {
        self.turns = self.turns.wrapping_add(1);
        let turn = TurnId::from_bytes([self.turns; 16]);
        let text = format!("question {}", self.turns);
        let (attachments, key, model) = (vec![], None, None);
        self.put(
            turn,
            Event::UserMessage {
                text,
                attachments,
                key,
                model,
                origin,
                on_confirm: None,
                max_tool_depth: None,
                calls: None,
                environment: None,
            },
        );
        self.waiting.push(turn);
    }

    fn finish(&mut self, turn: TurnId, merged_into: Option<TurnId>) {
        self.put(
            turn,
            Event::TurnFinished {
                // It may have failed, or was aborted.
                stop: [
                    StopReason::End,
                    StopReason::Upstream,
                    StopReason::Cancelled,
                    StopReason::Interrupted,
                ][usize::from(self.turns % 4)],
                text: Arc::default(),
                usage: None,
                error: None,
                merged_into,
            },
        );
    }

    fn happen(&mut self, what: &Happening) {
        match what {
            Happening::Ask => self.ask(TurnOrigin::Asked),
            Happening::Retry => {
                if let Some(old) = self.finished.last().copied() {
                    self.ask(TurnOrigin::Retry(old));
                }
            }
            Happening::Continue => {
                if let Some(old) = self.finished.last().copied() {
                    self.ask(TurnOrigin::Continue(old));
                }
            }
            Happening::Start => {
                if self.running.is_none() && !self.waiting.is_empty() {
                    let turn = self.waiting.remove(0);
                    let (model, model_id) = ("p".to_owned(), "m".to_owned());
                    let source = PresetSource::Configured;
                    self.put(
                        turn,
                        Event::TurnStarted {
                            model,
                            model_id,
                            source,
                            context_tokens: None,
                        },
                    );
                    (self.running, self.answered) = (Some(turn), false);
                }
            }
            Happening::Say { text, calls } => self.say(*text, *calls),
            Happening::Result => {
                if let (Some(turn), Some(call)) = (self.running, self.open.pop()) {
                    let (name, content) = ("t__x".to_owned(), "ok".to_owned());
                    self.put(
                        turn,
                        Event::ToolResult {
                            call,
                            name,
                            ok: true,
                            content,
                            denial: None,
                            ms: None,
                            kept: None,
                            blocks: vec![],
                            structured: None,
                            refused: None,
                        },
                    );
                }
            }
            Happening::Finish => {
                if let Some(turn) = self.running.take() {
                    // A crash may leave calls without their results.
                    self.open.clear();
                    self.finish(turn, None);
                    self.finished.push(turn);
                }
            }
            Happening::Merge => {
                if let (Some(running), true, false) =
                    (self.running, self.open.is_empty(), self.waiting.is_empty())
                {
                    let turn = self.waiting.remove(0);
                    self.finish(turn, Some(running));
                }
            }
            Happening::Steer => {
                if let Some(last) = self.waiting.pop() {
                    self.waiting.insert(0, last);
                    let (position, steer) = (1, true);
                    self.put(last, Event::TurnQueued { position, steer });
                }
            }
            Happening::Evict => {
                let count = self.transcript.exchanges().len();
                self.evict(count / 2);
            }
            Happening::Fit { turns, tokens } => self.fit(*turns, *tokens),
            Happening::Printed { own, waits, long } => self.print(*own, *waits, *long),
            Happening::Restore { which } => self.restore(*which),
        }
    }

    fn print(&mut self, own: bool, waits: bool, long: bool) {
        let turn = self.running.filter(|_| !own);
        let proposed = turn.is_some() && self.answered && self.open.is_empty();
        if !own && !proposed {
            return;
        }
        self.printed += 1;
        let given = match (own, waits) {
            (_, true) => OutputUse::WithNextQuestion,
            (true, false) => OutputUse::Never,
            (false, false) => OutputUse::AtOnce,
        };
        let call = format!("run-{}", self.printed);
        let ending = CommandEnding::Exited { code: 0 };
        let mut event = unfinished_command(&call, "x", ending, given);
        if let Event::ShellFinished { output, .. } = &mut event {
            *output = format!("output {}.", self.printed);
            if long {
                output.push_str(&"`x".repeat(900));
            }
        }
        self.put(turn, event);
    }

    fn fit(&mut self, turns: u8, tokens: u16) {
        let fitted = |use_tool_role| {
            fit(FitInput {
                preset: &preset(use_tool_role),
                transcript: &self.transcript,
                offer: &ToolOffer::default(),
                pinned: &[],
                summary: true,
                limit: ContextLimit {
                    turns: usize::from(turns),
                    tokens: Some(TokenLimit {
                        whole: u64::from(tokens),
                        reserve: 0,
                    }),
                },
                ratio: BytesPerToken::default(),
                mode: LoopMode::Talk,
            })
        };
        if let Ok(fit) = fitted(false) {
            assert!(
                !checked(&fit.body.text).contains(&"tool".to_owned()),
                "results go as user texts"
            );
        }
        if let Ok(fit) = fitted(true) {
            checked(&fit.body.text);
            assert!(fit.tokens <= u64::from(tokens));
            self.evict(fit.leaving.len());
            let left = self.transcript.exchanges().len();
            assert!(self.running.is_none() || left <= usize::from(turns));
        }
    }

    fn restore(&mut self, which: u8) {
        if !self.gone.is_empty() {
            let which = usize::from(which) % self.gone.len();
            let left = self.gone.remove(which);
            if let Some(exchange) = self.read(left) {
                self.transcript.shelve(exchange);
                self.put(left.turn, Event::Restored(left));
                self.transcript.clear_shelf();
            }
        }
    }

    fn say(&mut self, text: bool, calls: u8) {
        let Some(turn) = self.running.filter(|_| self.open.is_empty()) else {
            return;
        };
        let calls: Vec<ToolCall> = (0..calls)
            .map(|it| ToolCall {
                id: format!("call_{}_{it}", self.seq),
                name: "t__x".to_owned(),
                arguments: "{}".to_owned(),
                broken: None,
                extra: Map::new(),
            })
            .collect();
        self.open = calls.iter().map(|it| it.id.clone()).collect();
        self.answered = true;
        self.put(
            turn,
            Event::AssistantMessage {
                item: 0,
                text: if text { "said" } else { "" }.into(),
                reasoning: String::new(),
                calls,
                commands: vec![],
                extra: Map::new(),
                sealed: None,
                complete: true,
                served_by: None,
                usage: None,
                payee: None,
            },
        );
    }
}

/// Roles of the messages, after checking what every server may rely on.
fn checked(body: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let role = |it: &Value| it["role"].as_str().unwrap().to_owned();
    let roles: Vec<String> = messages.iter().map(role).collect();
    assert_eq!("system", roles[0], "it comes first");
    assert_eq!(
        1,
        roles.iter().filter(|it| *it == "system").count(),
        "there is one"
    );
    let mut owed: Vec<String> = vec![];
    for (message, role) in messages.iter().zip(&roles) {
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let at = owed.iter().position(|it| it == id);
            owed.remove(at.expect("a reply without its call"));
            continue;
        }
        assert!(owed.is_empty(), "a call without its reply");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            owed.push(call["id"].as_str().unwrap().to_owned());
        }
    }
    assert!(owed.is_empty(), "a call without its reply");
    let users = roles
        .windows(2)
        .filter(|it| it[0] == "user" && it[1] == "user");
    assert_eq!(0, users.count(), "no two stand side by side");
    assert!(
        body.get("tools").is_none(),
        "an empty list is refused by some"
    );
    roles
}

proptest! {
    #[test]
    fn any_history_makes_a_request_that_strict_servers_take(
        happenings in proptest::collection::vec(happening(), 0..60)
    ) {
        let mut world = World::default();
        for what in &happenings {
            world.happen(what);
        }
        checked(&body(&preset(true), &world.transcript, &ToolOffer::default(), &[], LoopMode::Talk).text);
        let roles = checked(&body(&preset(false), &world.transcript, &ToolOffer::default(), &[], LoopMode::Talk).text);
        prop_assert!(!roles.contains(&"tool".to_owned()), "results go as user texts");
        let strict = roles.windows(2).all(|it| it[0] != it[1]);
        prop_assert!(strict, "they take turns: {:?}", roles);
        // And what another daemon reads of the log says the same.
        let again = world.reloaded();
        let said = |it: &Transcript| body(&preset(true), it, &ToolOffer::default(), &[], LoopMode::Talk).text;
        for number in 1..=world.printed {
            let told = said(&world.transcript).matches(&format!("output {number}.")).count();
            prop_assert!(told <= 1, "an output is told {told} times");
        }
        prop_assert_eq!(said(&world.transcript), said(&again));
    }
}

#[test]
fn a_body_has_messages_of_all_kinds_in_their_places() {
    let mut world = World::default();
    for what in [
        Happening::Ask,
        Happening::Start,
        Happening::Say {
            text: true,
            calls: 1,
        },
        Happening::Result,
    ] {
        world.happen(&what);
    }
    let sent: Value = serde_json::from_str(
        &body(
            &preset(true),
            &world.transcript,
            &ToolOffer::default(),
            &[],
            LoopMode::Talk,
        )
        .text,
    )
    .unwrap();
    let expected = serde_json::json!({
        "model": "m",
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [
            {"role": "system", "content": BASE_PROMPT},
            {"role": "user", "content": "question 1"},
            {
                "role": "assistant",
                "content": "said",
                "tool_calls": [
                    {"id": "call_2_0", "type": "function", "function": {"name": "t__x", "arguments": "{}"}}
                ]
            },
            {"role": "tool", "tool_call_id": "call_2_0", "content": "ok"}
        ]
    });
    assert_eq!(expected, sent);
    let without: Value = serde_json::from_str(
        &body(
            &preset(false),
            &world.transcript,
            &ToolOffer::default(),
            &[],
            LoopMode::Talk,
        )
        .text,
    )
    .unwrap();
    let expected = serde_json::json!([
        {"role": "system", "content": BASE_PROMPT},
        {"role": "user", "content": "question 1"},
        {"role": "assistant", "content": "said"},
        {"role": "user", "content": "[tool: t__x]\nok"}
    ]);
    assert_eq!(expected, without["messages"]);
}

/// The summary is a block of the one system message, and of none in Norris mode.
#[test]
fn the_summary_stands_in_the_system_message() {
    let mut world = World::default();
    world.happen(&Happening::Ask);
    world.happen(&Happening::Start);
    let system = |world: &World, mode| -> String {
        let sent = body(
            &preset(true),
            &world.transcript,
            &ToolOffer::default(),
            &[],
            mode,
        )
        .text;
        let sent: Value = serde_json::from_str(&sent).unwrap();
        sent["messages"][0]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(BASE_PROMPT, system(&world, LoopMode::Talk));
    for text in ["They met.", "They met.\nThey parted."] {
        let summary = RollingSummary {
            text: text.to_owned(),
            ..RollingSummary::default()
        };
        let block = summary.block();
        let turn = world.running.unwrap();
        world.put(turn, Event::SummaryUpdated(Box::new(summary)));
        assert_eq!(
            format!("{BASE_PROMPT}{block}"),
            system(&world, LoopMode::Talk)
        );
        assert_eq!(BASE_PROMPT, system(&world, LoopMode::Norris));
    }
}
