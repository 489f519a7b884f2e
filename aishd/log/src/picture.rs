//! Pictures and PDFs that go along with a question or come with a result. What one is, its first bytes say and no name; only
//! its header is read here, and nothing of it is ever drawn.

use std::fmt;
use std::sync::Arc;

pub use aish_proto::picture::PictureKind;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

/// Pixels for a token, as services count them, and the most that they make of one picture.
const PIXELS_OF_A_TOKEN: u64 = 750;
const MOST_TOKENS: u64 = 1_600;
/// Nobody knows how many pages there are without reading all of it; these are usual.
const BYTES_OF_A_PAGE: u64 = 50_000;
const TOKENS_OF_A_PAGE: u64 = 2_000;

/// One of them, with its bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub kind: PictureKind,
    /// In pixels; a PDF has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<PictureSize>,
    pub bytes: u64,
    /// In base64, as servers of models are sent it.
    pub data: Arc<str>,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureSize {
    pub width: u32,
    pub height: u32,
}

/// A picture and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPicture {
    pub name: String,
    pub picture: Picture,
}

/// Why some bytes are no picture that models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPicture {
    #[error("its base64 is broken")]
    NotBase64,
    #[error("by its first bytes it is neither a PNG, JPEG, GIF or WebP picture nor a PDF")]
    OtherKind,
    #[error("it begins as a {} and its size cannot be read", .0.name())]
    Broken(PictureKind),
    #[error("it has {bytes} bytes, and a {} has at most {most}", .kind.name())]
    TooLarge {
        kind: PictureKind,
        bytes: u64,
        most: u64,
    },
}

impl Picture {
    /// Out of its bytes in base64.
    ///
    /// # Errors
    /// Why it is none.
    pub fn read(data: impl Into<Arc<str>>) -> Result<Self, NoPicture> {
        let data = data.into();
        let content = BASE64_STANDARD.decode(&*data);
        let content = content.map_err(|_| NoPicture::NotBase64)?;
        let kind = PictureKind::of(&content).ok_or(NoPicture::OtherKind)?;
        let bytes = content.len() as u64;
        let most = kind.most_bytes();
        if bytes > most {
            return Err(NoPicture::TooLarge { kind, bytes, most });
        }
        let size = match kind {
            PictureKind::Pdf => None,
            PictureKind::Png | PictureKind::Jpeg | PictureKind::Gif | PictureKind::Webp => {
                Some(size_of(&content).ok_or(NoPicture::Broken(kind))?)
            }
        };
        Ok(Self {
            kind,
            size,
            bytes,
            data,
        })
    }

    /// An address that holds it.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.kind.media_type(), self.data)
    }

    /// Out of such an address; what it says of its kind is not believed.
    ///
    /// # Errors
    /// Why it is none. `None`: it is another address.
    pub fn read_url(url: &str) -> Option<Result<Self, NoPicture>> {
        let (_, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        Some(Self::read(data))
    }

    /// About what a model reads of it; each server counts otherwise.
    pub fn tokens(&self) -> u64 {
        match self.size {
            Some(PictureSize { width, height }) => {
                let pixels = u64::from(width) * u64::from(height);
                pixels.div_ceil(PIXELS_OF_A_TOKEN).min(MOST_TOKENS)
            }
            None => self.bytes.div_ceil(BYTES_OF_A_PAGE) * TOKENS_OF_A_PAGE,
        }
    }

    /// The same in bytes of a text that is as many tokens: what requests are measured in.
    pub fn weight(&self) -> u64 {
        const BYTES_OF_A_TOKEN: u64 = 3;
        self.tokens() * BYTES_OF_A_TOKEN
    }

    /// Whether a text in base64 begins as one does.
    pub fn may_begin(data: &str) -> bool {
        let begin = data.get(..16).unwrap_or_default();
        let content = BASE64_STANDARD.decode(begin);
        content.is_ok_and(|it| PictureKind::of(&it).is_some())
    }
}

