//! What the upstream says to one request: a stream in steps, or a fault.

use std::time::Duration;

use serde_json::{Value, json};

use super::gate::{self, Gate};

/// One thing that the server does while it answers.
#[derive(Debug)]
pub(super) enum Step {
    /// One server-sent event.
    Frame(Value),
    /// These bytes in the body, whatever they are.
    Bytes(Vec<u8>),
    Pause(Duration),
    /// What the test sends by hand, until it says that this is all.
    Hand(gate::Hand),
    /// Nothing more, until the other side hangs up.
    Stall,
    /// The connection ends in the middle of the body.
    Cut,
    /// The connection is reset.
    Reset,
}

/// How the answer begins.
#[derive(Debug)]
pub(super) enum Head {
    Stream,
    Status {
        code: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// No head at all: the steps are all there is.
    Nothing,
}

/// The answer to one request.
#[derive(Debug)]
#[must_use = "hand it to `Upstream::answer`"]
pub struct Answer {
    pub(super) head: Head,
    pub(super) steps: Vec<Step>,
    /// What follows the steps of a stream that is whole.
    pub(super) finish: Option<String>,
    pub(super) usage: Option<(u64, u64)>,
    /// Of the input: what the server had kept, and what it keeps from now on.
    pub(super) cached: (u64, u64),
    pub(super) done: bool,
    /// The model that the chunks name; absent: the one asked for.
    pub(super) model: Option<String>,
}

impl Answer {
    /// A stream that says nothing, to be filled with what follows.
    pub fn stream() -> Self {
        Self {
            head: Head::Stream,
            steps: vec![],
            finish: Some("stop".to_owned()),
            usage: Some((7, 5)),
            cached: (0, 0),
            done: true,
            model: None,
        }
    }

    /// This text in one piece.
    pub fn text(text: &str) -> Self {
        Self::pieces([text])
    }

    /// Text in these pieces.
    pub fn pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Self {
        let mut answer = Self::stream();
        for piece in pieces {
            answer = answer.then_text(piece);
        }
        answer
    }

    /// `count` pieces of text with a rest between them: `w0 w1 w2 …`.
    pub fn words(count: usize, rest: Duration) -> Self {
        let mut answer = Self::stream();
        for word in 0..count {
            answer = answer.then_text(&format!("w{word} ")).then_pause(rest);
        }
        answer
    }

    /// A stream that the test writes by hand.
    pub fn by_hand() -> (Self, Gate) {
        let (gate, hand) = gate::pair();
        let mut answer = Self::stream();
        answer.steps.push(Step::Hand(hand));
        (answer, gate)
    }

    pub fn then_text(self, text: &str) -> Self {
        self.then_delta(&json!({ "content": text }))
    }

    /// Text that the model thinks and does not say.
    pub fn then_reasoning(self, text: &str) -> Self {
        self.then_delta(&json!({ "reasoning_content": text }))
    }

    /// A tool call, its arguments in several deltas. The calls of one answer are numbered from 0.
    pub fn then_call(mut self, index: u32, id: &str, name: &str, arguments: &str) -> Self {
        self.finish = Some("tool_calls".to_owned());
        let opening = json!({ "tool_calls": [{
            "index": index, "id": id, "type": "function",
            "function": { "name": name, "arguments": "" },
        }] });
        let mut answer = self.then_delta(&opening);
        let halves = arguments.char_indices().nth(arguments.chars().count() / 2);
        let (one, two) = arguments.split_at(halves.map_or(0, |(at, _)| at));
        for piece in [one, two].into_iter().filter(|it| !it.is_empty()) {
            answer = answer.then_delta(
                &json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }),
            );
        }
        answer
    }

    /// A chunk with this `delta`.
    pub fn then_delta(mut self, delta: &Value) -> Self {
        self.steps.push(Step::Frame(choice(delta, None)));
        self
    }

    /// A server-sent event with this as its data, whole.
    pub fn then_frame(mut self, frame: Value) -> Self {
        self.steps.push(Step::Frame(frame));
        self
    }

    /// Bytes as they are: comments, broken frames, anything.
    pub fn then_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Bytes(bytes.into()));
        self
    }

    pub fn then_pause(mut self, rest: Duration) -> Self {
        self.steps.push(Step::Pause(rest));
        self
    }

    /// Then nothing more comes, and the connection stays open.
    pub fn then_stall(self) -> Self {
        self.ending_in(Step::Stall)
    }

    /// Then the connection ends, the body being incomplete.
    pub fn then_cut(self) -> Self {
        self.ending_in(Step::Cut)
    }

    /// Then the connection is reset.
    pub fn then_reset(self) -> Self {
        self.ending_in(Step::Reset)
    }

    fn ending_in(mut self, last: Step) -> Self {
        self.steps.push(last);
        self.finish = None;
        self.usage = None;
        self.done = false;
        self
    }

    /// The tokens it counts; `None`: it says nothing of them.
    pub fn usage(mut self, tokens: Option<(u64, u64)>) -> Self {
        self.usage = tokens;
        self
    }

    /// How many of the tokens of the request it had kept, and how many it keeps from now on.
    pub fn cached(mut self, read: u64, written: u64) -> Self {
        self.cached = (read, written);
        self
    }

    /// The `finish_reason`; `None`: it gives none.
    pub fn finish(mut self, reason: Option<&str>) -> Self {
        self.finish = reason.map(str::to_owned);
        self
    }

    /// Ends without `[DONE]`.
    pub fn without_done(mut self) -> Self {
        self.done = false;
        self
    }

    /// The model that it says it is.
    pub fn model(mut self, name: &str) -> Self {
        self.model = Some(name.to_owned());
        self
    }

    /// A plain reply with this status.
    pub fn status(code: u16, body: &str) -> Self {
        Self {
            head: Head::Status {
                code,
                headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                body: body.as_bytes().to_vec(),
            },
            finish: None,
            usage: None,
            done: false,
            ..Self::stream()
        }
    }

    /// With this header; only for an answer with a status.
    #[track_caller]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let Head::Status { headers, .. } = &mut self.head else {
            panic!("only an answer with a status has headers of its own");
        };
        headers.retain(|(it, _)| it != name);
        headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// 429 with `Retry-After`.
    pub fn busy(seconds: u32) -> Self {
        Self::status(429, r#"{"error":{"message":"too many requests"}}"#)
            .header("retry-after", &seconds.to_string())
    }

    /// 200 and a page for people, as a wrong port gives it.
    pub fn html() -> Self {
        Self::status(200, "<!doctype html><title>hello</title>").header("content-type", "text/html")
    }

    /// The connection is reset before a byte of an answer.
    pub fn reset() -> Self {
        Self {
            head: Head::Nothing,
            ..Self::stream().then_reset()
        }
    }

    /// The request is taken and nothing ever comes.
    pub fn silence() -> Self {
        Self {
            head: Head::Nothing,
            ..Self::stream().then_stall()
        }
    }

    /// Bytes that are no HTTP.
    pub fn garbage() -> Self {
        Self {
            head: Head::Nothing,
            ..Self::stream()
                .then_bytes(*b"\x00\xff\xfe not http \r\n\r\n")
                .then_cut()
        }
    }
}

/// A chunk with one choice.
pub(super) fn choice(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}
