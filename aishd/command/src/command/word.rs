//! What a word will be when it runs, and what runs to make it.

use rable::{Node, NodeKind};

use super::walk::{CommandWalk, NotUnderstood};
use super::{Dialect, Segment, Value, Word};

/// Signs that never stand bare in a word that was understood: the parser must have taken them for something.
const NEVER_BARE: [char; 9] = ['(', ')', '<', '>', '`', ';', '|', '&', '\n'];

/// What of `${…}` makes a value of another without running anything, where what stands behind it is plain.
const PLAIN_OPERATORS: [&str; 10] = [":-", "-", ":+", "+", ":?", "?", "%", "%%", "#", "##"];

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum QuoteStyle {
    #[default]
    None,
    Single,
    Double,
}

/// A word as it comes together from its pieces.
#[derive(Default)]
struct WordBuilder {
    quotes: QuoteStyle,
    /// What is certain so far, up to the first piece that is not.
    text: String,
    pattern: bool,
    /// What of it stands bare.
    bare: String,
    open: bool,
    may_split: bool,
}

impl WordBuilder {
    fn push(&mut self, sign: char) {
        if !self.open {
            self.text.push(sign);
        }
    }

    fn open(&mut self) {
        self.open = true;
        self.may_split |= self.quotes == QuoteStyle::None;
    }

    fn value(self) -> Value {
        let Self {
            quotes: _,
            text,
            pattern,
            bare,
            open,
            may_split,
        } = self;
        let pattern = pattern || is_pattern(&bare);
        if open {
            Value::Open {
                before: text,
                one_word: !may_split && !pattern,
            }
        } else if pattern {
            Value::Pattern(text)
        } else {
            Value::Fixed(text)
        }
    }

    /// Text that the parser took for nothing but itself and its quotes.
    fn literal(&mut self, text: &str, first: bool, dialect: Dialect) -> Result<(), NotUnderstood> {
        let mut signs = text.chars().peekable();
        if first && dialect == Dialect::Zsh && text.starts_with('=') {
            return Err(NotUnderstood);
        }
        if first && text.starts_with('~') {
            self.pattern = true;
        }
        while let Some(sign) = signs.next() {
            match (self.quotes, sign) {
                (QuoteStyle::None, '\'') => self.quotes = QuoteStyle::Single,
                (QuoteStyle::Single, '\'') | (QuoteStyle::Double, '"') => {
                    self.quotes = QuoteStyle::None;
                }
                (QuoteStyle::None, '"') => self.quotes = QuoteStyle::Double,
                // In fish a backslash may hide the closing quote.
                (QuoteStyle::Single, '\\') if dialect == Dialect::Fish => {
                    return Err(NotUnderstood);
                }
                (QuoteStyle::Single, sign) => self.push(sign),
                (QuoteStyle::None, '\\') => {
                    let escaped = signs.next().ok_or(NotUnderstood)?;
                    let letter = dialect == Dialect::Fish && escaped.is_alphanumeric();
                    if escaped == '\n' || letter {
                        return Err(NotUnderstood);
                    }
                    self.push(escaped);
                }
                (QuoteStyle::Double, '\\') => {
                    let escaped = signs.next_if(|it| matches!(it, '$' | '`' | '"' | '\\'));
                    self.push(escaped.unwrap_or('\\'));
                }
                (QuoteStyle::None | QuoteStyle::Double, '$') => {
                    // A dollar that stands for itself.
                    let plain = |it: &char| !matches!(it, ' ' | '/' | '.' | ',' | '"' | '\\');
                    if signs.peek().is_some_and(plain) {
                        return Err(NotUnderstood);
                    }
                    self.push(sign);
                }
                (QuoteStyle::None, sign) if NEVER_BARE.contains(&sign) => {
                    return Err(NotUnderstood);
                }
                (QuoteStyle::Double, '`') => return Err(NotUnderstood),
                (QuoteStyle::None, sign) => {
                    self.bare.push(sign);
                    self.push(sign);
                }
                (QuoteStyle::Double, sign) => self.push(sign),
            }
        }
        Ok(())
    }
}

