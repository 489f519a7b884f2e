//! What a line begins: the block starts of CommonMark, each read from the text of one line alone.

/// The fence of a code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FenceLine {
    pub(super) mark: char,
    pub(super) length: usize,
    pub(super) indent: usize,
    /// What stands behind the opening fence.
    pub(super) info: String,
}

/// What stands before a list item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListMarker {
    pub(super) kind: LineKind,
    /// From the marker to the text of the item.
    pub(super) columns: usize,
    /// Nothing follows on this line.
    pub(super) empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Bullet(char),
    Ordered { number: u64, after: char },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnAlignment {
    Left,
    Centre,
    Right,
}

/// How the text of a task begins, and whether it is done.
pub(super) const TASKS: [(&str, bool); 3] = [("[ ] ", false), ("[x] ", true), ("[X] ", true)];

/// How many spaces a text begins with.
pub(super) fn indent(text: &str) -> usize {
    text.len() - text.trim_start_matches(' ').len()
}

/// `---` and the like.
pub(super) fn is_rule(text: &str) -> bool {
    let mut marks = text.chars().filter(|it| *it != ' ');
    let Some(mark @ ('-' | '*' | '_')) = marks.next() else {
        return false;
    };
    let mut more = 0;
    marks.all(|it| {
        more += 1;
        it == mark
    }) && more >= 2
}

/// The level of an ATX heading and its text.
pub(super) fn heading(text: &str) -> Option<(usize, &str)> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    if !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let rest = rest.trim();
    let open = rest.trim_end_matches('#');
    let closed = open.is_empty() || open.ends_with(' ');
    Some((level, if closed { open.trim_end() } else { rest }))
}

/// The level of the heading whose text stands before this line.
pub(super) fn underline(text: &str) -> Option<usize> {
    let text = text.trim_end();
    let all = |mark: char| !text.is_empty() && text.chars().all(|it| it == mark);
    match () {
        () if all('=') => Some(1),
        () if all('-') => Some(2),
        () => None,
    }
}

pub(super) fn fence(text: &str, indent: usize) -> Option<FenceLine> {
    let mark = text.chars().next().filter(|it| matches!(it, '`' | '~'))?;
    let info = text.trim_start_matches(mark);
    let length = text.len() - info.len();
    if length < 3 || (mark == '`' && info.contains('`')) {
        return None;
    }
    Some(FenceLine {
        mark,
        length,
        indent,
        info: info.trim().to_owned(),
    })
}

impl FenceLine {
    /// The first word of the info.
    pub(super) fn language(&self) -> &str {
        let mut words = self.info.split([' ', ',', '{', ':']);
        words.next().unwrap_or_default()
    }

    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        indent(line) < 4 && text.len() >= self.length && text.chars().all(|it| it == self.mark)
    }
}

pub(super) fn marker(text: &str) -> Option<ListMarker> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (kind, length) = match text.as_bytes().get(digits)? {
        sign @ (b'-' | b'+' | b'*') if digits == 0 => (LineKind::Bullet(char::from(*sign)), 1),
        after @ (b'.' | b')') if (1..=9).contains(&digits) => {
            let number = text.get(..digits)?.parse().ok()?;
            let after = char::from(*after);
            (LineKind::Ordered { number, after }, digits + 1)
        }
        _ => return None,
    };
    let rest = text.get(length..)?;
    let spaces = indent(rest);
    let empty = spaces == rest.len();
    if spaces == 0 && !empty {
        return None;
    }
    // Five spaces are one, and code that is indented.
    let spaces = if empty || spaces > 4 { 1 } else { spaces };
    Some(ListMarker {
        kind,
        columns: length + spaces,
        empty,
    })
}

impl ListMarker {
    /// A paragraph goes on over a line that only looks like an item.
    pub(super) fn may_end_a_paragraph(&self) -> bool {
        !self.empty
            && match self.kind {
                LineKind::Bullet(_) => true,
                LineKind::Ordered { number, .. } => number == 1,
            }
    }
}

impl LineKind {
    /// The items belong to one list.
    pub(super) fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Bullet(one), Self::Bullet(two)) => one == two,
            (Self::Ordered { after: one, .. }, Self::Ordered { after: two, .. }) => one == two,
            (Self::Bullet(_), Self::Ordered { .. }) | (Self::Ordered { .. }, Self::Bullet(_)) => {
                false
            }
        }
    }
}

/// A block of HTML begins, which ends at a blank line.
pub(super) fn is_html(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('<') else {
        return false;
    };
    if rest.starts_with(['!', '?']) {
        return true;
    }
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let end = rest
        .find(|it: char| !it.is_ascii_alphanumeric())
        .unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let ended = after.is_empty() || after.starts_with([' ', '>']) || after.starts_with("/>");
    ended && HTML_BLOCKS.contains(&name.to_ascii_lowercase().as_str())
}

const HTML_BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "base",
    "basefont",
    "blockquote",
    "body",
    "caption",
    "center",
    "col",
    "colgroup",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "iframe",
    "legend",
    "li",
    "link",
    "main",
    "menu",
    "menuitem",
    "nav",
    "noframes",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "pre",
    "script",
    "search",
    "section",
    "style",
    "summary",
    "table",
    "tbody",
    "td",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "track",
    "ul",
];

/// The cells of a table's row, as they stand in the source.
pub(super) fn cells(text: &str) -> Vec<String> {
    let text = text.trim();
    let text = text.strip_prefix('|').unwrap_or(text);
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for it in text.chars() {
        let cell = cells.last_mut();
        match (it, cell) {
            ('|', _) if !escaped => cells.push(String::new()),
            ('|', Some(cell)) => {
                cell.pop();
                cell.push('|');
            }
            (_, Some(cell)) => cell.push(it),
            (_, None) => {}
        }
        escaped = it == '\\' && !escaped;
    }
    if cells.len() > 1 && cells.last().is_some_and(|it| it.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|it| it.trim().to_owned()).collect()
}

/// The row below a table's head: `|---|:-:|`.
pub(super) fn delimiters(text: &str) -> Option<Vec<ColumnAlignment>> {
    if !text.contains('|') || !text.contains('-') {
        return None;
    }
    cells(text).iter().map(|it| alignment(it)).collect()
}

fn alignment(cell: &str) -> Option<ColumnAlignment> {
    let left = cell.starts_with(':');
    let right = cell.len() > 1 && cell.ends_with(':');
    let dashes = cell.trim_matches(':');
    let well = !dashes.is_empty()
        && dashes.chars().all(|it| it == '-')
        && cell.len() - dashes.len() == usize::from(left) + usize::from(right);
    well.then_some(match (left, right) {
        (true, true) => ColumnAlignment::Centre,
        (false, true) => ColumnAlignment::Right,
        (true | false, false) => ColumnAlignment::Left,
    })
}

/// What the beginning of a line, whose end has not come, says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineBeginning {
    /// More text may make anything of it, or its end decides.
    Open,
    /// It is text of a paragraph.
    Text,
}

/// `text` begins no container; what may it still be?
pub(super) fn beginning(text: &str) -> LineBeginning {
    let open = text.chars().all(|it| "-*_=+:|#`~ ".contains(it))
        || text.starts_with(['<', '|'])
        || text.starts_with("```")
        || text.starts_with("~~~")
        || heading(text).is_some()
        || text.trim_end().bytes().all(|it| it.is_ascii_digit())
        || marker(text.trim_end()).is_some();
    if open {
        LineBeginning::Open
    } else {
        LineBeginning::Text
    }
}
