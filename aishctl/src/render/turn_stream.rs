//! From events to the text of one turn: a fold without IO. Deltas are a courtesy; the finished item is
//! the truth, and whatever a delta did not bring is taken from it.

use aish_proto::event::{
    CalledTool, ClientEvent, CommandTried, ConfirmRequested, ConfirmResolved, Event, FallbackUsed,
    NorrisEnded, RunningTurn, StatusLevel, ToolResult, TurnFinished,
};
use aish_proto::id::TurnId;
use aish_proto::kept::KeptBlock;
use aish_proto::model::ModelSource;
use aish_proto::route::RouteClass;
use aish_proto::turn::{StopReason, TurnError, TurnRecord, TurnStatus};
use aish_proto::usage::Usage;

use crate::render::{event_lines, progress, todos};

/// Who wrote an answer: the preset, and the model as its server names it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AnswerAuthor {
    pub preset: String,
    pub model: String,
}

/// The answer of one turn as it becomes known.
#[derive(Debug)]
pub struct StreamedAnswer {
    pub turn: TurnId,
    /// The preset by name.
    pub model: Option<String>,
    /// That preset, and the model that its server is asked for.
    asks_for: Option<(String, String)>,
    /// The same where the request that runs went elsewhere.
    asks_now: Option<(String, String)>,
    pub answered: Option<AnswerAuthor>,
    /// Who was asked in vain before, and why.
    pub fell_back: Vec<FallbackUsed>,
    /// The class that made another preset answer.
    pub routed: Option<RouteClass>,
    pub tool_calls: Vec<CalledTool>,
    /// Replies to them, as they came.
    pub results: Vec<ToolResult>,
    /// Pictures that the model made.
    pub pictures: Vec<KeptBlock>,
    /// Calls that did not run because somebody or something said no, or nobody could say yes.
    pub denied: u32,
    /// Those of them that were commands of its text.
    pub commands_denied: u32,
    pub ended: Option<AnswerEnd>,
    /// What to do for more, where a budget is used up.
    pub budget_hint: Option<String>,
    /// How it ended, if it was a run that worked by itself.
    pub run: Option<NorrisEnded>,
    item: Option<u32>,
    /// What has been shown of `item`.
    shown: String,
    /// The last message that is whole.
    said: Option<String>,
    /// A delta is missing: nothing of this item is shown until it is finished.
    broken: bool,
    /// The last item that is finished.
    finished: Option<u32>,
    /// The text that stood in the snapshot; it belongs after the stored events that follow it.
    running: Option<RunningTurn>,
    progress: progress::ShownProgress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerEnd {
    pub stop_reason: StopReason,
    pub text: String,
    pub usage: Option<Usage>,
    pub error: Option<TurnError>,
}

/// What there is to do after an event.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamStep {
    Text(String),
    Notice(StatusLevel, String),
    /// What was shown is not how the item ended; all of it follows.
    Rewritten,
    /// The cursor meant nothing; ask for the record once the replay is over.
    Resync,
    ReplayComplete,
    /// A person is asked.
    Asked(Box<ConfirmRequested>),
    /// What it is about was tried.
    Tried(Box<CommandTried>),
    /// The question is settled, by whomever.
    Settled(Box<ConfirmResolved>),
}

fn info(text: String) -> StreamStep {
    StreamStep::Notice(StatusLevel::Info, text)
}

impl StreamedAnswer {
    pub fn new(turn: TurnId) -> Self {
        Self {
            turn,
            model: None,
            asks_for: None,
            asks_now: None,
            answered: None,
            fell_back: vec![],
            routed: None,
            tool_calls: Vec::new(),
            results: Vec::new(),
            pictures: Vec::new(),
            denied: 0,
            commands_denied: 0,
            ended: None,
            budget_hint: None,
            run: None,
            item: None,
            shown: String::new(),
            said: None,
            broken: false,
            finished: None,
            running: None,
            progress: progress::ShownProgress::default(),
        }
    }

    /// What is known of the text: that of the end, or what has been shown.
    pub fn text(&self) -> &str {
        self.ended
            .as_ref()
            .map(|it| it.text.as_str())
            .filter(|it| !it.is_empty())
            .unwrap_or(&self.shown)
    }

    /// The message that is being shown.
    pub fn item(&self) -> Option<u32> {
        self.item
    }

    /// Takes one event in. The same stored event must not come twice; deltas may.
    pub fn take(&mut self, event: &ClientEvent) -> Vec<StreamStep> {
        let mut steps = Vec::new();
        if event.turn.is_none_or(|it| it == self.turn) {
            self.fold(event, &mut steps);
        }
        steps
    }

