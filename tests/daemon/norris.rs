//! Runs that work on their own: with real programs as tools, a model that follows a script, and a person who
//! answers where they halt.

use std::collections::BTreeMap;
use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::audit::{AuditKind, AuditListParams as ListParamsOfTrail};
use aish_proto::confirm::{Answer, AnswerOutcome, ConfirmRecord, Decision};
use aish_proto::conversation::{ConversationCreateParams, ConversationParams, Create, StatusOf};
use aish_proto::envelope::{Envelope, EventData};
use aish_proto::event::{
    ConfirmRequested, FallbackUsed, NorrisEnded, NorrisLaunched, NorrisNudged, NorrisStep,
    RouteDecided, ToolCall, ToolResult,
};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::mcp::{List as ServerList, Restart, ServerParams};
use aish_proto::method::Empty;
use aish_proto::norris::{
    NorrisActivity, NorrisLevels, NorrisOutcome, NorrisRun, NorrisRunParams, Start, StartParams,
    StartResult,
};
use aish_proto::turn::StopReason;
use aish_testkit::wait::until_true;
use aish_testkit::{
    Answer as Said, Asked as _, Client, Daemon, Follow, Upstream, World, repository,
};
use serde_json::json;

use crate::audit;
use crate::consent::{call_id, pending, with};
use crate::registry::started;

/// Programs that leave a mark each time, so that one can count: `put` writes, `look` reads, `wipe` needs level 3, and `slow`
/// writes its mark and then takes its time. All leave their marks outside of what the level lets them write.
const MANIFEST: &str = "name = \"job\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"job.sh\"\ncontain = \"open\"\n\
[[capability]]\nname = \"put\"\nlevel = 2\ninput = { n = \"integer?\" }\n\
[[capability]]\nname = \"look\"\nlevel = 1\ninput = { n = \"integer?\" }\n\
[[capability]]\nname = \"wipe\"\nlevel = 3\ninput = { n = \"integer?\" }\n\
[[capability]]\nname = \"slow\"\nlevel = 2\ninput = { n = \"integer?\" }\n";

pub(crate) struct Scene {
    pub(crate) upstream: Upstream,
    /// Who is asked for a second opinion.
    pub(crate) other: Upstream,
    pub(crate) world: World,
}

impl Scene {
    /// `more` are further tables.
    pub(crate) fn new(more: &str) -> Self {
        let (upstream, other, world) = (Upstream::start(), Upstream::start(), World::new());
        let marks = world.path("work/marks");
        world.write_config(&format!(
            "{}{}{more}\n",
            upstream.config("test"),
            other
                .preset("other", "")
                .replace("test-model", "other-model"),
        ));
        let marks = marks.display();
        world.write(
            "config/aish/tools/job.sh",
            &format!(
                "echo \"$AISH_CAPABILITY\" >> {marks}\n[ \"$AISH_CAPABILITY\" != slow ] || sleep 60\necho done\n"
            ),
        );
        world.write("config/aish/tools/job.toml", MANIFEST);
        Self {
            upstream,
            other,
            world,
        }
    }

    pub(crate) fn alone() -> Self {
        Self::new("[norris]\nsecond_opinion = false")
    }

    /// Its commands change the directories of the conversation for real.
    pub(crate) fn for_real() -> Self {
        Self::new("[norris]\nsecond_opinion = false\ncontain = \"workspace\"")
    }

    /// With a server whose `count` says nothing of itself and whose `look` says that it only reads. `None`, and said why:
    /// there is no Python here.
    #[expect(clippy::print_stderr, reason = "a test that does not run says so")]
    fn with_server(more: &str) -> Option<(Self, Daemon)> {
        if !std::path::Path::new("/usr/bin/python3").exists() {
            eprintln!("skipped: there is no python3");
            return None;
        }
        let scene = Self::new("");
        let script = repository::top().join("tests/data/mcp/counter.py");
        let marks = scene.world.path("work/marks");
        let config = fs::read_to_string(scene.world.config_file()).unwrap();
        let server = format!("command = \"python3\"\nargs = [{script:?}, {marks:?}]");
        scene.world.write_config(&format!(
            "{config}[norris]\nsecond_opinion = false\n[mcp.servers.ext]\n{server}\n{more}\n"
        ));
        let daemon = started(&scene.world);
        let client = scene.world.client();
        until_true("the server's tools", || {
            let servers = client.done::<ServerList>(Empty {}).servers;
            servers.iter().any(|it| it.tools > 0)
        });
        Some((scene, daemon))
    }

