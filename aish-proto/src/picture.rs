//! The kinds of pictures that models take, by their first bytes: both sides look, so that nothing else is sent or kept.

use serde::{Deserialize, Serialize};

use crate::limits::{PDF_BYTES, PICTURE_BYTES};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureKind {
    Png,
    Jpeg,
    Gif,
    Webp,
    Pdf,
}

impl PictureKind {
    /// By the first bytes; twelve are enough.
    pub fn of(content: &[u8]) -> Option<Self> {
        let riff = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP");
        match content {
            _ if content.starts_with(b"\x89PNG\r\n\x1a\n") => Some(Self::Png),
            _ if content.starts_with(b"\xff\xd8\xff") => Some(Self::Jpeg),
            _ if content.starts_with(b"GIF87a") || content.starts_with(b"GIF89a") => {
                Some(Self::Gif)
            }
            _ if riff => Some(Self::Webp),
            _ if content.starts_with(b"%PDF-") => Some(Self::Pdf),
            _ => None,
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::Webp => "WebP",
            Self::Pdf => "PDF",
        }
    }

    /// What people call all of its like.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pdf => "PDFs",
            Self::Png | Self::Jpeg | Self::Gif | Self::Webp => "pictures",
        }
    }

    /// Of one of them.
    pub fn most_bytes(self) -> u64 {
        match self {
            Self::Pdf => PDF_BYTES as u64,
            Self::Png | Self::Jpeg | Self::Gif | Self::Webp => PICTURE_BYTES as u64,
        }
    }
}
