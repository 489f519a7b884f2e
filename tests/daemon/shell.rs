//! Commands of this machine: what a model proposes and a person allows, and what a person runs.

use std::sync::Barrier;
use std::thread;

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{
    Answer, AnswerOutcome, ConfirmListParams, ConfirmPreviewParams, ConfirmRecord, Decision,
    Denial, List, Preview,
};
use aish_proto::conversation::{ConversationCreateParams, Create};
use aish_proto::envelope::Envelope;
use aish_proto::event::{
    AssistantMessage, ConfirmResolved, ShellFinished, ShellOutput, ShellStarted,
};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::shell::{Run, ShellEnding, ShellRunParams};
use aish_proto::turn::{AgainParams, OnConfirm, Retry, Send, StopReason, UnattendedAction};
use aish_testkit::client::question;
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer as Said, Asked as _, Client, Daemon, Follow, Upstream, World};

use crate::consent::{pending, with};
use crate::tools;

/// A daemon whose model proposes commands.
pub(crate) struct Scene {
    pub(crate) upstream: Upstream,
    pub(crate) world: World,
    pub(crate) daemon: Daemon,
}

impl Scene {
    pub(crate) fn new(more: &str) -> Self {
        let upstream = Upstream::start();
        let world = World::new();
        let config = upstream.config("test");
        world.write_config(&format!("{config}\n{more}"));
        Self::of(upstream, world)
    }

    /// In a world that was made ready.
    pub(crate) fn of(upstream: Upstream, world: World) -> Self {
        let daemon = world.daemon().spawn();
        Self {
            upstream,
            world,
            daemon,
        }
    }

    /// The model answers the next question with this text, and everything after it with another.
    pub(crate) fn model_says(&self, text: &str) {
        let text = text.to_owned();
        let mut said = false;
        self.upstream.answer_with(move |_| {
            if std::mem::replace(&mut said, true) {
                return Said::text("That is all.");
            }
            Said::text(&text)
        });
    }

    /// A conversation where the test works.
    pub(crate) fn conversation(&self, client: &Client) -> ConversationId {
        let cwd = self.world.work().display().to_string();
        let params = ConversationCreateParams {
            cwd,
            ..ConversationCreateParams::default()
        };
        client.done::<Create>(params).id
    }

    /// Asks, and waits for the confirm that comes of the answer.
    pub(crate) fn asked(
        &self,
        client: &Client,
        text: &str,
    ) -> (ConversationId, TurnId, ConfirmRecord) {
        self.model_says(text);
        let conversation = self.conversation(client);
        let turn = client.ask(conversation, "do it");
        (conversation, turn, pending(client, conversation))
    }

    /// What the last request said last.
    pub(crate) fn last_question(&self) -> String {
        self.upstream.requests().last().unwrap().question()
    }
}

pub(crate) fn allow(client: &Client, confirm: &ConfirmRecord) {
    let answered = client.done::<Answer>(with(confirm, Decision::AllowOnce));
    assert_eq!(AnswerOutcome::Resolved, answered.outcome);
}

pub(crate) fn own(conversation: ConversationId, command: &str) -> ShellRunParams {
    ShellRunParams {
        conversation,
        command: command.to_owned(),
        cwd: None,
        into_context: true,
    }
}

/// Runs a person's own command, and waits for its end.
pub(crate) fn run(client: &Client, follow: &mut Follow, params: ShellRunParams) -> ShellFinished {
    let began = client.done::<Run>(params);
    finished(follow, &began.call)
}

pub(crate) fn finished(follow: &mut Follow, call: &str) -> ShellFinished {
    let of = |it: &Envelope| it.read::<ShellFinished>().filter(|it| it.call == call);
    of(&follow.until(|it| of(it).is_some())).unwrap()
}

pub(crate) fn ends(events: &[Envelope]) -> Vec<ShellFinished> {
    events.iter().filter_map(Envelope::read).collect()
}