    fn fold(&mut self, event: &ClientEvent, steps: &mut Vec<StreamStep>) {
        match &event.data {
            Event::TextDelta(delta) => self.piece(delta.item, delta.offset, &delta.text, steps),
            Event::TurnFinished(finished) => {
                self.finish_turn(TurnFinished::clone(finished), steps);
            }
            Event::TurnQueued(queued) => {
                steps.push(info(format!("queued #{}", queued.position)));
            }
            // Another question than the one that the turn waits for would stand in its place.
            Event::ConfirmRequested(asked) if event.turn.is_some() => {
                steps.push(StreamStep::Asked(asked.clone()));
            }
            Event::CommandTried(tried) if event.turn.is_some() => {
                steps.push(StreamStep::Tried(tried.clone()));
            }
            Event::ConfirmResolved(resolved) if event.turn.is_some() => {
                steps.push(StreamStep::Settled(resolved.clone()));
            }
            Event::TodosChanged(changed) => steps.push(info(todos::line(&changed.todos))),
            Event::ToolProgress(said) => steps.extend(self.progress.line(said).map(info)),
            Event::ToolResult(result) => self.result(ToolResult::clone(result), steps),
            Event::ShellFinished(finished) => {
                self.denied += u32::from(finished.denied.is_some());
                self.commands_denied += u32::from(finished.denied.is_some());
            }
            Event::Status(status) => {
                steps.push(StreamStep::Notice(status.level, status.text.clone()));
            }
            Event::BudgetReached(reached) => {
                let text = reached.text.clone();
                steps.push(StreamStep::Notice(StatusLevel::Warning, text));
                self.budget_hint = Some(reached.hint.clone());
            }
            Event::Snapshot(snapshot) => {
                let running = snapshot.running.as_ref();
                self.running = running.filter(|it| it.turn == self.turn).cloned();
                let notice = snapshot.notice.clone();
                steps.extend(notice.map(|it| StreamStep::Notice(StatusLevel::Warning, it)));
            }
            Event::ReplayComplete(_) => {
                if let Some(running) = self.running.take() {
                    self.piece(running.item, running.offset, &running.text, steps);
                }
                steps.push(StreamStep::ReplayComplete);
            }
            Event::ResyncRequired(_) => steps.push(StreamStep::Resync),
            _ => {
                if let Event::AnswerPictures(made) = &event.data {
                    self.pictures.extend_from_slice(&made.blocks);
                }
                self.fold_models(event, steps);
                steps.extend(event_lines::turn_line(event).map(info));
            }
        }
    }

    fn result(&mut self, result: ToolResult, steps: &mut Vec<StreamStep>) {
        let denied = u32::from(result.denied.is_some());
        self.denied += denied;
        if result.name == super::extract::SHELL_TOOL {
            self.commands_denied += denied;
        }
        if result.denied.is_some() {
            let text = format!("{} did not run: {}", result.name, result.content);
            steps.push(StreamStep::Notice(StatusLevel::Warning, text));
        }
        self.results.push(result);
    }

    /// Who is asked, and who has answered.
    fn fold_models(&mut self, event: &ClientEvent, steps: &mut Vec<StreamStep>) {
        match &event.data {
            // A list of calls asks no model, and an import none that is known here.
            Event::TurnStarted(started)
                if matches!(started.source, ModelSource::None | ModelSource::Imported) => {}
            Event::TurnStarted(started) => {
                let (model, model_id) = (started.model.clone(), started.model_id.clone());
                let text = format!("{model} ({model_id})");
                steps.push(StreamStep::Notice(StatusLevel::Debug, text));
                self.asks_for = Some((model.clone(), model_id));
                self.model = Some(model);
            }
            Event::RouteDecided(decided) => {
                self.routed = decided.replaced.then_some(decided.class);
            }
            Event::FallbackUsed(used) => {
                let model = used.to_model_id.clone().unwrap_or_default();
                self.asks_now = Some((used.to.clone(), model));
                self.fell_back.push(FallbackUsed::clone(used));
            }
            Event::AssistantMessage(message) => {
                self.tool_calls.extend_from_slice(&message.tool_calls);
                let asked = self.asks_now.take().or_else(|| self.asks_for.clone());
                if let Some((preset, model)) = asked {
                    let model = message.served_by.clone().unwrap_or(model);
                    self.answered = Some(AnswerAuthor { preset, model });
                }
                self.finish_item(message.item, &message.text, steps);
            }
            Event::NorrisEnded(ended) => self.run = Some(NorrisEnded::clone(ended)),
            _ => {}
        }
    }

    /// The record of the turn, where its events can no longer be had.
    pub fn settle(&mut self, record: TurnRecord) -> Vec<StreamStep> {
        let mut steps = Vec::new();
        self.model = record.model.or(self.model.take());
        let routed = record.routed.filter(|it| it.replaced).map(|it| it.class);
        self.routed = routed.or(self.routed);
        self.denied = self.denied.max(record.denied);
        if let (TurnStatus::Finished, Some(stop_reason)) = (record.status, record.stop_reason) {
            let finished = TurnFinished {
                stop_reason,
                text: record.text,
                usage: record.usage,
                error: record.error,
                merged_into: record.merged_into,
            };
            self.finish_turn(finished, &mut steps);
        }
        steps
    }

