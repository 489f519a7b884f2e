//! The model's server: it answers as the model's name says and writes down when each byte came and left.
//!
//! A name is words with `-` between them: `n2000` chunks, `s32` bytes in each, `d5` milliseconds between them.
//! `c1` proposes a command, another one each time. Chunk `i` reads `w` and six digits, so that it is found again in any output.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// What it saw of one request.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The whole request was here.
    pub(crate) asked: Instant,
    pub(crate) body: Vec<u8>,
    /// When each chunk was handed to the kernel.
    pub(crate) chunks: Vec<Instant>,
    pub(crate) ended: Instant,
}

#[derive(Debug, Default)]
struct Seen {
    running: usize,
    done: Vec<Exchange>,
}

/// A server on a port of its own, for as long as the bench runs.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    pub(crate) base_url: String,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Upstream {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).context("listen as the model's server")?;
        let upstream = Self {
            base_url: format!("http://{}/v1", listener.local_addr()?),
            seen: Arc::default(),
        };
        let serving = upstream.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                thread::spawn(move || serving.serve(stream));
            }
        });
        Ok(upstream)
    }

    /// The one request since the last time; waits until its answer has left.
    pub(crate) fn take_one(&self) -> anyhow::Result<Exchange> {
        let (_, changed) = &*self.seen;
        let waiting = |it: &mut Seen| it.running > 0 || it.done.is_empty();
        let (mut seen, limit) = changed
            .wait_timeout_while(self.seen(), Duration::from_secs(60), waiting)
            .unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(!limit.timed_out(), "nobody asked the model's server");
        let done = std::mem::take(&mut seen.done);
        anyhow::ensure!(done.len() == 1, "{} requests for one question", done.len());
        done.into_iter().next().context("one request")
    }

    /// Whether an answer has left since the last time, and no other is under way.
    pub(crate) fn is_done(&self) -> bool {
        let seen = self.seen();
        seen.running == 0 && !seen.done.is_empty()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers on one connection until the other side has enough of it.
    fn serve(&self, mut stream: TcpStream) {
        let _delayed = stream.set_nodelay(true);
        let mut unread = vec![];
        while let Ok(Some(body)) = next_body(&mut stream, &mut unread) {
            let asked = Instant::now();
            self.seen().running += 1;
            let chunks = answer(&mut stream, &body);
            let mut seen = self.seen();
            seen.running -= 1;
            let ended = Instant::now();
            if let Ok(chunks) = chunks {
                seen.done.push(Exchange {
                    asked,
                    body,
                    chunks,
                    ended,
                });
            }
            drop(seen);
            self.seen.1.notify_all();
        }
    }
}

/// The body of the next request; `None` when the other side closed between two.
fn next_body(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut page = vec![0; 256 << 10];
    let mut read = |unread: &mut Vec<u8>| {
        let count = stream.read(&mut page)?;
        unread.extend_from_slice(&page[..count]);
        Ok::<_, io::Error>(count)
    };
    let head = loop {
        if let Some(at) = find(unread, b"\r\n\r\n") {
            break at + 4;
        }
        if read(unread)? == 0 {
            return Ok(None);
        }
    };
    let length = content_length(&unread[..head]).ok_or(ErrorKind::InvalidData)?;
    while unread.len() < head + length {
        if read(unread)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let body = unread[head..head + length].to_vec();
    unread.drain(..head + length);
    Ok(Some(body))
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?.to_ascii_lowercase();
    let line = head
        .lines()
        .find_map(|it| it.strip_prefix("content-length:"))?;
    line.trim().parse().ok()
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|it| it == wanted)
}

/// What to answer.
#[derive(Clone, Copy, Debug)]
struct Plan {
    chunks: usize,
    bytes: usize,
    apart: Duration,
    /// Of the command that is proposed instead.
    command: Option<usize>,
}

/// The model stands at the beginning or at the end of a body: what lies between may be megabytes.
fn plan(body: &[u8]) -> Plan {
    let name = b"\"model\":\"";
    let start = &body[..body.len().min(200)];
    let end = &body[body.len().saturating_sub(200)..];
    let after = [start, end]
        .into_iter()
        .find_map(|it| find(it, name).map(|at| &it[at + name.len()..]));
    let model = after.and_then(|it| it.split(|it| *it == b'"').next());
    let model = std::str::from_utf8(model.unwrap_or_default()).unwrap_or_default();
    let mut plan = Plan {
        chunks: 1,
        bytes: 8,
        apart: Duration::ZERO,
        command: None,
    };
    for word in model.split('-') {
        let Some((key, number)) = word.split_at_checked(1) else {
            continue;
        };
        match (key, number.parse()) {
            ("n", Ok(chunks)) => plan.chunks = chunks,
            ("s", Ok(bytes)) => plan.bytes = bytes,
            ("d", Ok(millis)) => plan.apart = Duration::from_millis(millis as u64),
            ("c", Ok(_)) => {
                let said = b"\"role\":\"assistant\"";
                plan.command = Some(body.windows(said.len()).filter(|it| it == said).count());
            }
            (_, Ok(_) | Err(_)) => {}
        }
    }
    plan
}

/// Streams one answer: each chunk is one event, one piece of the body and one write.
fn answer(stream: &mut TcpStream, body: &[u8]) -> io::Result<Vec<Instant>> {
    let plan = plan(body);
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let mut scratch = String::new();
    let mut piece = |data: &str| {
        scratch.clear();
        let _infallible = write!(scratch, "{:x}\r\n{data}\r\n", data.len());
        stream.write_all(scratch.as_bytes())
    };
    let event = |delta: &str, end: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\
             \"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":{end}}}]}}\n\n"
        )
    };
    piece(&event("\"role\":\"assistant\",\"content\":\"\"", "null"))?;
    let began = Instant::now();
    let mut chunks = Vec::with_capacity(plan.chunks);
    for at in 0..plan.chunks {
        // A line break every sixteenth chunk, as prose has.
        let end = if at % 16 == 15 || at + 1 == plan.chunks {
            "\\n"
        } else {
            " "
        };
        let dots = ".".repeat(plan.bytes.saturating_sub(8));
        let text = match plan.command {
            Some(number) => format!("CMD: : {number}"),
            None => format!("w{at:06}{dots}{end}"),
        };
        let data = event(&format!("\"content\":\"{text}\""), "null");
        let due = began + plan.apart * u32::try_from(at).unwrap_or(u32::MAX);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        chunks.push(Instant::now());
        piece(&data)?;
    }
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20}}"#;
    let last = event("", "\"stop\"");
    piece(&format!("{last}{usage}\n\ndata: [DONE]\n\n"))?;
    stream.write_all(b"0\r\n\r\n")?;
    Ok(chunks)
}