    pub(crate) fn marks(&self) -> String {
        let marks = fs::read_to_string(self.world.path("work/marks")).unwrap_or_default();
        marks.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The model says one of these after the other: a tool's name is a call, everything else a text. What it has said is
    /// counted by its own messages, so that a daemon that was killed goes on where the script is.
    pub(crate) fn model_says(&self, script: &'static [&'static str]) {
        self.upstream.answer_with(move |request| {
            let messages = request.messages();
            let said = messages.iter().filter(|(role, _)| role == "assistant");
            match script.get(said.count()) {
                Some(name) if name.contains("__") => {
                    Said::stream().then_call(0, &call_id(), name, "{\"n\":1}")
                }
                Some(text) => Said::text(text),
                None => Said::text("HALT: the script is over"),
            }
        });
    }
}

pub(crate) fn goal(conversation: ConversationId, level: u8) -> StartParams {
    StartParams {
        conversation,
        goal: "put everything in order".to_owned(),
        idempotency_key: ulid::Ulid::new().to_string(),
        model: None,
        levels: Some(NorrisLevels {
            all: level,
            providers: BTreeMap::new(),
        }),
        steps: None,
        time_ms: None,
        tokens: None,
        cost_usd: None,
    }
}

/// A run, and who follows it.
pub(crate) struct Launched {
    pub(crate) client: Client,
    pub(crate) conversation: ConversationId,
    pub(crate) turn: TurnId,
    pub(crate) follow: Follow,
}

/// One where the test works.
pub(crate) fn conversation(world: &World, client: &Client) -> ConversationId {
    let params = ConversationCreateParams {
        cwd: world.work().display().to_string(),
        ..ConversationCreateParams::default()
    };
    client.done::<Create>(params).id
}

pub(crate) fn launch(world: &World, change: impl FnOnce(&mut StartParams)) -> Launched {
    let client = world.person("pts/2");
    let conversation = conversation(world, &client);
    let follow = client.attach(conversation, ReplayStart::Start);
    let mut params = goal(conversation, 2);
    change(&mut params);
    let StartResult { turn, .. } = client.done::<Start>(params);
    Launched {
        client,
        conversation,
        turn,
        follow,
    }
}

impl Launched {
    pub(crate) fn state(&self) -> Option<NorrisRun> {
        let id = self.conversation;
        self.client
            .done::<StatusOf>(ConversationParams { id })
            .norris
    }

    pub(crate) fn params(&self) -> NorrisRunParams {
        NorrisRunParams {
            conversation: self.conversation,
        }
    }

    pub(crate) fn answer(&self, decision: Decision) -> ConfirmRecord {
        let confirm = pending(&self.client, self.conversation);
        let outcome = self.client.done::<Answer>(with(&confirm, decision)).outcome;
        assert_eq!(AnswerOutcome::Resolved, outcome);
        confirm
    }

    pub(crate) fn all<E: EventData>(&self) -> Vec<E> {
        let events = self.follow.events_so_far().iter();
        events.filter_map(Envelope::read).collect()
    }

    /// Waits for its end, and returns how it ended and what its turn says of that.
    pub(crate) fn ended(&mut self) -> (NorrisEnded, Option<StopReason>) {
        let record = self.client.wait_turn(self.turn);
        self.follow.until_finished(self.turn);
        self.follow.recording().assert_sound();
        let ended = self.all::<NorrisEnded>();
        assert_eq!(1, ended.len(), "{ended:?}");
        assert_eq!(None, self.state());
        (ended[0].clone(), record.stop_reason)
    }
}

pub(crate) fn outcome(run: &mut Launched) -> (NorrisOutcome, String, Option<StopReason>) {
    let (ended, stop) = run.ended();
    (ended.outcome, ended.reason, stop)
}

