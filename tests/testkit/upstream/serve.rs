//! The threads of the upstream: one that accepts, one for each connection, and one for each answer that
//! watches whether the other side hangs up.

use std::cell::RefCell;
use std::io::{self, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_linger, socket_linger};
use serde_json::{Value, json};

use super::answer::{Answer, Head, Step, choice};
use super::gate::{Next, Piece};
use super::http::{self, Message};
use super::speech::{Api, Counted, Speech};
use super::{Desk, Request, examine};
use crate::surroundings;
use crate::wait::left;

/// How often a thread that waits looks whether the test is over.
const GLANCE: Duration = Duration::from_millis(100);

pub(super) fn accept(listener: &TcpListener, desk: &Arc<Desk>) {
    for stream in listener.incoming() {
        if desk.lock().closing {
            return;
        }
        let Ok(stream) = stream else { continue };
        let desk = Arc::clone(desk);
        thread::spawn(move || {
            // The other side may go away at any time; that is no fault of the test.
            drop(converse(&stream, &desk));
            // A connection that is to be reset says no goodbye; its watcher must let go of it all the same.
            let resets = socket_linger(&stream) == Ok(Some(Duration::ZERO));
            let how = if resets {
                Shutdown::Read
            } else {
                Shutdown::Both
            };
            drop(stream.shutdown(how));
        });
    }
}

/// Whether it has the header that is wanted of it.
fn has_key(message: &Message, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|it| message.header(it).is_some())
}

fn converse(stream: &TcpStream, desk: &Arc<Desk>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut from = BufReader::new(stream.try_clone()?);
    while let Some(message) = http::read(&mut from)? {
        let close = message.header("connection") == Some("close");
        let path = message.path.trim_start_matches("/v1");
        let ended = match (message.method.as_str(), path) {
            ("GET", "/models") if !has_key(&message, desk.lock().models_want) => {
                let error = json!({ "error": { "message": "no such key" } });
                reply(stream, 401, &error)?;
                false
            }
            ("GET", "/models") => {
                let models = desk.lock().models.clone();
                let data: Vec<Value> = models
                    .iter()
                    .map(|it| json!({ "id": it, "object": "model" }))
                    .collect();
                reply(stream, 200, &json!({ "object": "list", "data": data }))?;
                false
            }
            ("POST", path) => match Api::of_path(path) {
                Some(api) => answered(stream, desk, api, message)?,
                None => {
                    reply(stream, 404, &json!({ "error": { "message": "not found" } }))?;
                    false
                }
            },
            (_, _) => {
                reply(stream, 404, &json!({ "error": { "message": "not found" } }))?;
                false
            }
        };
        if ended || close {
            break;
        }
    }
    Ok(())
}

fn reply(mut stream: &TcpStream, code: u16, body: &Value) -> io::Result<()> {
    let kind = ("content-type".to_owned(), "application/json".to_owned());
    http::write_whole(&mut stream, code, &[kind], body.to_string().as_bytes())
}

