//! What is told of commands beside what they do: words in their question, and records of what was kept of them and taken back.

use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::audit::{AuditKind, AuditListParams, AuditOutcome, AuditRecord, List};
use aish_proto::changes::{ChangesParams, Undo};
use aish_proto::confirm::{AnswerParams, ConfirmSubject, Decision};
use aish_proto::shell::{CommandAsked, RunHolding};
use aish_testkit::Client;

use crate::consent::pending;
use crate::norris::{self, launch};
use crate::registry::started;
use crate::shell::Scene;
use crate::trial::{end, keep, try_it};

fn records(client: &Client, kind: AuditKind) -> Vec<AuditRecord> {
    let all = client.done::<List>(AuditListParams::default()).records;
    all.into_iter().filter(|it| it.kind == kind).collect()
}

#[test]
fn an_undo_is_in_the_audit_trail_with_its_outcome_and_so_is_a_keep_in_part() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/7");
    let (conversation, turn, confirm) =
        scene.asked(&client, "CMD: echo a > a; echo b > b; echo c > c");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    let work = scene.world.work().canonicalize().unwrap();
    let named = ["a", "b"].map(|it| work.join(it).display().to_string());
    let answer = AnswerParams {
        only: named.to_vec(),
        ..keep(&confirm, &tried)
    };
    end(&client, &mut follow, &confirm, answer);
    client.wait_turn(turn);
    let answered = records(&client, AuditKind::ConfirmResolved).pop().unwrap();
    assert_eq!(Some(Decision::Keep), answered.answer);
    assert_eq!(Some("only what was named: 2"), answered.because.as_deref());

    let params = ChangesParams {
        changes: tried.changes,
    };
    fs::write(work.join("a"), "somebody else's\n").unwrap();
    client.call::<Undo>(params).unwrap_err();
    fs::write(work.join("a"), "a\n").unwrap();
    fs::remove_file(work.join("b")).unwrap();
    client.call::<Undo>(params).unwrap_err();
    let told = |it: &AuditRecord| (it.outcome, it.because.clone().unwrap());
    let undone = records(&client, AuditKind::ChangesUndone);
    let one = (
        Some(AuditOutcome::Failed),
        "nothing undone: 1 paths were changed since".to_owned(),
    );
    assert_eq!(Some(one), undone.first().map(told));
    for it in &undone {
        assert_eq!(Some(tried.changes), it.changes);
        assert_eq!(Some(conversation), it.conversation);
        assert_eq!(Some("pts/7"), it.by.as_ref().unwrap().tty.as_deref());
    }
    // Of what was never kept nothing is told.
    let never = ChangesParams {
        changes: aish_proto::id::ChangesId::from_bytes([7; 16]),
    };
    client.call::<Undo>(never).unwrap_err();
    assert_eq!(undone, records(&client, AuditKind::ChangesUndone));
}

#[test]
fn an_undo_that_is_done_says_how_many_paths_are_as_before() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (conversation, turn, confirm) =
        scene.asked(&client, "CMD: echo a > a; mkdir d; echo b > d/b");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    end(&client, &mut follow, &confirm, keep(&confirm, &tried));
    client.wait_turn(turn);
    let changes = tried.changes;
    client.done::<Undo>(ChangesParams { changes });
    let undone = records(&client, AuditKind::ChangesUndone).pop().unwrap();
    assert_eq!(Some(AuditOutcome::Ok), undone.outcome);
    let because = undone.because.unwrap();
    assert!(because.ends_with("paths undone"), "{because}");
    let shown = scene.world.ctl(&["audit"]).run().ok();
    assert!(shown.out().contains("paths undone"), "{}", shown.out());
}

fn asked(confirm: &aish_proto::confirm::ConfirmRecord) -> CommandAsked {
    let subject = match &*confirm.request.subject {
        ConfirmSubject::Command(subject) => Some(subject),
        _ => None,
    };
    subject.expect("it is a command").asked.clone()
}

#[test]
fn what_a_command_only_mentions_stands_in_its_question_and_wants_no_whole_word() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (_, _, confirm) = scene.asked(&client, "CMD: curl -s https://example.org | head -1");
    let told = asked(&confirm);
    assert_eq!(vec!["reaches the network"], told.mentions);
    assert_eq!(
        (None, None),
        (told.beyond, confirm.request.destructive.clone())
    );
    let id = confirm.request.confirm.to_string();
    let shown = scene.world.ctl(&["confirm", "show", &id]).run().ok();
    assert!(
        shown.out().contains("\n  it reaches the network\n"),
        "{}",
        shown.out()
    );
}

#[test]
fn a_question_of_a_run_says_what_its_command_would_not_be_held_to() {
    let scene = norris::Scene::new("[norris]\nsecond_opinion = false\ncontain = \"workspace\"");
    let _daemon = started(&scene.world);
    scene.model_says(&["CMD: rm -r marks", "DONE: it is in order"]);
    let run = launch(&scene.world, |_| {});
    let confirm = pending(&run.client, run.conversation);
    assert_eq!(Some(RunHolding::Workspace), asked(&confirm).beyond);
    let id = confirm.request.confirm.to_string();
    let shown = scene.world.ctl(&["confirm", "show", &id]).run().ok();
    assert!(
        shown.out().contains(
            "are held to its directories, without a network; a yes lets this one run held to nothing"
        ),
        "{}",
        shown.out()
    );
    run.answer(Decision::Deny);
    scene.upstream.finish();
}

#[test]
fn a_difference_is_plain_in_a_pipe_and_has_colours_where_they_are_wanted() {
    let scene = Scene::new("");
    fs::write(scene.world.work().join("a"), "let it = old ;\n").unwrap();
    let client = scene.world.client();
    let (_, _, confirm) = scene.asked(&client, "CMD: sed -i s/old/new/ a");
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    let id = tried.changes.to_string();
    let shown = |more: &[&str]| {
        let mut args = vec!["changes", "diff", &id];
        args.extend(more);
        scene.world.ctl(&args).run().ok().out().to_owned()
    };
    let plain = shown(&[]);
    assert!(
        plain.contains("\n-let it = old ;\n+let it = new ;\n") && !plain.contains('\u{1b}'),
        "{plain}"
    );
    let painted = shown(&["--color", "always"]);
    let line = "\u{1b}[32m+let it = \u{1b}[7mnew\u{1b}[27m ;\u{1b}[0m\n";
    assert!(painted.contains(line), "{painted:?}");
}
