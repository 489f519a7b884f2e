//! An answer for a terminal: Markdown that is laid out and painted as it comes.

use crate::render::markdown::{Colours, MarkdownWriter, ScreenRow, Style};
use crate::render::output::TypesetAnswer;

#[derive(Debug)]
pub struct Painter {
    writer: MarkdownWriter,
    colours: Colours,
}

impl Painter {
    /// For an output.
    pub fn boxed(style: Style) -> Box<dyn TypesetAnswer> {
        Box::new(Self {
            writer: MarkdownWriter::new(style),
            colours: style.colours,
        })
    }

    fn painted(&self, rows: &[ScreenRow]) -> String {
        rows.iter()
            .map(|it| it.painted(self.colours) + "\n")
            .collect()
    }
}

impl TypesetAnswer for Painter {
    fn resize(&mut self, columns: usize) {
        self.writer.resize(Some(columns));
    }

    fn push(&mut self, text: &str) -> String {
        let rows = self.writer.push(text);
        self.painted(&rows)
    }

    fn finish(&mut self) -> String {
        let rows = self.writer.finish();
        self.painted(&rows)
    }
}