    fn begin_item(&mut self, item: u32, steps: &mut Vec<StreamStep>) {
        if self.item == Some(item) {
            return;
        }
        if !self.shown.is_empty() && !self.shown.ends_with('\n') {
            steps.push(StreamStep::Text("\n".to_owned()));
        }
        self.item = Some(item);
        self.shown.clear();
        self.broken = false;
    }

    fn piece(&mut self, item: u32, offset: u64, text: &str, steps: &mut Vec<StreamStep>) {
        if self.finished.is_some_and(|it| item <= it) {
            return;
        }
        self.begin_item(item, steps);
        let shown = self.shown.len() as u64;
        if self.broken || offset > shown {
            self.broken = true;
            return;
        }
        // After a reconnect the beginning may come again.
        let known = usize::try_from(shown - offset).unwrap_or(usize::MAX);
        if known >= text.len() {
            return;
        }
        match text.get(known..) {
            Some(new) => {
                self.shown.push_str(new);
                steps.push(StreamStep::Text(new.to_owned()));
            }
            None => self.broken = true,
        }
    }

    fn finish_item(&mut self, item: u32, text: &str, steps: &mut Vec<StreamStep>) {
        self.begin_item(item, steps);
        self.finished = Some(item);
        if let Some(rest) = text.strip_prefix(self.shown.as_str()) {
            if !rest.is_empty() {
                steps.push(StreamStep::Text(rest.to_owned()));
            }
        } else if !self.shown.starts_with(text) {
            steps.push(StreamStep::Rewritten);
            steps.push(StreamStep::Text(format!("\n{text}")));
        }
        // Else the daemon ended before it had kept all that we have shown; nothing is wrong with that.
        text.clone_into(&mut self.shown);
        self.said = Some(text.to_owned());
    }