/// The whole of it: five steps, real programs, a halt at the destructive one, and the end that the model says.
#[test]
fn a_goal_of_five_steps_is_reached_and_the_destructive_one_is_asked_about() {
    let scene = Scene::alone();
    let _daemon = started(&scene.world);
    scene.model_says(&[
        "job__look",
        "job__put",
        "job__put",
        "job__wipe",
        "DONE: in order",
    ]);
    let mut run = launch(&scene.world, |_| {});
    let confirm = pending(&run.client, run.conversation);
    assert_eq!("look put put", scene.marks());
    let state = run.state().unwrap();
    assert_eq!((4, NorrisActivity::Asking), (state.step, state.activity));
    assert_eq!(Some("job__wipe"), state.tool.as_deref());
    let asked: &ConfirmRequested = &confirm.request;
    assert!(asked.halt);
    assert_eq!("HALT: it needs level 3 (execute)", asked.why);
    assert_eq!(
        vec![
            Decision::AllowOnce,
            Decision::Deny,
            Decision::Edit,
            Decision::Abort
        ],
        asked.options
    );
    run.answer(Decision::AllowOnce);
    let expected = (
        NorrisOutcome::Done,
        "in order".to_owned(),
        Some(StopReason::End),
    );
    assert_eq!(expected, outcome(&mut run));
    assert_eq!("look put put wipe", scene.marks());
    let steps: Vec<u32> = run.all::<NorrisStep>().iter().map(|it| it.step).collect();
    assert_eq!(vec![2, 3, 4, 5], steps);
    let rules: Vec<String> = run
        .all::<ToolCall>()
        .into_iter()
        .map(|it| it.rule)
        .collect();
    let unasked = "norris run at level 2";
    assert_eq!(
        vec![unasked, unasked, unasked, "approved by a person"],
        rules
    );
    let launched = run.all::<NorrisLaunched>();
    assert_eq!((2, 25), (launched[0].levels.all, launched[0].limits.steps));
    let told = audit::records(&run.client, &ListParamsOfTrail::default());
    let told: Vec<_> = told
        .iter()
        .filter(|it| it.kind == AuditKind::NorrisLaunched)
        .collect();
    assert_eq!(vec!["2"], told[0].approved);
    assert_eq!(
        Some("pts/2"),
        told[0].by.as_ref().and_then(|it| it.tty.as_deref())
    );
}

/// One paragraph with the goal and the rules at the end of the one system message, the same bytes in each request.
#[test]
fn its_requests_say_what_it_is() {
    let scene = Scene::alone();
    let _daemon = started(&scene.world);
    scene.model_says(&["job__look", "thinking", "DONE:"]);
    let mut run = launch(&scene.world, |_| {});
    assert_eq!(NorrisOutcome::Done, run.ended().0.outcome);
    let systems: Vec<String> = scene
        .upstream
        .requests()
        .iter()
        .map(|it| it.messages().remove(0).1)
        .collect();
    assert_eq!(3, systems.len());
    assert!(systems.iter().all(|it| *it == systems[0]));
    assert!(systems[0].contains("\n[NORRIS MODE]\n"), "{}", systems[0]);
    assert!(systems[0].contains("\n> put everything in order\n"));
    assert_eq!(1, run.all::<NorrisNudged>().len());
    scene.upstream.answer(Said::text("hello"));
    run.client
        .wait_turn(run.client.ask(run.conversation, "and you?"));
    let after = scene
        .upstream
        .requests()
        .pop()
        .unwrap()
        .messages()
        .remove(0)
        .1;
    assert!(!after.contains("NORRIS"), "{after}");
}

#[test]
fn a_no_at_the_halt_is_told_to_the_model_and_an_abort_ends_the_run() {
    let scene = Scene::alone();
    let _daemon = started(&scene.world);
    scene.model_says(&["job__wipe", "DONE: without it"]);
    let mut run = launch(&scene.world, |_| {});
    run.answer(Decision::Deny);
    let (how, reason, _) = outcome(&mut run);
    assert_eq!((NorrisOutcome::Done, "without it"), (how, reason.as_str()));
    let results = run.all::<ToolResult>();
    assert_eq!("[aish] denied by user", results[0].content);
    let mut run = launch(&scene.world, |_| {});
    run.answer(Decision::Abort);
    let (how, _, stop) = outcome(&mut run);
    assert_eq!(
        (NorrisOutcome::Stopped, Some(StopReason::Denied)),
        (how, stop)
    );
    assert_eq!("", scene.marks());
}

