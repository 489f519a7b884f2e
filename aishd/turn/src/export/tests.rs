use std::sync::Arc;

use aishd_log::event::{PresetSource, StopReason};
use aishd_log::time::Timestamp;
use aishd_log::tool_call::ToolCall;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::import::TextImport;

/// What can happen in a conversation, as far as messages go.
#[derive(Clone, Debug)]
enum Happening {
    Ask,
    Retry,
    Continue,
    /// The nth of those that wait.
    Start(usize),
    Say(u8),
    Result(usize),
    Finish,
    Merge,
    Evict,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => Just(Happening::Ask),
        1 => Just(Happening::Retry),
        1 => Just(Happening::Continue),
        4 => (0..3_usize).prop_map(Happening::Start),
        5 => (0..3_u8).prop_map(Happening::Say),
        5 => (0..3_usize).prop_map(Happening::Result),
        3 => Just(Happening::Finish),
        1 => Just(Happening::Merge),
        1 => Just(Happening::Evict),
    ]
}

#[derive(Default)]
struct Scene {
    records: Vec<Record>,
    asked: u8,
    calls: u32,
    waiting: Vec<TurnId>,
    running: Option<TurnId>,
    open: Vec<String>,
    last: Option<TurnId>,
}

impl Scene {
    fn of(happenings: &[Happening]) -> Vec<Record> {
        let mut scene = Self::default();
        happenings.iter().for_each(|it| scene.happen(it));
        scene.records
    }

    fn put(&mut self, turn: TurnId, event: Event) {
        let seq = Seq(self.records.len() as u64 + 1);
        let (at, turn) = (Timestamp(0), Some(turn));
        self.records.push(Record {
            seq,
            at,
            turn,
            client: None,
            event,
        });
    }

    fn ask(&mut self, origin: TurnOrigin) {
        self.asked += 1;
        let turn = TurnId::from_bytes([self.asked; 16]);
        let text = format!(
            "question {} {}",
            self.asked,
            "x".repeat(usize::from(self.asked) % 30)
        );
        let event = Event::UserMessage {
            text,
            attachments: vec![],
            key: None,
            model: None,
            origin,
            on_confirm: None,
            max_tool_depth: None,
            calls: None,
            environment: None,
        };
        self.put(turn, event);
        self.waiting.push(turn);
    }

    fn finish(&mut self, turn: TurnId, merged_into: Option<TurnId>) {
        let (stop, text) = (StopReason::End, Arc::default());
        let event = Event::TurnFinished {
            stop,
            text,
            usage: None,
            error: None,
            merged_into,
        };
        self.put(turn, event);
    }

