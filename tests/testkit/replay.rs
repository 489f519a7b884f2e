//! Plays the exchanges of the protocol's pages against a real daemon, in the order of the pages, and says
//! where what happens is not what is written. With `UPDATE_EXPECT=1` it writes what happens.
//!
//! A `→` line is sent on the connection of its block; what comes until its reply is there, and until the event
//! that `until=kind` names (`until=kind*2` for the second), is compared with the `←` lines that follow: the
//! reply apart, since it may come before or after events, and the events in their order. Events that are
//! delivered by level (texts being written, `state`, `presence`) may be cut or merged differently each time.
//! A block under the heading of an event shows one such event; any that came before must be like it.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::document::{Block, Document, RECEIVED, SENT};
use crate::pattern::Names;
use crate::upstream::Upstream;
use crate::upstream::answer::Answer;
use crate::upstream::gate::Gate;
use crate::wait::{PATIENCE, left};
use crate::world::World;

/// Kinds whose pieces depend on who is faster.
const BY_LEVEL: [&str; 7] = [
    "mcpStatus",
    "toolsChanged",
    "textDelta",
    "reasoningDelta",
    "toolArgumentsDelta",
    "state",
    "presence",
];

/// What is different from what is written.
pub type Differences = Vec<String>;

/// One run through a document.
#[derive(Debug)]
pub struct Replay<'a> {
    world: &'a World,
    upstream: &'a Upstream,
    names: Names,
    connections: BTreeMap<String, Client>,
    /// Every event that came, in order.
    events: Vec<Value>,
    gate: Option<Hand>,
    differences: Differences,
}

/// An answer that goes on when the client has seen what is out already.
#[derive(Debug)]
struct Hand {
    gate: Gate,
    rest: Vec<Value>,
    finishes: bool,
}

impl<'a> Replay<'a> {
    /// Gives a name to something that the document cannot know, such as a path.
    pub fn naming(mut self, name: &str, value: Value) -> Self {
        self.names.bind(name, value);
        self
    }

    pub fn new(world: &'a World, upstream: &'a Upstream) -> Self {
        Self {
            world,
            upstream,
            names: Names::default(),
            connections: BTreeMap::new(),
            events: vec![],
            gate: None,
            differences: vec![],
        }
    }

    /// Plays one page. Returns its text as it should be. Blocks under the headings in `may_be_empty` may show nothing.
    #[track_caller]
    pub fn play(&mut self, text: &str, may_be_empty: &[&str]) -> String {
        let document = Document::parse(text);
        let mut replaced = vec![];
        for block in &document.blocks {
            replaced.push(if block.heading.contains('/') {
                self.exchange(block)
            } else {
                self.sample(block, may_be_empty)
            });
        }
        document.with_lines(&replaced)
    }

    /// What is different from what is written on all pages that were played.
    pub fn differences(self) -> Differences {
        self.differences
    }

    /// Plays one block and returns the lines that it should have.
    fn exchange(&mut self, block: &Block) -> Vec<String> {
        if let Some(key) = block.options.get("config") {
            self.switch_on(block, key);
        }
        self.gate = prepare(self.upstream, block);
        let mut lines = vec![];
        let mut steps: Vec<(Option<&str>, Vec<&str>)> = vec![];
        for line in &block.lines {
            match (line.strip_prefix(SENT), line.strip_prefix(RECEIVED)) {
                (Some(sent), _) => steps.push((Some(sent), vec![])),
                (None, Some(expected)) => {
                    if steps.is_empty() {
                        steps.push((None, vec![]));
                    }
                    steps.last_mut().expect("it has one").1.push(expected);
                }
                (None, None) => {
                    self.differ(block, &format!("neither {SENT}nor {RECEIVED}: {line}"));
                }
            }
        }
        if steps.is_empty() && block.options.contains_key("until") {
            steps.push((None, vec![]));
        }
        let last = steps.len().saturating_sub(1);
        for (at, (sent, expected)) in steps.into_iter().enumerate() {
            // Only the last call of a block waits for an event.
            let until = block.options.get("until").filter(|_| at == last);
            lines.extend(sent.map(|it| format!("{SENT}{it}")));
            lines.extend(self.step(block, sent, &expected, until.map(String::as_str)));
        }
        lines
    }

