//! Where the browser comes back to: a listener on this machine alone, for one path, as long as a sign-in takes.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::exit::Exit;
use crate::failure::Failure;

const PATH: &str = "/callback";
const MAX_HEAD: usize = 8 << 10;
/// A visitor that says nothing does not hold up the next.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct LoopbackListener {
    listener: TcpListener,
    port: u16,
    path: String,
}

/// Somebody came to the path that was waited for.
#[derive(Debug)]
pub(super) struct LoopbackVisit {
    pub(super) query: String,
    stream: TcpStream,
}

/// What a request is.
#[derive(Debug, PartialEq, Eq)]
enum VisitKind<'a> {
    Answer(&'a str),
    Elsewhere,
    /// A page of somewhere else that knows our port.
    Foreign,
}

impl LoopbackListener {
    /// `wanted` or nothing; else the port of last time, else any.
    pub(super) async fn bind(wanted: Option<u16>, last: Option<u16>) -> Result<Self, Failure> {
        let bound = match (wanted, last) {
            (Some(port), _) => TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await,
            (None, Some(last)) => match TcpListener::bind((Ipv4Addr::LOCALHOST, last)).await {
                Ok(listener) => Ok(listener),
                Err(_taken) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
            },
            (None, None) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
        };
        let failed = |error: io::Error| {
            let port = wanted.map_or_else(String::new, |it| format!(" on port {it}"));
            let message = format!("cannot listen{port} for the browser: {error}");
            Failure::new(Exit::FAILED, message).hint("--port with another, or --paste")
        };
        let listener = bound.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self {
            listener,
            port,
            path: PATH.to_owned(),
        })
    }

    /// The same where the browser is sent back to another address of this machine, because the configuration says so. `None`:
    /// it is sent elsewhere.
    pub(super) async fn moved_to(self, redirect: &str) -> Result<Option<Self>, Failure> {
        if redirect == self.redirect() {
            return Ok(Some(self));
        }
        let Some((port, path)) = port_and_path(redirect) else {
            return Ok(None);
        };
        let there = if port == self.port {
            self
        } else {
            Self::bind(Some(port), None).await?
        };
        Ok(Some(Self {
            path: path.to_owned(),
            ..there
        }))
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// The next who comes to the path; others are sent away.
    pub(super) async fn visit(&self) -> Result<LoopbackVisit, Failure> {
        loop {
            let (mut stream, _from) = self.listener.accept().await.map_err(|error| {
                Failure::new(
                    Exit::FAILED,
                    format!("cannot listen for the browser: {error}"),
                )
            })?;
            let Ok(Some(head)) = tokio::time::timeout(PATIENCE, head(&mut stream)).await else {
                continue;
            };
            match kind(&head, &self.path) {
                VisitKind::Answer(query) => {
                    let query = query.to_owned();
                    return Ok(LoopbackVisit { query, stream });
                }
                VisitKind::Elsewhere => {
                    reply(&mut stream, "404 Not Found", "Nothing is here.").await;
                }
                VisitKind::Foreign => {
                    reply(&mut stream, "403 Forbidden", "Not from there.").await;
                }
            }
        }
    }
}

impl LoopbackVisit {
    pub(super) async fn answer(mut self, text: &str) {
        reply(&mut self.stream, "200 OK", text).await;
    }
}

/// Where an address of this machine leads; `None`: it is none.
pub(super) fn port_and_path(redirect: &str) -> Option<(u16, &str)> {
    let after = redirect.strip_prefix("http://")?;
    let begin = after.find('/').unwrap_or(after.len());
    let (authority, path) = after.split_at(begin);
    let (host, port) = authority.rsplit_once(':')?;
    let is_here = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    let path = if path.is_empty() { "/" } else { path };
    is_here.then_some((port.parse().ok()?, path))
}

/// The head of a request, if it has an end.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut text = vec![];
    let mut piece = [0; 1024];
    while !text.windows(4).any(|it| it == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok().filter(|it| *it > 0)?;
        text.extend_from_slice(piece.get(..read)?);
        if text.len() > MAX_HEAD {
            return None;
        }
    }
    String::from_utf8(text).ok()
}

