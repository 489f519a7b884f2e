//! Programs that are given a program: code is not known, except where every word of it is.

use super::{Call, Danger, Input, Judge};
use crate::command::Word;

/// Names that a line of Python may use and still only reckon and print.
const PYTHON: &str = "print import from sys math json datetime platform statistics fractions decimal string textwrap version version_info \
    sqrt pi e sum range len round abs min max int float str hex bin ord chr sorted reversed list tuple set dict bool enumerate zip \
    for in if else and or not is True False None dumps loads load stdin read indent join split strip upper lower title format \
    python_version system now date today isoformat strftime timedelta days executable path maxsize byteorder as sep end \
    mean median factorial gcd pow divmod any all repr type isinstance keys values items get count index replace startswith endswith";

/// The same for JavaScript.
const SCRIPT: &str = "console log process version versions platform arch Math JSON stringify parse Number String Array from length \
    map filter reduce join split sort reverse sqrt PI floor ceil round max min pow abs const let true false null undefined \
    toFixed toString parseInt parseFloat Object keys values entries Date now toISOString new typeof if else return slice includes \
    v8 node a b x y n i s";

/// Modules that Python runs harmlessly by name, as programs of their own.
const MODULES: &str = "pytest unittest mypy flake8 pylint black ruff pyright";

impl Judge<'_> {
    /// Whether it is one of them.
    pub(super) fn with_code(&mut self, call: Call<'_>) -> bool {
        match call.name {
            "python" | "python2" | "python3" | "pypy3" => self.by_python(call),
            "node" | "nodejs" => self.by_node(call),
            "awk" | "gawk" | "mawk" | "nawk" => self.by_awk(call),
            "sed" | "gsed" => self.by_sed(call),
            _ => return false,
        }
        true
    }

    fn by_python(&mut self, call: Call<'_>) {
        let mut rest = call.args;
        while let Some((word, behind)) = rest.split_first() {
            match word.fixed() {
                Some("-u" | "-B" | "-s" | "-E" | "-I" | "-q" | "-bb") => {}
                Some("-c") => return self.plain_code(behind.first(), PYTHON, ""),
                Some("-m") => return self.by_module(call, behind),
                Some("-V" | "-VV") => return,
                Some(_) | None => return self.add(Danger::RunsCode),
            }
            rest = behind;
        }
        self.without_code(call);
    }

    fn by_module(&mut self, call: Call<'_>, words: &[Word]) {
        let Some((module, args)) = words.split_first() else {
            return;
        };
        let Some(name) = self.certain(module.fixed()) else {
            return;
        };
        match name {
            "json.tool" | "py_compile" | "tabnanny" | "calendar" | "this" | "tokenize" | "dis"
            | "ast" | "sysconfig" => {
                let operands = self.options(
                    "--indent= --sort-keys --compact --no-ensure-ascii --json-lines -q",
                    args,
                );
                if name == "json.tool" {
                    for written in operands.iter().skip(1) {
                        self.writes(written);
                    }
                }
            }
            "venv" => {
                let made = self.options(
                    "--system-site-packages --without-pip --upgrade-deps --prompt=",
                    args,
                );
                for place in made {
                    match place.fixed() {
                        Some(".venv" | "venv" | "env") if self.places.at_home() => {}
                        Some(_) | None => self.writes(place),
                    }
                }
            }
            "pip" => self.call(Call {
                name: "pip",
                args,
                ..call
            }),
            name if MODULES.split_whitespace().any(|it| it == name) => {
                self.call(Call { name, args, ..call });
            }
            _ => self.add(Danger::RunsCode),
        }
    }

    fn by_node(&mut self, call: Call<'_>) {
        match call.args {
            [] => self.without_code(call),
            [only] if matches!(only.fixed(), Some("-v" | "--version")) => {}
            [option, code]
                if matches!(
                    option.fixed(),
                    Some("-e" | "-p" | "--eval" | "--print" | "-pe")
                ) =>
            {
                // A slash may begin a pattern, in which quotes are no quotes.
                self.plain_code(Some(code), SCRIPT, "/");
            }
            [option, _] if matches!(option.fixed(), Some("--check" | "-c")) => {}
            _ => self.add(Danger::RunsCode),
        }
    }

    /// An interpreter that is told nothing takes its input for code.
    fn without_code(&mut self, call: Call<'_>) {
        self.add(match call.input {
            Input::Stream => Danger::RunsDownload,
            Input::Text(_) => Danger::RunsCode,
            Input::Inherited => Danger::Interactive,
        });
    }

    /// Code of which every name is known to only reckon and print.
    fn plain_code(&mut self, code: Option<&Word>, names: &str, never: &str) {
        let Some(code) = self.certain(code.and_then(Word::fixed)) else {
            return;
        };
        let known = |it: &str| names.split_whitespace().any(|name| name == it);
        let plain = !code.contains(|it| never.contains(it));
        if !plain || !names_of(code).is_some_and(|it| it.iter().all(|it| known(it))) {
            self.add(Danger::RunsCode);
        }
    }

    fn by_awk(&mut self, call: Call<'_>) {
        let rest = self.leading(
            "-F= -v= --field-separator= --assign= --posix --re-interval --",
            call.args,
        );
        let rest = match rest.split_first() {
            Some((end, behind)) if end.fixed() == Some("--") => behind,
            Some(_) | None => rest,
        };
        let Some(program) = self.certain(rest.first().and_then(Word::fixed)) else {
            return;
        };
        if !awk_only_prints(program) {
            self.add(Danger::RunsCode);
        }
    }

    fn by_sed(&mut self, call: Call<'_>) {
        let in_place = call.fixed().any(|it| {
            it.starts_with("--in")
                || (it.starts_with('-') && !it.starts_with("--") && it.contains('i'))
        });
        if in_place {
            self.add(Danger::ChangesInPlace);
            return;
        }
        let operands = self.options(
            "-n -E -r -u -s -z -l= -e= --quiet --silent --regexp-extended --expression= --null-data --unbuffered --posix --debug",
            call.args,
        );
        let mut scripts = call.values('e', &["--expression"]);
        if scripts.is_empty() {
            scripts.push(operands.first().and_then(|it| it.fixed()));
        }
        if !scripts.iter().all(|it| it.is_some_and(sed_only_prints)) {
            self.add(Danger::RunsCode);
        }
    }
}

