//! A picture as a terminal draws it among rows, in a number of rows that is known before.

use std::io::Cursor;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use image::{ImageFormat, RgbaImage, imageops};

use super::area::PictureArea;
use super::decode::{self, UndrawnPicture};
use super::protocol::{PictureProtocol, PictureTerminal};
use super::{sixel, whole};

/// A drawing that is longer holds up the rows behind it on a slow terminal.
const DRAWN_BYTES: usize = 2 << 20;

/// What draws it, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DrawnPicture {
    /// Begins and ends where a row begins.
    pub(crate) text: String,
    pub(crate) columns: u32,
    pub(crate) rows: u32,
}

/// Draws a file in the room that there is.
pub(crate) fn drawn(
    content: &[u8],
    terminal: PictureTerminal,
    area: PictureArea,
) -> Result<DrawnPicture, UndrawnPicture> {
    let picture = decode::decode(content, area.pixels())?;
    let (columns, rows) = area.cells(picture.dimensions());
    let body = match terminal.protocol {
        PictureProtocol::Sixel { colours } => sixel::drawn(&picture, colours),
        PictureProtocol::Kitty => {
            // The cursor stays, and no number is given: it is the terminal's to forget when it has scrolled away.
            let keys = format!("a=T,f=100,q=2,C=1,c={columns},r={rows},");
            whole::kitty(&keys, &png(&in_cells(&picture, area, columns, rows))?)
        }
        PictureProtocol::Inline => {
            let content = png(&in_cells(&picture, area, columns, rows))?;
            let (size, data) = (content.len(), BASE64_STANDARD.encode(&content));
            format!(
                "\x1b]1337;File=inline=1;size={size};width={columns};height={rows};preserveAspectRatio=1:{data}\x07"
            )
        }
    };
    if body.len() > DRAWN_BYTES {
        return Err(UndrawnPicture::TooLarge);
    }
    Ok(DrawnPicture {
        text: placed(&body, rows),
        columns,
        rows,
    })
}

/// Terminals differ in where they leave the cursor behind a picture, and whether they scroll for it. So its rows are made
/// first, it is drawn from the first of them, and the cursor goes on from where it had been.
fn placed(body: &str, rows: u32) -> String {
    let room = "\n".repeat(rows as usize);
    format!("{room}\x1b[{rows}A\x1b7{body}\x1b8\x1b[{rows}B")
}

/// The picture with a transparent margin, so that it takes whole cells and is stretched by nobody.
fn in_cells(picture: &RgbaImage, area: PictureArea, columns: u32, rows: u32) -> RgbaImage {
    let mut whole = RgbaImage::new(columns * area.cell.width, rows * area.cell.height);
    imageops::replace(&mut whole, picture, 0, 0);
    whole
}

fn png(picture: &RgbaImage) -> Result<Vec<u8>, UndrawnPicture> {
    let mut content = Cursor::new(vec![]);
    let written = picture.write_to(&mut content, ImageFormat::Png);
    written.map_err(|_| UndrawnPicture::Broken)?;
    Ok(content.into_inner())
}

#[cfg(test)]
mod tests {
    use super::super::area::CellPixels;
    use super::super::decode::tests::{file, quarters};
    use super::*;

    const ROOM: PictureArea = PictureArea {
        columns: 40,
        rows: 12,
        cell: CellPixels {
            width: 10,
            height: 20,
        },
    };

    fn draw(protocol: PictureProtocol, content: &[u8]) -> DrawnPicture {
        let terminal = PictureTerminal {
            protocol,
            cell: None,
        };
        drawn(content, terminal, ROOM).unwrap()
    }

    #[test]
    fn each_protocol_gets_the_pixels_in_the_rows_that_are_counted() {
        // 800×300 fit into 400 pixels in a row: 400×150.
        let content = file(&quarters(800, 300), ImageFormat::WebP);
        let frames = [
            (
                PictureProtocol::Kitty,
                "\x1b_Ga=T,f=100,q=2,C=1,c=40,r=8,m=",
            ),
            (PictureProtocol::Inline, "\x1b]1337;File=inline=1;size="),
            (
                PictureProtocol::Sixel { colours: 16 },
                "\x1bP0;1;0q\"1;1;400;150#0;2;100;0;0",
            ),
        ];
        for (protocol, begins) in frames {
            let shown = draw(protocol, &content);
            assert_eq!((40, 8), (shown.columns, shown.rows));
            let above = format!("{}\x1b[8A\x1b7{begins}", "\n".repeat(8));
            assert!(shown.text.starts_with(&above), "{:?}", &shown.text[..60]);
            assert!(shown.text.ends_with("\x1b8\x1b[8B"));
        }
    }

    #[test]
    fn a_small_picture_is_not_stretched() {
        let content = file(&quarters(12, 21), ImageFormat::Gif);
        let shown = draw(PictureProtocol::Inline, &content);
        assert_eq!((2, 2), (shown.columns, shown.rows));
        let data = shown.text.split_once("preserveAspectRatio=1:").unwrap().1;
        let data = data.split_once('\x07').unwrap().0;
        let png = BASE64_STANDARD.decode(data).unwrap();
        let read = decode::decode(&png, (999, 999)).unwrap();
        assert_eq!((20, 40), read.dimensions());
        assert_eq!([255, 0, 0, 255], read.get_pixel(0, 0).0);
        assert_eq!(0, read.get_pixel(19, 39).0[3]);
    }
}
