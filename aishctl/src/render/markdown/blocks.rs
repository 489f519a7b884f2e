//! The open blocks, and the rows that come of them character by character.

use crate::render::markdown::block::{
    self, ContainerStart, InnermostBlock, LineExtent, OpenedBlock,
};
use crate::render::markdown::code::Highlighter;
use crate::render::markdown::container::{self, Container};
use crate::render::markdown::inline::{self, BREAK};
use crate::render::markdown::line::{self, ColumnAlignment, FenceLine};
use crate::render::markdown::paragraph::{self, MOST_HELD_ROWS, Paragraph};
use crate::render::markdown::row::{FontFace, ScreenRow, TextLook};
use crate::render::markdown::style::{Colours, GlyphSet, Style};
use crate::render::markdown::table::MarkdownTable;

/// A line of code that is longer is given out in parts.
const CODE_LINE_BYTES: usize = 64 << 10;
/// A line that may be a row of a table is waited for so long.
const TABLE_LINE_BYTES: usize = 4 << 10;
/// A line is not looked at before it has so many bytes; after that, each time it has doubled.
const FIRST_LOOK_BYTES: usize = 16;
/// Text without a space is looked at so much later.
const STRIDE_BYTES: usize = 256;
const TAB_COLUMNS: usize = 4;
const RULE_COLUMNS: usize = 40;

#[derive(Debug)]
pub(super) struct BlockStack {
    pub(super) style: Style,
    containers: Vec<Container>,
    leaf: LeafBlock,
    /// What of the current line is not in the leaf.
    line: String,
    /// Characters of the current line.
    columns: usize,
    line_goes: LineGoes,
    next_look_bytes: usize,
    /// A row is to separate the next block from the one before, inside of so many containers.
    gap: Option<usize>,
    begun: bool,
    rows: Vec<ScreenRow>,
}

/// Where the characters of the current line go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineGoes {
    /// What it is has not been decided.
    Nowhere,
    ToTheParagraph,
    ToTheCode,
}

/// The innermost open block.
#[derive(Debug)]
enum LeafBlock {
    Nothing,
    Paragraph(Box<Paragraph>),
    Fence(FenceLine, Box<Highlighter>),
    /// Code by its indentation, and the blank lines that are part of it if it goes on.
    Indented(usize),
    Html,
    Table(Box<MarkdownTable>),
}

