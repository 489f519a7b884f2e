//! A plain request of HTTP, carried to its host and its answer back. Nothing of the spelling of the request is passed on, and
//! nothing that comes after it.

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;

use crate::dial::{Dialed, FarSide};
use crate::host::HostPort;
use crate::http_head::{AnswerHead, HeadError, RequestHead, push_header};
use crate::limits::EgressLimits;
use crate::refusal::Refusal;
use crate::relay::{carry, stand_still};
use crate::report::{ByteDirection, ConnectionBytes};
use crate::request_body::{BodyError, RequestBody};
use crate::stream::{BufferedStream, StreamReader};

/// The port that an address of http without one means.
const HTTP_PORT: u16 = 80;

/// A request that was read, and where it goes.
#[derive(Debug)]
pub(crate) struct ForwardedRequest {
    head: RequestHead,
    target: HostPort,
    /// What the host is asked for.
    path: String,
    body: RequestBody,
}

impl ForwardedRequest {
    pub(crate) fn of(head: RequestHead) -> Result<Self, HeadError> {
        let rest = head
            .target
            .get(..7)
            .filter(|it| it.eq_ignore_ascii_case("http://"));
        let rest = rest.and_then(|it| head.target.get(it.len()..));
        let rest = rest.ok_or(HeadError::Broken(
            "this is a proxy: it takes CONNECT, and requests with a whole address of http",
        ))?;
        if rest.contains('#') {
            return Err(HeadError::Broken("an address in a request has no fragment"));
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        // Credentials in an address are refused with the rest of what is no host: the sign between them is in none.
        let target = HostPort::parse(authority, Some(HTTP_PORT));
        let target = target.map_err(|_| HeadError::Broken("the address names no host"))?;
        let hosts = head.headers.all("host").count();
        if hosts > 1 {
            return Err(HeadError::Broken("there is more than one Host"));
        }
        let path = match path {
            "" if head.method == "OPTIONS" => "*".to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            query => format!("/{query}"),
        };
        let body = RequestBody::of(&head)?;
        Ok(Self {
            head,
            target,
            path,
            body,
        })
    }

    pub(crate) fn target(&self) -> &HostPort {
        &self.target
    }

    /// The head as the far side gets it: written anew, with the host that was judged.
    fn head_for(&self, far_side: &FarSide) -> Vec<u8> {
        let host = self.target.without_port(HTTP_PORT);
        let method = &self.head.method;
        let version = self.head.minor_version;
        let path = &self.path;
        let line = match far_side {
            FarSide::Host => format!("{method} {path} HTTP/1.{version}\r\n"),
            FarSide::Proxy { .. } => {
                let path = if path == "*" { "" } else { path };
                format!("{method} http://{host}{path} HTTP/1.{version}\r\n")
            }
        };
        let mut head = line.into_bytes();
        push_header(&mut head, "Host", host.as_bytes());
        if let FarSide::Proxy {
            authorization: Some(authorization),
        } = far_side
        {
            push_header(&mut head, "Proxy-Authorization", authorization.as_bytes());
        }
        for (name, value) in self.head.headers.passed_on(&["host"]) {
            push_header(&mut head, name, value);
        }
        match self.body {
            RequestBody::None => {}
            RequestBody::Length(length) => {
                push_header(&mut head, "Content-Length", length.to_string().as_bytes());
            }
            RequestBody::Chunked => push_header(&mut head, "Transfer-Encoding", b"chunked"),
        }
        head.extend(b"Connection: close\r\n\r\n");
        head
    }
}

/// Carries a request and its answer. A refusal means that the child has been told nothing yet.
pub(crate) async fn forward(
    child: &mut BufferedStream,
    dialed: &mut Dialed,
    request: &ForwardedRequest,
    bytes: &ConnectionBytes,
    limits: &EgressLimits,
) -> Result<(), Refusal> {
    let head = request.head_for(&dialed.far_side);
    let is_proxy = matches!(dialed.far_side, FarSide::Proxy { .. });
    let host = &mut dialed.stream;
    let sent = host.writer.write_all(&head).await;
    sent.map_err(|_| Refusal::NoAnswer)?;
    bytes.add(ByteDirection::Out, head.len());
    let (hangs_up, hung_up) = oneshot::channel::<()>();
    // Comes back only when the rest of a body will not come: the host gets no end of it.
    let child_breaks_off = async {
        let passed = request
            .body
            .pass_on(&mut child.reader, &mut host.writer, bytes);
        if matches!(passed.await, Err(BodyError::Child)) {
            return;
        }
        child.reader.ended().await;
        drop(hangs_up);
        std::future::pending::<()>().await;
    };
    tokio::pin!(child_breaks_off);
    tokio::select! {
        passed = pass_head(&mut host.reader, &mut child.writer, bytes, is_proxy) => passed?,
        () = &mut child_breaks_off => return Ok(()),
        () = stand_still(bytes, limits.idle) => return Err(Refusal::TimedOut),
    }
    // The end of the child's side may be half of it or all. Where the host is slow to end, a child that is gone must not
    // hold a place for long.
    let abandoned = async {
        drop(hung_up.await);
        stand_still(bytes, limits.handshake).await;
    };
    tokio::select! {
        carried = carry(&mut host.reader, &mut child.writer, bytes, ByteDirection::In) => drop(carried),
        () = &mut child_breaks_off => {}
        () = stand_still(bytes, limits.idle) => {}
        () = abandoned => {}
    }
    Ok(())
}

/// The head of the answer, with those that come before the last one.
async fn pass_head(
    host: &mut StreamReader,
    child: &mut OwnedWriteHalf,
    bytes: &ConnectionBytes,
    is_proxy: bool,
) -> Result<(), Refusal> {
    loop {
        let answer = AnswerHead::read(host)
            .await
            .map_err(|_| Refusal::NoAnswer)?;
        match answer.status {
            // Nobody asked for another protocol.
            101 => return Err(Refusal::NoAnswer),
            // What the proxy wants of the daemon is not for the child.
            407 if is_proxy => return Err(Refusal::UpstreamRefused),
            _ => {}
        }
        let head = head_for_child(&answer);
        let passed = child.write_all(&head).await;
        bytes.add(ByteDirection::In, head.len());
        // Where the child is gone, carrying the body ends at once.
        if passed.is_err() || answer.status >= 200 {
            return Ok(());
        }
    }
}

fn head_for_child(answer: &AnswerHead) -> Vec<u8> {
    let AnswerHead {
        status,
        reason,
        headers,
    } = answer;
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n").into_bytes();
    for (name, value) in headers.passed_on(&[]) {
        push_header(&mut head, name, value);
    }
    // The body is passed on as it comes, so what says where it ends is too; of two, the one that counts.
    let coding = headers
        .all("transfer-encoding")
        .map(|it| ("Transfer-Encoding", it));
    let length = headers
        .all("content-length")
        .map(|it| ("Content-Length", it));
    let has_coding = headers.has("transfer-encoding");
    for (name, value) in coding.chain(length.filter(|_| !has_coding)) {
        push_header(&mut head, name, value);
    }
    if answer.status >= 200 {
        head.extend(b"Connection: close\r\n");
    }
    head.extend(b"\r\n");
    head
}