/// A server that says nothing of its tool is not believed to be harmless, whatever was allowed before, and a level that
/// was not granted asks.
#[test]
fn what_is_not_known_to_be_harmless_halts() {
    let Some((scene, _daemon)) = Scene::with_server("[mcp.auto_approve]\next__count = true") else {
        return;
    };
    scene.model_says(&["ext__look", "ext__count", "job__put", "DONE:"]);
    let mut run = launch(&scene.world, |it| {
        it.levels = Some(NorrisLevels {
            all: 2,
            providers: BTreeMap::from([("job".to_owned(), 1)]),
        });
    });
    // It says that it only reads, and nobody else does.
    let own_word = run.answer(Decision::AllowOnce);
    assert_eq!(
        (
            "ext__look",
            "HALT: only its server says what it may do; a level of its own counts: permissions.needs"
        ),
        (
            own_word.request.call().tool.as_str(),
            own_word.request.why.as_str()
        )
    );
    let first = run.answer(Decision::AllowOnce);
    assert_eq!(
        ("ext__count", true),
        (first.request.call().tool.as_str(), first.request.halt)
    );
    let second = run.answer(Decision::AllowOnce);
    assert_eq!(
        "HALT: it needs level 2 and the run was launched with level 1",
        second.request.why
    );
    assert_eq!(NorrisOutcome::Done, run.ended().0.outcome);
    assert_eq!("count put", scene.marks());
}

#[test]
fn a_level_of_the_configuration_counts_where_a_server_says_that_it_only_reads() {
    let more = "[permissions.needs]\next__look = 1\next__count = 2";
    let Some((scene, _daemon)) = Scene::with_server(more) else {
        return;
    };
    scene.model_says(&["ext__look", "ext__count", "DONE:"]);
    let mut run = launch(&scene.world, |_| {});
    assert_eq!(NorrisOutcome::Done, run.ended().0.outcome);
    assert_eq!("count", scene.marks());
}

/// The level that a run was launched with is for the tools as they were at its launch.
#[test]
fn a_tool_that_changes_while_a_run_goes_on_is_asked_about() {
    let more = "[permissions.needs]\next__look = 1\n[logging]\nlevel = \"debug\"";
    let Some((scene, _daemon)) = Scene::with_server(more) else {
        return;
    };
    let (said, model) = Said::by_hand();
    scene.upstream.answer(said);
    let mut run = launch(&scene.world, |_| {});
    model.wait_request();
    until_true("the level counts", || {
        let log = scene.world.log_text();
        log.contains("rules count for tools as they are now")
    });
    fs::write(scene.world.path("work/marks.new"), "").unwrap();
    run.client.done::<Restart>(ServerParams {
        alias: "ext".to_owned(),
    });
    let call = json!({"index": 0, "id": "call-1", "type": "function", "function": {"name": "ext__look", "arguments": "{}"}});
    model.delta(&json!({"tool_calls": [call]}));
    scene.upstream.answer(Said::text("DONE:"));
    model.finish();
    let asked = run.answer(Decision::Deny);
    assert_eq!(
        (
            "ext__look",
            "the tool's definition changed since it was allowed"
        ),
        (
            asked.request.call().tool.as_str(),
            asked.request.why.as_str()
        )
    );
    assert_eq!(NorrisOutcome::Done, run.ended().0.outcome);
    assert!(run.all::<ToolCall>().is_empty());
}

#[test]
fn rules_of_the_configuration_bound_it() {
    let more = "[permissions]\ndeny = [\"job__put\"]\n[permissions.tools.ext]\nmax_level = 1";
    let Some((scene, _daemon)) = Scene::with_server(more) else {
        return;
    };
    scene.model_says(&["job__put", "ext__count", "DONE:"]);
    let mut run = launch(&scene.world, |it| {
        it.levels = Some(NorrisLevels {
            all: 3,
            providers: BTreeMap::new(),
        });
    });
    assert_eq!(NorrisOutcome::Done, run.ended().0.outcome);
    assert!(run.all::<ToolCall>().is_empty());
    assert_eq!("", scene.marks());
}

#[test]
fn each_limit_ends_it() {
    let scene = Scene::alone();
    let _daemon = started(&scene.world);
    scene.upstream.answer_with(|_| {
        Said::stream()
            .then_call(0, &call_id(), "job__look", "{}")
            .usage(Some((40, 2)))
    });
    let mut run = launch(&scene.world, |it| it.steps = Some(3));
    let budget = Some(StopReason::Budget);
    let expected = |reason: &str| (NorrisOutcome::Limit, reason.to_owned(), budget);
    assert_eq!(expected("3 steps"), outcome(&mut run));
    assert_eq!("look look look", scene.marks());
    let mut run = launch(&scene.world, |it| it.tokens = Some(80));
    assert_eq!(expected("80 tokens"), outcome(&mut run));
    let (stall, gate) = Said::by_hand();
    scene.upstream.answer(stall);
    let mut run = launch(&scene.world, |it| it.time_ms = Some(1000));
    gate.wait_request();
    gate.text("half a ");
    assert_eq!(expected("1 s"), outcome(&mut run));
    gate.wait_hang_up();
    // A pause that the server asked for is no reason to take longer.
    scene.upstream.answer(Said::busy(20));
    let mut run = launch(&scene.world, |it| it.time_ms = Some(1000));
    assert_eq!(expected("1 s"), outcome(&mut run));
}

