//! HTTP/1 to a proxy: `CONNECT`, and plain requests with the whole address in them. One request for each connection.

use tokio::io::AsyncWriteExt as _;

use crate::gate::{Gate, Passage};
use crate::host::HostPort;
use crate::http_forward::{ForwardedRequest, forward};
use crate::http_head::{HeadError, RequestHead};
use crate::questions::HostScheme;
use crate::relay::relay;
use crate::stream::{BufferedStream, say_and_close};

const TUNNEL_IS_OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

pub(crate) async fn serve(mut child: BufferedStream, gate: &Gate) {
    let asked = async {
        let head = RequestHead::read(&mut child.reader).await?;
        WantedHost::of(head)
    };
    match tokio::time::timeout(gate.limits.handshake, asked).await {
        Ok(Ok(WantedHost::Tunnel(target))) => tunnel(child, gate, &target).await,
        Ok(Ok(WantedHost::Plain(request))) => plain(child, gate, request).await,
        Ok(Err(HeadError::Lost(_))) => gate.traffic.add_malformed(),
        Ok(Err(HeadError::TooLong)) => {
            gate.traffic.add_malformed();
            refuse(child, gate, 431, &format!("aish: {}", HeadError::TooLong)).await;
        }
        Ok(Err(HeadError::Broken(why))) => {
            gate.traffic.add_malformed();
            refuse(child, gate, 400, &format!("aish: {why}")).await;
        }
        Err(_) => {
            gate.traffic.add_malformed();
            refuse(child, gate, 408, "aish: the request did not come in time").await;
        }
    }
}

/// What a request is about.
#[derive(Debug)]
enum WantedHost {
    Tunnel(HostPort),
    Plain(ForwardedRequest),
}

impl WantedHost {
    fn of(head: RequestHead) -> Result<Self, HeadError> {
        if head.method != "CONNECT" {
            return ForwardedRequest::of(head).map(Self::Plain);
        }
        if head.headers.has("content-length") || head.headers.has("transfer-encoding") {
            return Err(HeadError::Broken("CONNECT has no body"));
        }
        let target = HostPort::parse(&head.target, None);
        let target = target.map_err(|_| HeadError::Broken("CONNECT is to a host and a port"))?;
        Ok(Self::Tunnel(target))
    }
}

async fn tunnel(mut child: BufferedStream, gate: &Gate, target: &HostPort) {
    match gate
        .open(target, HostScheme::Tunnel, &mut child.reader)
        .await
    {
        Passage::Open(dialed, bytes) => {
            if child.writer.write_all(TUNNEL_IS_OPEN).await.is_ok() {
                let ended = relay(child, dialed.stream, &bytes, gate.limits.idle).await;
                tracing::debug!(%target, ?ended, "a connection of a child has ended");
            }
        }
        Passage::Refused(refusal) => {
            refuse(
                child,
                gate,
                refusal.http_status(),
                &refusal.explanation(target),
            )
            .await;
        }
        Passage::GivenUp => {}
    }
}

async fn plain(mut child: BufferedStream, gate: &Gate, request: ForwardedRequest) {
    let target = request.target().clone();
    match gate
        .open(&target, HostScheme::PlainHttp, &mut child.reader)
        .await
    {
        Passage::Open(mut dialed, bytes) => {
            let forwarded = forward(&mut child, &mut dialed, &request, &bytes, &gate.limits).await;
            if let Err(refusal) = forwarded {
                gate.traffic.host(&target).add_refusal(refusal);
                refuse(
                    child,
                    gate,
                    refusal.http_status(),
                    &refusal.explanation(&target),
                )
                .await;
            }
        }
        Passage::Refused(refusal) => {
            refuse(
                child,
                gate,
                refusal.http_status(),
                &refusal.explanation(&target),
            )
            .await;
        }
        Passage::GivenUp => {}
    }
}

/// The text is the reason and the body: of an answer to `CONNECT`, most programs show the first line only.
async fn refuse(child: BufferedStream, gate: &Gate, status: u16, text: &str) {
    let length = text.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status} {text}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}\n"
    );
    let said = say_and_close(child, answer.as_bytes());
    drop(tokio::time::timeout(gate.limits.handshake, said).await);
}
