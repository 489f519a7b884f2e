//! A picture or a PDF in one row.

use aish_proto::event::AttachedPicture;

use crate::render::size;

/// `picture chart.png · 640×480 · 48.0 KiB`. The name is a stranger's.
pub(crate) fn picture_line(name: &str, picture: &AttachedPicture) -> String {
    let bytes = size::bytes(picture.bytes);
    match (picture.width, picture.height) {
        (Some(width), Some(height)) => format!("picture {name} · {width}×{height} · {bytes}"),
        (_, _) => format!("PDF {name} · {bytes}"),
    }
}