/// Only a plain yes lets an action run unasked.
#[test]
fn a_second_opinion_can_only_make_it_stricter() {
    let scene = Scene::new("[norris]\nsecond_opinion_within = \"1s\"");
    let _daemon = started(&scene.world);
    let check = |answer: Said, expected: Option<&str>| {
        let before = scene.marks();
        scene.model_says(&["job__put", "DONE:"]);
        scene.other.answer(answer);
        let mut run = launch(&scene.world, |_| {});
        if let Some(expected) = expected {
            let confirm = pending(&run.client, run.conversation);
            assert_eq!(expected, confirm.request.why);
            assert!(confirm.request.halt);
            assert_eq!(before, scene.marks());
            run.answer(Decision::AllowOnce);
        }
        assert_eq!(NorrisOutcome::Done, run.ended().0.outcome);
        assert_eq!(format!("{before} put").trim(), scene.marks());
    };
    check(Said::text("yes"), None);
    check(
        Said::text("no: it does too much"),
        Some("HALT: other says that it is not safe for the goal: \"it does too much\""),
    );
    let missing = |why: &str| format!("HALT: there is no second opinion: {why}");
    check(
        Said::text("perhaps"),
        Some(&missing("it said neither yes nor no")),
    );
    check(
        Said::silence(),
        Some(&missing("other said nothing within 1 s")),
    );
    check(Said::status(500, "{}"), Some(&missing("other failed")));
    check(Said::reset(), Some(&missing("other failed")));
    let asked = scene.other.requests();
    assert_eq!(6, asked.len(), "once for each call");
    let body = asked[0].json();
    let question = body["messages"][1]["content"].as_str().unwrap();
    assert!(
        question.contains("put everything in order") && question.contains("job__put"),
        "{question}"
    );
    assert!(question.contains("{\\\"n\\\":1}"), "{question}");
    // What is destructive is asked about whatever another model would say, so that none is asked.
    scene.model_says(&["job__wipe", "DONE:"]);
    let mut run = launch(&scene.world, |_| {});
    run.answer(Decision::Deny);
    run.ended();
    assert_eq!(6, scene.other.requests().len());
}

#[test]
fn without_another_preset_a_person_is_asked_about_everything() {
    let scene = Scene::new("[norris]\nsecond_opinion_model = \"test\"");
    let _daemon = started(&scene.world);
    scene.model_says(&["job__look", "DONE:"]);
    let mut run = launch(&scene.world, |_| {});
    let confirm = run.answer(Decision::AllowOnce);
    assert_eq!(
        "HALT: there is no second opinion: there is no other preset that could be asked",
        confirm.request.why
    );
    assert_eq!(NorrisOutcome::Done, run.ended().0.outcome);
}

/// Questions of a run are not routed, and a request of it may fall back without changing the planner.
#[test]
fn it_keeps_to_one_preset_and_each_request_may_fall_back() {
    let scene = Scene::new(
        "[routing]\nauto = true\nfallback = true\nfallback_model = \"other\"\n[routing.classes]\ncode = \"other\"\n[norris]\nsecond_opinion = false",
    );
    let _daemon = started(&scene.world);
    scene.upstream.answer(Said::status(503, "{}"));
    scene
        .other
        .answer(Said::stream().then_call(0, &call_id(), "job__look", "{}"));
    scene.upstream.answer(Said::text("DONE: back"));
    let mut run = launch(&scene.world, |it| {
        it.goal = "fix the traceback in ./a.py".to_owned();
    });
    assert_eq!("back", run.ended().0.reason);
    assert_eq!(
        (2, 1),
        (
            scene.upstream.requests().len(),
            scene.other.requests().len()
        )
    );
    assert!(run.all::<RouteDecided>().is_empty());
    assert_eq!(1, run.all::<FallbackUsed>().len());
}
