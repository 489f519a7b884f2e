//! A server that does what a test says, byte by byte, and records what it was sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aishd_log::api_dialect::ApiDialect;
use aishd_log::event::PresetSource;
use aishd_model::catalog::CatalogFacts;
use aishd_model::optional_fields::LearnedFields;
use aishd_model::preset::{
    Backend, CacheLife, KeyHeader, KeySource, ModelEndpoint, Preset, Timeouts,
};
use aishd_model::preset_fields::PresetFields;
use aishd_model::thinking::ThinkingStart;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(Vec<u8>),
    /// Bytes again and again until the client goes.
    WriteEndlessly(Vec<u8>),
    Pause(Duration),
    /// Closes with a reset instead of a proper end.
    Reset,
    /// Says nothing more until the client goes, and notes when that was.
    Hang,
}

pub(super) fn write(text: impl AsRef<[u8]>) -> Step {
    Step::Write(text.as_ref().to_vec())
}

/// A head, and the body until the connection ends.
pub(super) fn head(status: &str, headers: &str) -> Step {
    write(format!(
        "HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n"
    ))
}

pub(super) fn events() -> Step {
    head("200 OK", "content-type: text/event-stream\r\n")
}

pub(super) fn text(text: &str) -> Step {
    let chunk =
        serde_json::json!({"model": "m", "choices": [{"index": 0, "delta": {"content": text}}]});
    write(format!("data: {chunk}\n\n"))
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: String,
    pub(super) seen: Arc<Mutex<Vec<String>>>,
    pub(super) left: Arc<Mutex<Option<Instant>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// The same steps for every connection.
    pub(super) async fn start(steps: Vec<Step>) -> Self {
        Self::answering(move |_request| steps.clone()).await
    }

    pub(super) async fn answering(
        answer: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let left = Arc::new(Mutex::new(None));
        let mut tasks = JoinSet::new();
        let (record, went) = (Arc::clone(&seen), Arc::clone(&left));
        let answer = Arc::new(answer);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (record, went, answer) =
                    (Arc::clone(&record), Arc::clone(&went), Arc::clone(&answer));
                connections.spawn(async move {
                    serve(stream, &record, &went, &*answer).await;
                });
            }
        });
        Self {
            address,
            seen,
            left,
            _tasks: tasks,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

async fn serve(
    mut stream: TcpStream,
    record: &Mutex<Vec<String>>,
    went: &Mutex<Option<Instant>>,
    answer: &(dyn Fn(&str) -> Vec<Step> + Send + Sync),
) {
    let Some(request) = request(&mut stream).await else {
        return;
    };
    record.lock().push(request.clone());
    for step in answer(&request) {
        let written = match step {
            Step::Write(bytes) => stream.write_all(&bytes).await,
            Step::WriteEndlessly(bytes) => loop {
                if let Err(error) = stream.write_all(&bytes).await {
                    break Err(error);
                }
            },
            Step::Pause(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Step::Reset => {
                // Closing with unread input or with no lingering is a reset; the second is certain.
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                return;
            }
            Step::Hang => stream.read(&mut [0; 64]).await.map(|_| ()),
        };
        if written.is_err() {
            break;
        }
    }
    *went.lock() = Some(Instant::now());
    // A proper end: the client reads everything before it sees it.
    stream.shutdown().await.ok();
}

/// Head and body of one request.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text.into_owned());
            }
        }
        let mut piece = [0; 4096];
        let count = stream
            .read(&mut piece)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// For servers that are waited for in vain.
const SHORT: Timeouts = Timeouts {
    connect: Duration::from_millis(200),
    first_byte: Duration::from_millis(300),
    idle: Duration::from_millis(200),
    content_idle: Duration::from_millis(400),
};

/// Gives up soon.
pub(super) fn impatient(url: &str) -> Preset {
    within(url, SHORT)
}

pub(super) fn preset(url: &str) -> Preset {
    within(url, Timeouts::LOOPBACK)
}

pub(super) fn within(url: &str, timeouts: Timeouts) -> Preset {
    Preset {
        name: "test".to_owned(),
        source: PresetSource::Configured,
        backend: Backend::Http(ModelEndpoint {
            url: url.to_owned(),
            api: ApiDialect::Chat,
            auth: KeyHeader::Bearer,
            key: KeySource::Literal("sk-secret-1234".to_owned()),
            headers: BTreeMap::from([("x-extra".to_owned(), "1".to_owned())]),
            timeouts,
        }),
        model: "m".to_owned(),
        temperature: None,
        max_tokens: None,
        effort: None,
        fields: PresetFields::default(),
        cache: CacheLife::default(),
        context_tokens: None,
        use_tool_role: true,
        tools: true,
        max_tools: None,
        retries: 0,
        pictures: None,
        include_usage: true,
        think: ThinkingStart::Auto,
        price: None,
        facts: CatalogFacts::default(),
        learned: LearnedFields::default(),
    }
}