/// No program can be given a zero byte: nobody is asked, and the turn goes on with what can run.
#[test]
fn a_command_with_a_zero_byte_is_refused_and_never_asked_about() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let text = "CMD: echo a\0b > made\nCMD: echo c\n";
    let (conversation, turn, confirm) = scene.asked(&client, text);
    assert_eq!("echo c", confirm.request.command().asked.command);
    let answered = client.done::<Answer>(with(&confirm, Decision::Deny));
    assert_eq!(AnswerOutcome::Resolved, answered.outcome);
    client.wait_turn(turn);
    let ended = tools::events::<ShellFinished>(&client, conversation);
    let (refused, denied) = (&ended[0], &ended[1]);
    assert!(refused.command.contains('\0') && refused.denied.is_none());
    assert_eq!(
        "[aish] the command has a zero byte and cannot run; nothing ran",
        refused.output
    );
    assert_eq!(Some(Denial::Person), denied.denied);
}

#[test]
fn a_line_is_asked_about_runs_as_approved_and_its_output_goes_with_the_next_question() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(
        &client,
        "I look first.\n\nCMD: echo made > file; cat file\n",
    );
    let request = &confirm.request;
    let asked = &request.command().asked;
    assert_eq!("echo made > file; cat file", asked.command);
    assert_eq!(
        ("shell__run", 3, scene.world.work().display().to_string()),
        (
            request.call().tool.as_str(),
            request.command().level_required,
            request.call().cwd.clone()
        )
    );
    assert!(!scene.world.work().join("file").exists(), "nothing ran yet");
    let mut other = with(&confirm, Decision::AllowOnce);
    other.digest = "0".repeat(64);
    assert_eq!(
        AnswerOutcome::ArgsChanged,
        client.done::<Answer>(other).outcome
    );
    allow(&client, &confirm);
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::End), record.stop_reason);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    let kinds: Vec<&str> = follow
        .events_so_far()
        .iter()
        .map(|it| it.kind.as_str())
        .filter(|it| ["confirmResolved", "shellStarted", "shellFinished"].contains(it))
        .collect();
    assert_eq!(
        vec!["confirmResolved", "shellStarted", "shellFinished"],
        kinds
    );
    let end = ends(follow.events_so_far()).remove(0);
    assert_eq!(
        (ShellEnding::Exited, Some(0), "made\n"),
        (end.ending, end.exit_code, end.output.as_str())
    );
    client.wait_turn(client.ask(conversation, "and now?"));
    let said = scene.last_question();
    assert!(
        said.contains("\"echo made > file; cat file\"")
            && said.contains("made\n```")
            && said.ends_with("and now?"),
        "{said}"
    );
    client.wait_turn(client.ask(conversation, "and after that?"));
    assert_eq!("and after that?", scene.last_question());
    scene.upstream.finish();
}

#[test]
fn commands_are_taken_from_nothing_but_answers_that_ended_properly() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    for answer in [
        Said::text("```\nCMD: touch fenced\n```"),
        Said::text("as in CMD: touch inline"),
        Said::stream().then_text("CMD: touch cut\n").then_cut(),
        Said::stream()
            .then_text("CMD: touch long\n")
            .finish(Some("length")),
        Said::stream()
            .then_text("CMD: touch filtered\n")
            .finish(Some("content_filter")),
    ] {
        scene.upstream.answer(answer);
        let conversation = scene.conversation(&client);
        client.wait_turn(client.ask(conversation, "CMD: touch mine"));
        let open = client.done::<List>(ConfirmListParams::default()).confirms;
        assert_eq!(0, open.len());
        let mut follow = client.attach(conversation, ReplayStart::Start);
        follow.until_kind("replayComplete");
        let proposed = follow.events_so_far().iter();
        let proposed = proposed.filter_map(|it| it.read::<AssistantMessage>());
        assert_eq!(0, proposed.map(|it| it.commands.len()).sum::<usize>());
    }
    assert_eq!(0, std::fs::read_dir(scene.world.work()).unwrap().count());
}

