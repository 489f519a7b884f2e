//! Commands in the background: they go on while the conversation does, are read on and stopped from both sides, and nothing of
//! them is left when they are over, however that comes.

use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{ConfirmRecord, Try, TryParams};
use aish_proto::conversation::{
    ConversationDeleteParams, ConversationParams, Delete, Fork, ForkParams, StatusOf,
};
use aish_proto::event::{JobEnded, JobStarted, ShellFinished, ToolResult};
use aish_proto::id::{ConversationId, JobId, TurnId};
use aish_proto::job::{
    Job, JobOutputResult, JobParams, JobStopper, JobsListParams, List, Output, Stop,
};
use aish_proto::shell::ShellEnding;
use aish_proto::turn::{Cancel, TurnParams};
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Answer as Said, Asked as _, Client, Daemon, Upstream, World};
use serde_json::{Value, json};

use crate::consent::pending;
use crate::files::created;
use crate::shell::allow;
use crate::tools::events;

const UNASKED: &str = "[shell]\nconfirm = false\n";

struct Scene {
    upstream: Upstream,
    world: World,
    daemon: Daemon,
    client: Client,
}

impl Scene {
    fn new(more: &str) -> Self {
        let upstream = Upstream::start();
        let world = World::new();
        world.write(
            "machine/aish/config.toml",
            "[tools]\nfiles = false\ntodo = false\nweb = false\n",
        );
        world.write_config(&format!("{}\n{more}", upstream.config("test")));
        let daemon = world.daemon().spawn();
        let client = world.person("pts/5");
        Self {
            upstream,
            world,
            daemon,
            client,
        }
    }

    fn restarted(self, end: impl FnOnce(Daemon)) -> Self {
        drop(self.client);
        end(self.daemon);
        let daemon = self.world.daemon().spawn();
        let client = self.world.person("pts/5");
        Self {
            upstream: self.upstream,
            world: self.world,
            daemon,
            client,
        }
    }

    /// The model answers the next question with these calls, one after another, and then with a word.
    fn calls(&self, calls: &[(&str, Value)]) {
        let calls: Vec<(String, String)> = calls
            .iter()
            .map(|(tool, arguments)| (format!("shell__{tool}"), arguments.to_string()))
            .collect();
        self.upstream.answer_with(move |request| {
            let messages = request.messages();
            let asked = messages.iter().rposition(|(role, _)| role == "user");
            let after = asked.map_or(&[][..], |it| &messages[it..]);
            let done = after.iter().filter(|(role, _)| role == "tool").count();
            match calls.get(done) {
                Some((tool, arguments)) => {
                    let id = format!("call-{}", messages.len());
                    Said::stream().then_call(0, &id, tool, arguments)
                }
                None => Said::text("Done."),
            }
        });
    }

    /// Asks, with these calls for an answer, and says what the model heard of them and what came before the question.
    fn asked(
        &self,
        conversation: ConversationId,
        calls: &[(&str, Value)],
    ) -> (Vec<String>, String) {
        self.calls(calls);
        let turn = self.client.ask(conversation, "do it");
        self.client.wait_turn(turn);
        self.heard()
    }

    fn heard(&self) -> (Vec<String>, String) {
        let messages = self.upstream.requests().pop().unwrap().messages();
        let asked = messages.iter().rposition(|(role, _)| role == "user");
        let mut after = messages.into_iter().skip(asked.unwrap());
        let (_, question) = after.next().unwrap();
        let replies = after.filter(|(role, _)| role == "tool");
        (replies.map(|(_, text)| text).collect(), question)
    }

    /// A conversation in which this goes on, where nobody is asked.
    fn with_job(&self, command: &str) -> ConversationId {
        let conversation = created(&self.world, &self.client);
        let (replies, _) = self.asked(conversation, &[background(command)]);
        assert!(
            replies[0].contains("goes on in the background as job-1"),
            "{replies:?}"
        );
        conversation
    }

