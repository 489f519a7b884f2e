//! Colours in fenced code, line by line. The grammars are loaded when a block in a known language begins, and
//! not before: who asks for no code does not wait for them.

#[cfg(not(feature = "highlight"))]
use crate::render::markdown::row::TextLook;

#[cfg(feature = "highlight")]
pub(super) use coloured::Highlighter;
#[cfg(not(feature = "highlight"))]
pub(super) use plain::Highlighter;

#[cfg(not(feature = "highlight"))]
mod plain {
    use crate::render::markdown::{Look, ScreenRow, Style};

    /// Built without colours for code.
    #[derive(Debug)]
    pub(in super::super) struct Highlighter;

    impl Highlighter {
        pub(in super::super) fn new(_language: &str, _style: &Style) -> Self {
            Self
        }

        pub(in super::super) fn row(&mut self, line: &str) -> ScreenRow {
            let mut row = ScreenRow::default();
            row.push(line, &Look::default());
            row
        }
    }
}

#[cfg(feature = "highlight")]
mod coloured {
    use std::sync::OnceLock;

    use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

    use super::super::row::{FontFace, TextColour, TextLook};
    use super::super::style::{CodeStyle, Colours};
    use crate::render::markdown::{ScreenRow, Style};

    /// A line that is longer, or a block, costs more than its colours are worth.
    const LINE_BYTES: usize = 4096;
    const BLOCK_BYTES: usize = 256 << 10;

    /// The colours of one block.
    #[derive(Debug)]
    pub(in super::super) struct Highlighter {
        state: Option<State>,
        colours: Colours,
        left_bytes: usize,
    }

    #[derive(Debug)]
    struct State {
        parse: ParseState,
        stack: ScopeStack,
    }

    fn grammars() -> &'static SyntaxSet {
        static GRAMMARS: OnceLock<SyntaxSet> = OnceLock::new();
        GRAMMARS.get_or_init(SyntaxSet::load_defaults_newlines)
    }

    /// The nearest grammar we have for a language that has none of its own.
    fn grammar_for(language: &str) -> &str {
        match language.to_ascii_lowercase().as_str() {
            "ts" | "typescript" | "tsx" | "jsx" | "mjs" => "js",
            "console" | "shell" | "zsh" | "fish" | "dockerfile" => "sh",
            "json5" | "jsonc" => "json",
            "toml" | "ini" | "conf" => "properties",
            "py3" | "python3" => "py",
            "kotlin" | "kt" => "java",
            _ => language,
        }
    }

    impl Highlighter {
        pub(in super::super) fn new(language: &str, style: &Style) -> Self {
            let wanted = style.code == CodeStyle::Highlighted
                && style.colours != Colours::None
                && !language.is_empty();
            let grammar = wanted
                .then(|| grammars().find_syntax_by_token(grammar_for(language)))
                .flatten();
            Self {
                state: grammar.map(|it| State {
                    parse: ParseState::new(it),
                    stack: ScopeStack::new(),
                }),
                colours: style.colours,
                left_bytes: BLOCK_BYTES,
            }
        }

        /// The row of the next line. A grammar that fails colours nothing more.
        pub(in super::super) fn row(&mut self, line: &str) -> ScreenRow {
            self.left_bytes = self.left_bytes.saturating_sub(line.len());
            if line.len() > LINE_BYTES || self.left_bytes == 0 {
                self.state = None;
            }
            let colours = self.colours;
            let row = self.state.as_mut().and_then(|it| it.row(line, colours));
            row.unwrap_or_else(|| {
                self.state = None;
                let mut row = ScreenRow::default();
                row.push(line, &TextLook::default());
                row
            })
        }
    }

    impl State {
        fn row(&mut self, line: &str, colours: Colours) -> Option<ScreenRow> {
            let ended = format!("{line}\n");
            let operations = self.parse.parse_line(&ended, grammars()).ok()?;
            let mut row = ScreenRow::default();
            let mut from = 0;
            for (at, operation) in operations {
                let at = at.min(line.len());
                row.push(line.get(from..at)?, &look(&self.stack, colours));
                from = at;
                self.stack.apply(&operation).ok()?;
            }
            row.push(line.get(from..)?, &look(&self.stack, colours));
            Some(row)
        }
    }

    /// What a part of code is, by the innermost scope that we have a colour for.
    const KINDS: [(&str, Kind); 14] = [
        ("comment", Kind::Comment),
        ("string", Kind::String),
        ("constant.character.escape", Kind::Number),
        ("constant", Kind::Number),
        ("entity.name.function", Kind::Function),
        ("support.function", Kind::Function),
        ("variable.function", Kind::Function),
        ("entity.name", Kind::Name),
        ("support.type", Kind::Name),
        ("storage", Kind::Keyword),
        ("keyword.operator", Kind::Other),
        ("keyword", Kind::Keyword),
        ("markup.inserted", Kind::String),
        ("markup.deleted", Kind::Deleted),
    ];

    #[derive(Clone, Copy)]
    enum Kind {
        Comment,
        String,
        Number,
        Function,
        Name,
        Keyword,
        Deleted,
        Other,
    }

    fn look(stack: &ScopeStack, colours: Colours) -> TextLook {
        static SCOPES: OnceLock<Vec<(Scope, Kind)>> = OnceLock::new();
        let scopes = SCOPES.get_or_init(|| {
            let known = KINDS.iter();
            known
                .filter_map(|(name, kind)| Some((Scope::new(name).ok()?, *kind)))
                .collect()
        });
        let kind = stack.as_slice().iter().rev().find_map(|scope| {
            scopes
                .iter()
                .find(|(known, _)| known.is_prefix_of(*scope))
                .map(|(_, kind)| *kind)
        });
        kind.map_or_else(TextLook::default, |it| it.look(colours))
    }

    impl Kind {
        /// The exact colours are neither light nor dark, for they must be read on both.
        fn look(self, colours: Colours) -> TextLook {
            let (face, ansi, exact) = match self {
                Self::Comment => return TextLook::of(FontFace::DIM),
                Self::Other => return TextLook::default(),
                Self::String => (FontFace::default(), TextColour::Green, (0x4f, 0x9a, 0x4f)),
                Self::Number => (FontFace::default(), TextColour::Yellow, (0xb5, 0x83, 0x2f)),
                Self::Function => (FontFace::default(), TextColour::Blue, (0x3f, 0x86, 0xd8)),
                Self::Name => (FontFace::default(), TextColour::Cyan, (0x2f, 0x96, 0x9c)),
                Self::Keyword => (FontFace::default(), TextColour::Magenta, (0xa8, 0x62, 0xc6)),
                Self::Deleted => (FontFace::default(), TextColour::Red, (0xcc, 0x55, 0x55)),
            };
            let colour = match colours {
                Colours::True => TextColour::Exact(exact.0, exact.1, exact.2),
                Colours::None | Colours::Sixteen => ansi,
            };
            TextLook {
                face,
                colour: Some(colour),
                link: None,
            }
        }
    }
}
