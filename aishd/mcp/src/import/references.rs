//! How programs write that a value stands elsewhere, as `${NAME}`, which is how we do. Nothing is run, read or put in.

/// How a file says that a value is elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceSyntax {
    /// `$NAME`, `${NAME}`, `${env:NAME}`, `${input:…}`, `${workspaceFolder}`.
    Common,
    /// `{env:NAME}` and `{file:PATH}`.
    Braces,
    /// As a shell has it, commands included.
    Shell,
    /// `${{ secrets.NAME }}`.
    Template,
    /// Every text is meant as it stands.
    None,
}

/// A value, and what is to be said of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TranslatedText {
    pub(super) text: String,
    /// Why its server cannot run with it.
    pub(super) off: Option<String>,
    /// Variables that another store of that program holds.
    pub(super) kept_there: Vec<String>,
}

/// `folder` is what a file means by its workspace.
pub(super) fn translate(
    text: &str,
    syntax: ReferenceSyntax,
    folder: Option<&str>,
) -> TranslatedText {
    let mut out = TranslatedText::default();
    match syntax {
        ReferenceSyntax::Common => out.common(text, folder),
        ReferenceSyntax::Braces => out.braces(text),
        ReferenceSyntax::Shell => out.shell(text),
        ReferenceSyntax::Template => out.template(text),
        ReferenceSyntax::None => out.plain(text),
    }
    out
}

impl TranslatedText {
    fn common(&mut self, text: &str, folder: Option<&str>) {
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, reference) = rest.split_at(at);
            self.text.push_str(before);
            let (whole, inside) = variable(reference);
            self.reference(whole, inside, folder);
            rest = &reference[whole.len()..];
        }
        self.text.push_str(rest);
    }

    fn reference(&mut self, whole: &str, inside: &str, folder: Option<&str>) {
        if inside.starts_with("input:") {
            self.switch_off(format!(
                "{whole} is asked of a person, and a daemon cannot ask"
            ));
            self.text.push_str(whole);
            return;
        }
        match inside {
            "workspaceFolder" | "workspaceRoot" => self.text.push_str(folder.unwrap_or(whole)),
            "userHome" => self.text.push_str("${HOME}"),
            "" | "pathSeparator" | "/" => self.text.push_str(whole),
            name if name.starts_with(|it: char| it.is_ascii_digit()) => self.text.push_str(whole),
            name => self.variable(name.strip_prefix("env:").unwrap_or(name)),
        }
    }

    fn braces(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest
            .find("{env:")
            .into_iter()
            .chain(rest.find("{file:"))
            .min()
        {
            let (before, reference) = rest.split_at(at);
            self.plain(before);
            let Some(end) = reference.find('}') else {
                rest = reference;
                break;
            };
            let inside = &reference[1..end];
            match inside.split_once(':') {
                Some(("env", name)) => self.variable(name.trim()),
                Some(_) | None => self.switch_off(format!(
                    "{{{inside}}} is what a file holds, and no file is read here: put it into a variable of the daemon"
                )),
            }
            rest = &reference[end + 1..];
        }
        self.plain(rest);
    }

    fn shell(&mut self, text: &str) {
        if text.contains('`') {
            return self.command();
        }
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, reference) = rest.split_at(at);
            self.text.push_str(before);
            if let Some(command) = reference.strip_prefix("$(") {
                let Some(end) = closing(command) else {
                    return self.command();
                };
                match echoed(&command[..end]) {
                    // What is only printed needs no command.
                    Some(words) => self.shell(&words),
                    None => return self.command(),
                }
                rest = &command[end + 1..];
                continue;
            }
            let (whole, inside) = variable(reference);
            let name = inside.split(':').next().unwrap_or_default();
            if is_name(name) {
                self.variable(inside);
            } else {
                self.text.push_str(whole);
            }
            rest = &reference[whole.len()..];
        }
        self.text.push_str(rest);
    }

    /// What it is is not known before it has run, and it is not run.
    fn command(&mut self) {
        self.text.clear();
        self.switch_off(
            "it is what a command prints, and no command is run here: put it into a variable of the daemon"
                .to_owned(),
        );
    }

    fn template(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find("${{") {
            let (before, reference) = rest.split_at(at);
            self.plain(before);
            let Some(end) = reference.find("}}") else {
                rest = reference;
                break;
            };
            let inside = reference[3..end].trim();
            let name = inside.rsplit(['.', '/']).next().unwrap_or_default();
            if is_name(name) {
                self.variable(name);
                self.kept_there.push(name.to_owned());
            } else {
                self.switch_off(format!("{} is no variable", &reference[..end + 2]));
            }
            rest = &reference[end + 2..];
        }
        self.plain(rest);
    }

    /// What means nothing there means nothing here.
    fn plain(&mut self, text: &str) {
        let is_reference = text.split("${").skip(1).any(|it| {
            let inside = it
                .split('}')
                .next()
                .filter(|inside| inside.len() < it.len());
            inside.is_some_and(|it| is_name(it.split(":-").next().unwrap_or_default()))
        });
        if is_reference {
            self.switch_off("it has ${…} in it as plain text, which is a variable here".to_owned());
        }
        self.text.push_str(text);
    }

    fn variable(&mut self, name: &str) {
        self.text.push_str("${");
        self.text.push_str(name);
        self.text.push('}');
    }

    fn switch_off(&mut self, why: String) {
        self.off.get_or_insert(why);
    }
}