    fn jobs(&self, conversation: Option<ConversationId>) -> Vec<Job> {
        let params = JobsListParams { conversation };
        self.client.done::<List>(params).jobs
    }

    fn ends(&self, conversation: ConversationId) -> Vec<JobEnded> {
        events::<JobEnded>(&self.client, conversation)
    }

    fn ended(&self, conversation: ConversationId) -> JobEnded {
        until("the end of the job", PATIENCE, || {
            self.ends(conversation).pop()
        })
    }

    fn output(&self, conversation: ConversationId, job: u32) -> JobOutputResult {
        self.client.done::<Output>(of(conversation, job))
    }

    fn nothing_is_left(&self) {
        until_true("nothing is left", || self.world.running("sleep").is_empty());
    }
}

fn background(command: &str) -> (&'static str, Value) {
    ("run", json!({"command": command, "background": true}))
}

fn of(conversation: ConversationId, job: u32) -> JobParams {
    let job = JobId(job);
    JobParams { conversation, job }
}

/// Prints, goes on until there is a file, and then ends badly.
const WAITS: &str = "echo ready; while ! test -e go; do sleep 0.05; done; echo went; exit 3";

fn is_asked(scene: &Scene, call: (&str, Value)) -> (ConversationId, TurnId, ConfirmRecord) {
    let conversation = created(&scene.world, &scene.client);
    scene.calls(&[call]);
    let turn = scene.client.ask(conversation, "do it");
    let confirm = pending(&scene.client, conversation);
    (conversation, turn, confirm)
}

#[test]
fn it_is_asked_about_goes_on_is_read_on_and_its_end_is_told() {
    let scene = Scene::new("");
    let (conversation, turn, confirm) = is_asked(&scene, background(WAITS));
    assert!(confirm.request.command().asked.background);
    let other = scene.world.person("pts/7");
    let mut watching = other.attach(conversation, ReplayStart::Start);
    allow(&scene.client, &confirm);
    scene.client.wait_turn(turn);
    let (replies, _) = scene.heard();
    assert!(
        replies[0].starts_with("goes on in the background as job-1")
            && replies[0].contains("\nready\n"),
        "{replies:?}"
    );
    let started = watching.until_kind("jobStarted").read::<JobStarted>();
    assert_eq!((JobId(1), WAITS), {
        let started = started.as_ref().unwrap();
        (started.job, started.command.as_str())
    });
    let finished = events::<ShellFinished>(&scene.client, conversation).remove(0);
    assert_eq!(
        (ShellEnding::Background, Some(JobId(1)), "ready\n"),
        (finished.ending, finished.job, finished.output.as_str())
    );
    // It is there for everybody, of all conversations and of this one.
    for conversation in [None, Some(conversation)] {
        let jobs = scene.jobs(conversation);
        assert_eq!(1, jobs.len());
        assert_eq!((JobId(1), None), (jobs[0].job, jobs[0].ended.clone()));
    }
    assert_eq!("ready\n", scene.output(conversation, 1).output);
    // Other commands run beside it, and the model reads each byte once.
    let beside = ("run", json!({"command": "echo beside"}));
    scene.calls(&[("output", json!({"job": "job-1"})), beside]);
    let turn = scene.client.ask(conversation, "how is it?");
    allow(&scene.client, &pending(&scene.client, conversation));
    scene.client.wait_turn(turn);
    let (replies, question) = scene.heard();
    assert_eq!("job-1 runs; it has printed nothing new", replies[0]);
    assert!(replies[1].contains("\nbeside\n"), "{replies:?}");
    assert_eq!("how is it?", question);
    fs::write(scene.world.work().join("go"), "").unwrap();
    let ended = watching.until_kind("jobEnded").read::<JobEnded>().unwrap();
    assert_eq!(
        (ShellEnding::Exited, Some(3), None),
        (ended.end.ending, ended.end.exit_code, ended.end.stopped_by)
    );
    let (replies, question) = scene.asked(conversation, &[("output", json!({"job": "job-1"}))]);
    assert!(
        replies[0].starts_with("job-1 has ended: exit code 3; its output")
            && replies[0].contains("\nwent\n")
            && !replies[0].contains("ready"),
        "{replies:?}"
    );
    assert!(
        question.contains("job-1, the command") && question.contains("has ended: exit code 3"),
        "{question}"
    );
    let output = scene.output(conversation, 1);
    assert_eq!("ready\nwent\n", output.output);
    assert_eq!(Some(3), output.job.ended.unwrap().exit_code);
    assert_eq!(Vec::<Job>::new(), scene.jobs(None));
}