/// Whether bare text stands for others: wildcards, a set of signs, braces with a list or a range in them.
fn is_pattern(bare: &str) -> bool {
    let closes = |open: char, close: char| {
        let behind = bare.split_once(open).map(|it| it.1);
        behind.is_some_and(|it| it.contains(close))
    };
    bare.contains(['*', '?'])
        || closes('[', ']')
        || (closes('{', '}') && (bare.contains(',') || bare.contains("..")))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not read is not understood, and so is what a newer parser may have"
)]
impl CommandWalk {
    /// Reads a word. What runs to make it is put behind `substitutes`.
    pub(super) fn word(
        &mut self,
        node: &Node,
        substitutes: &mut Vec<Segment>,
    ) -> Result<Word, NotUnderstood> {
        let NodeKind::Word { value, parts, .. } = &node.kind else {
            return Err(NotUnderstood);
        };
        // What a backslash means within backticks depends on where they stand.
        let backtick = value.contains('`');
        if backtick && (value.contains('\\') || self.dialect == Dialect::Fish) {
            return Err(NotUnderstood);
        }
        let mut making = WordBuilder::default();
        for (at, part) in parts.iter().enumerate() {
            match &part.kind {
                NodeKind::WordLiteral { value } => making.literal(value, at == 0, self.dialect)?,
                NodeKind::BraceExpansion { content } => {
                    making.pattern = true;
                    making.literal(content, /*first*/ false, self.dialect)?;
                }
                NodeKind::ParamExpansion { param, op, arg } => {
                    self.parameter(param, op.as_deref(), arg.as_deref())?;
                    making.open();
                }
                NodeKind::ParamLength { param } => {
                    self.parameter(param, Some("+"), None)?;
                    making.open();
                }
                NodeKind::CommandSubstitution {
                    command,
                    brace: false,
                } => {
                    substitutes.append(&mut self.inner(command)?);
                    making.open();
                }
                NodeKind::ProcessSubstitution { command, .. } if self.dialect != Dialect::Fish => {
                    substitutes.append(&mut self.inner(command)?);
                    "/dev/fd/".chars().for_each(|it| making.push(it));
                    making.open = true;
                }
                NodeKind::ArithmeticExpansion {
                    expression: Some(expression),
                } if self.dialect != Dialect::Fish => {
                    self.counting(expression)?;
                    making.open = true;
                }
                // Shells differ about the other quotes, and the rest is not read.
                _ => return Err(NotUnderstood),
            }
        }
        if making.quotes != QuoteStyle::None {
            return Err(NotUnderstood);
        }
        Ok(Word {
            written: value.clone(),
            value: making.value(),
        })
    }

    /// Variables, and what is made of them without running anything.
    fn parameter(
        &self,
        name: &str,
        operator: Option<&str>,
        text: Option<&str>,
    ) -> Result<(), NotUnderstood> {
        let word = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let special = matches!(name, "@" | "*" | "#" | "?" | "$" | "!" | "-");
        let (base, index) = name.split_once('[').unwrap_or((name, "0]"));
        let index = index
            .strip_suffix(']')
            .is_some_and(|it| matches!(it, "@" | "*") || it.bytes().all(|it| it.is_ascii_digit()));
        let known = special || (!base.is_empty() && base.chars().all(word) && index);
        let plain = text.is_none_or(|it| !it.contains(['$', '`', '\\', '\'', '"', '(', '<', '>']));
        let harmless = match operator {
            None => text.is_none(),
            Some(operator) => {
                let in_dialect = matches!(self.dialect, Dialect::Bash | Dialect::Sh);
                in_dialect && PLAIN_OPERATORS.contains(&operator) && plain
            }
        };
        if known && harmless {
            Ok(())
        } else {
            Err(NotUnderstood)
        }
    }
}
