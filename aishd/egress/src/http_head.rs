//! The head of a request or of an answer: read strictly, and written anew, so that nothing of how it was spelled is passed on.

use std::io;

use crate::stream::StreamReader;

const MOST_HEADERS: usize = 100;

/// Headers that are about the connection to the child and not about what is asked.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];
/// Headers that say where a body ends; only we say that.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// A head could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    /// Nothing is left to be said.
    #[error("read the head")]
    Lost(#[source] io::Error),
    #[error("the head of the request is too long")]
    TooLong,
    #[error("{0}")]
    Broken(&'static str),
}

#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) minor_version: u8,
    pub(crate) headers: HeadHeaders,
}

#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) headers: HeadHeaders,
}

/// Names in lower case with their values, in order.
#[derive(Debug)]
pub(crate) struct HeadHeaders(Vec<(String, Vec<u8>)>);

impl RequestHead {
    pub(crate) async fn read(from: &mut StreamReader) -> Result<Self, HeadError> {
        let end = find_end(from).await?;
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(&from.unused()[..end]);
        let method = request.method.map(str::to_owned);
        let target = request.path.map(str::to_owned);
        let minor_version = request.version;
        let headers = HeadHeaders::of(request.headers);
        complete(parsed, end)?;
        from.use_up(end);
        let head = method.zip(target).zip(minor_version);
        let ((method, target), minor_version) = head.ok_or(HeadError::Broken(BROKEN))?;
        if !target.bytes().all(|it| it.is_ascii_graphic()) {
            return Err(HeadError::Broken(
                "the target of the request has other than plain characters",
            ));
        }
        Ok(Self {
            method,
            target,
            minor_version,
            headers,
        })
    }
}

impl AnswerHead {
    pub(crate) async fn read(from: &mut StreamReader) -> Result<Self, HeadError> {
        let end = find_end(from).await?;
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let parsed = answer.parse(&from.unused()[..end]);
        let status = answer.code;
        let reason = answer.reason.unwrap_or_default().to_owned();
        let headers = HeadHeaders::of(answer.headers);
        complete(parsed, end)?;
        from.use_up(end);
        Ok(Self {
            status: status.ok_or(HeadError::Broken(BROKEN))?,
            reason,
            headers,
        })
    }
}

const BROKEN: &str = "the head is not one of HTTP/1";

/// Where the head ends. One that is written with other ends of lines than all programs use is none.
async fn find_end(from: &mut StreamReader) -> Result<usize, HeadError> {
    let mut looked_at: usize = 0;
    loop {
        let unused = from.unused();
        let begin = looked_at.saturating_sub(3);
        let found = unused[begin..].windows(4).position(|it| it == b"\r\n\r\n");
        let end = found.map_or(unused.len(), |it| begin + it + 4);
        let lines = &unused[..end];
        let is_bare = |at: usize| lines[at] == b'\n' && (at == 0 || lines[at - 1] != b'\r');
        if (looked_at..end).any(is_bare) {
            return Err(HeadError::Broken(
                "a line of the head does not end with CR LF",
            ));
        }
        if found.is_some() {
            return Ok(end);
        }
        looked_at = unused.len();
        match from.fill().await {
            Ok(true) => {}
            Ok(false) => return Err(HeadError::Lost(io::ErrorKind::UnexpectedEof.into())),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(HeadError::TooLong);
            }
            Err(error) => return Err(HeadError::Lost(error)),
        }
    }
}

fn complete(
    parsed: Result<httparse::Status<usize>, httparse::Error>,
    end: usize,
) -> Result<(), HeadError> {
    match parsed {
        // What was parsed must be all up to the empty line, or we and the parser disagree about where that is.
        Ok(httparse::Status::Complete(length)) if length == end => Ok(()),
        Err(httparse::Error::TooManyHeaders) => Err(HeadError::TooLong),
        Ok(_) | Err(_) => Err(HeadError::Broken(BROKEN)),
    }
}

impl HeadHeaders {
    fn of(headers: &[httparse::Header<'_>]) -> Self {
        let named = headers.iter().filter(|it| !it.name.is_empty());
        let owned = named.map(|it| (it.name.to_ascii_lowercase(), it.value.to_vec()));
        Self(owned.collect())
    }

    /// All values of a header.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let named = self.0.iter().filter(move |(it, _)| it == name);
        named.map(|(_, value)| &**value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// What is passed on: all but what is about a connection, what `Connection` names, what says where the body ends, and
    /// what else is left out.
    pub(crate) fn passed_on(&self, without: &[&str]) -> impl Iterator<Item = (&str, &[u8])> {
        let named: Vec<String> = self
            .all("connection")
            .flat_map(|it| it.split(|it| *it == b','))
            .map(|it| String::from_utf8_lossy(it.trim_ascii()).to_ascii_lowercase())
            .collect();
        let is_left_out = move |name: &str| {
            HOP_BY_HOP.contains(&name)
                || FRAMING.contains(&name)
                || without.contains(&name)
                || named.iter().any(|it| it == name)
        };
        let headers = self.0.iter().map(|(name, value)| (&**name, &**value));
        headers.filter(move |(name, _)| !is_left_out(name))
    }
}

/// Adds a line to a head.
pub(crate) fn push_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend(name.as_bytes());
    head.extend(b": ");
    head.extend(value);
    head.extend(b"\r\n");
}