#[test]
fn a_model_waits_for_what_is_new_and_stops_what_it_began_with_all_of_it() {
    let scene = Scene::new(UNASKED);
    let tree = "trap '' TERM; setsid sleep 7301 & (trap '' TERM; sleep 7302) & \
                while ! test -e go; do sleep 0.05; done; echo $PPID went; sleep 7303";
    let conversation = scene.with_job(tree);
    scene.calls(&[
        ("output", json!({"job": "job-1", "wait": 60})),
        ("stop", json!({"job": "job-1"})),
        ("stop", json!({"job": "job-1"})),
        ("output", json!({"job": "job-7"})),
    ]);
    let turn = scene.client.ask(conversation, "go on");
    until_true("the model waits", || {
        events::<aish_proto::event::ToolCall>(&scene.client, conversation).len() == 1
    });
    assert_eq!(0, events::<ToolResult>(&scene.client, conversation).len());
    fs::write(scene.world.work().join("go"), "").unwrap();
    scene.client.wait_turn(turn);
    let (replies, _) = scene.heard();
    assert!(
        replies[0].starts_with("job-1 runs; its output") && replies[0].contains("went\n"),
        "{replies:?}"
    );
    assert_eq!(
        "job-1 has ended: you ended it; it has printed nothing new",
        replies[1]
    );
    assert_eq!(replies[1], replies[2]);
    assert_eq!(
        "there is no job-7 in this conversation: there are job-1",
        replies[3]
    );
    assert!(scene.world.running("sleep").is_empty());
    let ended = scene.ended(conversation);
    assert_eq!(Some(JobStopper::Model), ended.end.stopped_by);
    // It did so itself, and need not be told.
    let (_, question) = scene.asked(conversation, &[]);
    assert_eq!("do it", question);
}

#[test]
fn a_person_stops_one_from_another_terminal_and_the_model_is_told() {
    let scene = Scene::new(UNASKED);
    let conversation = scene.with_job("echo up; sleep 7311");
    let other = scene.world.person("pts/7");
    let stopped = other.done::<Stop>(of(conversation, 1)).stopped;
    assert!(stopped && scene.world.running("sleep").is_empty());
    assert!(!other.done::<Stop>(of(conversation, 1)).stopped);
    let ended = scene.ends(conversation);
    assert_eq!(1, ended.len());
    assert_eq!(Some(JobStopper::Person), ended[0].end.stopped_by);
    let unknown = other.refused::<Stop>(of(conversation, 2));
    assert!(
        unknown.to_string().contains("there is no job-2"),
        "{unknown}"
    );
    let (_, question) = scene.asked(conversation, &[]);
    assert!(question.contains("The user stopped job-1"), "{question}");
    let (_, question) = scene.asked(conversation, &[]);
    assert_eq!("do it", question, "once");
}

#[test]
fn a_kill_of_the_daemon_ends_it_and_the_log_says_so_once() {
    let scene = Scene::new(UNASKED);
    let conversation = scene.with_job("echo up; setsid sleep 7321 & sleep 7322");
    let scene = scene.restarted(Daemon::kill9);
    scene.nothing_is_left();
    let ended = scene.ended(conversation);
    assert_eq!(
        (ShellEnding::Unknown, Some(JobStopper::Daemon), None),
        (ended.end.ending, ended.end.stopped_by, ended.end.ms)
    );
    let scene = scene.restarted(Daemon::kill9);
    assert_eq!(1, scene.ends(conversation).len());
    let read = ("output", json!({"job": "job-1"}));
    let (replies, question) = scene.asked(conversation, &[read]);
    assert!(question.contains("ended when the daemon did"), "{question}");
    assert_eq!(
        "job-1 has ended: it ended when the daemon did; it has printed nothing new",
        replies[0]
    );
    // Names are not given twice.
    let (replies, _) = scene.asked(conversation, &[background("sleep 7323")]);
    assert!(replies[0].contains("as job-2"), "{replies:?}");
}

