//! What in a text looks like a path or a source file.

/// What source files end in: those of the usual languages, and their kin.
const ENDINGS: [&str; 61] = [
    "asm", "bash", "c", "cc", "cjs", "clj", "cmake", "cpp", "cs", "css", "cu", "cxx", "dart",
    "diff", "erl", "ex", "exs", "f90", "fish", "fs", "go", "gradle", "h", "hpp", "hs", "html",
    "ipynb", "java", "jl", "js", "json", "jsx", "kt", "lua", "mjs", "ml", "nim", "nix", "patch",
    "php", "pl", "proto", "ps1", "py", "pyi", "rb", "rs", "scala", "scss", "sh", "sql", "svelte",
    "swift", "tf", "toml", "ts", "tsx", "vue", "yaml", "yml", "zig",
];

/// Directories at the root of a system. One of them alone is a place that people talk about (`ls /tmp`); a path into
/// one is a path. `/usr` is one by itself.
const ROOTS: [&str; 17] = [
    "bin", "boot", "dev", "etc", "home", "lib", "lib64", "mnt", "opt", "proc", "root", "run",
    "sbin", "srv", "sys", "tmp", "var",
];

/// Whether there is a path in it: `./`, `../`, `~/`, `/usr`, into a directory of the system, or on a drive.
pub(super) fn has_path(text: &str) -> bool {
    let mut before: Option<char> = None;
    for (at, sign) in text.char_indices() {
        if before.is_none_or(begins_word)
            && matches!(sign, '.' | '~' | '/' | 'A'..='Z' | 'a'..='z')
            && begins_path(&text[at..])
        {
            return true;
        }
        before = Some(sign);
    }
    false
}

/// Signs after which a word begins.
fn begins_word(sign: char) -> bool {
    sign.is_whitespace() || "\"'`([{<=:,;|&>«“‘„（【「".contains(sign)
}

fn begins_path(rest: &str) -> bool {
    if ["./", "../", "~/"].iter().any(|it| rest.starts_with(it)) {
        return true;
    }
    if let Some(below) = rest.strip_prefix('/') {
        let name = bare_word(below);
        let after = &below[name.len()..];
        return name == "usr" || (ROOTS.contains(&name) && is_deeper(after));
    }
    let mut signs = rest.chars();
    let drive = signs.next().is_some_and(|it| it.is_ascii_alphabetic());
    drive && signs.next() == Some(':') && signs.next() == Some('\\')
}

/// Whether a path goes on here.
fn is_deeper(after: &str) -> bool {
    let next = after.strip_prefix('/').and_then(|it| it.chars().next());
    next.is_some_and(|it| is_of_word(it) || it == '.' || it == '*')
}

/// The name that a text begins with.
fn bare_word(text: &str) -> &str {
    let end = text.find(|it: char| !is_of_word(it)).unwrap_or(text.len());
    &text[..end]
}

fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_' || sign == '-'
}

/// Whether a word in it is the name of a source file, or what such names end in: `main.rs`, `src/a.py:12`, `*.js`.
pub(super) fn has_source_file(text: &str) -> bool {
    text.match_indices('.').any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + 1..]);
        let ending = ending(after);
        ENDINGS.contains(&ending) && is_file(before, ending, &after[ending.len()..])
    })
}

/// Letters and digits as file names end in them. Scripts without spaces go on behind them at once.
fn ending(after: &str) -> &str {
    let end = after.find(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    &after[..end.unwrap_or(after.len())]
}

/// The part of a name that stands before its ending.
fn stem(before: &str) -> &str {
    let signs = before.char_indices().rev();
    let start = signs.take_while(|(_, it)| is_of_word(*it)).last();
    start.map_or("", |(at, _)| &before[at..])
}

fn is_file(before: &str, ending: &str, after: &str) -> bool {
    let stem = stem(before);
    if stem.is_empty() {
        let last = before.chars().next_back();
        return last.is_none_or(|it| it == '*' || begins_word(it));
    }
    let next = after.chars().next();
    // `example.go/x` is an address, and `p.ex.` and `300 b.c.` are abbreviations.
    let goes_on = next == Some('/');
    let abbreviated = stem.chars().count() == 1 && next == Some('.');
    let numbered = ending.len() == 1 && stem.chars().all(|it| it.is_ascii_digit());
    !(goes_on || abbreviated || numbered)
}