impl BlockStack {
    pub(super) fn new(style: Style) -> Self {
        Self {
            style,
            containers: Vec::new(),
            leaf: LeafBlock::Nothing,
            line: String::new(),
            columns: 0,
            line_goes: LineGoes::Nowhere,
            next_look_bytes: FIRST_LOOK_BYTES,
            gap: None,
            begun: false,
            rows: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, it: char) {
        match it {
            '\n' => self.end_line(),
            '\t' => {
                for _ in 0..TAB_COLUMNS - self.columns % TAB_COLUMNS {
                    self.character(' ');
                }
            }
            it => self.character(it),
        }
    }

    pub(super) fn rows(&mut self) -> Vec<ScreenRow> {
        std::mem::take(&mut self.rows)
    }

    /// Whether a block has begun, and may go on.
    pub(super) fn is_within_one(&self) -> bool {
        !matches!(self.leaf, LeafBlock::Nothing) || self.columns > 0
    }

    /// The row that is given out next, as it would be if nothing came any more. A line whose meaning is open stands as it is
    /// written.
    pub(super) fn row_begun(&self) -> Option<ScreenRow> {
        let columns = self.style.columns();
        let mut containers = self.containers.clone();
        let row = match &self.leaf {
            LeafBlock::Paragraph(paragraph) if self.line.is_empty() => {
                let rows = Paragraph::clone(paragraph).finish(self.room(), &self.style);
                rows.into_iter().next()?
            }
            _ if self.line.trim().is_empty() => return None,
            _ => {
                if self.line_goes == LineGoes::Nowhere {
                    // It may begin or end any of them.
                    containers.clear();
                }
                let room = container::room(&containers, columns);
                ScreenRow::end_of(&self.line, room)
            }
        };
        let mut whole = container::in_front(&mut containers, columns, &self.style);
        whole.append(&row);
        (!whole.is_empty()).then_some(whole)
    }

    /// The text is over.
    pub(super) fn finish(&mut self) -> Vec<ScreenRow> {
        if self.columns > 0 {
            self.end_line();
        }
        self.close_leaf();
        self.close_containers(0);
        let rows = self.rows();
        *self = Self::new(self.style);
        rows
    }

    fn character(&mut self, it: char) {
        self.columns += 1;
        match self.line_goes {
            LineGoes::ToTheParagraph => {
                self.paragraph_text(it.encode_utf8(&mut [0; 4]));
            }
            LineGoes::ToTheCode => {
                self.line.push(it);
                if self.line.len() >= CODE_LINE_BYTES {
                    self.code_part();
                }
            }
            LineGoes::Nowhere => {
                self.line.push(it);
                let bytes = self.line.len();
                let due = self.next_look_bytes + if it == ' ' { 0 } else { STRIDE_BYTES };
                if bytes > self.most_bytes() {
                    self.begin_line(LineExtent::Cut);
                } else if bytes >= due {
                    self.next_look_bytes = bytes * 2;
                    self.begin_line(LineExtent::Part);
                }
            }
        }
    }

    /// How long a line may be whose meaning only its end tells.
    fn most_bytes(&self) -> usize {
        match self.leaf {
            LeafBlock::Fence(..) | LeafBlock::Indented(_) => CODE_LINE_BYTES,
            LeafBlock::Table(_) => TABLE_LINE_BYTES,
            _ if self.line.trim_start().starts_with('|') => TABLE_LINE_BYTES,
            LeafBlock::Nothing | LeafBlock::Paragraph(_) | LeafBlock::Html => {
                self.room().saturating_mul(MOST_HELD_ROWS)
            }
        }
    }

    fn end_line(&mut self) {
        match self.line_goes {
            LineGoes::Nowhere => self.begin_line(LineExtent::Whole),
            LineGoes::ToTheParagraph => {}
            LineGoes::ToTheCode => self.code_part(),
        }
        let (room, style) = (self.room(), self.style);
        if let LeafBlock::Paragraph(paragraph) = &mut self.leaf {
            let rows = paragraph.next_line(room, &style);
            self.emit_all(rows);
        }
        self.line.clear();
        self.columns = 0;
        self.line_goes = LineGoes::Nowhere;
        self.next_look_bytes = FIRST_LOOK_BYTES;
    }

    /// Decides what the line is, if that can be said.
    fn begin_line(&mut self, extent: LineExtent) {
        let line = std::mem::take(&mut self.line);
        let inside = match &self.leaf {
            LeafBlock::Nothing => InnermostBlock::Nothing,
            LeafBlock::Paragraph(it) => InnermostBlock::Paragraph {
                undecided: it.undecided().is_some(),
                head: it.only_line(),
            },
            LeafBlock::Fence(fence, _) => InnermostBlock::Fence(fence),
            LeafBlock::Indented(_) => InnermostBlock::Indented,
            LeafBlock::Html => InnermostBlock::Html,
            LeafBlock::Table(_) => InnermostBlock::Table,
        };
        let Some(plan) = block::plan(&line, extent, &self.containers, inside) else {
            self.line = line;
            return;
        };
        if let ContainerStart::Lazy(text) = plan.start {
            self.paragraph_text(text);
            self.line_goes = LineGoes::ToTheParagraph;
            return;
        }
        let opens = !plan.opened.is_empty();
        if plan.matched < self.containers.len() || opens {
            self.close_leaf();
            let before = self.containers.get(plan.matched).cloned();
            self.close_containers(plan.matched);
            self.open_containers(&plan.opened, before.as_ref());
        }
        // An item that begins with the end of its line: its text may be on the next.
        if !(opens && matches!(plan.start, ContainerStart::Blank)) {
            self.start(plan.start);
        }
    }

    fn open_containers(&mut self, opened: &[OpenedBlock], before: Option<&Container>) {
        for (at, it) in opened.iter().enumerate() {
            let container = match it {
                OpenedBlock::Quote => Container::quote(&self.style),
                OpenedBlock::Item { marker, indent } => {
                    let before = before.filter(|_| at == 0);
                    Container::item(marker, *indent, before, &self.style)
                }
            };
            self.containers.push(container);
        }
    }

    fn start(&mut self, start: ContainerStart<'_>) {
        match start {
            ContainerStart::Blank => self.blank(),
            ContainerStart::Fenced(text) => {
                self.code_line(text);
                self.line_goes = LineGoes::ToTheCode;
            }
            ContainerStart::FenceEnded => {
                if let LeafBlock::Fence(fence, _) =
                    std::mem::replace(&mut self.leaf, LeafBlock::Nothing)
                {
                    self.aside(&fence.mark.to_string().repeat(fence.length), "end of code");
                }
            }
            ContainerStart::Indented(text) => self.indented(text),
            ContainerStart::Html(text) => {
                self.expect_leaf(|it| matches!(it, LeafBlock::Html));
                self.leaf = LeafBlock::Html;
                let mut flow = crate::render::markdown::flow::RowFlow::default();
                let look = self.faint();
                flow.push(text, &look, self.room());
                let rows = flow.finish(self.room());
                self.emit_all(rows);
            }
            ContainerStart::Rule => {
                self.close_leaf();
                let drawn = "─".repeat(self.room().min(RULE_COLUMNS));
                self.aside(&drawn, "---");
            }
            ContainerStart::Heading(level, text) => {
                self.close_leaf();
                self.heading(level, text);
            }
            ContainerStart::Underline(level) => {
                let leaf = std::mem::replace(&mut self.leaf, LeafBlock::Nothing);
                if let LeafBlock::Paragraph(it) = leaf {
                    self.heading(level, it.undecided().unwrap_or_default().trim());
                }
            }
            ContainerStart::Fence(fence) => {
                self.close_leaf();
                let mark = fence.mark.to_string().repeat(fence.length);
                let highlighter = Highlighter::new(fence.language(), &self.style);
                let info = fence.info.as_str();
                let space = if info.is_empty() { "" } else { " " };
                self.aside(&format!("{mark}{info}"), &format!("code{space}{info}:"));
                self.leaf = LeafBlock::Fence(fence, Box::new(highlighter));
            }
            ContainerStart::Command(text) => {
                self.close_leaf();
                let look = match self.style.colours {
                    Colours::None => TextLook::default(),
                    Colours::Sixteen | Colours::True => TextLook::of(FontFace::BOLD),
                };
                self.emit_text(text, &look);
            }
            ContainerStart::Delimiters(alignments) => self.table(alignments),
            ContainerStart::Cells(text) => self.cells(text),
            ContainerStart::Text(text) => self.text(text),
            // Handled where the line began, for it leaves the containers as they are.
            ContainerStart::Lazy(text) => self.paragraph_text(text),
        }
    }

    fn text(&mut self, text: &str) {
        self.expect_leaf(|it| matches!(it, LeafBlock::Paragraph(_)));
        let mut text = text;
        if matches!(self.leaf, LeafBlock::Nothing) {
            if let Some(innermost) = self.containers.last_mut() {
                text = innermost.task(text, &self.style);
            }
            self.leaf = LeafBlock::Paragraph(Box::new(Paragraph::new(TextLook::default())));
        }
        self.paragraph_text(text);
        self.line_goes = LineGoes::ToTheParagraph;
    }

    fn paragraph_text(&mut self, text: &str) {
        let (room, style) = (self.room(), self.style);
        if let LeafBlock::Paragraph(paragraph) = &mut self.leaf {
            let rows = paragraph.text(text, room, &style);
            self.emit_all(rows);
        }
    }

    /// A line without text.
    fn blank(&mut self) {
        if let LeafBlock::Indented(blank) = &mut self.leaf {
            *blank += 1;
            return;
        }
        self.close_leaf();
        self.show_bare_items(0);
        self.leave_a_gap();
    }

    /// Items that have no text have their sign.
    fn show_bare_items(&mut self, from: usize) {
        if self
            .containers
            .iter()
            .skip(from)
            .any(Container::is_bare_item)
        {
            self.emit(&ScreenRow::default());
        }
    }

    fn leave_a_gap(&mut self) {
        if self.begun {
            self.gap = Some(self.containers.len());
        }
    }

    fn indented(&mut self, text: &str) {
        self.expect_leaf(|it| matches!(it, LeafBlock::Indented(_)));
        let blank = if let LeafBlock::Indented(blank) = self.leaf {
            blank
        } else {
            0
        };
        for _ in 0..blank {
            self.emit(&ScreenRow::default());
        }
        self.leaf = LeafBlock::Indented(0);
        self.emit_text(&format!("    {text}"), &TextLook::default());
    }

    fn code_line(&mut self, text: &str) {
        if let LeafBlock::Fence(_, highlighter) = &mut self.leaf {
            let row = highlighter.row(text);
            self.emit(&row);
        }
    }

    /// A part of a line of code that is too long for one row.
    fn code_part(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.code_line(&line);
        }
    }