#[test]
fn an_ordered_stop_keeps_what_it_printed_and_says_why_it_ended() {
    let scene = Scene::new(UNASKED);
    let conversation = scene.with_job("echo up; sleep 7331");
    let scene = scene.restarted(|daemon| assert_eq!(0, daemon.terminate()));
    scene.nothing_is_left();
    let ended = scene.ends(conversation);
    assert_eq!(1, ended.len());
    assert_eq!(
        (ShellEnding::Cancelled, Some(JobStopper::Daemon)),
        (ended[0].end.ending, ended[0].end.stopped_by)
    );
    assert_eq!("up\n", scene.output(conversation, 1).output);
    let read = ("output", json!({"job": "job-1"}));
    let (replies, _) = scene.asked(conversation, &[read]);
    assert!(replies[0].contains("\nup\n"), "{replies:?}");
}

#[test]
fn there_are_four_at_a_time_and_the_fifth_is_asked_of_nobody() {
    let scene = Scene::new(UNASKED);
    let conversation = created(&scene.world, &scene.client);
    let five = [1, 2, 3, 4, 5].map(|it| background(&format!("sleep 734{it}")));
    let (replies, _) = scene.asked(conversation, &five);
    assert!(replies[3].contains("as job-4"), "{replies:?}");
    assert_eq!(
        "not run: job-1, job-2, job-3, job-4 run in the background, and no more than 4 may: end one with shell__stop first; nothing ran",
        replies[4]
    );
    scene.client.done::<Stop>(of(conversation, 2));
    let (replies, _) = scene.asked(conversation, &[background("sleep 7346")]);
    assert!(replies[0].contains("as job-5"), "{replies:?}");
    let running = scene.jobs(None);
    let names: Vec<u32> = running.iter().map(|it| it.job.0).collect();
    assert_eq!(vec![5, 4, 3, 1], names);
}

#[test]
fn it_goes_with_its_conversation_and_not_into_a_copy() {
    let scene = Scene::new(UNASKED);
    let conversation = scene.with_job("echo up; sleep 7351");
    let copy = scene
        .client
        .done::<Fork>(ForkParams {
            id: conversation,
            at_seq: None,
        })
        .id;
    assert_eq!(Vec::<Job>::new(), scene.jobs(Some(copy)));
    let read = ("output", json!({"job": "job-1"}));
    let (replies, _) = scene.asked(copy, &[read, background("sleep 7352")]);
    assert!(
        replies[0].starts_with("there is no job-1 in this conversation"),
        "{replies:?}"
    );
    assert!(replies[1].contains("as job-2"), "{replies:?}");
    assert_eq!(2, scene.jobs(None).len());
    for id in [conversation, copy] {
        let status = scene.client.done::<StatusOf>(ConversationParams { id });
        scene.client.done::<Delete>(ConversationDeleteParams {
            id,
            confirm_title: status.title,
        });
    }
    scene.nothing_is_left();
    assert_eq!(Vec::<Job>::new(), scene.jobs(None));
}

