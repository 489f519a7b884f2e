//! Commands that are tried first: they run in layers over the files while their question waits, and what they would change
//! is kept or dropped by a person.

use std::fs;
use std::path::PathBuf;

use aish_proto::attach::ReplayStart;
use aish_proto::changes::{ChangesParams, Diff, FileChange, List, Undo};
use aish_proto::confirm::{
    Answer, AnswerOutcome, AnswerParams, ConfirmParams, ConfirmRecord, Decision, Get, Try,
    TryParams,
};
use aish_proto::conversation::{ConversationDeleteParams, Delete};
use aish_proto::event::{CommandTried, ShellFinished};
use aish_proto::id::ConversationId;
use aish_proto::intent::Negotiate;
use aish_proto::method::Empty;
use aish_proto::shell::{Run, ShellEnding};
use aish_proto::turn::{Cancel, TurnParams};
use aish_testkit::wait::until_true;

use aish_testkit::{Client, Follow};

use crate::consent::{pending, with};
use crate::permission::upgrade;
use crate::shell::{Scene, finished, own};

const COMMAND: &str = "printf 'new\\n' > made && printf 'more\\n' >> kept && rm gone && echo done";

fn files(scene: &Scene) {
    fs::write(scene.world.work().join("kept"), "one\n").unwrap();
    fs::write(scene.world.work().join("gone"), "old\n").unwrap();
}

fn layers(scene: &Scene, tried: &CommandTried) -> PathBuf {
    let below = format!("state/aish/changes/layers/{}", tried.changes);
    scene.world.path(below)
}

fn read(scene: &Scene, name: &str) -> Option<String> {
    fs::read_to_string(scene.world.work().join(name)).ok()
}

/// Nothing is tried where the kernel does not hold it, and that is said.
pub(crate) fn try_it(client: &Client, confirm: &ConfirmRecord) -> Option<CommandTried> {
    let params = TryParams {
        confirm: confirm.request.confirm,
        digest: confirm.request.digest.clone(),
    };
    let tried = client.call::<Try>(params);
    let lacks = |message: &str| {
        let parts = ["namespace", "overlay", "/proc"];
        parts.iter().any(|it| message.contains(it))
    };
    if let Err(error) = &tried
        && lacks(&error.message)
    {
        println!("skipped: {}", error.message);
        return None;
    }
    Some(tried.unwrap().tried)
}

pub(crate) fn keep(confirm: &ConfirmRecord, tried: &CommandTried) -> AnswerParams {
    AnswerParams {
        changes: Some(tried.changes),
        ..with(confirm, Decision::Keep)
    }
}

pub(crate) fn end(
    client: &Client,
    follow: &mut Follow,
    confirm: &ConfirmRecord,
    answer: AnswerParams,
) -> ShellFinished {
    let answered = client.done::<Answer>(answer);
    assert_eq!(AnswerOutcome::Resolved, answered.outcome);
    let call = confirm.request.subject.call().unwrap().id.clone();
    finished(follow, &call)
}

#[test]
fn what_was_tried_is_shown_first_and_becomes_real_when_it_is_kept_and_can_be_undone() {
    let scene = Scene::new("");
    files(&scene);
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    assert_eq!(
        (ShellEnding::Exited, Some(0)),
        (tried.ending, tried.exit_code)
    );
    assert_eq!("done\n", tried.output);
    let listed = tried.changed.listed.iter();
    let work = scene.world.work().canonicalize().unwrap();
    let listed: Vec<_> = listed
        .map(|it| (it.path.as_str(), it.change, it.added, it.removed))
        .collect();
    let path = |name: &str| work.join(name).display().to_string();
    let [gone, kept, made] = ["gone", "kept", "made"].map(path);
    let expected = vec![
        (gone.as_str(), FileChange::Removed, Some(0), Some(1)),
        (kept.as_str(), FileChange::Modified, Some(1), Some(0)),
        (made.as_str(), FileChange::Created, Some(1), Some(0)),
    ];
    assert_eq!(expected, listed);
    // Nothing of it is real, and everybody who follows has heard of it.
    let real = ["made", "kept", "gone"].map(|it| read(&scene, it));
    let before = [None, Some("one\n".to_owned()), Some("old\n".to_owned())];
    assert_eq!(before, real);
    let heard = follow.until(|it| it.read::<CommandTried>().is_some());
    assert_eq!(Some(tried.clone()), heard.read::<CommandTried>());
    let changes = ChangesParams {
        changes: tried.changes,
    };
    let diff = client.done::<Diff>(changes).diff;
    assert!(diff.contains("+more") && diff.contains("-old"), "{diff}");
    let ended = end(&client, &mut follow, &confirm, keep(&confirm, &tried));
    assert_eq!(
        (ShellEnding::Exited, Some(0)),
        (ended.ending, ended.exit_code)
    );
    assert!(
        ended
            .output
            .starts_with("done\n[aish] it ran in a copy of the files first"),
        "{}",
        ended.output
    );
    let real = ["made", "kept", "gone"].map(|it| read(&scene, it));
    let after = [
        Some("new\n".to_owned()),
        Some("one\nmore\n".to_owned()),
        None,
    ];
    assert_eq!(after, real);
    client.wait_turn(turn);
    client.done::<Undo>(changes);
    let real = ["made", "kept", "gone"].map(|it| read(&scene, it));
    assert_eq!(before, real);
    // Once is enough.
    let again = client.call::<Undo>(changes).unwrap_err();
    assert!(again.message.contains("no keep"), "{again:?}");
}

