//! A question without a daemon: reqwest, eventsource-stream, stdout. It loads no certificates and looks for no
//! proxy, so nothing of its time is spent on what a question to this machine does not need.
//!
//! `bench-direct BASE_URL MODEL PROMPT`, or `bench-direct BASE_URL --body FILE` for a body that is ready.

mod chunk;

use std::error::Error;
use std::io::Write as _;

use eventsource_stream::Eventsource as _;
use futures_util::StreamExt as _;
use serde_json::json;

use self::chunk::Chunk;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, base, second, third] = args.as_slice() else {
        return Err("bench-direct BASE_URL MODEL PROMPT".into());
    };
    let body = if second == "--body" {
        std::fs::read(third)?
    } else {
        let messages = json!([{"role": "user", "content": third}]);
        let body = json!({"model": second, "stream": true, "messages": messages});
        serde_json::to_vec(&body)?
    };
    aishd_http::tls::provide();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()?;
    let reply = client
        .post(format!("{base}/chat/completions"))
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await?
        .error_for_status()?;
    let mut events = reply.bytes_stream().eventsource();
    let mut out = std::io::stdout().lock();
    while let Some(event) = events.next().await {
        let event = event?;
        if event.data == "[DONE]" {
            break;
        }
        let chunk: Chunk = serde_json::from_str(&event.data)?;
        if let Some(text) = chunk.text() {
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(())
}