    fn finish_turn(&mut self, finished: TurnFinished, steps: &mut Vec<StreamStep>) {
        if let Some(other) = finished.merged_into {
            steps.push(StreamStep::Notice(
                StatusLevel::Info,
                "joined the running turn".to_owned(),
            ));
            *self = Self {
                model: self.model.take(),
                ..Self::new(other)
            };
            return;
        }
        // After a reconnect a snapshot may have begun an item of which nothing came.
        let known = self.said.as_ref() == Some(&finished.text);
        if !known && !finished.text.is_empty() {
            let item = match (self.finished, self.item) {
                (Some(finished), Some(item)) if item <= finished => finished.saturating_add(1),
                (_, item) => item.unwrap_or(0),
            };
            self.finish_item(item, &finished.text, steps);
        }
        self.ended = Some(AnswerEnd {
            stop_reason: finished.stop_reason,
            text: finished.text,
            usage: finished.usage,
            error: finished.error,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::test_daemon;

    fn fold(events: &[(&str, Value)]) -> (StreamedAnswer, Vec<StreamStep>) {
        let mut answer = StreamedAnswer::new(test_daemon::turn());
        let mut steps = Vec::new();
        for (kind, data) in events {
            let event = test_daemon::envelope(None, kind, data.clone());
            steps.extend(answer.take(&test_daemon::event(event)));
        }
        (answer, steps)
    }

    /// The text that was shown, with `!` where something was rewritten.
    #[track_caller]
    fn check(events: &[(&str, Value)], expected: &str) {
        let (_, steps) = fold(events);
        let shown: String = steps
            .iter()
            .map(|it| match it {
                StreamStep::Text(text) => text.clone(),
                StreamStep::Rewritten => "!".to_owned(),
                _ => String::new(),
            })
            .collect();
        assert_eq!(expected, shown);
    }

    fn delta(item: u32, offset: u64, text: &str) -> (&'static str, Value) {
        (
            "textDelta",
            json!({"item": item, "offset": offset, "text": text}),
        )
    }

    fn message(item: u32, text: &str) -> (&'static str, Value) {
        (
            "assistantMessage",
            json!({"item": item, "text": text, "complete": true, "usage": null}),
        )
    }

    fn finished(text: &str) -> (&'static str, Value) {
        (
            "turnFinished",
            json!({"stopReason": "end", "text": text, "usage": null}),
        )
    }

    /// A level is asked for by no turn: it would stand in the place of what this one waits for.
    #[test]
    fn only_questions_of_the_turn_are_put_to_who_asked_it() {
        let asked = |turn: Value| {
            let request = crate::render::question::tests::request("fs__read", "{}", 1);
            let request = serde_json::to_value(request).unwrap();
            let mut event = test_daemon::envelope(None, "confirmRequested", request);
            event["turn"] = turn;
            let event = test_daemon::event(event);
            StreamedAnswer::new(test_daemon::turn()).take(&event).len()
        };
        assert_eq!(1, asked(json!(test_daemon::turn())));
        assert_eq!(0, asked(Value::Null));
        assert_eq!(0, asked(json!(TurnId::from_bytes([9; 16]))));
    }

    #[test]
    fn the_finished_item_fills_what_deltas_left_open() {
        check(
            &[
                delta(0, 0, "one "),
                delta(0, 4, "two"),
                message(0, "one two"),
                finished("one two"),
            ],
            "one two",
        );
        check(
            &[
                delta(0, 0, "one "),
                delta(0, 7, "three"),
                message(0, "one two three"),
            ],
            "one two three",
        );
        check(&[message(0, "one"), finished("one")], "one");
        check(&[finished("one")], "one");
        check(&[delta(0, 0, "on"), finished("one")], "one");
        check(
            &[
                delta(0, 0, "one"),
                delta(0, 0, "one two"),
                delta(0, 1, "n"),
                message(0, "one two"),
            ],
            "one two",
        );
        check(&[message(0, "one"), delta(0, 0, "one")], "one");
        // An item of which nothing came is begun by a snapshot.
        check(
            &[message(0, "one"), delta(1, 0, ""), finished("one")],
            "one\n",
        );
    }

    #[test]
    fn two_items_stand_on_lines_of_their_own() {
        check(
            &[
                delta(0, 0, "one"),
                message(0, "one"),
                delta(1, 0, "tw"),
                message(1, "two"),
                finished("two"),
            ],
            "one\ntwo",
        );
    }

    #[test]
    fn an_item_that_ended_otherwise_is_shown_whole_and_a_shorter_one_is_left() {
        check(
            &[delta(0, 0, "wrong"), message(0, "right")],
            "wrong!\nright",
        );
        check(
            &[delta(0, 0, "longer than kept"), message(0, "longer")],
            "longer than kept",
        );
    }

    #[test]
    fn the_snapshots_text_comes_after_the_stored_events_that_follow_it() {
        let running = json!({"turn": test_daemon::turn(), "item": 1, "offset": 0, "text": "tw"});
        check(
            &[
                ("snapshot", test_daemon::snapshot(9, running)),
                message(0, "one"),
                ("replayComplete", json!({"through": 9})),
                delta(1, 2, "o"),
                message(1, "two"),
            ],
            "one\ntwo",
        );
    }

    #[test]
    fn a_question_that_joined_another_turn_is_answered_by_that_turn() {
        let other = TurnId::from_bytes([9; 16]);
        let (mut answer, _) = fold(&[(
            "turnFinished",
            json!({"stopReason": "end", "text": "", "usage": null, "mergedInto": other}),
        )]);
        assert!(answer.ended.is_none());
        let mut event = test_daemon::envelope(None, "turnFinished", finished("yes").1);
        event["turn"] = json!(other);
        let steps = answer.take(&test_daemon::event(event));
        assert_eq!(vec![StreamStep::Text("yes".into())], steps);
        assert!(answer.ended.is_some());
    }

    #[test]
    fn other_turns_and_unknown_kinds_are_passed_over() {
        let mut event = test_daemon::envelope(None, "textDelta", delta(0, 0, "no").1);
        event["turn"] = json!(TurnId::from_bytes([9; 16]));
        assert!(
            StreamedAnswer::new(test_daemon::turn())
                .take(&test_daemon::event(event))
                .is_empty()
        );
        check(
            &[
                ("laterKind", json!({"text": "no"})),
                ("textDelta", json!({"item": "odd"})),
            ],
            "",
        );
    }

    proptest! {
        /// However the deltas are cut, repeated or lost, what is shown in the end is the finished text.
        #[test]
        fn the_text_is_the_finished_text(text in "[a-c日\u{1f642}\n]{0,60}", cuts in proptest::collection::vec((0usize..61, 0usize..61), 0..12)) {
            let chars: Vec<char> = text.chars().collect();
            let mut events: Vec<(&str, Value)> = cuts.iter().map(|(from, length)| {
                let from = (*from).min(chars.len());
                let to = (from + length).min(chars.len());
                let offset = chars[..from].iter().map(|it| it.len_utf8() as u64).sum();
                delta(0, offset, &chars[from..to].iter().collect::<String>())
            }).collect();
            events.push(message(0, &text));
            events.push(finished(&text));
            let (answer, steps) = fold(&events);
            let shown: String = steps.iter().map(|it| if let StreamStep::Text(it) = it { it.as_str() } else { "!" }).collect();
            prop_assert_eq!(&text, &shown);
            prop_assert_eq!(&text, answer.text());
        }
    }
}