#[test]
fn a_no_and_a_yes_drop_what_was_tried() {
    let scene = Scene::new("");
    let client = scene.world.client();
    for decision in [Decision::Deny, Decision::AllowOnce] {
        files(&scene);
        let (conversation, turn, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
        let mut follow = client.attach(conversation, ReplayStart::Start);
        let Some(tried) = try_it(&client, &confirm) else {
            return;
        };
        let ended = end(&client, &mut follow, &confirm, with(&confirm, decision));
        client.wait_turn(turn);
        let is_real = decision == Decision::AllowOnce;
        assert_eq!(is_real, read(&scene, "made").is_some());
        assert_eq!(is_real, ended.ending == ShellEnding::Exited, "{ended:?}");
        let layers = layers(&scene, &tried);
        until_true("the layers are gone", || !layers.exists());
        let _made_for_real = fs::remove_file(scene.world.work().join("made"));
    }
}

#[test]
fn what_was_tried_before_the_last_trial_is_not_kept_and_neither_is_what_nobody_tried() {
    let scene = Scene::new("");
    files(&scene);
    let client = scene.world.client();
    let (_, _, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
    let untried = client
        .call::<Answer>(with(&confirm, Decision::Keep))
        .unwrap_err();
    assert!(
        untried.message.contains("nothing of it was tried"),
        "{untried:?}"
    );
    let Some(first) = try_it(&client, &confirm) else {
        return;
    };
    let second = try_it(&client, &confirm).unwrap();
    assert_ne!(first.changes, second.changes);
    let late = client.done::<Answer>(keep(&confirm, &first));
    assert_eq!(AnswerOutcome::ArgsChanged, late.outcome);
    assert_eq!(None, read(&scene, "made"));
    let record = client.done::<Get>(ConfirmParams {
        confirm: confirm.request.confirm,
    });
    assert_eq!(Some(second), record.tried);
}

/// A daemon that is killed forgets neither the question nor what was tried of it.
#[test]
fn what_was_tried_outlives_its_daemon_and_can_be_kept_then() {
    let scene = Scene::new("");
    files(&scene);
    let client = scene.world.client();
    let (conversation, _, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    let Scene {
        upstream: _upstream,
        world,
        daemon,
    } = scene;
    daemon.kill9();
    let daemon = world.daemon().spawn();
    let client = world.client();
    let again = pending(&client, conversation);
    assert_eq!(Some(&tried), again.tried.as_ref());
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let ended = end(&client, &mut follow, &confirm, keep(&confirm, &tried));
    assert_eq!(ShellEnding::Exited, ended.ending, "{ended:?}");
    let made = fs::read_to_string(world.work().join("made")).unwrap();
    assert_eq!("new\n", made);
    drop(daemon);
}

/// Somebody else changed a file that the trial changed, too: that is never overwritten, and the question stays.
#[test]
fn a_file_that_changed_meanwhile_is_not_overwritten_and_it_can_be_tried_again() {
    let scene = Scene::new("");
    files(&scene);
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    fs::write(scene.world.work().join("kept"), "mine\n").unwrap();
    let refused = client.refused::<Answer>(keep(&confirm, &tried));
    assert!(
        refused
            .message
            .contains("changed since by something else: /")
            && refused.message.contains("kept"),
        "{refused:?}"
    );
    let real = ["made", "kept", "gone"].map(|it| read(&scene, it));
    let expected = [None, Some("mine\n".to_owned()), Some("old\n".to_owned())];
    assert_eq!(expected, real);
    let tried = try_it(&client, &confirm).unwrap();
    let ended = end(&client, &mut follow, &confirm, keep(&confirm, &tried));
    client.wait_turn(turn);
    assert_eq!(ShellEnding::Exited, ended.ending, "{ended:?}");
    assert_eq!(Some("mine\nmore\n".to_owned()), read(&scene, "kept"));
}

/// Holds up the commands of a conversation until the file `go` is there.
fn hold_up(client: &Client, conversation: ConversationId) -> String {
    let wait = "until [ -e go ]; do sleep 0.05; done";
    client.done::<Run>(own(conversation, wait)).call
}

/// Where the network of a command is; the trial's is its own.
const NETWORK: &str = "readlink /proc/self/ns/net > net";

/// What waits for its turn is kept then, whatever else is asked meanwhile, and it does not run.
#[test]
fn what_is_kept_waits_for_its_turn_and_never_runs_instead() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, &format!("CMD: {NETWORK}"));
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    hold_up(&client, conversation);
    let answered = client.done::<Answer>(keep(&confirm, &tried));
    assert_eq!(AnswerOutcome::Resolved, answered.outcome);
    client.done::<Negotiate>(upgrade(conversation, "aish", 3));
    fs::write(scene.world.work().join("go"), "").unwrap();
    let call = confirm.request.subject.call().unwrap().id.clone();
    let ended = finished(&mut follow, &call);
    client.wait_turn(turn);
    assert!(ended.output.contains("kept it"), "{}", ended.output);
    let host = fs::read_link("/proc/self/ns/net").unwrap();
    let kept = read(&scene, "net").unwrap();
    assert_ne!(host.display().to_string(), kept.trim());
}

/// A yes to what was tried ends with its turn: the same command in another one is another question.
#[test]
fn what_was_to_be_kept_goes_with_its_turn() {
    let scene = Scene::new("");
    files(&scene);
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    hold_up(&client, conversation);
    client.done::<Answer>(keep(&confirm, &tried));
    client.done::<Cancel>(TurnParams { turn });
    client.wait_turn(turn);
    let layers = layers(&scene, &tried);
    until_true("the layers are gone", || !layers.exists());
    fs::write(scene.world.work().join("go"), "").unwrap();
    scene.model_says(&format!("CMD: {COMMAND}"));
    client.ask(conversation, "again");
    let again = pending(&client, conversation);
    assert_ne!(confirm.request.confirm, again.request.confirm);
    assert_eq!(None, again.tried);
    assert_eq!(None, read(&scene, "made"));
}

/// Of a conversation that is deleted nothing is left of what was tried, and nothing says whose it was that was kept.
#[test]
fn what_was_tried_is_deleted_with_its_conversation() {
    let scene = Scene::new("");
    files(&scene);
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(kept) = try_it(&client, &confirm) else {
        return;
    };
    end(&client, &mut follow, &confirm, keep(&confirm, &kept));
    client.wait_turn(turn);
    scene.model_says("CMD: echo secret > other");
    client.ask(conversation, "again");
    let confirm = pending(&client, conversation);
    let tried = try_it(&client, &confirm).unwrap();
    client.done::<Delete>(ConversationDeleteParams {
        id: conversation,
        confirm_title: "do it".to_owned(),
    });
    let layers = layers(&scene, &tried);
    until_true("the layers are gone", || !layers.exists());
    let changes = ChangesParams {
        changes: tried.changes,
    };
    let gone = client.refused::<Diff>(changes);
    assert!(gone.message.contains("no layers"), "{gone:?}");
    until_true("nothing says whose it was", || {
        let listed = client.done::<List>(Empty {}).kept;
        listed
            .iter()
            .all(|it| it.conversation.is_none() && it.paths.is_empty())
    });
    // The files are the person's, and so is taking back what became of them.
    client.done::<Undo>(ChangesParams {
        changes: kept.changes,
    });
    assert_eq!(None, read(&scene, "made"));
}

#[test]
fn only_who_has_seen_the_question_hears_of_its_trial() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (_, _, confirm) = scene.asked(&client, "CMD: until [ -e go ]; do sleep 0.05; done");
    let params = |digest: &str| TryParams {
        confirm: confirm.request.confirm,
        digest: digest.to_owned(),
    };
    let other = scene.world.client();
    let running = client.send::<Try>(params(&confirm.request.digest));
    let refused = other.refused::<Try>(params(&"0".repeat(64)));
    let expected = ["another trial ends first", "not what was asked about"];
    assert!(
        expected.iter().any(|it| refused.message.contains(it)),
        "{refused:?}"
    );
    // An answer ends it, and who waits for it hears that.
    other.done::<Answer>(with(&confirm, Decision::Deny));
    let ended = client.reply::<Try>(running).unwrap_err();
    assert!(ended.message.contains("it was not tried"), "{ended:?}");
}

