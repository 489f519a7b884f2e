//! Sixels, as the VT340 had them (STD 070, chapter 9): bands of six rows, each drawn once for every colour that it has.

use std::collections::HashMap;
use std::fmt::Write as _;

use color_quant::NeuQuant;
use image::RgbaImage;

/// Colours that a terminal has at once, where it does not say; and the most that we ask of one.
pub(super) const COLOURS: u16 = 256;
/// A run of so many or more is shorter with its number.
const RUN: usize = 4;
/// Rows of a band.
const BAND: u32 = 6;
/// What is less opaque is not drawn.
const OPAQUE: u8 = 128;
/// Of so many pixels every one teaches the colours, of more every tenth.
const TAUGHT_BY_ALL: usize = 40_000;

/// Red, green and blue in hundredths, as sixels have them.
type Colour = [u8; 3];

/// The picture without what is around it; what is transparent leaves what stands on the screen.
pub(super) fn drawn(picture: &RgbaImage, colours: u16) -> String {
    let (width, height) = picture.dimensions();
    let (palette, pixels) = palette(picture, usize::from(colours.clamp(2, COLOURS)));
    let mut out = format!("\x1bP0;1;0q\"1;1;{width};{height}");
    for (number, [red, green, blue]) in palette.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(out, "#{number};2;{red};{green};{blue}");
    }
    let across = width as usize;
    for band in pixels.chunks(across * BAND as usize) {
        let mut bits = vec![None; palette.len()];
        for (at, colour) in band.iter().enumerate() {
            if let Some(colour) = colour {
                let row = bits[usize::from(*colour)].get_or_insert_with(|| vec![0_u8; across]);
                row[at % across] |= 1 << (at / across);
            }
        }
        for (number, row) in bits.iter().enumerate() {
            if let Some(row) = row {
                let _ = write!(out, "#{number}");
                write_row(&mut out, row);
                out.push('$');
            }
        }
        out.push('-');
    }
    out.push_str("\x1b\\");
    out
}

/// One colour of one band, without the nothing behind its last column.
fn write_row(out: &mut String, row: &[u8]) {
    let end = row.iter().rposition(|it| *it != 0).map_or(0, |it| it + 1);
    for run in row[..end].chunk_by(|one, next| one == next) {
        let shown = char::from(b'?' + run[0]);
        if run.len() >= RUN {
            let _ = write!(out, "!{}{shown}", run.len());
        } else {
            out.extend(std::iter::repeat_n(shown, run.len()));
        }
    }
}

/// The colours, and which of them each pixel has. A picture of few colours keeps them.
fn palette(picture: &RgbaImage, colours: usize) -> (Vec<Colour>, Vec<Option<u8>>) {
    let seen: Vec<Option<Colour>> = picture
        .pixels()
        .map(|it| {
            let [red, green, blue, opacity] = it.0;
            (opacity >= OPAQUE).then(|| [red, green, blue].map(in_hundredths))
        })
        .collect();
    let mut known: HashMap<Colour, u8> = HashMap::new();
    let mut palette: Vec<Colour> = vec![];
    for colour in seen.iter().flatten() {
        if !known.contains_key(colour) {
            if palette.len() == colours {
                return reduced(&seen, colours);
            }
            // No more than 256.
            known.insert(*colour, u8::try_from(palette.len()).unwrap_or(u8::MAX));
            palette.push(*colour);
        }
    }
    let pixels = seen.iter().map(|it| known.get(it.as_ref()?).copied());
    (palette, pixels.collect())
}

/// The same where there are more colours than a terminal has.
fn reduced(seen: &[Option<Colour>], colours: usize) -> (Vec<Colour>, Vec<Option<u8>>) {
    let scaled = |colour: Colour| {
        let [red, green, blue] = colour.map(|it| (u16::from(it) * 255 / 100) as u8);
        [red, green, blue, u8::MAX]
    };
    let opaque: Vec<u8> = seen.iter().flatten().flat_map(|it| scaled(*it)).collect();
    let every = if opaque.len() / 4 > TAUGHT_BY_ALL {
        10
    } else {
        1
    };
    let found = NeuQuant::new(every, colours, &opaque);
    let palette = found.color_map_rgb();
    let palette = palette
        .chunks_exact(3)
        .map(|it| [it[0], it[1], it[2]].map(in_hundredths))
        .collect();
    let mut known: HashMap<Colour, u8> = HashMap::new();
    let mut index = |colour: Colour| {
        let of = |it: Colour| u8::try_from(found.index_of(&scaled(it))).unwrap_or(u8::MAX);
        *known.entry(colour).or_insert_with(|| of(colour))
    };
    let pixels = seen.iter().map(|it| it.map(&mut index)).collect();
    (palette, pixels)
}