/// The names in a line of code, without what stands in its strings. None if there is anything but names, numbers, strings
/// and plain operators.
fn names_of(code: &str) -> Option<Vec<&str>> {
    let mut names = vec![];
    let mut signs = code.char_indices().peekable();
    let mut before = ' ';
    while let Some((at, sign)) = signs.next() {
        match sign {
            // What is taken by an index has a name that is not seen.
            '[' if before.is_alphanumeric() || matches!(before, ')' | ']' | '"' | '\'') => {
                return None;
            }
            '\'' | '"' => {
                // A letter before a string makes another kind of string of it.
                if before.is_alphanumeric() {
                    return None;
                }
                loop {
                    let (_, inside) = signs.next()?;
                    if inside == sign {
                        break;
                    }
                    if inside == '\\' || inside == '\n' {
                        return None;
                    }
                }
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let mut end = at + 1;
                while let Some((next, _)) =
                    signs.next_if(|it| it.1.is_ascii_alphanumeric() || it.1 == '_')
                {
                    end = next + 1;
                }
                names.push(code.get(at..end)?);
                before = 'a';
                continue;
            }
            '0'..='9'
            | ' '
            | '+'
            | '-'
            | '*'
            | '/'
            | '%'
            | '('
            | ')'
            | '.'
            | ','
            | ':'
            | ';'
            | '<'
            | '>'
            | '='
            | '!'
            | '['
            | ']'
            | '?' => {}
            _ => return None,
        }
        if sign != ' ' {
            before = sign;
        }
    }
    Some(names)
}

