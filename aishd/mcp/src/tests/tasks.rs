//! Calls that their servers go on with by themselves, in both forms that there are.

use aishd_log::server_task::{ServerTask, TaskForm};

use super::*;
use crate::call_listener::BegunTask;

async fn tasks(limits: SessionLimits, people: People) -> Bench {
    let server = serve("tasks", 0);
    let endpoint = ServerEndpoint::Http(url(server.port));
    let mut bench = Bench::with(endpoint, limits, people).await;
    bench.server = Some(server);
    bench.ready().await;
    bench
}

impl Bench {
    async fn task_methods(&self) -> Vec<String> {
        let sent = self.sent().await.into_iter();
        let sent = sent.map(|(method, ..)| method);
        sent.filter(|it| it != "tasks/get" && (it.starts_with("tasks/") || it == "tools/call"))
            .collect()
    }

    async fn finish(&self) {
        let port = self.server.as_ref().unwrap().port;
        let finish = format!("http://127.0.0.1:{port}/finish");
        reqwest::get(finish).await.unwrap();
    }
}

#[tokio::test]
async fn a_call_that_becomes_a_task_is_asked_for_until_it_is_over() {
    let bench = tasks(limits(), People::None).await;
    for (tool, expected) in [
        ("sudden", "done after 1"),
        ("wrong", "error result: no such city"),
        ("breaks", "dispatch failed: API rate limit exceeded"),
        ("drops", "done after 3"),
        (
            "stops",
            "transport error: MCP server a, task t5: its server says that it was cancelled: out of money",
        ),
        (
            "lost",
            "transport error: MCP server a, task t6: Failed to retrieve task: Task has expired",
        ),
        (
            "nests",
            "transport error: MCP server a, task t7: its result is of the type \"task\"",
        ),
        (
            "nameless",
            "transport error: MCP server a: the answer is not understood: a task without an id that could be sent again",
        ),
    ] {
        assert_eq!(expected, bench.call(tool).await, "{tool}");
    }
    // Each was called once, whatever became of it.
    assert_eq!(vec!["tools/call"; 8], bench.task_methods().await);
}

/// What is known of it is shown once, and kept before it is asked for.
#[tokio::test]
async fn a_task_is_kept_and_says_how_it_does() {
    let bench = tasks(limits(), People::None).await;
    let approved = approved(&bench.hub, &"a__long".parse().unwrap());
    let (notes, mut noted_here) = mpsc::channel(64);
    let (begun, mut kept) = mpsc::channel::<BegunTask>(1);
    let ears = CallListener {
        tasks: Some(begun),
        ..hears(notes)
    };
    let never = CancellationToken::new();
    let call = bench
        .hub
        .call(approved, serde_json::Map::new(), ears, &never);
    let keeping = async {
        let begun = kept.recv().await.unwrap();
        let asked = bench.sent().await;
        assert!(!asked.iter().any(|(method, ..)| method == "tasks/get"));
        begun.kept.send(()).unwrap();
        while bench
            .sent()
            .await
            .iter()
            .filter(|it| it.0 == "tasks/get")
            .count()
            < 3
        {
            tokio::task::yield_now().await;
        }
        bench.finish().await;
        begun.task
    };
    let (outcome, task) = tokio::join!(call, keeping);
    assert_eq!("t1", task.id);
    assert!(said(outcome).starts_with("done after "));
    let seen = noted(&mut noted_here);
    assert_eq!(vec!["status: begun", "status: still at it"], seen);
    // Another life of the daemon asks for the same, and calls nothing.
    let followed = bench
        .hub
        .follow(&alias(), task.clone(), CallListener::default(), &never)
        .await;
    assert!(said(followed).starts_with("done after "));
    assert_eq!(vec!["tools/call"], bench.task_methods().await);
    // Who has its server's name by now is not asked.
    let other = ServerTask::new("t1", TaskForm::Extension, "another").unwrap();
    let followed = bench
        .hub
        .follow(&alias(), other, CallListener::default(), &never)
        .await;
    let expected = "transport error: MCP server a, task t1: a is another MCP server by now";
    assert_eq!(expected, said(followed));
}

