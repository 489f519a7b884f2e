//! Which pictures the server of a preset is not sent.

use aishd_log::api_dialect::ApiDialect;
use aishd_log::picture::Picture;
use aishd_log::tool::ContentDigest;

use crate::preset::Preset;

/// Anthropic's limit of a side, in pixels (its documentation of vision). Others make a large picture smaller themselves.
const MOST_PIXELS: u32 = 8_000;

/// Why it is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnshownPicture {
    /// The model takes none of its kind.
    Kind,
    /// A side has more pixels than its server takes.
    TooManyPixels { most: u32 },
    /// The server refused this very one.
    Refused,
}

impl Preset {
    /// Why this picture is not sent to its server; `None`: it is, or nobody knows.
    pub fn unshown(&self, picture: &Picture) -> Option<UnshownPicture> {
        if self.takes(picture.kind) == Some(false) {
            return Some(UnshownPicture::Kind);
        }
        if let (Some(size), ApiDialect::Messages) = (picture.size, self.api())
            && size.width.max(size.height) > MOST_PIXELS
        {
            return Some(UnshownPicture::TooManyPixels { most: MOST_PIXELS });
        }
        let refused = &self.learned.pictures;
        // A digest of megabytes is made only where one is compared.
        (!refused.is_empty() && refused.contains(&ContentDigest::of(picture.data.as_bytes())))
            .then_some(UnshownPicture::Refused)
    }
}