fn kind<'a>(head: &'a str, path: &str) -> VisitKind<'a> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then_some(value.trim())
    });
    let name = host.map(|it| it.rsplit_once(':').map_or(it, |(name, _)| name));
    // Another name for this machine is somebody's trick.
    if !matches!(name, Some("127.0.0.1" | "localhost" | "[::1]")) {
        return VisitKind::Foreign;
    }
    match target.split_once('?') {
        Some((visited, query)) if visited == path && method == Some("GET") => {
            VisitKind::Answer(query)
        }
        Some(_) | None => VisitKind::Elsewhere,
    }
}

async fn reply(stream: &mut TcpStream, status: &str, text: &str) {
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>aish</title><p>{}</p>\n",
        escaped(text)
    );
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'\r\nconnection: close\r\n\r\n",
        page.len()
    );
    let sent = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(page.as_bytes()).await?;
        stream.shutdown().await
    };
    // Who has closed the page has read enough.
    let _left = tokio::time::timeout(PATIENCE, sent).await;
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_browsers_return_is_an_answer() {
        let check =
            |head: &str, expected: VisitKind<'_>| assert_eq!(expected, kind(head, PATH), "{head}");
        let host = "Host: 127.0.0.1:7\r\n\r\n";
        check(
            &format!("GET /callback?code=1&state=2 HTTP/1.1\r\n{host}"),
            VisitKind::Answer("code=1&state=2"),
        );
        check(
            &format!("GET /callback HTTP/1.1\r\n{host}"),
            VisitKind::Elsewhere,
        );
        check(
            &format!("GET /favicon.ico HTTP/1.1\r\n{host}"),
            VisitKind::Elsewhere,
        );
        check(
            &format!("POST /callback?code=1 HTTP/1.1\r\n{host}"),
            VisitKind::Elsewhere,
        );
        check(
            "GET /callback?code=1 HTTP/1.1\r\nHost: evil.example:7\r\n\r\n",
            VisitKind::Foreign,
        );
        check(
            "GET /callback?code=1 HTTP/1.1\r\nhost: localhost:7\r\n\r\n",
            VisitKind::Answer("code=1"),
        );
        check("GET /callback?code=1 HTTP/1.1\r\n\r\n", VisitKind::Foreign);
        check("", VisitKind::Foreign);
    }

    #[test]
    fn an_address_of_this_machine_has_a_port_and_a_path() {
        for (redirect, expected) in [
            ("http://127.0.0.1:7001/callback", Some((7001, "/callback"))),
            ("http://localhost:7001/a/b", Some((7001, "/a/b"))),
            ("http://[::1]:7001", Some((7001, "/"))),
            ("https://elsewhere.example/callback", None),
            ("http://elsewhere.example:7001/callback", None),
            ("http://127.0.0.1/callback", None),
            ("", None),
        ] {
            assert_eq!(expected, port_and_path(redirect), "{redirect}");
        }
    }

    #[tokio::test]
    async fn it_goes_to_where_the_configuration_sends_the_browser() {
        let first = LoopbackListener::bind(None, None).await.unwrap();
        let free = LoopbackListener::bind(None, None).await.unwrap().port();
        let redirect = format!("http://localhost:{free}/signed-in");
        let moved = first.moved_to(&redirect).await.unwrap().unwrap();
        assert_eq!(
            format!("http://127.0.0.1:{free}/signed-in"),
            moved.redirect()
        );
        let elsewhere = moved.moved_to("https://elsewhere.example/callback").await;
        assert!(elsewhere.unwrap().is_none());
    }

    #[tokio::test]
    async fn strangers_are_sent_away_and_what_they_say_is_no_markup() {
        let listener = LoopbackListener::bind(None, None).await.unwrap();
        let port = listener.port();
        let ask = |target: &'static str| async move {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let head = format!("GET {target} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            text
        };
        let serve = async {
            let visit = listener.visit().await.unwrap();
            assert_eq!("code=1", visit.query);
            visit.answer("<script>").await;
        };
        let visitors = async { (ask("/favicon.ico").await, ask("/callback?code=1").await) };
        let ((), (stray, good)) = tokio::join!(serve, visitors);
        assert!(stray.starts_with("HTTP/1.1 404"), "{stray}");
        assert!(
            good.contains("&lt;script&gt;") && !good.contains("<script>"),
            "{good}"
        );
        let taken = LoopbackListener::bind(Some(port), None).await.unwrap_err();
        assert!(
            taken.message.contains(&format!("on port {port}")),
            "{}",
            taken.message
        );
        assert_ne!(
            port,
            LoopbackListener::bind(None, Some(port))
                .await
                .unwrap()
                .port()
        );
    }
}
