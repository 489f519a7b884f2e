//! As much of HTTP/1.1 as a model server needs: requests with a length or in chunks, answers in chunks.

use std::io::{self, BufRead, Read as _, Write};

/// The largest body that is read; nothing that aish may send is larger.
const BODY_BYTES: u64 = 64 << 20;

/// A request as it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The next request of a connection; `None` when the other side has closed it.
pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Message>> {
    let Some(first) = line(from)? else {
        return Ok(None);
    };
    let mut words = first.split(' ');
    let (Some(method), Some(path), Some(_)) = (words.next(), words.next(), words.next()) else {
        return Err(bad(&first));
    };
    let mut message = Message {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: vec![],
        body: vec![],
    };
    loop {
        let header = line(from)?.ok_or_else(|| bad("a head that ends early"))?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').ok_or_else(|| bad(&header))?;
        let name = name.to_ascii_lowercase();
        message.headers.push((name, value.trim().to_owned()));
    }
    if message.header("transfer-encoding") == Some("chunked") {
        message.body = chunks(from)?;
    } else if let Some(length) = message.header("content-length") {
        let length: u64 = length.parse().map_err(|_| bad(length))?;
        if length > BODY_BYTES {
            return Err(bad("a body that is too long"));
        }
        let read = from.by_ref().take(length).read_to_end(&mut message.body)?;
        if read as u64 != length {
            return Err(bad("a body that ends early"));
        }
    }
    Ok(Some(message))
}

fn chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = vec![];
    loop {
        let size = line(from)?.ok_or_else(|| bad("chunks that end early"))?;
        let size = u64::from_str_radix(&size, 16).map_err(|_| bad(&size))?;
        if size + body.len() as u64 > BODY_BYTES {
            return Err(bad("a body that is too long"));
        }
        from.by_ref().take(size).read_to_end(&mut body)?;
        line(from)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {what}"))
}

/// A whole answer with a length.
pub(super) fn write_whole(
    to: &mut impl Write,
    code: u16,
    headers: &[(String, String)],
    body: &[u8],
) -> io::Result<()> {
    write!(to, "HTTP/1.1 {code} Scripted\r\n")?;
    for (name, value) in headers {
        write!(to, "{name}: {value}\r\n")?;
    }
    write!(to, "content-length: {}\r\n\r\n", body.len())?;
    to.write_all(body)?;
    to.flush()
}

/// The head of a stream.
pub(super) fn write_stream_head(to: &mut impl Write) -> io::Result<()> {
    to.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    to.flush()
}

/// One chunk, in the socket when this returns.
pub(super) fn write_chunk(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend(bytes);
    chunk.extend(b"\r\n");
    to.write_all(&chunk)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str)>) {
        let read = read(&mut text.as_bytes()).unwrap();
        let read = read.map(|it| (it.path, String::from_utf8(it.body).unwrap()));
        let expected = expected.map(|(path, body)| (path.to_owned(), body.to_owned()));
        assert_eq!(expected, read, "{text}");
    }

    #[test]
    fn bodies_have_a_length_or_come_in_chunks() {
        check("", None);
        check(
            "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
            Some(("/v1/models", "")),
        );
        check(
            "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhirest",
            Some(("/a", "hi")),
        );
        check(
            "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nA\r\n0123456789\r\n0\r\n\r\n",
            Some(("/a", "hi0123456789")),
        );
    }

    #[test]
    fn a_body_that_ends_early_is_no_request() {
        let text = "POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nhi";
        assert!(read(&mut text.as_bytes()).is_err());
    }
}