    /// Puts a key of the configuration into the file (`config=memory.summarize_on_close`); the exchange has it read.
    fn switch_on(&self, block: &Block, key: &str) {
        let (table, key) = key
            .rsplit_once('.')
            .unwrap_or_else(|| panic!("{}: {key} is in no table", block.heading));
        let file = fs::read_to_string(self.world.config_file()).expect("the world has one");
        self.world
            .write_config(&format!("{file}\n[{table}]\n{key} = true\n"));
    }

    fn step(
        &mut self,
        block: &Block,
        sent: Option<&str>,
        expected: &[&str],
        until: Option<&str>,
    ) -> Vec<String> {
        let client = self.connection(block);
        let mut id = None;
        if let Some(line) = sent {
            let line = self.names.fill(line);
            id = serde_json::from_str::<Value>(&line)
                .ok()
                .map(|it| it["id"].clone());
            client.raw_line(&line);
        }
        let received = self.receive(block, &client, id.as_ref(), until);
        let patterns: Vec<Value> = expected
            .iter()
            .map(|it| {
                serde_json::from_str(it)
                    .unwrap_or_else(|error| panic!("{}: {error}: {it}", block.heading))
            })
            .collect();
        let unwritten = patterns.is_empty() && !received.is_empty();
        let result = if unwritten {
            Err(format!("nothing is written of what comes: {received:?}"))
        } else {
            compare(&mut self.names, &patterns, &received)
        };
        match result {
            Ok(()) => expected
                .iter()
                .map(|it| format!("{RECEIVED}{it}"))
                .collect(),
            Err(difference) => {
                self.differ(block, &difference);
                self.rewrite(&patterns, &received)
            }
        }
    }

    /// What the lines should be. Names that were written by hand stay.
    fn rewrite(&mut self, patterns: &[Value], received: &[Value]) -> Vec<String> {
        for (pattern, real) in reply_of(patterns).into_iter().zip(reply_of(received)) {
            self.names.harvest(pattern, real);
        }
        let ordered = reply_of(received)
            .into_iter()
            .chain(received.iter().filter(|it| is_event(it)));
        ordered
            .map(|it| format!("{RECEIVED}{}", self.names.normalise(it)))
            .collect()
    }

    /// Reads what comes until the reply and the awaited event are there.
    fn receive(
        &mut self,
        block: &Block,
        client: &Client,
        id: Option<&Value>,
        until: Option<&str>,
    ) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        let mut reply_is_due = id.is_some_and(|it| !it.is_null());
        let (kind, mut times) = match until.map(|it| it.split_once('*').unwrap_or((it, "1"))) {
            Some((kind, times)) => (kind, times.parse().unwrap_or(1)),
            None => ("", 0),
        };
        let mut received = vec![];
        while reply_is_due || times > 0 {
            let limit = left(deadline).unwrap_or(Duration::from_millis(1));
            let Some(line) = client.next_line(limit) else {
                let due = if reply_is_due { "the reply" } else { kind };
                self.differ(
                    block,
                    &format!("{due} did not come; what came: {received:?}"),
                );
                break;
            };
            let value: Value = serde_json::from_str(&line)
                .unwrap_or_else(|error| panic!("{}: {error}: {line}", block.heading));
            if is_event(&value) {
                self.events.push(value.clone());
                times -= usize::from(times > 0 && kind_of(&value) == kind);
                self.go_on(kind_of(&value));
            } else if Some(&value["id"]) == id {
                reply_is_due = false;
            }
            received.push(value);
        }
        received
    }

    /// The upstream says its next piece once the one before has been seen.
    fn go_on(&mut self, seen: &str) {
        let Some(hand) = &mut self.gate else { return };
        if !seen.ends_with("Delta") {
            return;
        }
        if hand.rest.is_empty() {
            if hand.finishes {
                hand.gate.finish();
                self.gate = None;
            }
        } else {
            hand.gate.delta(&hand.rest.remove(0));
        }
    }

    /// An event of the kind of this heading.
    fn sample(&mut self, block: &Block, may_be_empty: &[&str]) -> Vec<String> {
        let kind = block.heading.as_str();
        let seen: Vec<&Value> = self
            .events
            .iter()
            .filter(|it| kind_of(it) == kind)
            .collect();
        let written = block.lines.first().and_then(|it| it.strip_prefix(RECEIVED));
        let Some(first) = seen.first() else {
            if written.is_some() || !may_be_empty.contains(&kind) {
                let difference = "no exchange of the document brings this event about";
                self.differ(block, difference);
            }
            return block.lines.clone();
        };
        let pattern: Option<Value> = written.and_then(|it| serde_json::from_str(it).ok());
        let fits = pattern.is_some_and(|it| {
            seen.iter()
                .any(|real| self.names.clone().matches(&it, real).is_ok())
        });
        if fits && block.lines.len() == 1 {
            return block.lines.clone();
        }
        let shown = self.names.normalise(first);
        self.differ(block, "no event that came is like the one shown");
        vec![format!("{RECEIVED}{shown}")]
    }

    /// The connection of a block. All but the first say hello by themselves, so that the document need not.
    fn connection(&mut self, block: &Block) -> Client {
        let name = &block.connection;
        let connect = || {
            let client = self.world.stranger();
            if name != "main" {
                client.hello();
            }
            client
        };
        self.connections
            .entry(name.clone())
            .or_insert_with(connect)
            .clone()
    }

    fn differ(&mut self, block: &Block, what: &str) {
        self.differences.push(format!("{}: {what}", block.heading));
    }
}

