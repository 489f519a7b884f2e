//! From the parser's tree to segments. What has no place in a segment, and what shells differ about, is not understood.

use std::collections::BTreeSet;
use std::panic::catch_unwind;

use rable::{ListOperator, Node, NodeKind};

use super::bounds::{self, MAX_SEGMENTS};
use super::{Dialect, Joined, Redirect, Segment, Setting, Shape, Value, Word, Writing};

/// The text is not what a shell of that dialect would certainly do the same with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotUnderstood;

/// The segments of a whole text.
pub(super) fn segments(text: &str, dialect: Dialect) -> Result<Vec<Segment>, NotUnderstood> {
    if !bounds::hold(text) || !bounds::is_same_in(text, dialect) {
        return Err(NotUnderstood);
    }
    // Should the parser ever panic, then that is a text that it does not understand.
    let parsed = catch_unwind(|| rable::parse(text, /*extglob*/ false));
    let Ok(Ok(nodes)) = parsed else {
        return Err(NotUnderstood);
    };
    let mut walk = CommandWalk {
        dialect,
        left: MAX_SEGMENTS,
        counted: BTreeSet::new(),
        numbers: BTreeSet::new(),
        others: BTreeSet::new(),
    };
    let mut found = vec![];
    let mut joined = Joined::First;
    for node in &nodes {
        walk.list(node, joined, &mut found)?;
        joined = Joined::Then;
    }
    walk.numbers_are_numbers()?;
    Ok(found)
}

pub(super) struct CommandWalk {
    pub(super) dialect: Dialect,
    /// How many segments there may still be.
    left: usize,
    /// Variables that arithmetic looks at. It runs what their values say when those are no numbers.
    counted: BTreeSet<String>,
    /// Variables that are given numbers, and those that are given something else.
    numbers: BTreeSet<String>,
    others: BTreeSet<String>,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not read is not understood, and so is what a newer parser may have"
)]
impl CommandWalk {
    /// What a node runs, in a list of its own.
    pub(super) fn inner(&mut self, node: &Node) -> Result<Vec<Segment>, NotUnderstood> {
        let mut found = vec![];
        self.list(node, Joined::First, &mut found)?;
        Ok(found)
    }

    fn list(
        &mut self,
        node: &Node,
        joined: Joined,
        found: &mut Vec<Segment>,
    ) -> Result<(), NotUnderstood> {
        // A list holds all but its last command in a list within it, so that it is as deep as it is long.
        let mut spine = vec![];
        let mut node = node;
        while let NodeKind::List { items } = &node.kind
            && let Some((first, rest)) = items.split_first()
        {
            spine.push((first.operator, rest));
            node = &first.command;
        }
        self.pipeline(node, joined, found)?;
        for (operator, rest) in spine.into_iter().rev() {
            let mut joined = joined_by(operator);
            for item in rest {
                self.list(&item.command, joined, found)?;
                joined = joined_by(item.operator);
            }
        }
        Ok(())
    }

    fn pipeline(
        &mut self,
        node: &Node,
        joined: Joined,
        found: &mut Vec<Segment>,
    ) -> Result<(), NotUnderstood> {
        match &node.kind {
            NodeKind::Pipeline { commands, .. } => {
                let mut joined = joined;
                for command in commands {
                    self.list(command, joined, found)?;
                    joined = Joined::Pipe;
                }
                Ok(())
            }
            NodeKind::Negation { pipeline } | NodeKind::Time { pipeline, .. } => {
                self.not_in_fish()?;
                self.list(pipeline, joined, found)
            }
            NodeKind::Comment { .. } | NodeKind::Empty => Ok(()),
            NodeKind::List { .. } => self.list(node, joined, found),
            _ => {
                self.left = self.left.checked_sub(1).ok_or(NotUnderstood)?;
                let segment = self.segment(node, joined)?;
                found.push(segment);
                Ok(())
            }
        }
    }

