//! Programs of manifests that do not keep to the contract: each failure has its own words, and no process is
//! left of any.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aish_testkit::World;
use aish_testkit::wait::until;
use aishd_config::manifest;
use aishd_config::source::{ConfigOrigin, FileExposure, SourceText};
use aishd_process::Children;
use aishd_profile::ProfileGround;
use aishd_rules::registry::Manifest;
use aishd_tools::registry::{CallContext, CallPlace, ManifestRunner, RunnerJob, RunnerServices};
use aishd_tools::{CallProgress, ToolOutput};

/// What the kernel and a busy machine need to take away what was killed.
const ALL_GONE: Duration = Duration::from_secs(6);

fn runner(world: &World) -> ManifestRunner {
    let text = |it: std::ffi::OsString| it.into_string().unwrap();
    let base: BTreeMap<String, String> = world
        .env()
        .into_iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect();
    ManifestRunner::new(RunnerServices {
        profiles: ProfileGround::plain(Children::behind(
            PathBuf::from(env!("CARGO_BIN_EXE_aishd")),
            base,
        )),
        folder: world.path("state/tools"),
        environment: Box::new(|name| (name == "TOKEN").then(|| "s3same".to_owned())),
        learn: Box::new(|_| {}),
        redact: Box::new(|text| text.replace("s3same", "[key]")),
    })
}

fn read(world: &World, text: &str) -> Arc<Manifest> {
    let file = world.path("config/aish/tools/t.toml");
    let source = SourceText::new(
        ConfigOrigin::File(file.clone()),
        FileExposure::Private,
        text.to_owned(),
    );
    let find = |name: &str| Some(PathBuf::from("/bin").join(name));
    let read = manifest::read(&source, &file, &find);
    let faults: Vec<String> = read.faults.iter().map(|it| it.line()).collect();
    assert_eq!(Vec::<String>::new(), faults);
    Arc::new(read.manifest.unwrap())
}