/// Sets the next answer of the model: `upstream=slow` says it in two pieces, `stall` never ends it, `thinks`
/// thinks first, `calls` calls a tool that nobody has, `asks` one that is asked about, and `proposes` names two facts to
/// be remembered.
fn prepare(upstream: &Upstream, block: &Block) -> Option<Hand> {
    let text = |it: &str| json!({ "content": it });
    let how = block.options.get("upstream")?;
    if how == "down" {
        let body = r#"{"error":{"message":"loading"}}"#;
        upstream.answer(Answer::status(503, body));
        return None;
    }
    if how == "proposes" {
        let facts = "- (fact) the backup runs at night\n- (project) the cellar has no network";
        upstream.answer(Answer::text(facts));
        return None;
    }
    let mut pieces = match how.as_str() {
        "slow" | "stall" => vec![text("The linker cannot "), text("find libssl.")],
        "thinks" => vec![
            json!({ "reasoning_content": "The error names a library." }),
            text("Install libssl-dev."),
        ],
        "calls" => vec![json!({ "tool_calls": [{
            "index": 0, "id": "call_1", "type": "function",
            "function": { "name": "nobody__has_this", "arguments": "{\"path\":\"Cargo.toml\"}" },
        }] })],
        "asks" => vec![json!({ "tool_calls": [{
            "index": 0, "id": "call_2", "type": "function",
            "function": { "name": "aish__time", "arguments": "{}" },
        }] })],
        other => panic!("{}: no upstream is {other}", block.heading),
    };
    let finishes = how != "stall";
    if !finishes {
        pieces.truncate(1);
    }
    let (mut answer, gate) = Answer::by_hand();
    if how == "calls" || how == "asks" {
        answer = answer.finish(Some("tool_calls"));
    }
    upstream.answer(answer);
    gate.delta(&pieces.remove(0));
    Some(Hand {
        gate,
        rest: pieces,
        finishes,
    })
}

fn is_event(value: &Value) -> bool {
    value.get("method").is_some()
}

fn kind_of(value: &Value) -> &str {
    value["params"]["event"]["kind"]
        .as_str()
        .unwrap_or_default()
}

fn by_level(value: &Value) -> bool {
    BY_LEVEL.contains(&kind_of(value))
}

fn reply_of(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|it| !is_event(it)).collect()
}