    /// Fish has constructs of its own; those of others are an error there at best.
    fn not_in_fish(&self) -> Result<(), NotUnderstood> {
        if self.dialect == Dialect::Fish {
            Err(NotUnderstood)
        } else {
            Ok(())
        }
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each construct of a shell"
    )]
    fn segment(&mut self, node: &Node, joined: Joined) -> Result<Segment, NotUnderstood> {
        let mut segment = Segment {
            joined,
            shape: Shape::Runs,
            sets: vec![],
            words: vec![],
            redirects: vec![],
            substitutes: vec![],
            inner: vec![],
        };
        let made = &mut segment;
        if let NodeKind::Command {
            assignments,
            words,
            redirects,
        } = &node.kind
        {
            for assignment in assignments {
                self.assignment(assignment, made)?;
            }
            for word in words {
                self.word_into(word, made)?;
            }
            self.redirects(redirects, made)?;
            return Ok(segment);
        }
        self.not_in_fish()?;
        let (shape, redirects) = match &node.kind {
            NodeKind::BraceGroup { body, redirects } => {
                made.inner = self.inner(body)?;
                (Shape::Group, Some(redirects))
            }
            NodeKind::Subshell { body, redirects } => {
                made.inner = self.inner(body)?;
                (Shape::Subshell, Some(redirects))
            }
            NodeKind::If {
                condition,
                then_body,
                else_body,
                redirects,
            } => {
                made.inner = self.inner(condition)?;
                made.inner.append(&mut self.inner(then_body)?);
                if let Some(other) = else_body {
                    made.inner.append(&mut self.inner(other)?);
                }
                (Shape::Condition, Some(redirects))
            }
            NodeKind::While {
                condition,
                body,
                redirects,
            }
            | NodeKind::Until {
                condition,
                body,
                redirects,
            } => {
                made.inner = self.inner(condition)?;
                made.inner.append(&mut self.inner(body)?);
                (Shape::Loop, Some(redirects))
            }
            NodeKind::For {
                var,
                words,
                body,
                redirects,
            } => {
                for word in words.iter().flatten() {
                    self.word_into(word, made)?;
                }
                let numbers = words.is_some() && made.words.iter().all(is_number);
                self.note_assignment(var, numbers);
                let name = var.clone();
                made.sets.push(Setting { name, value: None });
                made.inner = self.inner(body)?;
                (Shape::Loop, Some(redirects))
            }
            NodeKind::ForArith {
                init,
                cond,
                incr,
                body,
                redirects,
            } => {
                for part in [init, cond, incr] {
                    self.counting_text(part)?;
                }
                if let Some((name, value)) = init.split_once('=') {
                    let number = value.trim().bytes().all(|it| it.is_ascii_digit());
                    self.note_assignment(name.trim(), number);
                }
                made.inner = self.inner(body)?;
                (Shape::Loop, Some(redirects))
            }
            NodeKind::Case {
                word,
                patterns,
                redirects,
            } => {
                self.word_into(word, made)?;
                for case in patterns {
                    for pattern in &case.patterns {
                        self.word(pattern, &mut made.substitutes)?;
                    }
                    if let Some(body) = &case.body {
                        made.inner.append(&mut self.inner(body)?);
                    }
                }
                (Shape::Choice, Some(redirects))
            }
            NodeKind::Function { name, body } => {
                made.words.push(Word {
                    written: name.clone(),
                    value: Value::Fixed(name.clone()),
                });
                made.inner = self.inner(body)?;
                (Shape::Function, None)
            }
            NodeKind::ConditionalExpr { body, redirects } => {
                self.test(body, made)?;
                (Shape::Test, Some(redirects))
            }
            NodeKind::ArithmeticCommand {
                expression,
                redirects,
                ..
            } => {
                self.counting(expression.as_deref().ok_or(NotUnderstood)?)?;
                (Shape::Arithmetic, Some(redirects))
            }
            _ => return Err(NotUnderstood),
        };
        made.shape = shape;
        self.redirects(redirects.map_or(&[], Vec::as_slice), made)?;
        Ok(segment)
    }

    fn word_into(&mut self, node: &Node, made: &mut Segment) -> Result<(), NotUnderstood> {
        let word = self.word(node, &mut made.substitutes)?;
        made.words.push(word);
        Ok(())
    }

    fn assignment(&mut self, node: &Node, made: &mut Segment) -> Result<(), NotUnderstood> {
        let word = self.word(node, &mut made.substitutes)?;
        let (name, written) = word.written.split_once('=').ok_or(NotUnderstood)?;
        let name = name.strip_suffix('+').unwrap_or(name);
        let plain = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if name.is_empty() || !name.chars().all(plain) {
            // An index is arithmetic, which can run commands.
            return Err(NotUnderstood);
        }
        let behind = |text: &str| text.split_once('=').map(|it| it.1.to_owned());
        let value = match &word.value {
            Value::Fixed(text) => Value::Fixed(behind(text).ok_or(NotUnderstood)?),
            Value::Pattern(text) => Value::Pattern(behind(text).ok_or(NotUnderstood)?),
            Value::Open { before, one_word } => Value::Open {
                before: behind(before).ok_or(NotUnderstood)?,
                one_word: *one_word,
            },
        };
        let value = Word {
            written: written.to_owned(),
            value,
        };
        self.note_assignment(name, is_number(&value));
        made.sets.push(Setting {
            name: name.to_owned(),
            value: Some(value),
        });
        Ok(())
    }

    /// Remembers what a variable is given.
    fn note_assignment(&mut self, name: &str, number: bool) {
        let set = if number {
            &mut self.numbers
        } else {
            &mut self.others
        };
        set.insert(name.to_owned());
    }

    fn test(&mut self, node: &Node, made: &mut Segment) -> Result<(), NotUnderstood> {
        match &node.kind {
            NodeKind::CondAnd { left, right } | NodeKind::CondOr { left, right } => {
                self.test(left, made)?;
                self.test(right, made)
            }
            NodeKind::CondNot { operand } => self.test(operand, made),
            NodeKind::CondParen { inner } => self.test(inner, made),
            NodeKind::UnaryTest { op, operand } => {
                // These look at variables by name, and an index in a name is arithmetic.
                if matches!(&**op, "-v" | "-R") {
                    return Err(NotUnderstood);
                }
                self.term(operand, made)
            }
            NodeKind::BinaryTest { op, left, right } => {
                if op.starts_with('-') && !matches!(&**op, "-nt" | "-ot" | "-ef") {
                    // These count, and counting evaluates what it is given.
                    return Err(NotUnderstood);
                }
                self.term(left, made)?;
                self.term(right, made)
            }
            NodeKind::CondTerm { .. } | NodeKind::Word { .. } => self.term(node, made),
            _ => Err(NotUnderstood),
        }
    }

    /// A word of a test. The tree does not say what runs in it, so nothing may.
    fn term(&mut self, node: &Node, made: &mut Segment) -> Result<(), NotUnderstood> {
        let NodeKind::CondTerm { value, .. } = &node.kind else {
            return Err(NotUnderstood);
        };
        if value.contains(['`', '(', '[']) || value.contains("${") {
            return Err(NotUnderstood);
        }
        made.words.push(Word {
            written: value.clone(),
            value: Value::Open {
                before: String::new(),
                one_word: true,
            },
        });
        Ok(())
    }

    fn redirects(&mut self, redirects: &[Node], made: &mut Segment) -> Result<(), NotUnderstood> {
        for redirect in redirects {
            let redirect = self.redirect(redirect, made)?;
            made.redirects.push(redirect);
        }
        Ok(())
    }

    fn redirect(&mut self, node: &Node, made: &mut Segment) -> Result<Redirect, NotUnderstood> {
        match &node.kind {
            NodeKind::Redirect {
                op,
                target,
                varfd: None,
                ..
            } => {
                let word = self.word(target, &mut made.substitutes)?;
                Ok(match &**op {
                    "<" => Redirect::From(word),
                    ">" | "&>" => Redirect::To(word, Writing::Anew),
                    ">>" | "&>>" => Redirect::To(word, Writing::Append),
                    ">|" => Redirect::To(word, Writing::Clobber),
                    "<>" => Redirect::To(word, Writing::Both),
                    ">&" | "<&" => {
                        let number = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
                        match word.fixed() {
                            Some(it) if number(it.trim_end_matches('-')) => Redirect::Descriptor,
                            // `>& file` writes both streams there.
                            Some(_) | None => Redirect::To(word, Writing::Anew),
                        }
                    }
                    "<<<" => {
                        self.not_in_fish()?;
                        Redirect::Here(word)
                    }
                    _ => return Err(NotUnderstood),
                })
            }
            NodeKind::HereDoc {
                content,
                quoted,
                complete: true,
                delimiter,
                ..
            } if !delimiter.is_empty() => {
                self.not_in_fish()?;
                // Quotes mean nothing in it, so it is no word, and could run anything.
                let wild = content.contains(['`', '\\']) || content.contains("$(");
                let value = if *quoted || !content.contains(['$', '`', '\\']) {
                    Value::Fixed(content.clone())
                } else if wild || content.contains("${") || content.contains("$[") {
                    return Err(NotUnderstood);
                } else {
                    Value::Open {
                        before: String::new(),
                        one_word: true,
                    }
                };
                let written = content.clone();
                Ok(Redirect::Here(Word { written, value }))
            }
            _ => Err(NotUnderstood),
        }
    }

    /// Arithmetic may run commands by the values of variables: such as are used must have been given numbers here.
    pub(super) fn counting(&mut self, node: &Node) -> Result<(), NotUnderstood> {
        match &node.kind {
            NodeKind::ArithNumber { .. } | NodeKind::ArithEmpty => Ok(()),
            NodeKind::ArithVar { name }
            | NodeKind::ParamExpansion {
                param: name,
                op: None,
                ..
            } => {
                self.counted.insert(name.clone());
                Ok(())
            }
            NodeKind::ArithBinaryOp { left, right, .. } | NodeKind::ArithComma { left, right } => {
                self.counting(left)?;
                self.counting(right)
            }
            NodeKind::ArithUnaryOp { operand, .. }
            | NodeKind::ArithPreIncr { operand }
            | NodeKind::ArithPostIncr { operand }
            | NodeKind::ArithPreDecr { operand }
            | NodeKind::ArithPostDecr { operand } => self.counting(operand),
            NodeKind::ArithAssign { target, value, .. } => {
                if let NodeKind::ArithVar { name } = &target.kind {
                    self.note_assignment(name, true);
                }
                self.counting(target)?;
                self.counting(value)
            }
            NodeKind::ArithTernary {
                condition,
                if_true,
                if_false,
            } => {
                self.counting(condition)?;
                for part in [if_true, if_false].into_iter().flatten() {
                    self.counting(part)?;
                }
                Ok(())
            }
            _ => Err(NotUnderstood),
        }
    }

    /// Arithmetic of which the tree has only the text.
    fn counting_text(&mut self, text: &str) -> Result<(), NotUnderstood> {
        let plain = |it: char| it.is_ascii_alphanumeric() || "_+-*/%<>=! ".contains(it);
        if !text.chars().all(plain) {
            return Err(NotUnderstood);
        }
        let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
        for name in words.filter(|it| it.starts_with(|it: char| !it.is_ascii_digit())) {
            self.counted.insert(name.to_owned());
        }
        Ok(())
    }

    fn numbers_are_numbers(&self) -> Result<(), NotUnderstood> {
        let known = |it: &String| {
            let given = self.numbers.contains(it) && !self.others.contains(it);
            given || matches!(&**it, "RANDOM" | "SECONDS" | "LINENO" | "#" | "?" | "$")
        };
        if self.counted.iter().all(known) {
            Ok(())
        } else {
            Err(NotUnderstood)
        }
    }
}

fn joined_by(operator: Option<ListOperator>) -> Joined {
    match operator {
        Some(ListOperator::And) => Joined::And,
        Some(ListOperator::Or) => Joined::Or,
        Some(ListOperator::Background) => Joined::Beside,
        Some(ListOperator::Semi) | None => Joined::Then,
    }
}

/// A number, a range of them, or arithmetic, which makes one.
fn is_number(word: &Word) -> bool {
    let digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    match &word.value {
        Value::Fixed(value) => digits(value),
        Value::Pattern(pattern) => {
            let inside = pattern
                .strip_prefix('{')
                .and_then(|it| it.strip_suffix('}'));
            inside.is_some_and(|it| it.split("..").all(digits))
        }
        Value::Open { .. } => {
            let one = word.written.matches("$((").count() == 1;
            one && word.written.starts_with("$((") && word.written.ends_with("))")
        }
    }
}
