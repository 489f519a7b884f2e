//! What the next line means, given the blocks that are open: the block structure of CommonMark, which never needs
//! to look ahead.

use crate::render::markdown::container::{Container, ContainerShape, MOST_CONTAINERS};
use crate::render::markdown::line::{self, ColumnAlignment, FenceLine, LineBeginning, ListMarker};

/// What a line does to the blocks.
#[derive(Debug)]
pub(super) struct BlockPlan<'a> {
    /// So many of the open containers go on.
    pub(super) matched: usize,
    pub(super) opened: Vec<OpenedBlock>,
    pub(super) start: ContainerStart<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OpenedBlock {
    Quote,
    Item { marker: ListMarker, indent: usize },
}

/// What stands in the containers.
#[derive(Debug)]
pub(super) enum ContainerStart<'a> {
    Blank,
    /// A line of the fenced code that is open.
    Fenced(&'a str),
    FenceEnded,
    Indented(&'a str),
    Html(&'a str),
    Rule,
    Heading(usize, &'a str),
    /// The paragraph so far was a heading.
    Underline(usize),
    Fence(FenceLine),
    Command(&'a str),
    /// The paragraph so far was the head of a table.
    Delimiters(Vec<ColumnAlignment>),
    Cells(&'a str),
    Text(&'a str),
    /// The paragraph goes on without the signs of its containers.
    Lazy(&'a str),
}

/// How much of the line there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineExtent {
    Whole,
    /// Its end has not come.
    Part,
    /// Its end has not come and is not waited for.
    Cut,
}

/// The innermost open block, as far as it decides what a line means.
#[derive(Clone, Copy, Debug)]
pub(super) enum InnermostBlock<'a> {
    Nothing,
    Paragraph {
        /// What may still become a heading.
        undecided: bool,
        /// What may still become the head of a table.
        head: Option<&'a str>,
    },
    Fence(&'a FenceLine),
    Indented,
    Html,
    Table,
}

/// What `line` means; `None`: that cannot be said before more of it is there.
pub(super) fn plan<'a>(
    line: &'a str,
    extent: LineExtent,
    containers: &[Container],
    inside: InnermostBlock<'_>,
) -> Option<BlockPlan<'a>> {
    let (matched, rest) = go_on(line, containers);
    let mut plan = BlockPlan {
        matched,
        opened: Vec::new(),
        start: ContainerStart::Blank,
    };
    let all = matched == containers.len();
    let blank = rest.trim_start().is_empty();
    if extent == LineExtent::Part && blank {
        return None;
    }
    if all {
        let verbatim = match inside {
            InnermostBlock::Fence(fence)
                if extent != LineExtent::Cut && fence.is_closed_by(rest) =>
            {
                Some(ContainerStart::FenceEnded)
            }
            InnermostBlock::Fence(fence) => {
                let strip = line::indent(rest).min(fence.indent);
                Some(ContainerStart::Fenced(rest.get(strip..).unwrap_or(rest)))
            }
            InnermostBlock::Html if !blank => Some(ContainerStart::Html(rest)),
            InnermostBlock::Nothing
            | InnermostBlock::Paragraph { .. }
            | InnermostBlock::Indented
            | InnermostBlock::Html
            | InnermostBlock::Table => None,
        };
        if let Some(start) = verbatim {
            plan.start = start;
            return (extent != LineExtent::Part).then_some(plan);
        }
    }
    if blank {
        return Some(plan);
    }
    let mut reading = LineReading {
        plan,
        rest,
        inside,
        all,
        extent,
    };
    reading.containers(containers.len());
    reading.leaf()
}

/// How many containers the line goes on with, and what is left of it.
fn go_on<'a>(line: &'a str, containers: &[Container]) -> (usize, &'a str) {
    let mut rest = line;
    for (at, container) in containers.iter().enumerate() {
        let indent = line::indent(rest);
        let inner = match container.shape {
            ContainerShape::Quote if indent < 4 => rest
                .get(indent..)
                .and_then(|it| it.strip_prefix('>'))
                .map(|it| it.strip_prefix(' ').unwrap_or(it)),
            ContainerShape::Quote => None,
            ContainerShape::Item { columns, .. } if indent >= columns => rest.get(columns..),
            ContainerShape::Item { .. } => rest.trim_start().is_empty().then_some(""),
        };
        match inner {
            Some(inner) => rest = inner,
            None => return (at, rest),
        }
    }
    (containers.len(), rest)
}

struct LineReading<'a, 'b> {
    plan: BlockPlan<'a>,
    rest: &'a str,
    inside: InnermostBlock<'b>,
    /// All open containers go on.
    all: bool,
    extent: LineExtent,
}

impl<'a> LineReading<'a, '_> {
    /// A paragraph is open that this line may go on with.
    fn in_paragraph(&self) -> bool {
        matches!(self.inside, InnermostBlock::Paragraph { .. }) && self.plan.opened.is_empty()
    }

    /// The line stands where the innermost block is.
    fn is_inside(&self) -> bool {
        self.all && self.plan.opened.is_empty()
    }

    /// Takes the signs of new containers off.
    fn containers(&mut self, open: usize) {
        while self.plan.matched.min(open) + self.plan.opened.len() < MOST_CONTAINERS {
            let indent = line::indent(self.rest);
            let Some(text) = self.rest.get(indent..).filter(|_| indent < 4) else {
                return;
            };
            if let Some(inner) = text.strip_prefix('>') {
                self.plan.opened.push(OpenedBlock::Quote);
                self.rest = inner.strip_prefix(' ').unwrap_or(inner);
                continue;
            }
            let underline = self.is_underline(text);
            let Some(marker) = line::marker(text).filter(|_| !line::is_rule(text) && !underline)
            else {
                return;
            };
            let sure = self.extent != LineExtent::Part || !text.trim_end().chars().all(is_sign);
            let interrupts = self.in_paragraph() && self.is_inside();
            if !sure || (interrupts && !marker.may_end_a_paragraph()) {
                return;
            }
            self.plan.opened.push(OpenedBlock::Item { marker, indent });
            self.rest = text.get(marker.columns..).unwrap_or("");
        }
    }

    fn is_underline(&self, text: &str) -> bool {
        let undecided = matches!(
            self.inside,
            InnermostBlock::Paragraph {
                undecided: true,
                ..
            }
        );
        undecided && self.is_inside() && line::underline(text).is_some()
    }

    fn leaf(mut self) -> Option<BlockPlan<'a>> {
        let indent = line::indent(self.rest);
        let text = self.rest.get(indent..).unwrap_or("");
        self.plan.start = match self.extent {
            LineExtent::Whole => self.start(text, indent),
            LineExtent::Cut => self.text(text),
            LineExtent::Part => {
                let code = indent >= 4 && !self.in_paragraph();
                let command = self.is_command();
                let short = text.len() < 4;
                let open = code || command || short || line::beginning(text) == LineBeginning::Open;
                if open || matches!(self.inside, InnermostBlock::Table) {
                    return None;
                }
                self.text(text)
            }
        };
        Some(self.plan)
    }

    /// A command stands at the very beginning of its line, wherever the lines before belong.
    fn is_command(&self) -> bool {
        self.plan.matched == 0 && self.plan.opened.is_empty() && self.rest.starts_with("CMD:")
    }

    fn start(&self, text: &'a str, indent: usize) -> ContainerStart<'a> {
        if text.is_empty() {
            return ContainerStart::Blank;
        }
        if indent >= 4 {
            return if self.in_paragraph() {
                self.text(text)
            } else {
                ContainerStart::Indented(self.rest.get(4..).unwrap_or(""))
            };
        }
        if self.is_command() {
            return ContainerStart::Command(self.rest);
        }
        if let Some(level) = line::underline(text).filter(|_| self.is_underline(text)) {
            return ContainerStart::Underline(level);
        }
        if line::is_rule(text) {
            return ContainerStart::Rule;
        }
        if let Some((level, text)) = line::heading(text) {
            return ContainerStart::Heading(level, text);
        }
        if let Some(fence) = line::fence(text, indent) {
            return ContainerStart::Fence(fence);
        }
        if line::is_html(text) {
            return ContainerStart::Html(text);
        }
        match self.inside {
            InnermostBlock::Paragraph {
                head: Some(head), ..
            } if self.is_inside() && head.contains('|') => {
                let columns = line::cells(head).len();
                match line::delimiters(text).filter(|it| it.len() == columns) {
                    Some(alignments) => ContainerStart::Delimiters(alignments),
                    None => self.text(text),
                }
            }
            InnermostBlock::Table if self.is_inside() && text.contains('|') => {
                ContainerStart::Cells(text)
            }
            InnermostBlock::Nothing
            | InnermostBlock::Paragraph { .. }
            | InnermostBlock::Fence(_)
            | InnermostBlock::Indented
            | InnermostBlock::Html
            | InnermostBlock::Table => self.text(text),
        }
    }

    fn text(&self, text: &'a str) -> ContainerStart<'a> {
        if self.in_paragraph() && !self.all {
            ContainerStart::Lazy(text)
        } else {
            ContainerStart::Text(text)
        }
    }
}

/// What rules and items may begin with.
fn is_sign(it: char) -> bool {
    matches!(it, '-' | '*' | '_' | '+' | ' ')
}
