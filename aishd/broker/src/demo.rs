//! The built-in responder: a script that shows how aish works where no model is. It says every time what it is.

use std::time::Duration;

use aishd_log::tool_call::ToolCall;
use aishd_model::reply::{Delta, FinishReason, Reply};
use serde_json::{Map, Value};
use tokio::time::sleep;

/// Pauses make the streaming visible; all of them together stay below 0.3 s.
const PAUSES: usize = 20;
const PAUSE: Duration = Duration::from_millis(8);
const QUOTED_WORDS: usize = 12;
/// The call that it proposes.
const TOOL: &str = "aish__time";
const PROPOSAL: &str = "I am aish's demo responder: a script, not a model.\n\nYou asked for it, so I propose a harmless \
call of a tool: what time it is.\n";
const COMMAND: &str = "I am aish's demo responder: a script, not a model.\n\nYou asked for it, so I propose a harmless \
command. It runs only if you say so:\n\nCMD: date\n";
const RUN: &str = "That is what the command printed. A real model would go on with it.\n";
const QUOTED_CHARS: usize = 120;

pub(super) async fn answer(
    body: &str,
    arrived: &mut Reply,
    mut sink: impl FnMut(Delta<'_>) + Send,
) -> Reply {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let question = question(&body);
    let proposed = proposed(&body, &question);
    let text = match (&proposed, result(&body)) {
        (Some(_), _) => PROPOSAL.to_owned(),
        (None, None) if was_run(&question) => RUN.to_owned(),
        (None, None) if wants_command(&body, &question) => COMMAND.to_owned(),
        (None, Some(result)) => conclusion(result),
        (None, None) => script(&question),
    };
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    let every = words.len().div_ceil(PAUSES).max(1);
    for (position, word) in words.iter().enumerate() {
        arrived.text.push_str(word);
        sink(Delta::Text(word));
        if position % every == 0 {
            sleep(PAUSE).await;
        }
    }
    Reply {
        text: std::mem::take(&mut arrived.text),
        finish: Some(FinishReason::Stop),
        calls: proposed.into_iter().collect(),
        ..Reply::default()
    }
}

/// A harmless call, for who asks to see one: what time it is.
fn proposed(body: &Value, question: &str) -> Option<ToolCall> {
    let wanted = ["tool", "confirm", "time"];
    let question = question.to_lowercase();
    let asked = wanted.iter().any(|it| question.contains(it));
    if !asked || last_role(body) != Some("user") {
        return None;
    }
    let tools = body.get("tools")?.as_array()?;
    let offered = |it: &Value| it.pointer("/function/name").and_then(Value::as_str) == Some(TOOL);
    tools.iter().any(offered).then(|| ToolCall {
        id: "demo_1".to_owned(),
        name: TOOL.to_owned(),
        arguments: "{}".to_owned(),
        broken: None,
        extra: Map::new(),
    })
}

/// Somebody asks to see a command. What stands before the question are outputs of earlier ones.
fn wants_command(body: &Value, question: &str) -> bool {
    let asked = question.rsplit("\n\n").next().unwrap_or_default();
    let asked = asked.to_lowercase();
    let wanted = ["command", "shell", "date"];
    wanted.iter().any(|it| asked.contains(it)) && last_role(body) == Some("user")
}

/// The output of a command was given back at once, and nobody has asked anything.
fn was_run(question: &str) -> bool {
    let ends = ["```", "printed nothing"];
    question.starts_with("[aish] ") && ends.iter().any(|it| question.ends_with(it))
}

/// What the call came to.
fn result(body: &Value) -> Option<&str> {
    let last = body.get("messages")?.as_array()?.last()?;
    let content = last.get("content")?.as_str()?;
    (last_role(body) == Some("tool")).then_some(content)
}

fn last_role(body: &Value) -> Option<&str> {
    let last = body.get("messages")?.as_array()?.last()?;
    last.get("role")?.as_str()
}

fn conclusion(result: &str) -> String {
    let shown = quoted(result);
    format!(
        "The tool said: “{shown}”\n\
         \n\
         That is all there is to it, with a real model too: it proposes a call, you see exactly what would run, and \
         nothing runs unless you say so. The question waits for you, over a restart too, and can be answered from any \
         terminal: `aishctl confirm ls`.\n"
    )
}

/// The last message of the user in a request body, whether its content is a text or a list of parts.
fn question(body: &Value) -> String {
    let last = body
        .get("messages")
        .and_then(Value::as_array)
        .and_then(|messages| {
            messages
                .iter()
                .rfind(|message| message.get("role").and_then(Value::as_str) == Some("user"))
        })
        .and_then(|message| message.get("content"));
    match last {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join(" "),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            String::new()
        }
    }
}