    fn heading(&mut self, level: usize, text: &str) {
        let face = match level {
            1 => FontFace::BOLD.and(FontFace::UNDERLINED),
            _ => FontFace::BOLD,
        };
        let (look, source) = match (self.style.glyphs, self.style.colours) {
            (GlyphSet::Words, _) => (TextLook::default(), format!("heading {level}: {text}")),
            (GlyphSet::Drawn, Colours::None) => {
                (TextLook::default(), format!("{} {text}", "#".repeat(level)))
            }
            (GlyphSet::Drawn, Colours::Sixteen | Colours::True) => {
                (TextLook::of(face), text.to_owned())
            }
        };
        let rows = paragraph::rows(&source, &look, self.room(), &self.style);
        self.emit_all(rows);
    }

    fn table(&mut self, alignments: Vec<ColumnAlignment>) {
        let leaf = std::mem::replace(&mut self.leaf, LeafBlock::Nothing);
        if let LeafBlock::Paragraph(it) = leaf {
            let head = it.only_line().unwrap_or_default().replace(BREAK, "");
            self.leaf =
                LeafBlock::Table(Box::new(MarkdownTable::new(line::cells(&head), alignments)));
        }
    }

    fn cells(&mut self, text: &str) {
        let (room, style) = (self.room(), self.style);
        if let LeafBlock::Table(table) = &mut self.leaf {
            table.row(line::cells(text));
            if table.is_full() {
                let rows = table.drain(room, &style);
                self.emit_all(rows);
            }
        }
    }