/// What came of one call of this shell script.
fn run(world: &World, script: &str, more: &str) -> ToolOutput {
    world.write("config/aish/tools/t.sh", script);
    let manifest = read(
        world,
        &format!(
            "name = \"t\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"t.sh\"\nenv = {{ KEY = \"${{TOKEN}}\" }}\n\
             {more}\n[[capability]]\nname = \"go\"\n"
        ),
    );
    let job = RunnerJob {
        capability: manifest.capabilities[0].clone(),
        manifest,
        arguments: serde_json::from_str("{\"a\": \"b\"}").unwrap(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let place = CallPlace {
        cwd: world.work().display().to_string(),
        roots: vec![world.work()],
    };
    let output =
        runtime.block_on(async { runner(world).run(&job, &place, &CallContext::new()).await });
    runtime.shutdown_background();
    output
}

#[track_caller]
fn fails(world: &World, script: &str, more: &str, expected: &str) {
    let output = run(world, script, more);
    let expected = format!("[aish] tool t failed: {expected}");
    assert_eq!(
        (expected, CallProgress::Failed, false),
        (output.text, output.way, output.ok),
        "{script}"
    );
    let left = || world.running("sleep").is_empty().then_some(());
    until(&format!("the end of {script:?}"), ALL_GONE, left);
}

#[track_caller]
fn says(world: &World, script: &str, more: &str, expected: &str) {
    let output = run(world, script, more);
    assert_eq!(
        (expected, true),
        (output.text.as_str(), output.ok),
        "{script}"
    );
}

#[test]
fn a_program_is_told_one_line_and_answers_with_one() {
    let world = World::new();
    says(&world, "cat", "", r#"{"arguments":{"a":"b"}}"#);
    says(
        &world,
        "echo \"\\\"$AISH_CAPABILITY $KEY\\\"\"",
        "",
        "\"go s3same\"",
    );
    says(
        &world,
        "set -- $(ls -A | wc -l) $(pwd | grep -c /state/tools/calls/); echo [$1,$2]",
        "",
        "[0,1]",
    );
    let work = format!("\"{}\"", world.work().display());
    says(
        &world,
        "echo \"\\\"$(pwd)\\\"\"",
        "cwd = \"conversation\"",
        &work,
    );
    says(&world, "echo 1; exec >&-; setsid sleep 7777 &", "", "1");
    let output = run(&world, "echo 7; exit 4", "");
    assert_eq!(
        ("7", false, CallProgress::Answered),
        (output.text.as_str(), output.ok, output.way)
    );
    let left = std::fs::read_dir(world.path("state/tools/calls")).unwrap();
    assert_eq!(0, left.count(), "directories of calls");
}

#[test]
fn every_way_to_fail_has_its_own_words() {
    let world = World::new();
    fails(&world, ":", "", "it printed nothing");
    fails(
        &world,
        "echo 1; echo 2",
        "",
        "it printed more than one line",
    );
    fails(
        &world,
        "printf '\"\\377\"'",
        "",
        "its output is no UTF-8 at byte 1",
    );
    fails(
        &world,
        "echo '{'",
        "",
        "its output is no JSON: EOF while parsing an object at line 1 column 1",
    );
    fails(
        &world,
        "echo one >&2; echo token $KEY >&2; exit 3",
        "",
        "it ended with exit status 3; it said: one | token [key]",
    );
    fails(&world, "kill -KILL $$", "", "it was killed by signal 9");
}

#[test]
fn whatever_it_forks_is_ended_and_an_answer_counts_all_the_same() {
    let world = World::new();
    let many = "i=0; while [ $i -lt 50 ]; do sleep 7777 & i=$((i+1)); done";
    let soon = "limits = { timeout = \"2s\" }";
    fails(
        &world,
        &format!("{many}; setsid sh -c 'trap \"\" TERM; sleep 7777' & exit 3"),
        soon,
        "it ended with exit status 3",
    );
    let gone = || world.running("sleep").is_empty().then_some(());
    says(
        &world,
        &format!("exec 2>/dev/null; {many} >/dev/null; echo 5"),
        soon,
        "5",
    );
    until("the end of what it forked", ALL_GONE, gone);
    // The end of its output is not waited for when it has ended itself.
    says(&world, "echo 1; sleep 7777 & exit 0", soon, "1");
    until("the end of what it forked", ALL_GONE, gone);
    fails(
        &world,
        "head -c 1073741824 /dev/zero | tr '\\0' x",
        "limits = { output_bytes = 10000000 }",
        "it printed more than 10000000 bytes",
    );
    fails(&world, "printf '\\n\\n'", "", "it printed nothing");
    fails(
        &world,
        "printf '{}\\n\\n{}'",
        "",
        "it printed more than one line",
    );
}

#[test]
fn what_never_ends_or_never_stops_printing_is_ended_with_all_that_it_started() {
    let world = World::new();
    let soon = "limits = { timeout = \"400ms\" }";
    fails(
        &world,
        "sleep 7777",
        soon,
        "it was ended after 400 ms, its timeout",
    );
    fails(
        &world,
        "trap '' TERM; setsid sleep 7777 & (setsid sh -c 'sleep 7777 & sleep 7777 &' &); sleep 7777",
        soon,
        "it was ended after 400 ms, its timeout",
    );
    fails(
        &world,
        "head -c 1073741824 /dev/zero; sleep 7777",
        "",
        "it printed more than 1048576 bytes",
    );
    fails(
        &world,
        "trap '' PIPE; while :; do echo 12345678; done",
        "limits = { output_bytes = 1000 }",
        "it printed more than 1000 bytes",
    );
}

#[test]
fn memory_is_limited_where_that_is_said() {
    let world = World::new();
    let script = "exec python3 -c 'import time; time.sleep(0.3); x = bytearray(1 << 30); print(1)'";
    says(&world, script, "", "1");
    let output = run(&world, script, "limits = { memory_bytes = 268435456 }");
    assert!(output.text.contains("MemoryError"), "{}", output.text);
}
