//! The body of a plain request: exactly as much as its head announces is passed on, and not one byte that follows.

use std::io;

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;

use crate::http_head::{HeadError, RequestHead};
use crate::report::{ByteDirection, ConnectionBytes};
use crate::stream::StreamReader;

/// A line with the size of a chunk, with what some programs put behind it.
const MOST_SIZE_LINE: usize = 256;
/// Lines after the last chunk, which are left out.
const MOST_TRAILERS: usize = 64;
const MOST_TRAILER_LINE: usize = 4 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBody {
    None,
    Length(u64),
    Chunked,
}

/// A body was not passed on to its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The child did not send what it announced.
    Child,
    /// The host does not take more; it may have answered already.
    Host,
}

impl RequestBody {
    /// What two readers could understand differently is refused.
    pub(crate) fn of(head: &RequestHead) -> Result<Self, HeadError> {
        let lengths: Vec<&[u8]> = head.headers.all("content-length").collect();
        let codings: Vec<&[u8]> = head.headers.all("transfer-encoding").collect();
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(Self::None),
            ([length], []) => {
                let digits = std::str::from_utf8(length).ok();
                let digits = digits.filter(|it| it.bytes().all(|it| it.is_ascii_digit()));
                let length = digits.and_then(|it| it.parse().ok());
                length
                    .map(Self::Length)
                    .ok_or(HeadError::Broken("Content-Length is no number"))
            }
            ([], [coding])
                if coding.eq_ignore_ascii_case(b"chunked") && head.minor_version == 1 =>
            {
                Ok(Self::Chunked)
            }
            ([], _) => Err(HeadError::Broken(
                "only the transfer coding chunked is passed on",
            )),
            (_, []) => Err(HeadError::Broken("there is more than one Content-Length")),
            (_, _) => Err(HeadError::Broken(
                "Content-Length and Transfer-Encoding cannot be together",
            )),
        }
    }

    pub(crate) async fn pass_on(
        self,
        child: &mut StreamReader,
        host: &mut OwnedWriteHalf,
        bytes: &ConnectionBytes,
    ) -> Result<(), BodyError> {
        match self {
            Self::None => Ok(()),
            Self::Length(length) => pass_exactly(child, host, bytes, length).await,
            Self::Chunked => pass_chunks(child, host, bytes).await,
        }
    }
}

async fn pass_exactly(
    child: &mut StreamReader,
    host: &mut OwnedWriteHalf,
    bytes: &ConnectionBytes,
    mut left: u64,
) -> Result<(), BodyError> {
    let mut buffer = vec![];
    while left > 0 {
        let read = child.read_some(&mut buffer, left).await;
        let read = read.ok().filter(|it| *it > 0).ok_or(BodyError::Child)?;
        send(host, bytes, &buffer).await?;
        left -= u64::try_from(read).unwrap_or(left);
    }
    Ok(())
}

/// Chunks are written anew, without what may stand behind their size.
async fn pass_chunks(
    child: &mut StreamReader,
    host: &mut OwnedWriteHalf,
    bytes: &ConnectionBytes,
) -> Result<(), BodyError> {
    loop {
        let line = read_line(child, MOST_SIZE_LINE).await?;
        let size = chunk_size(&line).ok_or(BodyError::Child)?;
        if size == 0 {
            break;
        }
        send(host, bytes, format!("{size:x}\r\n").as_bytes()).await?;
        pass_exactly(child, host, bytes, size).await?;
        if !read_line(child, 2).await?.is_empty() {
            return Err(BodyError::Child);
        }
        send(host, bytes, b"\r\n").await?;
    }
    for _ in 0..MOST_TRAILERS {
        if read_line(child, MOST_TRAILER_LINE).await?.is_empty() {
            return send(host, bytes, b"0\r\n\r\n").await;
        }
    }
    Err(BodyError::Child)
}

async fn send(
    host: &mut OwnedWriteHalf,
    bytes: &ConnectionBytes,
    what: &[u8],
) -> Result<(), BodyError> {
    host.write_all(what).await.map_err(|_| BodyError::Host)?;
    bytes.add(ByteDirection::Out, what.len());
    Ok(())
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|it| *it == b';').next()?.trim_ascii_end();
    let is_size = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_size)?;
    u64::from_str_radix(digits, 16).ok()
}

/// A line without its end, which is CR LF and nothing else.
async fn read_line(child: &mut StreamReader, most: usize) -> Result<Vec<u8>, BodyError> {
    loop {
        let end = child.unused().iter().position(|it| *it == b'\n');
        if let Some(end) = end {
            let line = child.unused()[..end]
                .strip_suffix(b"\r")
                .map(<[u8]>::to_vec);
            child.use_up(end + 1);
            let line = line.filter(|it| it.len() <= most && !it.contains(&b'\r'));
            return line.ok_or(BodyError::Child);
        }
        if child.unused().len() > most + 2 {
            return Err(BodyError::Child);
        }
        let filled: io::Result<bool> = child.fill().await;
        if !filled.unwrap_or(false) {
            return Err(BodyError::Child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_chunk() {
        for (line, size) in [
            ("0", Some(0)),
            ("1f", Some(31)),
            ("1F;name=value", Some(31)),
            ("1f ;x", Some(31)),
            ("", None),
            (";x", None),
            ("0x1f", None),
            ("-1", None),
            ("+1", None),
            (" 1", None),
            ("1 1", None),
            ("1g", None),
            ("fffffffffffffffff", None),
        ] {
            assert_eq!(size, chunk_size(line.as_bytes()), "{line}");
        }
    }
}