#[test]
fn each_line_is_a_question_of_its_own_and_a_no_reaches_the_model_with_its_reason() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, first) = scene.asked(&client, "CMD: echo one\nCMD: echo two");
    allow(&client, &first);
    let second = until("the second question", PATIENCE, || {
        let found = pending(&client, conversation);
        (found.request.confirm != first.request.confirm).then_some(found)
    });
    assert_eq!("echo two", second.request.command().asked.command);
    let mut no = with(&second, Decision::Deny);
    no.reason = Some("not on a Friday".to_owned());
    assert_eq!(AnswerOutcome::Resolved, client.done::<Answer>(no).outcome);
    let record = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), 1),
        (record.stop_reason, record.denied)
    );
    client.wait_turn(client.ask(conversation, "go on"));
    let said = scene.last_question();
    assert!(
        said.contains("not run: denied by user: not on a Friday"),
        "{said}"
    );
    assert!(said.contains("one\n```"), "{said}");
}

#[test]
fn always_is_this_text_in_this_directory_and_what_destroys_is_never_always() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client, "CMD: echo again");
    assert!(
        confirm
            .request
            .options
            .contains(&Decision::AllowConversation)
    );
    client.done::<Answer>(with(&confirm, Decision::AllowConversation));
    client.wait_turn(turn);
    scene.model_says("CMD: echo again");
    let record = client.wait_turn(client.ask(conversation, "again"));
    assert_eq!(
        Some(StopReason::End),
        record.stop_reason,
        "nobody was asked"
    );
    scene.model_says("CMD: echo again ");
    client.wait_turn(client.ask(conversation, "the same text"));
    scene.model_says("CMD: echo again; echo more");
    let turn = client.ask(conversation, "another");
    let other = pending(&client, conversation);
    client.done::<Answer>(with(&other, Decision::Deny));
    client.wait_turn(turn);
    scene.model_says("CMD: rm -rf everything");
    let turn = client.ask(conversation, "clean up");
    let destroys = pending(&client, conversation);
    let asked = &destroys.request.command().asked;
    assert!(
        asked.unread.is_some() || !asked.dangers.is_empty(),
        "{asked:?}"
    );
    assert!(
        !destroys
            .request
            .options
            .contains(&Decision::AllowConversation)
    );
    client.refused::<Answer>(with(&destroys, Decision::AllowConversation));
    client.done::<Answer>(with(&destroys, Decision::Deny));
    client.wait_turn(turn);
}

#[test]
fn no_pattern_approves_a_command_and_nobody_means_no() {
    let scene = Scene::new("");
    let client = scene.world.client();
    scene.model_says("CMD: touch ran");
    let conversation = scene.conversation(&client);
    for pattern in ["shell__run", "shell__*"] {
        let mut params = question(conversation, "do it");
        params.on_confirm = Some(OnConfirm {
            allow: vec![pattern.to_owned()],
            ..OnConfirm::default()
        });
        let refused = client.refused::<Send>(params);
        assert!(
            refused.message.contains("exact text"),
            "{}",
            refused.message
        );
    }
    let mut params = question(conversation, "do it");
    params.on_confirm = Some(OnConfirm {
        then: UnattendedAction::AskAttended,
        ..OnConfirm::default()
    });
    let turn = client.done::<Send>(params).turn;
    let record = client.wait_turn(turn);
    assert_eq!(1, record.denied);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    let end = ends(follow.events_so_far()).remove(0);
    assert_eq!(
        (ShellEnding::Refused, Some(Denial::NoApprover)),
        (end.ending, end.denied)
    );
    assert!(!scene.world.work().join("ran").exists());
}

