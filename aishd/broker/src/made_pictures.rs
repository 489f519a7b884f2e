//! Pictures that a model made, as they come in the events of an answer: each is kept beside the answer, as blocks of
//! results are.

use aish_proto::id::ResultId;
use aishd_log::block::{BlockForm, BlockKind, KeptBlock, KeptParts, parts};
use aishd_log::picture::PictureKind;
use aishd_platform::clock;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Pictures of one answer.
const MOST: usize = 16;
/// Of one answer, without their base64.
const MOST_BYTES: usize = 32 << 20;
/// An address that is no picture itself is repeated up to this length.
const MAX_ADDRESS_BYTES: usize = 2048;

/// Why an address gives no picture to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoMadePicture {
    /// It lies on some machine.
    Elsewhere,
    /// For the log of the daemon.
    Other(String),
}

/// What has been kept of one answer.
#[derive(Debug, Default)]
pub(super) struct MadePictures {
    /// The base64 of each is told by its length and its end: servers repeat them in their last event.
    seen: Vec<(usize, String)>,
    bytes: usize,
}

impl MadePictures {
    /// The picture that an address holds. `None`: it has come before.
    pub(super) fn take(&mut self, address: &str) -> Result<Option<KeptParts>, NoMadePicture> {
        let other = |why: &str| {
            Err(NoMadePicture::Other(format!(
                "a picture was left out: {why}"
            )))
        };
        let Some(held) = address.strip_prefix("data:") else {
            let is_web = ["https://", "http://"]
                .iter()
                .any(|it| address.starts_with(it));
            let strange = |it: char| it.is_control() || it.is_whitespace() || it == ')';
            let is_plain = address.len() <= MAX_ADDRESS_BYTES && !address.contains(strange);
            return if is_web && is_plain {
                Err(NoMadePicture::Elsewhere)
            } else {
                other("its address is none that can be shown")
            };
        };
        let Some((_, data)) = held.split_once(";base64,") else {
            return other("it is not in base64");
        };
        let known = (data.len(), end_of(data).to_owned());
        if self.seen.contains(&known) {
            return Ok(None);
        }
        if self.seen.len() == MOST {
            return other("there are too many in one answer");
        }
        let Ok(content) = BASE64_STANDARD.decode(data) else {
            return other("its base64 is broken");
        };
        let Some(kind) = PictureKind::of(&content) else {
            return other("by its first bytes it is neither PNG, JPEG, GIF, WebP nor PDF");
        };
        if self.bytes + content.len() > MOST_BYTES {
            return other("it is too much for one answer");
        }
        self.bytes += content.len();
        self.seen.push(known);
        let block = KeptBlock {
            result: ResultId(clock::ulid()),
            kind: match kind {
                PictureKind::Pdf => BlockKind::Resource,
                PictureKind::Png | PictureKind::Jpeg | PictureKind::Gif | PictureKind::Webp => {
                    BlockKind::Image
                }
            },
            // By its bytes, whatever the address says of it.
            mime: kind.media_type().to_owned(),
            bytes: content.len() as u64,
            form: BlockForm::Base64,
            uri: None,
        };
        Ok(Some((block, parts(data))))
    }
}

fn end_of(data: &str) -> &str {
    const BYTES: usize = 64;
    &data[data.ceil_char_boundary(data.len().saturating_sub(BYTES))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(content: &[u8]) -> String {
        let data = BASE64_STANDARD.encode(content);
        format!("data:image/jpeg;base64,{data}")
    }

    fn png(more: &[u8]) -> Vec<u8> {
        [b"\x89PNG\r\n\x1a\n".as_slice(), more].concat()
    }

    #[test]
    fn a_picture_is_kept_once_and_is_what_its_bytes_say() {
        let mut pictures = MadePictures::default();
        let first = png(&[7; 400_000]);
        let (block, parts) = pictures.take(&address(&first)).unwrap().unwrap();
        assert_eq!(
            (BlockKind::Image, "image/png", 400_008, 3),
            (block.kind, &*block.mime, block.bytes, parts.len())
        );
        assert_eq!(first, BASE64_STANDARD.decode(parts.concat()).unwrap());
        assert_eq!(Ok(None), pictures.take(&address(&first)));
        assert!(pictures.take(&address(&png(b"other"))).unwrap().is_some());
    }

    #[test]
    fn what_cannot_be_kept_says_why() {
        let mut pictures = MadePictures::default();
        let mut why = |address: &str| match pictures.take(address) {
            Err(NoMadePicture::Other(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why("data:image/png;base64,#").ends_with("its base64 is broken"));
        assert!(why("data:image/png,abc").ends_with("it is not in base64"));
        assert!(why(&address(b"<svg/>")).contains("by its first bytes"));
        assert!(why("file:///etc/passwd").ends_with("none that can be shown"));
        assert!(why("https://h/\u{1b}[2J").ends_with("none that can be shown"));
        let elsewhere = pictures.take("https://h/p.png");
        assert_eq!(Err(NoMadePicture::Elsewhere), elsewhere);
    }

    #[test]
    fn one_answer_has_so_many_of_them_and_so_much() {
        let mut pictures = MadePictures::default();
        for number in 0..MOST {
            let picture = address(&png(&[u8::try_from(number).unwrap()]));
            assert!(pictures.take(&picture).unwrap().is_some());
        }
        assert!(pictures.take(&address(&png(b"one more"))).is_err());
        let mut pictures = MadePictures::default();
        assert!(pictures.take(&address(&png(&vec![0; MOST_BYTES]))).is_err());
    }
}
