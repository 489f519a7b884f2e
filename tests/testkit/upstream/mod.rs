//! A scripted model server on loopback, speaking real HTTP/1.1, which also examines every request it gets:
//! a body that a strict server would reject fails the test, whatever the test was about.

pub mod answer;
mod examine;
pub mod gate;
mod http;
mod serve;
pub mod speech;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use std::{fmt, thread};

use answer::Answer;
use serde_json::Value;
use speech::Api;

use crate::wait::{PATIENCE, until_true};

/// One request for an answer, as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The dialect that it is in.
    pub api: Api,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(it, _)| it.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body; null when it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Role and text of each message, whatever the dialect.
    pub fn messages(&self) -> Vec<(String, String)> {
        let text = |it: &Value| it.as_str().map_or_else(|| speech::texts(it), str::to_owned);
        let body = speech::as_chat(self.api, &self.json());
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        messages
            .iter()
            .map(|it| (text(&it["role"]), text(&it["content"])))
            .collect()
    }

    /// Text of the last user message.
    pub fn question(&self) -> String {
        let messages = self.messages();
        let last = messages.into_iter().rfind(|(role, _)| role == "user");
        last.map(|(_, text)| text).unwrap_or_default()
    }
}

type Script = Box<dyn FnMut(&Request) -> Answer + Send>;

struct State {
    queue: VecDeque<Answer>,
    script: Option<Script>,
    models: Vec<String>,
    /// The header without which the list of models is refused.
    models_want: Option<&'static str>,
    secrets: Vec<String>,
    requests: Vec<Request>,
    probes: usize,
    hung_up: usize,
    violations: Vec<String>,
    closing: bool,
}

/// What the threads of one server share.
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A script that panicked has failed its test already.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The server. It ends with the value; requests that broke a rule fail the test then, or at [`Upstream::finish`].
pub struct Upstream {
    address: SocketAddr,
    desk: Arc<Desk>,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// A server that answers `Hello from the model.` until it is told otherwise.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().unwrap();
        let desk = Arc::new(Desk {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                script: None,
                models: vec!["test-model".to_owned()],
                models_want: None,
                secrets: vec![],
                requests: vec![],
                probes: 0,
                hung_up: 0,
                violations: vec![],
                closing: false,
            }),
            changed: Condvar::new(),
        });
        let shared = Arc::clone(&desk);
        thread::spawn(move || serve::accept(&listener, &shared));
        Self { address, desk }
    }

    /// A base URL where nobody listens, so that a connection is refused.
    pub fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        format!("http://{}/v1", listener.local_addr().unwrap())
    }

    /// The base URL, as a preset has it.
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// A configuration whose default preset, of this name, is this server.
    pub fn config(&self, name: &str) -> String {
        format!("default_model = \"{name}\"\n\n{}", self.preset(name, ""))
    }

    /// The table of one preset; `more` are further lines of it.
    pub fn preset(&self, name: &str, more: &str) -> String {
        let endpoint = self.endpoint();
        format!("[models.{name}]\nendpoint = \"{endpoint}\"\nmodel = \"test-model\"\n{more}\n")
    }

    /// Answers one more request with this, after those that were put before.
    pub fn answer(&self, answer: Answer) {
        self.desk.lock().queue.push_back(answer);
    }

    /// Answers with what the closure says, whenever no answer is queued.
    pub fn answer_with(&self, script: impl FnMut(&Request) -> Answer + Send + 'static) {
        self.desk.lock().script = Some(Box::new(script));
    }

    /// The ids that `GET /v1/models` lists.
    pub fn models(&self, ids: &[&str]) {
        self.desk.lock().models = ids.iter().map(|it| (*it).to_owned()).collect();
    }

    /// `GET /v1/models` is answered with 401 from now on, unless it has this header.
    pub fn models_want(&self, header: &'static str) {
        self.desk.lock().models_want = Some(header);
    }

    /// Text that must not be in any body. The bearer token of a request never may.
    pub fn secret(&self, text: &str) {
        self.desk.lock().secrets.push(text.to_owned());
    }

    /// The requests so far, without those of a probe.
    pub fn requests(&self) -> Vec<Request> {
        self.desk.lock().requests.clone()
    }

    /// Waits until there are this many requests, and returns the last of them.
    #[track_caller]
    pub fn wait_requests(&self, count: usize) -> Request {
        until_true(&format!("request {count} of the upstream"), || {
            self.desk.lock().requests.len() >= count
        });
        self.desk.lock().requests[count - 1].clone()
    }

    /// One-token questions of a daemon that looks for a model.
    pub fn probes(&self) -> usize {
        self.desk.lock().probes
    }

    /// Answers that the other side did not wait for.
    pub fn hang_ups(&self) -> usize {
        self.desk.lock().hung_up
    }

    #[track_caller]
    pub fn wait_hang_ups(&self, count: usize) {
        let mut state = self.desk.lock();
        let deadline = std::time::Instant::now() + PATIENCE;
        while state.hung_up < count {
            let left = crate::wait::left(deadline)
                .unwrap_or_else(|| panic!("waited in vain for hang-up {count}"));
            let waited = self.desk.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// The rules that requests broke so far; they fail no test any more.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.desk.lock().violations)
    }

    /// Ends it, and fails the test when a request broke a rule.
    #[track_caller]
    pub fn finish(self) {
        let broken = self.take_violations();
        assert!(broken.is_empty(), "{}", complaint(&broken));
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.desk.lock().closing = true;
        self.desk.changed.notify_all();
        // Wakes the accepting thread, which then ends.
        drop(std::net::TcpStream::connect_timeout(
            &self.address,
            Duration::from_secs(1),
        ));
        let broken = self.take_violations();
        if !thread::panicking() {
            assert!(broken.is_empty(), "{}", complaint(&broken));
        }
    }
}

fn complaint(broken: &[String]) -> String {
    format!(
        "the upstream was sent what strict servers reject:\n{}",
        broken.join("\n")
    )
}

#[cfg(test)]
mod tests;
