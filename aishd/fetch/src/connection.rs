//! A connection to a host through the daemon's proxy, which judges it: a tunnel with TLS within for https, and a request with the
//! whole address for http, so that a person who is asked knows which it is.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::ext::ReasonPhrase;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::address::authority;
use crate::failure::FetchFailure;

/// What the proxy says to a tunnel; a host has not been reached then.
const MOST_HEAD_BYTES: usize = 16 << 10;
const MOST_HEADERS: usize = 128;
const MOST_BUFFERED_BYTES: usize = 64 << 10;
/// The proxy begins what it says itself like this.
const OF_PROXY: &str = "aish: ";
/// What is best for a reader of text comes first.
const WANTED: &str = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1";

/// Sends the one request there is, and reads the head of its answer.
pub(crate) async fn get(
    url: &Url,
    proxy: SocketAddr,
    user_agent: &str,
) -> Result<Response<Incoming>, FetchFailure> {
    let stream = TcpStream::connect(proxy).await;
    let stream = stream.map_err(|error| broke_off(url, &error))?;
    if url.scheme() == "https" {
        let stream = tunnel(stream, url).await?;
        let stream = secured(stream, url).await?;
        let path = &url[url::Position::BeforePath..];
        exchange(stream, url, path, user_agent).await
    } else {
        let answer = exchange(stream, url, url.as_str(), user_agent).await?;
        match refusal(&answer) {
            Some(why) => Err(FetchFailure::Refused(why)),
            None => Ok(answer),
        }
    }
}

/// What the proxy says in place of the host.
fn refusal(answer: &Response<Incoming>) -> Option<String> {
    let is_of_proxy = answer.status().is_client_error() || answer.status().is_server_error();
    let reason = answer.extensions().get::<ReasonPhrase>()?;
    let reason = std::str::from_utf8(reason.as_bytes()).ok()?;
    (is_of_proxy && reason.starts_with(OF_PROXY)).then(|| told(reason))
}

/// A line of the proxy, for the model.
fn told(reason: &str) -> String {
    let reason = reason.strip_prefix(OF_PROXY).unwrap_or(reason);
    reason.replace(" for this command", "")
}

fn broke_off(url: &Url, error: &dyn std::error::Error) -> FetchFailure {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(it) = cause {
        why = format!("{why}: {it}");
        cause = it.source();
    }
    let host = authority(url);
    FetchFailure::BrokeOff { host, why }
}

async fn tunnel(mut stream: TcpStream, url: &Url) -> Result<TcpStream, FetchFailure> {
    let to = authority(url);
    let head = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    let lost = |error: std::io::Error| broke_off(url, &error);
    stream.write_all(head.as_bytes()).await.map_err(lost)?;
    let mut head = vec![];
    // Nothing comes behind it until TLS has begun here.
    while !head.ends_with(b"\r\n\r\n") && head.len() < MOST_HEAD_BYTES {
        head.push(stream.read_u8().await.map_err(lost)?);
    }
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let is_whole = matches!(answer.parse(&head), Ok(httparse::Status::Complete(_)));
    match answer.code.filter(|_| is_whole) {
        Some(200) => Ok(stream),
        Some(_) => Err(FetchFailure::Refused(told(
            answer.reason.unwrap_or_default(),
        ))),
        None => Err(FetchFailure::BrokeOff {
            host: to,
            why: "the proxy gave no answer".to_owned(),
        }),
    }
}

async fn secured(
    stream: TcpStream,
    url: &Url,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, FetchFailure> {
    let distrusted = |why: String| FetchFailure::Tls {
        host: authority(url),
        why,
    };
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| distrusted(error.to_string()))?;
    let connector = TlsConnector::from(Arc::new(tls().map_err(distrusted)?));
    let connected = connector.connect(name, stream).await;
    connected.map_err(|error| distrusted(error.to_string()))
}

/// With the authorities of this machine, which its owner keeps.
fn tls() -> Result<ClientConfig, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unusable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("no authority is trusted on this machine".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

async fn exchange<S>(
    stream: S,
    url: &Url,
    target: &str,
    user_agent: &str,
) -> Result<Response<Incoming>, FetchFailure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let lost = |error: hyper::Error| broke_off(url, &error);
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_BUFFERED_BYTES)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
        .await
        .map_err(lost)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "it ends with the body, or with this process, which does nothing else"
    )]
    drop(tokio::spawn(connection));
    let bad = |why: String| FetchFailure::BadRequest(why);
    let host = host_header(url);
    let request = Request::get(target)
        .header(HOST, host)
        .header(
            USER_AGENT,
            HeaderValue::from_str(user_agent).map_err(|it| bad(it.to_string()))?,
        )
        .header(ACCEPT, WANTED)
        .header(ACCEPT_ENCODING, "gzip")
        .header(CONNECTION, "close")
        .body(Empty::new())
        .map_err(|it| bad(it.to_string()))?;
    let answer = sender.send_request(request).await.map_err(lost)?;
    match answer.status() {
        // Nobody asked for another protocol.
        StatusCode::SWITCHING_PROTOCOLS => Err(FetchFailure::BrokeOff {
            host: authority(url),
            why: "it wants to speak another protocol".to_owned(),
        }),
        _ => Ok(answer),
    }
}

/// Without the port that its scheme means.
fn host_header(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