    fn happen(&mut self, what: &Happening) {
        match what {
            Happening::Ask => self.ask(TurnOrigin::Asked),
            Happening::Retry => {
                if let Some(last) = self.last {
                    self.ask(TurnOrigin::Retry(last));
                }
            }
            Happening::Continue => {
                if let Some(last) = self.last {
                    self.ask(TurnOrigin::Continue(last));
                }
            }
            Happening::Start(which) => {
                if self.running.is_none() && !self.waiting.is_empty() {
                    let turn = self.waiting.remove(which % self.waiting.len());
                    let (model, model_id) = ("m".to_owned(), "m".to_owned());
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
                    self.running = Some(turn);
                }
            }
            Happening::Say(calls) => self.say(*calls),
            Happening::Result(which) => {
                if let (Some(turn), false) = (self.running, self.open.is_empty()) {
                    let call = self.open.remove(which % self.open.len());
                    let content = format!("result of {call}");
                    let event = Event::ToolResult {
                        call,
                        name: "t__x".to_owned(),
                        ok: true,
                        content,
                        denial: None,
                        ms: None,
                        kept: None,
                        blocks: vec![],
                        structured: None,
                        refused: None,
                    };
                    self.put(turn, event);
                }
            }
            Happening::Finish => {
                if let Some(turn) = self.running.take() {
                    // A crash may leave calls without their results.
                    self.open.clear();
                    self.finish(turn, None);
                    self.last = Some(turn);
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
            Happening::Evict => {
                if let Some(turn) = self.last {
                    let through = Seq(self.records.len() as u64);
                    let eviction = aishd_log::eviction::Eviction {
                        through,
                        ..Default::default()
                    };
                    self.put(turn, Event::Evicted(Box::new(eviction)));
                }
            }
        }
    }

    fn say(&mut self, calls: u8) {
        let (Some(turn), true) = (self.running, self.open.is_empty()) else {
            return;
        };
        let calls: Vec<ToolCall> = (0..calls)
            .map(|_| {
                self.calls += 1;
                ToolCall {
                    id: format!("c{}", self.calls),
                    name: "t__x".to_owned(),
                    arguments: "{}".to_owned(),
                    broken: None,
                    extra: Map::new(),
                }
            })
            .collect();
        self.open = calls.iter().map(|it| it.id.clone()).collect();
        let event = Event::AssistantMessage {
            item: 0,
            text: format!("answer {}", self.records.len()).into(),
            reasoning: String::new(),
            calls,
            commands: vec![],
            extra: Map::new(),
            sealed: None,
            complete: true,
            served_by: None,
            usage: None,
            payee: None,
        };
        self.put(turn, event);
    }
}

/// All pages of so many bytes: the messages, and which of them begin an exchange.
fn exported(records: &[Record], most: usize) -> Vec<(bool, serde_json::Value)> {
    let through = Seq(records.len() as u64);
    let nothing = Seq(0);
    let mut progress = ExportProgress {
        through,
        last_eviction: nothing,
        read: nothing,
        told: nothing,
        messages: 0,
    };
    let mut all = vec![];
    for _ in 0..10_000 {
        let mut paging = ExportPaging::new(progress, None, most);
        for record in records.iter().filter(|it| it.seq > progress.read) {
            if paging.take(record).is_break() {
                break;
            }
        }
        let page = paging.end();
        for part in &page.items {
            for (number, message) in exported_messages(&part.exchange).iter().enumerate() {
                if part.messages.contains(&number) {
                    all.push((number == 0, wire(message)));
                }
            }
        }
        match page.next {
            Some(next) => progress = ExportProgress::parse(&next.cursor()).unwrap(),
            None => return all,
        }
    }
    panic!("an export that never ends");
}

fn wire(said: &ExportLine<'_>) -> serde_json::Value {
    match said {
        ExportLine::User { text, .. } => json!({"role": "user", "content": text}),
        ExportLine::Assistant { text, calls, .. } => {
            let calls: Vec<_> = calls
                .iter()
                .map(|it| {
                    let function = json!({"name": it.name, "arguments": it.arguments});
                    json!({"id": it.id, "type": "function", "function": function})
                })
                .collect();
            if calls.is_empty() {
                json!({"role": "assistant", "content": text})
            } else {
                json!({"role": "assistant", "content": text, "tool_calls": calls})
            }
        }
        ExportLine::Tool { call, content } => {
            json!({"role": "tool", "tool_call_id": call, "content": content})
        }
    }
}

fn examples(messages: &[(bool, serde_json::Value)]) -> String {
    let mut lines: Vec<Vec<&serde_json::Value>> = vec![];
    for (begins, message) in messages {
        match lines.last_mut() {
            Some(line) if !begins => line.push(message),
            Some(_) | None => lines.push(vec![message]),
        }
    }
    let line = |it: &Vec<&serde_json::Value>| json!({"messages": it}).to_string() + "\n";
    lines.iter().map(line).collect()
}

fn imported(text: &str) -> Vec<Record> {
    let mut last = 0;
    let mut new_turn = || {
        last += 1;
        TurnId::from_bytes([last; 16])
    };
    let (mut import, mut facts) = (TextImport::default(), vec![]);
    import.take(text, &mut new_turn, &mut facts).unwrap();
    import.finish(&mut new_turn, &mut facts).unwrap();
    let numbered = facts.into_iter().zip(1..);
    let record = |((turn, event), seq)| Record {
        seq: Seq(seq),
        at: Timestamp(0),
        turn: Some(turn),
        client: None,
        event,
    };
    numbered.map(record).collect()
}

#[track_caller]
fn check_pairs(messages: &[(bool, serde_json::Value)]) {
    let mut owed: Vec<String> = vec![];
    for (_, message) in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let place = owed.iter().position(|it| it == id);
            owed.remove(place.expect("a result without its call"));
        } else {
            assert!(owed.is_empty(), "calls without results: {owed:?}");
            let calls = message["tool_calls"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            owed.extend(calls.iter().map(|it| it["id"].as_str().unwrap().to_owned()));
        }
    }
    assert!(owed.is_empty(), "calls without results: {owed:?}");
}

#[test]
fn what_was_asked_again_was_said_twice() {
    let ask = [
        Happening::Ask,
        Happening::Start(0),
        Happening::Say(0),
        Happening::Finish,
    ];
    let mut happenings = ask.to_vec();
    happenings.extend([
        Happening::Retry,
        Happening::Start(0),
        Happening::Say(0),
        Happening::Finish,
    ]);
    let texts: Vec<_> = exported(&Scene::of(&happenings), 1 << 20)
        .into_iter()
        .map(|(_, it)| it["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(4, texts.len());
    assert_eq!(
        ("answer 2", "answer 6"),
        (texts[1].as_str(), texts[3].as_str())
    );
}

#[test]
fn a_cursor_is_one_of_ours_or_none() {
    let progress = ExportProgress {
        through: Seq(9),
        last_eviction: Seq(0),
        read: Seq(4),
        told: Seq(3),
        messages: 2,
    };
    assert_eq!("9-0-4-3-2", progress.cursor());
    assert_eq!(Some(progress), ExportProgress::parse("9-0-4-3-2"));
    for wrong in ["", "9", "9-0-4-3", "9-0-4-3-2-1", "9-0-4-3-x", "-1-0-0-0-0"] {
        assert_eq!(None, ExportProgress::parse(wrong), "{wrong}");
    }
}

proptest! {
    #[test]
    fn pages_of_any_size_tell_the_same_once(happenings in prop::collection::vec(happening(), 0..60), most in 1..200_usize) {
        let records = Scene::of(&happenings);
        let whole = exported(&records, usize::MAX);
        check_pairs(&whole);
        prop_assert_eq!(&whole, &exported(&records, most));
        // Every question that was started is told.
        let starts = records.iter().filter(|it| matches!(it.event, Event::TurnStarted { .. })).count();
        let told = whole.iter().filter(|it| it.1["role"] == "user").count();
        let continued = happenings.iter().filter(|it| matches!(it, Happening::Continue)).count();
        prop_assert!(told + continued >= starts);
    }

    #[test]
    fn what_is_imported_is_exported_the_same(happenings in prop::collection::vec(happening(), 0..60)) {
        let first = exported(&Scene::of(&happenings), usize::MAX);
        // An answer with no question before it is in no log.
        if first.first().is_none_or(|it| it.1["role"] != "user") {
            return Ok(());
        }
        let again = exported(&imported(&examples(&first)), 77);
        check_pairs(&again);
        let messages = |it: Vec<(bool, serde_json::Value)>| it.into_iter().map(|it| it.1).collect::<Vec<_>>();
        let lines = examples(&again);
        prop_assert_eq!(messages(first), messages(again.clone()));
        // From then on the lines are the same too.
        prop_assert_eq!(lines, examples(&exported(&imported(&examples(&again)), 5)));
    }
}