#[test]
fn of_two_answers_one_counts_and_it_runs_once() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (_, turn, confirm) = scene.asked(&client, "CMD: echo x >> counter");
    let barrier = Barrier::new(2);
    let outcomes: Vec<AnswerOutcome> = thread::scope(|scope| {
        let answering = [Decision::AllowOnce, Decision::AllowOnce].map(|decision| {
            let (barrier, confirm, world) = (&barrier, &confirm, &scene.world);
            scope.spawn(move || {
                let client = world.client();
                barrier.wait();
                client.done::<Answer>(with(confirm, decision)).outcome
            })
        });
        answering.map(|it| it.join().unwrap()).to_vec()
    });
    assert!(outcomes.contains(&AnswerOutcome::Resolved));
    assert!(outcomes.contains(&AnswerOutcome::AlreadyResolved));
    client.wait_turn(turn);
    let counter = std::fs::read_to_string(scene.world.work().join("counter")).unwrap();
    assert_eq!("x\n", counter);
}

#[test]
fn another_command_in_its_place_is_what_runs() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client, "CMD: touch theirs");
    let mut edit = with(&confirm, Decision::Edit);
    edit.arguments = Some(r#"{"command":"touch mine"}"#.to_owned());
    assert_eq!(AnswerOutcome::Resolved, client.done::<Answer>(edit).outcome);
    client.wait_turn(turn);
    assert!(scene.world.work().join("mine").exists());
    assert!(!scene.world.work().join("theirs").exists());
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    let started = follow
        .events_so_far()
        .iter()
        .find_map(|it| it.read::<ShellStarted>());
    assert_eq!("touch mine", started.unwrap().command);
    // The model does not take it for its own.
    client.wait_turn(client.ask(conversation, "and now?"));
    let told = "[aish] the user changed the command that you proposed, and this is what they wrote in its place: \"touch mine\"";
    let said = scene.last_question();
    assert!(said.starts_with(told), "{said}");
}