#[test]
fn what_ends_at_once_is_an_ordinary_reply() {
    let scene = Scene::new(UNASKED);
    let conversation = created(&scene.world, &scene.client);
    let (replies, _) = scene.asked(
        conversation,
        &[
            background("echo hi; export X=1; cd /; exit 4"),
            ("run", json!({"command": "echo \"<$X>\"; pwd"})),
            background("cd /"),
            ("run", json!({"command": "echo", "background": "yes"})),
        ],
    );
    assert!(
        replies[0].starts_with("exit code 4; its output") && replies[0].contains("\nhi\n"),
        "{replies:?}"
    );
    let work = scene.world.work();
    let here = format!("\n<>\n{}\n", work.display());
    assert!(replies[1].contains(&here), "{replies:?}");
    assert!(replies[2].starts_with("exit code 0"), "{replies:?}");
    assert!(
        replies[3].contains("with \"background\": true"),
        "{replies:?}"
    );
    let ended = scene.ends(conversation);
    assert!(ended.len() == 2 && ended.iter().all(|it| it.replied));
    let (_, question) = scene.asked(conversation, &[]);
    assert_eq!("do it", question);
}

#[test]
fn who_stops_a_turn_does_not_stop_what_it_has_begun() {
    let scene = Scene::new(UNASKED);
    let conversation = scene.with_job("echo up; sleep 7361");
    scene.calls(&[("run", json!({"command": "sleep 7362"}))]);
    let turn = scene.client.ask(conversation, "and that");
    until_true("it runs", || scene.world.running("sleep").len() == 2);
    scene.client.done::<Cancel>(TurnParams { turn });
    until_true("one is left", || scene.world.running("sleep").len() == 1);
    assert_eq!(1, scene.jobs(None).len());
    // But for one whose call has no reply yet.
    scene.calls(&[background("sleep 7363")]);
    let turn = scene.client.ask(conversation, "and that");
    until_true("it begins", || {
        events::<JobStarted>(&scene.client, conversation).len() == 2
    });
    scene.client.done::<Cancel>(TurnParams { turn });
    let ended = scene.ended(conversation);
    assert_eq!(
        (JobId(2), Some(JobStopper::Turn)),
        (ended.job, ended.end.stopped_by)
    );
}

#[test]
fn much_output_is_bounded_and_says_what_is_not_there() {
    let scene = Scene::new(UNASKED);
    let much = "while ! test -e go; do sleep 0.05; done; yes | head -n 1500000; sleep 7371";
    let conversation = scene.with_job(much);
    fs::write(scene.world.work().join("go"), "").unwrap();
    until_true("all was printed", || {
        let output = scene.output(conversation, 1);
        output.before + output.output.len() as u64 == 3_000_000
    });
    assert!(scene.output(conversation, 1).output.len() <= 64 << 10);
    let read = ("output", json!({"job": "job-1"}));
    let (replies, _) = scene.asked(conversation, &[read.clone(), read]);
    assert!(
        replies[0].contains("bytes before this are not kept")
            && replies[0].contains("bytes follow: call shell__output again"),
        "{}",
        replies[0]
    );
    assert!(
        replies[1].starts_with("job-1 runs; its output"),
        "{}",
        replies[1]
    );
    scene.client.done::<Stop>(of(conversation, 1));
    let ended = scene.ended(conversation).end;
    assert_eq!(3_000_000, ended.bytes);
    assert!((1 << 19..1 << 21).contains(&ended.kept.unwrap().bytes));
    assert!(scene.daemon.rss_kib() < 200 << 10);
}

#[test]
fn it_is_not_tried_and_a_yes_to_it_is_none_to_the_same_command_by_itself() {
    let scene = Scene::new("[shell]\ndefault = \"try\"\n");
    let (conversation, turn, confirm) = is_asked(&scene, background("touch made; sleep 7381"));
    let params = TryParams {
        confirm: confirm.request.confirm,
        digest: confirm.request.digest.clone(),
    };
    let refused = scene.client.refused::<Try>(params);
    assert!(
        refused.to_string().contains("in the background"),
        "{refused}"
    );
    assert!(!scene.world.work().join("made").exists());
    allow(&scene.client, &confirm);
    scene.client.wait_turn(turn);
    assert!(scene.world.work().join("made").exists());
    assert_eq!(1, scene.jobs(Some(conversation)).len());
}