/// `$NAME` or `${…}` at the beginning: the whole, and what is in it.
fn variable(reference: &str) -> (&str, &str) {
    match reference.strip_prefix("${") {
        Some(inside) => match inside.find('}') {
            Some(end) => (&reference[..end + 3], &inside[..end]),
            None => (reference, ""),
        },
        None => {
            let name = |it: char| it.is_ascii_alphanumeric() || it == '_';
            let end = reference[1..].find(|it| !name(it));
            let end = end.map_or(reference.len(), |it| it + 1);
            (&reference[..end], &reference[1..end])
        }
    }
}

/// Where a command that has begun ends.
fn closing(command: &str) -> Option<usize> {
    let mut open = 1_usize;
    for (at, it) in command.char_indices() {
        match it {
            '(' => open += 1,
            ')' => open -= 1,
            _another => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// The words of an `echo` that does nothing but print words and variables.
fn echoed(command: &str) -> Option<String> {
    let words = command.trim().strip_prefix("echo ")?.trim();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_ ./:@,+=-${}\"".contains(it);
    let is_option = words.starts_with('-');
    (words.chars().all(is_plain) && !is_option).then(|| words.replace('"', ""))
}

fn is_name(text: &str) -> bool {
    let begins = |it: u8| it.is_ascii_alphabetic() || it == b'_';
    text.bytes().next().is_some_and(begins)
        && text.bytes().all(|it| begins(it) || it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(syntax: ReferenceSyntax, text: &str, expected: &str) {
        let found = translate(text, syntax, Some("/p"));
        let seen = match found.off {
            Some(why) => format!("off: {why}"),
            None => found.text,
        };
        assert_eq!(expected, seen, "{text}");
    }

    #[test]
    fn every_way_to_write_a_variable_becomes_ours() {
        use ReferenceSyntax::{Braces, Common, None, Shell, Template};
        check(
            Common,
            "$A/${env:B} ${workspaceFolder} $5",
            "${A}/${B} /p $5",
        );
        check(
            Braces,
            "Bearer {env:A}{env:B} $C {x}",
            "Bearer ${A}${B} $C {x}",
        );
        check(Shell, "$A ${B:-c} $$", "${A} ${B:-c} $$");
        check(Shell, "$(echo Bearer \"$A\")", "Bearer ${A}");
        check(Template, "${{ secrets.A }}-${{inputs.o/r/B}}", "${A}-${B}");
        check(None, "$A {env:B} $(id)", "$A {env:B} $(id)");
    }

    #[test]
    fn what_would_have_to_run_or_to_be_read_says_so() {
        use ReferenceSyntax::{Braces, None, Shell, Template};
        let run = "off: it is what a command prints, and no command is run here: put it into a variable of the daemon";
        for text in [
            "x$(cat /run/secret)",
            "$(echo $(id))",
            "`id`",
            "$(echo a; id)",
            "$(unfinished",
        ] {
            check(Shell, text, run);
        }
        check(
            Braces,
            "{file:~/.key}",
            "off: {file:~/.key} is what a file holds, and no file is read here: put it into a variable of the daemon",
        );
        let plain = "off: it has ${…} in it as plain text, which is a variable here";
        check(None, "a ${HOME}", plain);
        check(Template, "${X:-y}${{ secrets.A }}", plain);
        check(Template, "${{ 1 + 1 }}", "off: ${{ 1 + 1 }} is no variable");
    }
}