#[tokio::test]
async fn a_task_is_called_off_with_its_call_and_not_when_the_daemon_leaves() {
    for leaves in [false, true] {
        let bench = tasks(limits(), People::None).await;
        let approved = approved(&bench.hub, &"a__long".parse().unwrap());
        let (notes, mut noted_here) = mpsc::channel(64);
        let ears = hears(notes);
        let (leaving, cancel) = (ears.leaving.clone(), CancellationToken::new());
        let call = bench
            .hub
            .call(approved, serde_json::Map::new(), ears, &cancel);
        let cancelling = async {
            noted_here.recv().await.unwrap();
            if leaves {
                leaving.cancel();
            }
            cancel.cancel();
        };
        assert_eq!("cancelled", said(tokio::join!(call, cancelling).0));
        let expected = if leaves {
            vec!["tools/call"]
        } else {
            vec!["tools/call", "tasks/cancel"]
        };
        let told = async {
            while bench.task_methods().await.len() < expected.len() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.unwrap();
        // Whatever is said beside the call was asked of the session before this.
        assert_eq!("done after 1", bench.call("sudden").await);
        let expected = [expected, vec!["tools/call"]].concat();
        assert_eq!(expected, bench.task_methods().await);
        bench.hub.stop().await;
        assert_eq!(expected, bench.task_methods().await);
    }
}

/// A person is asked once, however often the server says that it waits; and not without end.
#[tokio::test]
async fn what_a_task_wants_to_know_is_asked_and_told() {
    let mut bench = tasks(limits(), People::Some).await;
    let mut asked = bench.elicitations.take().unwrap();
    let mut people = JoinSet::new();
    people.spawn(async move {
        let mut count = 0;
        while let Some(form) = asked.recv().await {
            count += 1;
            let name = json!({"name": "Ada"});
            let name = name.as_object().unwrap().clone();
            let _gone = form.answer.send(ElicitationAnswer::Accepted(name));
        }
        count
    });
    let hello = "hello {'action': 'accept', 'content': {'name': 'Ada'}}";
    assert_eq!(hello, bench.call("asks").await);
    let methods = bench.task_methods().await;
    assert_eq!(vec!["tools/call", "tasks/update"], methods);
    let expected = "transport error: MCP server a, task t2: it wants to know too much";
    assert_eq!(expected, bench.call("prying").await);
    // An answer that is refused is sent again while it is asked for, a few times; nobody is asked anew.
    let expected = "transport error: MCP server a, task t3: it refuses an answer that it asks for: not that name";
    assert_eq!(expected, bench.call("picky").await);
    let sent = bench.sent().await.into_iter();
    let updates =
        sent.filter(|(method, _, params)| method == "tasks/update" && params["taskId"] == "t3");
    assert_eq!(1 + 3, updates.count());
    bench.hub.stop().await;
    drop(bench);
    assert_eq!(1 + 64 + 1, people.join_next().await.unwrap().unwrap());
}

#[tokio::test]
async fn a_task_ends_when_its_time_is_over() {
    let limits = SessionLimits {
        longest_task: Duration::from_secs(1),
        ..limits()
    };
    let bench = tasks(limits, People::None).await;
    let expected =
        "transport error: MCP server a, task t1: it took longer than mcp.task_timeout, 1 s";
    assert_eq!(expected, bench.call("long").await);
    let told = async {
        while bench.task_methods().await.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert_eq!(
        vec!["tools/call", "tasks/cancel"],
        bench.task_methods().await
    );
}

/// In 2025-11-25 it is the client that asks for one, and only where a tool is called in no other way.
#[tokio::test]
async fn the_experimental_form_is_spoken_where_a_tool_has_no_other() {
    let bench = Bench::http("old_tasks").await;
    assert_eq!("2025-11-25", bench.ready().await.about.protocol);
    assert_eq!("all of it", bench.call("research").await);
    assert_eq!("at once", bench.call("maybe").await);
    let methods = bench.task_methods().await;
    assert_eq!(vec!["tools/call", "tasks/result", "tools/call"], methods);
}

/// A call whose result is refused failed only where its server says so; otherwise it may have done its work.
#[tokio::test]
async fn a_result_that_is_refused_is_no_failure_of_a_call_that_was_done() {
    let bench = Bench::http("old_tasks").await;
    bench.ready().await;
    for (tool, expected) in [
        ("fails", "dispatch failed: no such city"),
        (
            "gone",
            "transport error: MCP server a, task t2: it is done, and its result is refused: Task result was dropped",
        ),
        ("waits", "all of it"),
    ] {
        assert_eq!(expected, bench.call(tool).await, "{tool}");
    }
    let methods = bench.task_methods().await;
    let calls = methods.iter().filter(|it| *it == "tools/call");
    assert_eq!(3, calls.count());
    let results = methods.iter().filter(|it| *it == "tasks/result");
    // The last is asked for while the task waits, and once more when it is done.
    assert!(results.count() >= 4, "{methods:?}");
}