/// Answers one request. True when the connection ends with it.
fn answered(stream: &TcpStream, desk: &Arc<Desk>, api: Api, message: Message) -> io::Result<bool> {
    let request = Request {
        headers: message.headers,
        body: message.body,
        api,
    };
    let body = request.json();
    if body == json!({}) {
        // Somebody asks whether this is spoken here.
        reply(
            stream,
            400,
            &json!({ "error": { "message": "`model` is missing" } }),
        )?;
        return Ok(false);
    }
    keep(&request);
    let probe = examine::is_probe(&body);
    let answer = {
        let mut state = desk.lock();
        let mut secrets = state.secrets.clone();
        let bearer = request
            .header("authorization")
            .and_then(|it| it.strip_prefix("Bearer "));
        let other = ["x-api-key", "api-key"].iter();
        let other = other.filter_map(|it| request.header(it));
        secrets.extend(bearer.into_iter().chain(other).map(str::to_owned));
        let broken = examine::broken_rules(api, &request.body, &secrets);
        state.violations.extend(broken);
        if probe {
            state.probes += 1;
        } else {
            state.requests.push(request.clone());
        }
        let queued = if probe {
            Some(Answer::text("y"))
        } else {
            state.queue.pop_front()
        };
        queued.unwrap_or_else(|| match &mut state.script {
            Some(script) => script(&request),
            None => Answer::text("Hello from the model."),
        })
    };
    desk.changed.notify_all();
    if probe && body["stream"] != true {
        let message = json!({ "role": "assistant", "content": "y" });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "length" });
        reply(stream, 200, &json!({ "choices": [choice] }))?;
        return Ok(false);
    }
    let model = answer.model.clone();
    let model = model.unwrap_or_else(|| body["model"].as_str().unwrap_or_default().to_owned());
    let usage_wanted = body["stream_options"]["include_usage"] == true;
    Writer::new(stream, desk, api, model).give(answer, usage_wanted)
}

/// Where somebody wants to look at the requests, they are kept: see `tests/check-bodies.py`.
fn keep(request: &Request) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let Some(folder) = surroundings::bodies() else {
        return;
    };
    let api = match request.api {
        Api::Chat => "chat",
        Api::Responses => "responses",
        Api::Messages => "messages",
    };
    let number = COUNT.fetch_add(1, Ordering::SeqCst);
    let file = std::path::Path::new(&folder).join(format!("{number}.{api}.json"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(file, &request.body).unwrap();
}

/// Writes one answer.
struct Writer<'a> {
    stream: &'a TcpStream,
    desk: &'a Arc<Desk>,
    model: String,
    /// How it speaks.
    speech: RefCell<Speech>,
    is_chat: bool,
    chunked: bool,
    gone: Arc<AtomicBool>,
    /// The answer is out; what the other side does now is no hang-up.
    over: Arc<AtomicBool>,
}

impl<'a> Writer<'a> {
    fn new(stream: &'a TcpStream, desk: &'a Arc<Desk>, api: Api, model: String) -> Self {
        Self {
            stream,
            desk,
            speech: RefCell::new(Speech::new(api, &model)),
            is_chat: api == Api::Chat,
            model,
            chunked: true,
            gone: Arc::default(),
            over: Arc::default(),
        }
    }