fn script(question: &str) -> String {
    let asked = match quoted(question) {
        words if words.is_empty() => "You asked nothing that I can quote.".to_owned(),
        words => format!("You asked: “{words}”"),
    };
    format!(
        "I am aish's demo responder: a script, not a model.\n\
         \n\
         {asked}\n\
         \n\
         I cannot answer that, but everything around it is real:\n\
         \n\
         - your question is **stored**: it survives a restart of the daemon and of this machine\n\
         - this answer is **streamed** to every terminal that is attached to this conversation; try `aishctl attach` in a second one\n\
         - when a server fails or is slow, the turn ends with what arrived and says why\n\
         - nothing runs that you did not allow: ask me to *show a tool* or to *propose a command* and see\n\
         \n\
         To get answers from a model, do one of these and ask again:\n\
         \n\
         1. start a local server: `ollama serve`, or `llama-server -m MODEL.gguf`; aish finds it by itself\n\
         2. `aishctl model add`: choose a provider, give the key, and it is tried at once\n\
         3. or write it into `~/.config/aish/config.toml` yourself:\n\
         \n\
         ```toml\n\
         default_model = \"fast\"\n\
         \n\
         [models.fast]\n\
         endpoint = \"http://127.0.0.1:11434/v1\"\n\
         model = \"qwen2.5-coder:1.5b\"\n\
         ```\n"
    )
}

/// The first words, as one line that closes no quotation and starts no Markdown.
fn quoted(question: &str) -> String {
    let mut words = question.split_whitespace();
    let mut quoted = words
        .by_ref()
        .take(QUOTED_WORDS)
        .collect::<Vec<_>>()
        .join(" ");
    let mut more = words.next().is_some();
    if let Some((end, _)) = quoted.char_indices().nth(QUOTED_CHARS) {
        quoted.truncate(end);
        more = true;
    }
    quoted.retain(|c| !c.is_control() && !matches!(c, '`' | '*' | '_' | '“' | '”' | '<' | '#'));
    if more {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(body: &str) -> (Reply, Vec<String>, Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let started = tokio::time::Instant::now();
            let mut words = Vec::new();
            let mut arrived = Reply::default();
            let reply = answer(body, &mut arrived, |delta| {
                let Delta::Text(text) = delta else {
                    panic!("{delta:?}")
                };
                words.push(text.to_owned());
            })
            .await;
            (reply, words, started.elapsed())
        })
    }

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let (reply, words, took) = ask(body);
        let lines: Vec<&str> = reply.text.lines().collect();
        assert_eq!(
            "I am aish's demo responder: a script, not a model.",
            lines[0]
        );
        assert_eq!(expected, lines[2]);
        assert_eq!(reply.text, words.concat());
        assert!(words.len() > 50, "{}", words.len());
        assert!(took < Duration::from_millis(300), "{took:?}");
        assert!(!reply.text.contains("CMD:"));
        assert_eq!((reply, words), (ask(body).0, ask(body).1));
    }

    #[test]
    fn it_proposes_a_call_to_who_asks_for_one_and_says_what_came_of_it() {
        let tools = r#""tools":[{"type":"function","function":{"name":"aish__time"}}]"#;
        let asked = r#"{"role":"user","content":"show me a tool"}"#;
        let (reply, _, _) = ask(&format!(r#"{{"messages":[{asked}],{tools}}}"#));
        assert_eq!("aish__time", reply.calls[0].name);
        let (without, _, _) = ask(&format!(r#"{{"messages":[{asked}]}}"#));
        assert!(without.calls.is_empty());
        let said = r#"{"role":"tool","tool_call_id":"demo_1","content":"Friday 12:00"}"#;
        let (reply, _, _) = ask(&format!(r#"{{"messages":[{asked},{said}],{tools}}}"#));
        assert!(reply.calls.is_empty() && reply.text.starts_with("The tool said: “Friday 12:00”"));
    }

    #[test]
    fn it_says_what_it_is_and_what_it_was_asked() {
        check(
            r#"{"messages":[{"role":"user","content":"old"},{"role":"assistant","content":"x"},{"role":"user","content":"what is\nthe largest file?"}]}"#,
            "You asked: “what is the largest file?”",
        );
        check(
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a b c d e f g h i j k l m"}]}]}"#,
            "You asked: “a b c d e f g h i j k l…”",
        );
        check("no json", "You asked nothing that I can quote.");
    }
}
