//! Servers that close a connection between two requests.

use super::scripted::{Server, Step, preset, write};
use super::without_keys;

/// llama.cpp's server says that the connection stays open, and closes it after every stream.
#[tokio::test]
async fn a_server_that_closes_after_an_answer_can_be_asked_again_at_once() {
    let chunk = |data: &str| write(format!("{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8));
    let server = Server::start(vec![
        write(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nkeep-alive: timeout=5\r\n\r\n",
        ),
        chunk(r#"{"model": "m", "choices": [{"index": 0, "delta": {"content": "ab"}, "finish_reason": "stop"}]}"#),
        chunk("[DONE]"),
        write("0\r\n\r\n"),
        // Closed on the first byte of what is asked next, if anything is.
        Step::Hang,
    ])
    .await;
    let broker = without_keys();
    let preset = preset(&server.url());
    for _ in 0..3 {
        let asked = broker.stream(&preset, r#"{"model": "m"}"#.to_owned(), |_| {});
        assert_eq!("ab", asked.await.unwrap().text);
    }
}
