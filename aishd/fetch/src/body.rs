//! The body of an answer, read to a bound: of what is sent, of what it is unpacked to, and of time.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::failure::FetchFailure;
use crate::limits::FetchLimits;

/// What was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    /// Why there would have been more. `None`: that is all of it.
    pub(crate) cut: Option<String>,
}

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyCoding {
    None,
    Gzip,
}

impl BodyCoding {
    /// By its headers, in their order.
    pub(crate) fn of<'a>(codings: impl Iterator<Item = &'a str>) -> Result<Self, FetchFailure> {
        let all = codings.flat_map(|it| it.split(','));
        let all = all.map(|it| it.trim().to_ascii_lowercase());
        let all: Vec<String> = all
            .filter(|it| !matches!(it.as_str(), "" | "identity"))
            .collect();
        match all.as_slice() {
            [] => Ok(Self::None),
            [one] if matches!(one.as_str(), "gzip" | "x-gzip") => Ok(Self::Gzip),
            others => Err(FetchFailure::Packed(others.join(", "))),
        }
    }
}

/// Reads until the end, or to a bound; what came before that counts. Only where nothing came there is nothing.
pub(crate) async fn read(
    mut body: Incoming,
    packing: BodyCoding,
    host: &str,
    limits: FetchLimits,
) -> Result<ReadBody, FetchFailure> {
    let mut unpacked = BodyDecoder::new(packing, limits.body_bytes);
    let (mut sent, ends) = (0, Instant::now() + limits.body);
    let cut = loop {
        let until = ends.min(Instant::now() + limits.idle);
        let frame = match timeout_at(until, body.frame()).await {
            Ok(None) => break None,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) if sent == 0 => {
                let (host, why) = (host.to_owned(), error.to_string());
                return Err(FetchFailure::BrokeOff { host, why });
            }
            Ok(Some(Err(_))) => break Some("the connection broke off".to_owned()),
            Err(_elapsed) if sent == 0 => {
                let seconds = limits.idle.as_secs();
                let host = host.to_owned();
                return Err(FetchFailure::Silent { host, seconds });
            }
            Err(_elapsed) => break Some("the rest did not come in time".to_owned()),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        sent += data.len();
        if !unpacked.take(&data)? || sent > limits.body_bytes {
            let mib = limits.body_bytes >> 20;
            break Some(format!(
                "the page has more than the {mib} MiB that are read"
            ));
        }
    };
    let bytes = unpacked.end(cut.is_some())?;
    Ok(ReadBody { bytes, cut })
}

/// A body as it becomes known.
enum BodyDecoder {
    Plain(BoundedBytes),
    Gzip(Box<MultiGzDecoder<BoundedBytes>>),
}

/// Takes so much and no more.
struct BoundedBytes {
    bytes: Vec<u8>,
    most: usize,
    is_full: bool,
}

impl Write for BoundedBytes {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let room = self.most - self.bytes.len();
        if data.len() > room {
            self.is_full = true;
            self.bytes.extend_from_slice(&data[..room]);
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BodyDecoder {
    fn new(packing: BodyCoding, most: usize) -> Self {
        let bytes = BoundedBytes {
            bytes: vec![],
            most,
            is_full: false,
        };
        match packing {
            BodyCoding::None => Self::Plain(bytes),
            BodyCoding::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(bytes))),
        }
    }

    fn kept(&self) -> &BoundedBytes {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Gzip(decoder) => decoder.get_ref(),
        }
    }

    /// Whether there is room for more.
    fn take(&mut self, data: &[u8]) -> Result<bool, FetchFailure> {
        let taken = match self {
            Self::Plain(bytes) => bytes.write_all(data),
            Self::Gzip(decoder) => decoder.write_all(data),
        };
        let is_full = self.kept().is_full;
        match taken {
            Ok(()) => Ok(!is_full),
            Err(_) if is_full => Ok(false),
            Err(error) => Err(FetchFailure::Unpack(error.to_string())),
        }
    }

    fn end(mut self, is_cut: bool) -> Result<Vec<u8>, FetchFailure> {
        if let Self::Gzip(decoder) = &mut self {
            let ended = decoder.try_finish();
            // Of one that was cut the beginning is all there is; an empty one was nothing at all.
            let is_empty = decoder.get_ref().bytes.is_empty();
            if let Err(error) = ended
                && !is_cut
                && !is_empty
            {
                return Err(FetchFailure::Unpack(error.to_string()));
            }
        }
        Ok(match self {
            Self::Plain(bytes) => bytes.bytes,
            Self::Gzip(mut decoder) => std::mem::take(&mut decoder.get_mut().bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_is_packed_is_unpacked_to_a_bound() {
        let mut whole = BodyDecoder::new(BodyCoding::Gzip, 100);
        let bytes = packed(b"a page");
        for piece in bytes.chunks(3) {
            assert!(whole.take(piece).unwrap());
        }
        assert_eq!(b"a page".to_vec(), whole.end(false).unwrap());

        let bomb = packed(&vec![b'a'; 64 << 20]);
        assert!(bomb.len() < 100_000);
        let mut burst = BodyDecoder::new(BodyCoding::Gzip, 1000);
        assert!(!burst.take(&bomb).unwrap());
        assert_eq!(1000, burst.end(true).unwrap().len());

        let mut broken = BodyDecoder::new(BodyCoding::Gzip, 100);
        assert!(broken.take(b"no gzip at all, and long enough").is_err());
        let mut half = BodyDecoder::new(BodyCoding::Gzip, 100);
        assert!(half.take(&bytes[..bytes.len() - 4]).unwrap());
        assert!(half.end(false).is_err());
    }

    #[test]
    fn only_what_was_asked_for_is_unpacked() {
        let of = |codings: &[&'static str]| BodyCoding::of(codings.iter().copied());
        assert_eq!(BodyCoding::None, of(&[]).unwrap());
        assert_eq!(BodyCoding::None, of(&["identity"]).unwrap());
        assert_eq!(BodyCoding::Gzip, of(&["GZIP"]).unwrap());
        for codings in [&["br"][..], &["gzip, gzip"], &["gzip", "deflate"]] {
            assert!(of(codings).is_err(), "{codings:?}");
        }
    }
}