/// What a tried command reaches: neither keys, nor aish's own files and socket, nor the network.
#[test]
fn a_trial_sees_no_keys_and_reaches_nobody() {
    let scene = Scene::new("");
    let home = scene.world.path("home");
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id_ed25519"), "SECRET-KEY\n").unwrap();
    fs::write(scene.world.work().join(".env"), "TOKEN=SECRET-TOKEN\n").unwrap();
    let client = scene.world.client();
    let socket = scene.world.socket();
    let state = scene.world.path("state");
    let url = scene.upstream.endpoint();
    let address = url.trim_end_matches("/v1");
    let command = format!(
        "cat {}/.ssh/id_ed25519 .env; ls {}/aish; ls -l {}; (exec 3<>/dev/tcp/127.0.0.1/{}) && echo CONNECTED; find / -name id_ed25519 -exec cat {{}} + 2>/dev/null; true",
        home.display(),
        state.display(),
        socket.display(),
        address.rsplit(':').next().unwrap(),
    );
    let (_, _, confirm) = scene.asked(&client, &format!("CMD: {command}"));
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    let said = &tried.output;
    assert!(
        !said.contains("SECRET") && !said.contains("CONNECTED"),
        "{said}"
    );
    assert!(!said.contains("store"), "{said}");
    assert_eq!(0, tried.changed.count, "{:?}", tried.changed);
}

