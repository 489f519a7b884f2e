//! From the bytes of a picture, which are a stranger's, to pixels in the size that is shown. A picture that says it is larger
//! than the bounds is not read at all: a few bytes can say that they are terabytes.

use std::fmt;
use std::io::Cursor;

use aish_proto::picture::PictureKind;
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits, RgbaImage};

/// More bytes of a file are not looked at: what is shown has a few hundred rows of pixels.
pub(crate) const FILE_BYTES: u64 = 16 << 20;
/// Pixels of a side, and of all: what cameras of today make.
const SIDE: u32 = 16_384;
const PIXELS: u64 = 40_000_000;
/// What the pixels may take as the file has them, and what a decoder may take besides.
const PIXEL_BYTES: u64 = 160 << 20;
const DECODER_BYTES: u64 = 256 << 20;

/// Why a picture cannot be drawn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UndrawnPicture {
    /// It is none of the kinds that are read.
    Unknown,
    TooLarge,
    Broken,
}

impl fmt::Display for UndrawnPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no picture that can be drawn",
            Self::TooLarge => "too large to be drawn",
            Self::Broken => "broken, and cannot be drawn",
        })
    }
}

/// Its pixels, made smaller where they are more than that many in a row or a column, never larger. Of one that moves the
/// first.
pub(crate) fn decode(content: &[u8], within: (u32, u32)) -> Result<RgbaImage, UndrawnPicture> {
    let format = match PictureKind::of(content) {
        Some(PictureKind::Png) => ImageFormat::Png,
        Some(PictureKind::Jpeg) => ImageFormat::Jpeg,
        Some(PictureKind::Gif) => ImageFormat::Gif,
        Some(PictureKind::Webp) => ImageFormat::WebP,
        Some(PictureKind::Pdf) | None => return Err(UndrawnPicture::Unknown),
    };
    if content.len() as u64 > FILE_BYTES {
        return Err(UndrawnPicture::TooLarge);
    }
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE);
    limits.max_image_height = Some(SIDE);
    limits.max_alloc = Some(DECODER_BYTES);
    let mut reader = ImageReader::with_format(Cursor::new(content), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|it| of(&it))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > PIXELS || decoder.total_bytes() > PIXEL_BYTES {
        return Err(UndrawnPicture::TooLarge);
    }
    let orientation = decoder.orientation().ok();
    let picture = DynamicImage::from_decoder(decoder).map_err(|it| of(&it))?;
    let turned = orientation.is_some_and(|it| it.to_exif() > 4);
    let (across, down) = if turned { (within.1, within.0) } else { within };
    // Smaller first: all that comes then works on few pixels.
    let mut picture = match (picture.width(), picture.height()) {
        (0, _) | (_, 0) => return Err(UndrawnPicture::Broken),
        (width, height) if width > across || height > down => picture.thumbnail(across, down),
        (_, _) => picture,
    };
    if let Some(orientation) = orientation {
        picture.apply_orientation(orientation);
    }
    Ok(picture.into_rgba8())
}

fn of(error: &image::ImageError) -> UndrawnPicture {
    match error {
        image::ImageError::Limits(_) => UndrawnPicture::TooLarge,
        _ => UndrawnPicture::Broken,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use image::Rgba;

    use super::*;

    /// A picture of four colours, one in each quarter.
    pub(in super::super) fn quarters(width: u32, height: u32) -> RgbaImage {
        RgbaImage::from_fn(width, height, |x, y| {
            Rgba(match (x < width / 2, y < height / 2) {
                (true, true) => [255, 0, 0, 255],
                (false, true) => [0, 255, 0, 255],
                (true, false) => [0, 0, 255, 255],
                (false, false) => [255, 255, 255, 0],
            })
        })
    }

    pub(in super::super) fn file(picture: &RgbaImage, format: ImageFormat) -> Vec<u8> {
        let mut content = Cursor::new(vec![]);
        let picture = DynamicImage::ImageRgba8(picture.clone());
        let picture = match format {
            ImageFormat::Jpeg => DynamicImage::ImageRgb8(picture.into_rgb8()),
            _ => picture,
        };
        picture.write_to(&mut content, format).unwrap();
        content.into_inner()
    }

    #[test]
    fn each_kind_is_read_and_made_smaller_in_its_shape() {
        let picture = quarters(64, 32);
        for format in [
            ImageFormat::Png,
            ImageFormat::Jpeg,
            ImageFormat::Gif,
            ImageFormat::WebP,
        ] {
            let content = file(&picture, format);
            let read = decode(&content, (1000, 1000)).unwrap();
            assert_eq!((64, 32), read.dimensions(), "{format:?}");
            let read = decode(&content, (16, 100)).unwrap();
            assert_eq!((16, 8), read.dimensions(), "{format:?}");
            let [red, green, _, _] = read.get_pixel(3, 1).0;
            assert!(red > 200 && green < 60, "{format:?}");
            if format != ImageFormat::Jpeg {
                assert_eq!(0, read.get_pixel(12, 6).0[3], "{format:?}");
            }
        }
    }

    #[test]
    fn a_picture_that_says_it_is_enormous_is_not_read() {
        let mut bomb = file(&quarters(8, 8), ImageFormat::Png);
        for (width, height) in [(60_000_u32, 60_000_u32), (16_000, 16_000), (u32::MAX, 1)] {
            bomb[16..20].copy_from_slice(&width.to_be_bytes());
            bomb[20..24].copy_from_slice(&height.to_be_bytes());
            let checksum = crc32(&bomb[12..29]);
            bomb[29..33].copy_from_slice(&checksum.to_be_bytes());
            let refused = decode(&bomb, (100, 100)).unwrap_err();
            assert!(
                refused == UndrawnPicture::TooLarge || width == u32::MAX,
                "{refused:?}"
            );
        }
        let mut gif = file(&quarters(8, 8), ImageFormat::Gif);
        gif[6..10].copy_from_slice(&[0xff; 4]);
        assert_eq!(Err(UndrawnPicture::TooLarge), decode(&gif, (100, 100)));
        let large = [b"GIF89a".to_vec(), vec![0; 17 << 20]].concat();
        assert_eq!(Err(UndrawnPicture::TooLarge), decode(&large, (100, 100)));
    }

    /// The checksum of PNG, bit by bit.
    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                (sum >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(sum & 1))
            })
        })
    }

    #[test]
    fn what_is_broken_anywhere_is_an_error_and_no_panic() {
        for format in [
            ImageFormat::Png,
            ImageFormat::Jpeg,
            ImageFormat::Gif,
            ImageFormat::WebP,
        ] {
            let whole = file(&quarters(20, 20), format);
            for at in 0..whole.len() {
                let _cut = decode(&whole[..at], (10, 10));
                let mut changed = whole.clone();
                changed[at] ^= 0xff;
                let _changed = decode(&changed, (10, 10));
            }
        }
        assert_eq!(Err(UndrawnPicture::Unknown), decode(b"%PDF-", (9, 9)));
        assert_eq!(Err(UndrawnPicture::Unknown), decode(b"", (9, 9)));
    }
}
