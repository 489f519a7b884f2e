//! Servers that no request reaches: nobody listens, nobody accepts, or nobody speaks TLS.

use std::time::Duration;

use aishd_model::reply::RequestFailure;
use tokio::net::TcpListener;

use super::hostile::ask;
use super::scripted::{Server, impatient, preset};

#[tokio::test]
async fn nobody_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(
        RequestFailure::Refused,
        ask(&preset(&url)).await.0.unwrap_err()
    );
    let url = "http://no-such-host.internal:1/v1";
    assert_eq!(
        RequestFailure::Unresolved,
        ask(&preset(url)).await.0.unwrap_err()
    );
}

#[tokio::test]
async fn a_backlog_that_is_full_is_a_connect_timeout() {
    // An address that drops packets does not exist in a sandbox, a listener whose queue is full does.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..16 {
        let connect = tokio::net::TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(50), connect).await {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_full) => break,
        }
    }
    let (reply, _) = ask(&impatient(&format!("http://{address}"))).await;
    assert_eq!(
        "transport: Operation timed out (connecting)",
        reply.unwrap_err().to_string()
    );
}

#[tokio::test]
async fn no_tls_where_tls_was_asked_for() {
    let server = Server::start(vec![]).await;
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", plain.local_addr().unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let (mut stream, _) = plain.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        stream.shutdown().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    let failure = ask(&preset(&url)).await.0.unwrap_err();
    assert!(
        failure.to_string().starts_with("transport: TLS: "),
        "{failure}"
    );
    drop(server);
}