/// An awk program that opens no file and no pipe. `>` compares where it is outside of actions or within parentheses.
fn awk_only_prints(program: &str) -> bool {
    let forbidden = [
        "system", "getline", "@", "close", "fflush", "ENVIRON", "PROCINFO", "|&",
    ];
    if forbidden.iter().any(|it| program.contains(it)) {
        return false;
    }
    let mut braces = 0_usize;
    let mut round = 0_usize;
    let mut signs = program.chars().peekable();
    let mut word = String::new();
    let mut before = '{';
    while let Some(sign) = signs.next() {
        let last = before;
        if !sign.is_whitespace() {
            before = sign;
        }
        if sign.is_alphanumeric() || sign == '_' {
            word.push(sign);
            continue;
        }
        let behind = std::mem::take(&mut word);
        match sign {
            ' ' => word = behind,
            '/' if "{},(!~&|;\n".contains(last) => {
                // A pattern, in which signs mean nothing else.
                loop {
                    match signs.next() {
                        None | Some('\n') => return false,
                        Some('/') => break,
                        Some('\\') => drop(signs.next()),
                        Some(_) => {}
                    }
                }
            }
            // A pattern or a division; in the first a quote would be none.
            '/' if last == ')' || AWK_WORDS.contains(&&*behind) => return false,
            '"' => loop {
                match signs.next() {
                    None => return false,
                    Some('"') => break,
                    Some('\\') => drop(signs.next()),
                    Some(_) => {}
                }
            },
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            '(' => round += 1,
            ')' => round = round.saturating_sub(1),
            '|' if signs.next_if_eq(&'|').is_none() => return false,
            '>' if braces > 0 && round == 0 => return false,
            _ => {}
        }
    }
    true
}

/// Words of awk behind which a slash begins a pattern.
const AWK_WORDS: [&str; 11] = [
    "print", "printf", "return", "in", "else", "do", "case", "exit", "delete", "while", "if",
];

/// A sed script of addresses with `p`, `d`, `q` and their like, and of `s` and `y` that neither write nor run.
fn sed_only_prints(script: &str) -> bool {
    let mut rest = script.trim();
    while !rest.is_empty() {
        let Some(behind) = sed_command(rest) else {
            return false;
        };
        rest = behind.trim_start_matches([';', '\n', ' ', '\t']);
    }
    true
}

/// One command; gives what stands behind it.
fn sed_command(text: &str) -> Option<&str> {
    let mut rest = sed_address(text)?;
    if let Some(second) = rest.strip_prefix(',') {
        rest = sed_address(second.trim_start_matches(['+', '~']))?;
    }
    let rest = rest.trim_start_matches([' ', '!']);
    let command = rest.chars().next()?;
    let behind = rest.get(command.len_utf8()..)?;
    match command {
        'p' | 'd' | 'q' | '=' | 'n' | 'N' | 'D' | 'P' | 'h' | 'H' | 'g' | 'G' | 'x' | 'l' | 'Q' => {
            let done = behind.trim_start_matches(|it: char| it.is_ascii_digit());
            (done.is_empty() || done.starts_with([';', '\n', ' '])).then_some(done)
        }
        's' | 'y' => {
            let delimiter = behind
                .chars()
                .next()
                .filter(|it| it.is_ascii_punctuation() && *it != '\\')?;
            let behind = behind.get(1..)?;
            let behind = sed_until(behind, delimiter)?;
            let behind = sed_until(behind, delimiter)?;
            let done =
                behind.trim_start_matches(|it: char| it.is_ascii_digit() || "gpiI".contains(it));
            (done.is_empty() || done.starts_with([';', '\n', ' '])).then_some(done)
        }
        _ => None,
    }
}

/// A line number, `$` or a pattern, or nothing.
fn sed_address(text: &str) -> Option<&str> {
    if let Some(pattern) = text.strip_prefix('/') {
        return sed_until(pattern, '/').map(|it| it.trim_start_matches('I'));
    }
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    Some(text.trim_start_matches(|it: char| it.is_ascii_digit() || it == '~'))
}

/// What stands behind the next delimiter that is not escaped.
fn sed_until(text: &str, delimiter: char) -> Option<&str> {
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        if sign == '\\' {
            signs.next()?;
        } else if sign == delimiter {
            return text.get(at + delimiter.len_utf8()..);
        } else if sign == '\n' {
            return None;
        }
    }
    None
}
