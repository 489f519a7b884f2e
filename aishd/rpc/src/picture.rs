//! Pictures that go along with a question: taking them in, and how events tell of them.

use aish_proto::error::ErrorKind;
use aish_proto::event as wire;
use aish_proto::limits::{PDF_BYTES, PICTURES};
use aish_proto::transfer::{ChatContent, ChatFile, ChatImage, ChatPart};
use aishd_log::event::Attachment;
use aishd_log::picture::{NamedPicture, NoPicture, Picture, PictureKind};

use super::method_error::MethodError;

/// What the pictures of one question have taken.
#[derive(Debug, Default)]
pub(super) struct PictureRoom {
    count: usize,
    bytes: usize,
}

impl PictureRoom {
    /// One of them, if it is one and there is room for it.
    pub(super) fn take(&mut self, name: &str, base64: String) -> Result<Picture, MethodError> {
        let picture = Picture::read(base64).map_err(|why| {
            let message = format!("{name}: {why}");
            match why {
                NoPicture::TooLarge { .. } => MethodError::new(ErrorKind::TooLarge, message)
                    .hint("a smaller copy serves as well: magick FILE -resize 1600x1600 SMALLER"),
                NoPicture::NotBase64 | NoPicture::OtherKind | NoPicture::Broken(_) => {
                    MethodError::params(&message).hint(
                        "PNG, JPEG, GIF, WebP and PDF are taken; another kind has to be converted",
                    )
                }
            }
        })?;
        self.count += 1;
        self.bytes += usize::try_from(picture.bytes).unwrap_or(usize::MAX);
        if self.count > PICTURES || self.bytes > PDF_BYTES {
            let message = format!(
                "{name}: a question takes {PICTURES} pictures and PDFs, of {PDF_BYTES} bytes together"
            );
            return Err(MethodError::new(ErrorKind::TooLarge, message)
                .hint("ask with fewer of them, or with smaller copies"));
        }
        Ok(picture)
    }
}

/// A question in the form of OpenAI.
pub(super) fn chat_content(text: &str, pictures: &[NamedPicture]) -> ChatContent {
    if pictures.is_empty() {
        return ChatContent::Text(text.to_owned());
    }
    let mut parts = vec![ChatPart::Text {
        text: text.to_owned(),
    }];
    parts.extend(pictures.iter().map(|it| match it.picture.kind {
        PictureKind::Pdf => ChatPart::File {
            file: ChatFile {
                filename: it.name.clone(),
                file_data: it.picture.data_url(),
            },
        },
        PictureKind::Png | PictureKind::Jpeg | PictureKind::Gif | PictureKind::Webp => {
            let url = it.picture.data_url();
            ChatPart::ImageUrl {
                image_url: ChatImage { url },
            }
        }
    }));
    ChatContent::Parts(parts)
}

/// What goes along with a question, without the bytes of a picture.
pub(super) fn attached(attachment: Attachment) -> wire::AttachedText {
    let picture = attachment.picture.map(|it| wire::AttachedPicture {
        media_type: it.kind.media_type().to_owned(),
        width: it.size.map(|it| it.width),
        height: it.size.map(|it| it.height),
        bytes: it.bytes,
        base64: None,
    });
    wire::AttachedText {
        name: attachment.name,
        text: attachment.text,
        picture,
    }
}