/// Whether what came is what is written. The error says where it is not.
fn compare(names: &mut Names, patterns: &[Value], received: &[Value]) -> Result<(), String> {
    let (wanted, came) = (reply_of(patterns), reply_of(received));
    if wanted.len() != came.len() {
        return Err(format!(
            "{} replies are written and {} came: {came:?}",
            wanted.len(),
            came.len()
        ));
    }
    for (pattern, real) in wanted.into_iter().zip(came) {
        names
            .matches(pattern, real)
            .map_err(|it| format!("{it}\n  came: {real}"))?;
    }
    let mut wanted = patterns.iter().filter(|it| is_event(it)).peekable();
    let mut came = received.iter().filter(|it| is_event(it)).peekable();
    loop {
        let fits = match (wanted.peek(), came.peek()) {
            (None, None) => return Ok(()),
            (Some(pattern), Some(real)) => {
                let mut tried = names.clone();
                let result = tried.matches(pattern, real);
                if result.is_ok() {
                    *names = tried;
                }
                result
            }
            (Some(pattern), None) => Err(format!(" is written and did not come: {pattern}")),
            (None, Some(real)) => Err(format!(" came and is not written: {real}")),
        };
        match fits {
            Ok(()) => {
                wanted.next();
                came.next();
            }
            Err(_) if came.peek().is_some_and(|it| by_level(it)) => {
                came.next();
            }
            Err(_) if wanted.peek().is_some_and(|it| by_level(it)) => {
                wanted.next();
            }
            Err(difference) => {
                let real = came.peek().map(ToString::to_string);
                return Err(format!(
                    "event{difference}\n  came: {}",
                    real.unwrap_or_default()
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    const TURN: &str = "01K9Z0000000000000000000AB";

    fn event(kind: &str, data: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "method": "event", "params": { "event": { "kind": kind, "data": data } } })
    }

    /// A daemon that knows one conversation by heart: each line it reads is answered with the next of these.
    fn stand_in(world: &World, answers: Vec<Vec<Value>>) {
        fs::create_dir_all(world.path("run/aish")).unwrap();
        let listener = UnixListener::bind(world.socket()).unwrap();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for answer in answers {
                lines.next().unwrap().unwrap();
                for line in answer {
                    writeln!(&stream, "{line}").unwrap();
                }
            }
            // Stays open until the test is over.
            drop(lines.next());
        });
    }

    fn answers() -> Vec<Vec<Value>> {
        let reply = json!({ "jsonrpc": "2.0", "id": 1, "result": { "turn": TURN, "seq": 3 } });
        let delta = event("textDelta", &json!({ "text": "a" }));
        let done = event("turnFinished", &json!({ "turn": TURN }));
        vec![
            vec![delta, reply, done],
            vec![json!({ "jsonrpc": "2.0", "id": 2, "result": TURN })],
        ]
    }

    const BARE: &str = "### turn/send\n```json-lines until=turnFinished\n→ {\"id\":1}\n← {\"result\":{\"turn\":\"<mine>\"}}\n```\n### turn/get\n```json-lines\n→ {\"id\":2,\"turn\":\"<mine>\"}\n```\n### turnFinished\n```json-lines\n```\n### evicted\n```json-lines\n```\n";

    fn play(text: &str) -> (String, Differences) {
        let world = World::new();
        stand_in(&world, answers());
        let upstream = Upstream::start();
        let mut replay = Replay::new(&world, &upstream);
        let written = replay.play(text, &["evicted"]);
        (written, replay.differences())
    }

    #[test]
    fn a_document_that_was_written_by_a_run_is_true_in_the_next() {
        let (written, differences) = play(BARE);
        assert_eq!(3, differences.len(), "{differences:#?}");
        assert!(written.contains("\"turn\":\"<mine>\""), "{written}");
        let (again, differences) = play(&written);
        assert_eq!(Differences::new(), differences);
        assert_eq!(written, again);
    }

    #[test]
    fn another_value_and_a_missing_event_are_seen() {
        let (written, _) = play(BARE);
        let (_, differences) = play(&written.replace("\"seq\":3", "\"seq\":4"));
        assert!(
            differences[0].contains(".result.seq should be 4 and is 3"),
            "{differences:#?}"
        );
        let document = Document::parse(&written);
        let without_the_event = |block: &Block| -> Vec<String> {
            let is_left = |it: &&String| {
                block.heading == "turnFinished" || !it.contains("\"kind\":\"turnFinished\"")
            };
            block.lines.iter().filter(is_left).cloned().collect()
        };
        let fewer: Vec<_> = document.blocks.iter().map(without_the_event).collect();
        let fewer = document.with_lines(&fewer);
        let (_, differences) = play(&fewer);
        assert!(
            differences[0].contains("came and is not written"),
            "{differences:#?}"
        );
    }

    #[test]
    fn pieces_that_fall_differently_are_no_difference() {
        let (written, _) = play(BARE);
        let other = written.replace("\"text\":\"a\"", "\"text\":\"b\"");
        assert_eq!(Differences::new(), play(&other).1);
    }
}