fn size_of(content: &[u8]) -> Option<PictureSize> {
    let size = imagesize::blob_size(content).ok()?;
    let side = |pixels| u32::try_from(pixels).ok().filter(|it| *it > 0);
    Some(PictureSize {
        width: side(size.width)?,
        height: side(size.height)?,
    })
}

impl NamedPicture {
    /// The line that stands for it in the text beside it. A name cannot end it.
    pub fn line(&self) -> String {
        let strange = |it: char| it.is_control() || matches!(it, '[' | ']');
        let name = self.name.replace(strange, "_");
        match self.picture.size {
            Some(PictureSize { width, height }) => format!("[picture {name}, {width}×{height}]"),
            None => format!("[PDF {name}]"),
        }
    }
}

/// Without its bytes.
impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picture")
            .field("kind", &self.kind)
            .field("size", &self.size)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::limits::PICTURE_BYTES;
    use proptest::prelude::*;

    use super::*;

    /// The beginning of a PNG of so many pixels, which is all that is looked at.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend(b"\x08\x02\0\0\0");
        bytes
    }

    fn read(content: &[u8]) -> Result<Picture, NoPicture> {
        Picture::read(BASE64_STANDARD.encode(content))
    }

    #[track_caller]
    fn check(content: &[u8], kind: PictureKind, size: Option<(u32, u32)>, tokens: u64) {
        let picture = read(content).unwrap();
        let found = picture.size.map(|it| (it.width, it.height));
        assert_eq!(
            (kind, size, tokens),
            (picture.kind, found, picture.tokens())
        );
        assert!(Picture::may_begin(&picture.data));
    }

    #[test]
    fn a_picture_is_known_by_its_first_bytes() {
        check(&png(640, 480), PictureKind::Png, Some((640, 480)), 410);
        check(
            &png(9000, 9000),
            PictureKind::Png,
            Some((9000, 9000)),
            MOST_TOKENS,
        );
        check(
            b"GIF89a\x02\0\x03\0\0\0\0",
            PictureKind::Gif,
            Some((2, 3)),
            1,
        );
        let jpeg = b"\xff\xd8\xff\xc0\0\x11\x08\0\x10\0\x20\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
        check(jpeg, PictureKind::Jpeg, Some((32, 16)), 1);
        let webp = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x01\x80\0\0\0\0\0\0\0";
        check(webp, PictureKind::Webp, Some((2, 3)), 1);
        check(
            b"%PDF-\x31.7\n%\xe2\xe3\xcf\xd3",
            PictureKind::Pdf,
            None,
            2_000,
        );
    }

    #[test]
    fn what_is_none_says_why() {
        assert_eq!(Err(NoPicture::NotBase64), Picture::read("no base64!"));
        assert_eq!(Err(NoPicture::OtherKind), read(b""));
        assert_eq!(Err(NoPicture::OtherKind), read(b"<svg></svg>"));
        assert_eq!(
            Err(NoPicture::Broken(PictureKind::Png)),
            read(b"\x89PNG\r\n\x1a\n")
        );
        assert_eq!(
            Err(NoPicture::Broken(PictureKind::Png)),
            read(&png(0, 5)),
            "nothing to be seen"
        );
        let mut large = png(1, 1);
        large.resize(PICTURE_BYTES + 1, 0);
        let error = read(&large).unwrap_err();
        assert_eq!(
            "it has 3750001 bytes, and a PNG has at most 3750000",
            error.to_string()
        );
    }

    #[test]
    fn a_name_does_not_end_the_line_that_it_stands_in() {
        let named = NamedPicture {
            name: "a]\n[aish] b.png".to_owned(),
            picture: read(&png(2, 3)).unwrap(),
        };
        assert_eq!("[picture a___aish_ b.png, 2×3]", named.line());
    }

    proptest! {
        /// Strangers make them.
        #[test]
        fn whatever_follows_on_a_good_beginning_is_read_or_refused(
            kind in 0_usize..5, rest in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            let begins: [&[u8]; 5] =
                [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 ", b"%PDF-"];
            let mut content = begins[kind].to_vec();
            content.extend(rest);
            let _one_or_none = read(&content);
        }
    }
}