fn in_hundredths(value: u8) -> u8 {
    ((u16::from(value) * 100 + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use image::Rgba;

    use super::super::decode::tests::quarters;
    use super::*;

    /// What a terminal makes of it, read by the book: `None` is a pixel that is not drawn.
    fn read(drawn: &str) -> (u32, u32, Vec<Option<Colour>>) {
        let body = drawn
            .strip_prefix("\x1bP0;1;0q\"1;1;")
            .expect("a beginning");
        let body = body.strip_suffix("\x1b\\").expect("an end");
        assert!(body.bytes().all(|it| (0x20..0x7f).contains(&it)));
        let (size, body) = body.split_at(body.find(['#', '-']).expect("bands"));
        let (width, height) = size.split_once(';').expect("a size");
        let (width, height): (u32, u32) = (width.parse().unwrap(), height.parse().unwrap());
        let mut pixels = vec![None; (width * height) as usize];
        let mut palette = HashMap::new();
        let (mut colour, mut x, mut top) = (0_u32, 0, 0);
        let mut rest = body;
        let number = |text: &mut &str| {
            let end = text.find(|it: char| !it.is_ascii_digit());
            let (digits, behind) = text.split_at(end.unwrap_or(text.len()));
            *text = behind;
            digits.parse::<u32>().unwrap()
        };
        while let Some(first) = rest.chars().next() {
            rest = &rest[1..];
            match first {
                '#' => {
                    colour = number(&mut rest);
                    if let Some(mut defined) = rest.strip_prefix(";2;") {
                        let red = number(&mut defined);
                        let mut parts = [red, 0, 0];
                        for part in &mut parts[1..] {
                            defined = defined.strip_prefix(';').unwrap();
                            *part = number(&mut defined);
                        }
                        rest = defined;
                        palette.insert(colour, parts.map(|it| u8::try_from(it).unwrap()));
                    }
                }
                '$' => x = 0,
                '-' => (x, top) = (0, top + BAND),
                '!' | '?'..='~' => {
                    let mut times = 1;
                    let mut shown = first;
                    if first == '!' {
                        times = number(&mut rest);
                        shown = rest.chars().next().unwrap();
                        rest = &rest[1..];
                    }
                    let bits = shown as u32 - '?' as u32;
                    for _ in 0..times {
                        for row in (0..BAND).filter(|it| bits & (1 << it) != 0) {
                            let at = (top + row) * width + x;
                            pixels[at as usize] = Some(palette[&colour]);
                        }
                        x += 1;
                    }
                    assert!(x <= width);
                }
                other => panic!("{other:?}"),
            }
        }
        (width, height, pixels)
    }

    /// The most that a channel of a pixel differs, in hundredths, and the mean of all.
    fn differs(picture: &RgbaImage, colours: u16) -> (u8, f64) {
        let (width, height, pixels) = read(&drawn(picture, colours));
        assert_eq!((width, height), picture.dimensions());
        let (mut most, mut sum) = (0, 0.0);
        for (pixel, read) in picture.pixels().zip(&pixels) {
            let [red, green, blue, opacity] = pixel.0;
            assert_eq!(opacity >= OPAQUE, read.is_some());
            let wanted = [red, green, blue].map(in_hundredths);
            for (one, other) in wanted.iter().zip(read.unwrap_or(wanted)) {
                most = most.max(one.abs_diff(other));
                sum += f64::from(one.abs_diff(other));
            }
        }
        (most, sum / f64::from(width * height * 3))
    }

    #[test]
    fn few_colours_are_kept_and_what_is_transparent_is_not_drawn() {
        for (width, height) in [(1, 1), (5, 7), (64, 6), (33, 50)] {
            assert_eq!((0, 0.0), differs(&quarters(width, height), COLOURS));
            assert_eq!((0, 0.0), differs(&quarters(width, height), 16));
        }
        let nothing = RgbaImage::new(9, 9);
        assert_eq!("\x1bP0;1;0q\"1;1;9;9--\x1b\\", drawn(&nothing, 16));
    }

    #[test]
    fn many_colours_become_the_nearest_that_there_are() {
        let gradient = RgbaImage::from_fn(160, 120, |x, y| {
            let (x, y) = (x as u8, y as u8);
            Rgba([x + 90, y * 2, 255 - x, 255])
        });
        let (most, mean) = differs(&gradient, COLOURS);
        assert!(most < 25 && mean < 4.0, "{most} {mean}");
        let (_, mean) = differs(&gradient, 16);
        assert!(mean < 12.0, "{mean}");
    }
}