/// What was edited is judged as what it is before anybody says yes to it, and nothing happens by asking.
#[test]
fn a_command_in_the_place_of_another_is_judged_before_it_is_allowed() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client, "CMD: echo orig");
    let preview = |arguments: &str| ConfirmPreviewParams {
        confirm: confirm.request.confirm,
        arguments: arguments.to_owned(),
    };
    let judged = client
        .done::<Preview>(preview(r#"{"command": "echo new > a; rm -rf theirs"}"#))
        .request;
    let shell = &judged.command().asked;
    assert_eq!("echo new > a; rm -rf theirs", shell.command);
    let runs: Vec<&str> = shell.segments.iter().map(|it| it.runs.as_str()).collect();
    assert_eq!(["echo new", "rm -rf theirs"], runs[..]);
    assert_eq!(
        "replaces what is in a file; deletes directories and all that is in them",
        judged.why
    );
    assert_eq!(
        (confirm.request.confirm, confirm.request.number),
        (judged.confirm, judged.number)
    );
    assert_ne!(confirm.request.digest, judged.digest);
    assert_eq!(
        [Decision::Edit, Decision::Deny, Decision::Abort],
        judged.options[..]
    );
    for (arguments, why) in [
        ("[]", "not one JSON object"),
        ("{}", "a command is edited as"),
        (r#"{"command": " "}"#, "the command is empty"),
    ] {
        let refused = client.refused::<Preview>(preview(arguments));
        assert!(refused.message.contains(why), "{}", refused.message);
    }
    // The question is what it was.
    assert_eq!(confirm, pending(&client, conversation));
    let mut edit = with(&confirm, Decision::Edit);
    edit.arguments = Some(judged.call().arguments.clone());
    assert_eq!(AnswerOutcome::Resolved, client.done::<Answer>(edit).outcome);
    client.wait_turn(turn);
    assert!(scene.world.work().join("a").exists());
    let late = client.refused::<Preview>(preview(r#"{"command": "ls"}"#));
    assert!(late.message.contains("waits"), "{}", late.message);
}

#[test]
fn with_feed_back_the_turn_goes_on_by_itself() {
    let scene = Scene::new("[shell]\nfeed_back = true\nconfirm = false\n");
    let client = scene.world.person("pts/5");
    scene.model_says("CMD: echo fed back");
    let conversation = scene.conversation(&client);
    let record = client.wait_turn(client.ask(conversation, "do it"));
    assert_eq!("That is all.", record.text);
    let messages = scene.upstream.requests().last().unwrap().messages();
    let roles: Vec<&str> = messages.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(["user", "assistant", "user"], roles[roles.len() - 3..]);
    assert!(messages.last().unwrap().1.contains("fed back\n```"));
    let log = scene.daemon.log_text();
    assert!(
        log.contains("shell.confirm"),
        "it is told at the start: {log}"
    );
    client.wait_turn(client.ask(conversation, "and now?"));
    assert_eq!("and now?", scene.last_question());
    scene.upstream.finish();
}

#[test]
fn what_a_person_runs_runs_at_once_streams_and_waits_for_the_question() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let other = scene.world.person("pts/6");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let mut looks = other.attach(conversation, ReplayStart::Start);
    let began = client.done::<Run>(own(conversation, "echo out; echo err >&2; cat"));
    for follow in [&mut follow, &mut looks] {
        let end = finished(follow, &began.call);
        assert_eq!(
            ("out\nerr\n", Some(0)),
            (end.output.as_str(), end.exit_code)
        );
        let events = follow.events_so_far().iter();
        let printed: String = events
            .filter_map(|it| it.read::<ShellOutput>())
            .map(|it| it.text)
            .collect();
        assert_eq!("out\nerr\n", printed);
    }
    let quiet = ShellRunParams {
        into_context: false,
        ..own(conversation, "echo secret")
    };
    run(&client, &mut follow, quiet);
    scene.upstream.answer(Said::text("I see."));
    client.wait_turn(client.ask(conversation, "what is that?"));
    let said = scene.last_question();
    assert!(
        said.contains("out\nerr\n```") && !said.contains("secret"),
        "{said}"
    );
}

#[test]
fn outputs_wait_over_a_restart_and_go_with_a_retry_again() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let conversation = scene.conversation(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    run(
        &client,
        &mut follow,
        own(conversation, "echo kept over the restart"),
    );
    let Scene {
        upstream,
        world,
        daemon,
    } = scene;
    assert_eq!(0, daemon.terminate());
    let daemon = world.daemon().spawn();
    let scene = Scene {
        upstream,
        world,
        daemon,
    };
    let client = scene.world.person("pts/5");
    scene.upstream.answer(Said::text("I see."));
    let turn = client.ask(conversation, "what was that?");
    client.wait_turn(turn);
    let first = scene.last_question();
    assert!(first.contains("kept over the restart\n```"), "{first}");
    let again = client.done::<Retry>(AgainParams {
        conversation,
        turn: None,
        idempotency_key: "again".to_owned(),
        model: None,
        accept_cost: false,
    });
    client.wait_turn(again.turn);
    assert_eq!(first, scene.last_question());
    scene.upstream.finish();
}

#[test]
fn answers_come_in_order_before_anything_starts() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client, "CMD: true");
    allow(&client, &confirm);
    client.wait_turn(turn);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    let seq = |kind: &str| {
        let events = follow.events_so_far();
        events
            .iter()
            .find(|it| it.kind == kind)
            .unwrap()
            .seq
            .unwrap()
    };
    assert!(seq("confirmResolved") < seq("shellStarted"));
    let resolved = follow
        .events_so_far()
        .iter()
        .find_map(|it| it.read::<ConfirmResolved>());
    let started = follow
        .events_so_far()
        .iter()
        .find_map(|it| it.read::<ShellStarted>());
    assert_eq!(Some(resolved.unwrap().confirm), started.unwrap().confirm);
}
