//! The daemon half of the thinnest question: it holds a warm HTTP client and turns each line from a Unix socket
//! into one streamed answer. It keeps nothing, checks nothing, and serves everybody.
//!
//! `bench-relayd SOCKET BASE_URL`, which says `ready`. A line in is `{"model":…,"prompt":…}`; out comes a line
//! `{"delta":…}` for each chunk. A line `{"attach":true}` is answered by `{"attached":true}` and by the lines of
//! every answer from then on.

mod chunk;

use std::error::Error;
use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use eventsource_stream::Eventsource as _;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::task::{JoinSet, LocalSet};

use self::chunk::Chunk;

#[derive(Deserialize)]
struct Line {
    model: Option<String>,
    prompt: Option<String>,
}

#[derive(Serialize)]
struct Out<'a> {
    delta: &'a str,
}

type Hub = broadcast::Sender<Arc<[u8]>>;

struct Relay {
    http: reqwest::Client,
    base: String,
    hub: Hub,
}

impl Relay {
    async fn serve(&self, stream: UnixStream) -> Result<(), Box<dyn Error>> {
        let (read, mut write) = stream.into_split();
        let mut line = String::new();
        BufReader::new(read).read_line(&mut line).await?;
        let Line {
            model: Some(model),
            prompt: Some(prompt),
        } = serde_json::from_str(&line)?
        else {
            let mut lines = self.hub.subscribe();
            write.write_all(b"{\"attached\":true}\n").await?;
            loop {
                write.write_all(&lines.recv().await?).await?;
            }
        };
        let messages = json!([{"role": "user", "content": prompt}]);
        let reply = self
            .http
            .post(format!("{}/chat/completions", self.base))
            .json(&json!({"model": model, "stream": true, "messages": messages}))
            .send()
            .await?
            .error_for_status()?;
        let mut events = reply.bytes_stream().eventsource();
        let mut line = Vec::new();
        while let Some(event) = events.next().await {
            let event = event?;
            if event.data == "[DONE]" {
                break;
            }
            let chunk: Chunk = serde_json::from_str(&event.data)?;
            if let Some(delta) = chunk.text() {
                line.clear();
                serde_json::to_writer(&mut line, &Out { delta })?;
                line.push(b'\n');
                // Whoever asked may be gone; those who listen are not.
                let _asker_gone = write.write_all(&line).await;
                if self.hub.receiver_count() > 0 {
                    let _nobody_listens = self.hub.send(line.as_slice().into());
                }
            }
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, socket, base] = args.as_slice() else {
        return Err("bench-relayd SOCKET BASE_URL".into());
    };
    let listener = UnixListener::bind(socket)?;
    aishd_http::tls::provide();
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the floor may lose lines; it is what a thin fan-out costs"
    )]
    let (hub, _) = broadcast::channel(1024);
    let base = base.clone();
    let relay = Rc::new(Relay { http, base, hub });
    writeln!(std::io::stdout(), "ready")?;
    let serving = async {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let (stream, _) = listener.accept().await?;
            let relay = relay.clone();
            connections.spawn_local(async move {
                if let Err(error) = relay.serve(stream).await {
                    let _nobody_reads = writeln!(std::io::stderr(), "{error}");
                }
            });
        }
    };
    LocalSet::new().run_until(serving).await
}
