//! Colours in fenced code, line by line. The grammars are loaded when a block in a known language begins, and
//! not before: who asks for no code does not wait for them.

#[cfg(not(feature = "highlight"))]
use super::row::Look;
use super::row::Row;
use super::style::Style;

#[cfg(feature = "highlight")]
pub(super) use coloured::Highlighter;
#[cfg(not(feature = "highlight"))]
pub(super) use plain::Highlighter;

#[cfg(not(feature = "highlight"))]
mod plain {
    use super::{Look, Row, Style};

    /// Built without colours for code.
    #[derive(Debug)]
    pub(in super::super) struct Highlighter;

    impl Highlighter {
        pub(in super::super) fn new(_language: &str, _style: &Style) -> Self {
            Self
        }

        pub(in super::super) fn row(&mut self, line: &str) -> Row {
            let mut row = Row::default();
            row.push(line, &Look::default());
            row
        }
    }
}

#[cfg(feature = "highlight")]
mod coloured {
    use std::sync::OnceLock;

    use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

    use super::super::row::{Colour, Face, Look};
    use super::super::style::{Code, Colours};
    use super::{Row, Style};

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
            let wanted = style.code == Code::Highlighted
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
        pub(in super::super) fn row(&mut self, line: &str) -> Row {
            self.left_bytes = self.left_bytes.saturating_sub(line.len());
            if line.len() > LINE_BYTES || self.left_bytes == 0 {
                self.state = None;
            }
            let colours = self.colours;
            let row = self.state.as_mut().and_then(|it| it.row(line, colours));
            row.unwrap_or_else(|| {
                self.state = None;
                let mut row = Row::default();
                row.push(line, &Look::default());
                row
            })
        }
    }

    impl State {
        fn row(&mut self, line: &str, colours: Colours) -> Option<Row> {
            let ended = format!("{line}\n");
            let operations = self.parse.parse_line(&ended, grammars()).ok()?;
            let mut row = Row::default();
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

    fn look(stack: &ScopeStack, colours: Colours) -> Look {
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
        kind.map_or_else(Look::default, |it| it.look(colours))
    }

    impl Kind {
        /// The exact colours are neither light nor dark, for they must be read on both.
        fn look(self, colours: Colours) -> Look {
            let (face, ansi, exact) = match self {
                Self::Comment => return Look::of(Face::DIM),
                Self::Other => return Look::default(),
                Self::String => (Face::default(), Colour::Green, (0x4f, 0x9a, 0x4f)),
                Self::Number => (Face::default(), Colour::Yellow, (0xb5, 0x83, 0x2f)),
                Self::Function => (Face::default(), Colour::Blue, (0x3f, 0x86, 0xd8)),
                Self::Name => (Face::default(), Colour::Cyan, (0x2f, 0x96, 0x9c)),
                Self::Keyword => (Face::default(), Colour::Magenta, (0xa8, 0x62, 0xc6)),
                Self::Deleted => (Face::default(), Colour::Red, (0xcc, 0x55, 0x55)),
            };
            let colour = match colours {
                Colours::True => Colour::Exact(exact.0, exact.1, exact.2),
                Colours::None | Colours::Sixteen => ansi,
            };
            Look {
                face,
                colour: Some(colour),
                link: None,
            }
        }
    }
}