/// Where that is configured, nobody has to say that it is tried: what it printed and would change stands beside the question.
#[test]
fn a_command_is_tried_before_anybody_looks_where_that_is_configured() {
    let scene = Scene::new("[shell]\ndefault = \"try\"");
    files(&scene);
    let client = scene.world.client();
    let (conversation, _turn, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
    if try_it(&client, &confirm).is_none() {
        return;
    }
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let tried = follow.until(|it| it.read::<CommandTried>().is_some());
    let tried = tried.read::<CommandTried>().unwrap();
    assert_eq!((None, "done\n"), (tried.by.clone(), tried.output.as_str()));
    assert_eq!(3, tried.changed.count);
    assert_eq!(None, read(&scene, "made"));
}

/// What a person chooses becomes real, and the model hears what.
#[test]
fn a_part_of_what_was_tried_is_kept() {
    let scene = Scene::new("");
    files(&scene);
    let client = scene.world.client();
    let (conversation, _turn, confirm) = scene.asked(&client, &format!("CMD: {COMMAND}"));
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    let made = scene.world.work().canonicalize().unwrap().join("made");
    let answer = AnswerParams {
        only: vec![made.display().to_string()],
        ..keep(&confirm, &tried)
    };
    let ended = end(&client, &mut follow, &confirm, answer);
    assert!(
        ended.output.contains("kept only this of it"),
        "{}",
        ended.output
    );
    let real = ["made", "kept", "gone"].map(|it| read(&scene, it));
    let after = [Some("new\n"), Some("one\n"), Some("old\n")].map(|it| it.map(str::to_owned));
    assert_eq!(after, real);
    // What can be taken back is what was kept, and nothing else of it.
    let kept = client.done::<List>(Empty {}).kept;
    let paths: Vec<&[String]> = kept.iter().map(|it| &*it.paths).collect();
    assert_eq!(vec![[made.display().to_string()].as_slice()], paths);
}