    fn give(mut self, answer: Answer, usage_wanted: bool) -> io::Result<bool> {
        let mut stream = self.stream;
        match &answer.head {
            Head::Status {
                code,
                headers,
                body,
            } => {
                http::write_whole(&mut stream, *code, headers, body)?;
                return Ok(false);
            }
            Head::Stream => http::write_stream_head(&mut stream)?,
            Head::Nothing => self.chunked = false,
        }
        self.watch()?;
        for step in answer.steps {
            if self.take(step)? {
                self.over.store(true, Ordering::SeqCst);
                return Ok(true);
            }
        }
        if !self.is_chat {
            self.over.store(true, Ordering::SeqCst);
            if let Some(reason) = &answer.finish {
                let cached = answer.cached;
                let counted = answer.usage.map(|(input, output)| Counted {
                    input,
                    output,
                    cached,
                });
                let end = self.speech.borrow_mut().end(reason, counted);
                self.bytes(end.as_bytes())?;
            }
            self.bytes(b"")?;
            return Ok(false);
        }
        if let Some(reason) = &answer.finish {
            self.frame(choice(&json!({}), Some(reason)))?;
        }
        if let Some((input, output)) = answer.usage.filter(|_| usage_wanted) {
            let mut usage = json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            });
            if answer.cached.0 > 0 {
                usage["prompt_tokens_details"] = json!({"cached_tokens": answer.cached.0});
            }
            self.frame(json!({ "choices": [], "usage": usage }))?;
        }
        // Set before the last frame: who has the whole answer may leave at once.
        self.over.store(true, Ordering::SeqCst);
        if answer.done {
            self.bytes(b"data: [DONE]\n\n")?;
        }
        self.bytes(b"")?;
        Ok(false)
    }

    /// Does one step. True when the connection ends with it.
    fn take(&self, step: Step) -> io::Result<bool> {
        match step {
            Step::Frame(frame) => self.frame(frame)?,
            Step::Bytes(bytes) => self.bytes(&bytes)?,
            Step::Pause(rest) => return Ok(self.rest(Some(rest))),
            Step::Stall => return Ok(self.rest(None)),
            Step::Cut => return Ok(true),
            Step::Reset => return self.reset(),
            Step::Hand(hand) => {
                hand.arrived();
                loop {
                    if self.gone.load(Ordering::SeqCst) {
                        hand.hung_up();
                    }
                    if self.desk.lock().closing {
                        return Ok(true);
                    }
                    let limit = Duration::from_millis(5);
                    let Some(next) = hand.next(limit) else {
                        continue;
                    };
                    let written = match next {
                        Next::HungUp => return Ok(true),
                        Next::Piece(Piece::Frame(frame)) => self.frame(frame),
                        Next::Piece(Piece::Bytes(bytes)) => self.bytes(&bytes),
                        Next::Piece(Piece::Cut) => return Ok(true),
                        Next::Piece(Piece::Reset) => return self.reset(),
                        Next::Piece(Piece::Finish) => {
                            hand.wrote();
                            return Ok(false);
                        }
                    };
                    // A write may see the end of the connection before the one who watches for it does.
                    if let Err(error) = written {
                        hand.hung_up();
                        return Err(error);
                    }
                    hand.wrote();
                }
            }
        }
        Ok(false)
    }

    /// Waits, for ever without a time; true when the other side hung up or the test is over.
    fn rest(&self, time: Option<Duration>) -> bool {
        let deadline = time.map(|it| Instant::now() + it);
        let mut state = self.desk.lock();
        loop {
            if state.closing || self.gone.load(Ordering::SeqCst) {
                return true;
            }
            let limit = match deadline.map(left) {
                Some(None) => return false,
                Some(Some(left)) => left.min(GLANCE),
                None => GLANCE,
            };
            let waited = self.desk.changed.wait_timeout(state, limit);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn reset(&self) -> io::Result<bool> {
        set_socket_linger(self.stream, Some(Duration::ZERO))?;
        Ok(true)
    }

    fn frame(&self, mut frame: Value) -> io::Result<()> {
        if let Some(events) = self.speech.borrow_mut().chunk(&frame) {
            return self.bytes(events.as_bytes());
        }
        if !self.is_chat {
            return self.bytes(format!("data: {frame}\n\n").as_bytes());
        }
        if let Some(fields) = frame.as_object_mut() {
            let id = || json!("chatcmpl-scripted");
            fields.entry("id").or_insert_with(id);
            fields
                .entry("object")
                .or_insert_with(|| json!("chat.completion.chunk"));
            fields.entry("model").or_insert_with(|| json!(self.model));
        }
        self.bytes(format!("data: {frame}\n\n").as_bytes())
    }

    /// In the socket when this returns. No bytes mean the end of the body.
    fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.stream;
        if self.chunked {
            http::write_chunk(&mut stream, bytes)
        } else {
            stream.write_all(bytes)
        }
    }

    /// Notices the end of the connection while nothing is written, which no write would see.
    fn watch(&self) -> io::Result<()> {
        let stream = self.stream.try_clone()?;
        let (gone, over) = (Arc::clone(&self.gone), Arc::clone(&self.over));
        let desk = Arc::clone(self.desk);
        thread::spawn(move || {
            let left = matches!(stream.peek(&mut [0]), Ok(0) | Err(_));
            if left && !over.load(Ordering::SeqCst) {
                gone.store(true, Ordering::SeqCst);
                desk.lock().hung_up += 1;
                desk.changed.notify_all();
            }
        });
        Ok(())
    }
}
