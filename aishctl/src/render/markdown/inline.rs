//! Emphasis, code, links: the text inside of a block. The parser gets one line at a time, behind a guard that
//! keeps it from seeing the beginning of a block there.

use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::render::markdown::link;
use crate::render::markdown::row::{FontFace, TextColour, TextLook};
use crate::render::markdown::style::{Colours, GlyphSet, LinkStyle, Style};
use crate::render::markdown::tilde::TildeStandIn;
use crate::safe;

/// A line break that the author wanted. No text has it: [`crate::safe::screen`] takes it out.
pub(super) const BREAK: char = '\u{1}';
const GUARD: &str = "\u{2} ";

/// A part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InlinePart {
    Text(String, TextLook),
    Break,
}

/// The parts of a text that has no line feed; [`BREAK`] stands for those that count.
pub(super) fn parts(source: &str, base: &TextLook, style: &Style) -> Vec<InlinePart> {
    let tilde = TildeStandIn::not_in(source);
    let guarded = format!("{GUARD}{}", tilde.hide(source));
    let mut reader = InlineReader {
        source: &guarded,
        tilde,
        style,
        looks: vec![base.clone()],
        links: Vec::new(),
        parts: Vec::new(),
    };
    for (event, range) in
        Parser::new_ext(&guarded, Options::ENABLE_STRIKETHROUGH).into_offset_iter()
    {
        reader.event(event, range);
    }
    reader.parts
}

/// The text as it is, markers and all.
pub(super) fn literal(source: &str, base: &TextLook) -> Vec<InlinePart> {
    let mut parts = Vec::new();
    push(&mut parts, source, base);
    parts
}

/// The only way for text into a part. An entity may stand for any character, an escape for one, so what the parser
/// gives is looked at again.
fn push(parts: &mut Vec<InlinePart>, text: &str, look: &TextLook) {
    for (at, piece) in text.split(BREAK).enumerate() {
        if at > 0 {
            parts.push(InlinePart::Break);
        }
        let piece = &safe::screen(piece).replace(['\n', '\t'], " ");
        match parts.last_mut() {
            Some(InlinePart::Text(before, same)) if same == look => before.push_str(piece),
            Some(_) | None if piece.is_empty() => {}
            Some(_) | None => parts.push(InlinePart::Text(piece.to_owned(), look.clone())),
        }
    }
}

struct InlineReader<'a> {
    source: &'a str,
    tilde: TildeStandIn,
    style: &'a Style,
    looks: Vec<TextLook>,
    links: Vec<OpenLink>,
    parts: Vec<InlinePart>,
}

struct OpenLink {
    address: String,
    title: String,
    label: String,
}

impl InlineReader<'_> {
    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) => self.text(text.strip_prefix(GUARD).unwrap_or(&text)),
            Event::Code(text) => self.code(&text, range),
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.parts.push(InlinePart::Break),
            // None of these is asked for, so they come as text.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text);
            }
            Event::Rule | Event::TaskListMarker(_) => {}
        }
    }

    fn look(&self) -> TextLook {
        self.looks.last().cloned().unwrap_or_default()
    }

    fn text(&mut self, text: &str) {
        let text = &self.tilde.show(text);
        for link in &mut self.links {
            link.label.push_str(text);
        }
        let look = self.look();
        push(&mut self.parts, text, &look);
    }

    fn code(&mut self, text: &str, range: Range<usize>) {
        if self.style.colours == Colours::None && self.style.glyphs == GlyphSet::Drawn {
            let source = self.source.get(range).unwrap_or(text);
            let source = source.replace(BREAK, "");
            return self.text(&source);
        }
        let mut look = self.look();
        look.colour = Some(TextColour::Cyan);
        self.looks.push(look);
        self.text(&text.replace(BREAK, ""));
        self.looks.pop();
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Emphasis => self.face(FontFace::ITALIC, "*"),
            Tag::Strong => self.face(FontFace::BOLD, "**"),
            Tag::Strikethrough => self.face(FontFace::STRUCK, "~~"),
            Tag::Link {
                dest_url, title, ..
            } => self.link(&dest_url, &title),
            Tag::Image {
                dest_url, title, ..
            } => {
                self.link(&dest_url, &title);
                self.text("[image: ");
            }
            // The guard makes everything one paragraph.
            _ => {}
        }
    }

    fn end(&mut self, end: TagEnd) {
        match end {
            TagEnd::Emphasis => self.face_ends("*"),
            TagEnd::Strong => self.face_ends("**"),
            TagEnd::Strikethrough => self.face_ends("~~"),
            TagEnd::Link => self.link_ends(),
            TagEnd::Image => {
                self.text("]");
                self.link_ends();
            }
            _ => {}
        }
    }

    fn face(&mut self, face: FontFace, marker: &str) {
        self.marker(marker);
        let mut look = self.look();
        look.face = look.face.and(face);
        self.looks.push(look);
    }

    fn face_ends(&mut self, marker: &str) {
        self.looks.pop();
        self.marker(marker);
    }

    /// Where nothing can be coloured, the marker says it; words are read aloud without.
    fn marker(&mut self, marker: &str) {
        if self.style.colours == Colours::None && self.style.glyphs == GlyphSet::Drawn {
            self.text(marker);
        }
    }

    fn link(&mut self, address: &str, title: &str) {
        let address = self.tilde.show(address);
        let mut look = self.look();
        if self.style.colours != Colours::None {
            look.face = look.face.and(FontFace::UNDERLINED);
        }
        if self.style.links == LinkStyle::Clickable {
            look.link = link::clickable(&address).map(Arc::from);
        }
        self.looks.push(look);
        self.links.push(OpenLink {
            address,
            title: self.tilde.show(title),
            label: String::new(),
        });
    }

    fn link_ends(&mut self) {
        let clickable = self.look().link.is_some();
        self.looks.pop();
        let Some(link) = self.links.pop() else { return };
        let address = link::must_be_written(&link.address, &link.label, clickable)
            .then(|| link::written(&link.address));
        let title = (!link.title.is_empty()).then(|| format!("\"{}\"", link.title));
        let inside: Vec<String> = address.into_iter().chain(title).collect();
        if inside.is_empty() {
            return;
        }
        let mut look = self.look();
        if self.style.colours != Colours::None {
            look.face = look.face.and(FontFace::DIM);
        }
        let between = if link.label.is_empty() { "" } else { " " };
        let text = format!("{between}({})", inside.join(" "));
        push(&mut self.parts, &text, &look);
    }
}