    /// Closes the leaf unless it is the one that goes on.
    fn expect_leaf(&mut self, goes_on: fn(&LeafBlock) -> bool) {
        if !goes_on(&self.leaf) {
            self.close_leaf();
        }
    }

    fn close_leaf(&mut self) {
        let (room, style) = (self.room(), self.style);
        match std::mem::replace(&mut self.leaf, LeafBlock::Nothing) {
            LeafBlock::Paragraph(paragraph) => {
                let rows = paragraph.finish(room, &style);
                self.emit_all(rows);
            }
            LeafBlock::Table(mut table) => {
                let rows = table.drain(room, &style);
                self.emit_all(rows);
            }
            LeafBlock::Indented(blank) if blank > 0 => self.leave_a_gap(),
            LeafBlock::Nothing
            | LeafBlock::Fence(..)
            | LeafBlock::Indented(_)
            | LeafBlock::Html => {}
        }
    }

    fn close_containers(&mut self, keep: usize) {
        self.show_bare_items(keep);
        self.containers.truncate(keep);
        self.gap = self.gap.map(|it| it.min(keep));
    }

    fn room(&self) -> usize {
        container::room(&self.containers, self.style.columns())
    }

    fn faint(&self) -> TextLook {
        match self.style.colours {
            Colours::None => TextLook::default(),
            Colours::Sixteen | Colours::True => TextLook::of(FontFace::DIM),
        }
    }

    /// A row that is not text of the answer: drawn, or said.
    fn aside(&mut self, drawn: &str, said: &str) {
        let text = match self.style.glyphs {
            GlyphSet::Drawn => drawn,
            GlyphSet::Words => said,
        };
        let look = self.faint();
        self.emit_text(text, &look);
    }

    /// One row, however long.
    fn emit_text(&mut self, text: &str, look: &TextLook) {
        let mut row = ScreenRow::default();
        for part in inline::literal(text, look) {
            if let inline::InlinePart::Text(text, look) = part {
                row.push(&text, &look);
            }
        }
        self.emit(&row);
    }

    fn emit_all(&mut self, rows: Vec<ScreenRow>) {
        for row in rows {
            self.emit(&row);
        }
    }

    fn emit(&mut self, row: &ScreenRow) {
        if let Some(depth) = self.gap.take() {
            let outer = self.containers.get(..depth).unwrap_or_default();
            self.rows.push(container::between(outer, &self.style));
        }
        let columns = self.style.columns();
        let mut whole = container::in_front(&mut self.containers, columns, &self.style);
        if row.is_empty() {
            whole.trim_end();
        }
        whole.append(row);
        self.rows.push(whole);
        self.begun = true;
    }
}
