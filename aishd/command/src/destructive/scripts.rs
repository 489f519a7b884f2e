//! Shells, and what makes the shell itself read a text.

use super::{Call, Danger, Input, Judge, is_one};
use crate::command::{Dialect, Setting, Value, Word};

impl Judge<'_> {
    /// Whether it is one of them. The text, if there is one, has been judged then.
    pub(super) fn in_shell(&mut self, call: Call<'_>) -> bool {
        match call.name {
            "sh" | "dash" | "ash" | "ksh" | "mksh" | "bash" | "rbash" | "zsh" | "fish" | "csh"
            | "tcsh" | "elvish" | "nu" | "xonsh" => self.by_shell(call),
            "eval" => self.joined(call.args, Dialect::Bash),
            "." | "source" => self.add(Danger::RunsCode),
            "su" => self.by_su(call),
            "export" => self.by_export(call),
            "read" => self.by_read(call),
            "printf" => self.by_printf(call),
            "test" | "[" => self.by_test(call),
            "set" | "unset" | "local" => self.by_names(call),
            _ => return false,
        }
        true
    }

    fn by_shell(&mut self, call: Call<'_>) {
        let dialect = match call.name {
            "csh" | "tcsh" | "elvish" | "nu" | "xonsh" => {
                self.add(Danger::RunsCode);
                return;
            }
            "fish" => Dialect::Fish,
            "zsh" => Dialect::Zsh,
            "bash" | "rbash" => Dialect::Bash,
            _ => Dialect::Sh,
        };
        let mut rest = call.args;
        let mut is_text = false;
        let mut only_read = false;
        while let Some((word, behind)) = rest.split_first() {
            if only_read && is_one(word) && word.fixed().is_none() {
                return;
            }
            let Some(text) = self.certain(word.fixed()) else {
                return;
            };
            match text {
                "--norc" | "--noprofile" | "--posix" | "--no-config" => {}
                "-o" | "+o" => {
                    if behind.first().and_then(Word::fixed) != Some("pipefail") {
                        self.add(Danger::UnknownOption);
                    }
                    rest = behind.get(1..).unwrap_or_default();
                    continue;
                }
                "-s" | "-" | "--" => {}
                text if text.starts_with('-') && !text.starts_with("--") => {
                    if !text.chars().skip(1).all(|it| "ceuxlfnv".contains(it)) {
                        self.add(Danger::UnknownOption);
                    }
                    is_text |= text.contains('c');
                    only_read |= text.contains('n');
                }
                text if text.starts_with('-') => self.add(Danger::UnknownOption),
                _ => break,
            }
            rest = behind;
        }
        match rest.first() {
            Some(text) if is_text => {
                if let Some(text) = self.certain(text.fixed()) {
                    self.text(text, dialect);
                }
            }
            Some(_) if only_read => {}
            Some(_) => self.add(Danger::RunsCode),
            None => match call.input {
                Input::Text(text) => self.text(text, dialect),
                Input::Stream => self.add(Danger::RunsDownload),
                Input::Inherited => self.add(Danger::Interactive),
            },
        }
    }

    /// Another user it is anyway; what that one runs is looked at for the reasons.
    fn by_su(&mut self, call: Call<'_>) {
        self.add(Danger::AsAnother);
        let behind = call.args.iter().zip(call.args.iter().skip(1));
        for (option, text) in behind {
            if matches!(option.fixed(), Some("-c" | "--command" | "-lc")) {
                self.joined(std::slice::from_ref(text), Dialect::Sh);
            }
        }
    }

    fn by_export(&mut self, call: Call<'_>) {
        for word in call.args {
            let text = match &word.value {
                Value::Fixed(text) | Value::Pattern(text) => text,
                Value::Open { before, .. } => before,
            };
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            let set = Setting {
                name: name.to_owned(),
                value: Some(Word {
                    written: value.to_owned(),
                    value: Value::Fixed(value.to_owned()),
                }),
            };
            if text == "-p" {
                continue;
            }
            if text.starts_with('-') || !super::variables::is_harmless(&set) {
                self.add(Danger::ChangesEnvironment);
            }
            if text.is_empty() {
                self.add(Danger::KnownOnlyWhenRun);
            }
        }
    }

    fn by_read(&mut self, call: Call<'_>) {
        self.options("-r -s -n= -t= -d= -p=", call.args);
        self.names(call);
    }

    fn by_printf(&mut self, call: Call<'_>) {
        let first = call.args.first();
        let plain = first.is_some_and(|it| is_one(it) && !it.written.starts_with('-'));
        if !plain || first.and_then(Word::fixed).is_none() {
            self.add(Danger::UnknownOption);
        }
    }

    /// Names of variables in words are looked at with their index, which is arithmetic.
    fn by_test(&mut self, call: Call<'_>) {
        let words: Vec<&str> = call.fixed().collect();
        if words.iter().any(|it| matches!(*it, "-v" | "-R")) {
            self.add(Danger::RunsCode);
        }
        if words.iter().any(|it| it.contains("$(") || it.contains('`')) {
            self.add(Danger::RunsCode);
        }
    }

    fn by_names(&mut self, call: Call<'_>) {
        match call.name {
            "set" => {
                let plain = |it: &str| {
                    it.starts_with(['-', '+'])
                        && it.chars().skip(1).all(|it| "euxvfno".contains(it))
                        || matches!(it, "pipefail" | "errexit" | "nounset" | "xtrace" | "noglob")
                };
                if !call.args.iter().all(|it| it.fixed().is_some_and(plain)) {
                    self.add(Danger::ChangesEnvironment);
                }
            }
            _ => self.names(call),
        }
    }

    fn names(&mut self, call: Call<'_>) {
        let plain = |it: &str| {
            let name = it.to_owned();
            let word = it.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
            word && (it == "_" || super::variables::is_harmless(&Setting { name, value: None }))
        };
        let mut option = false;
        for word in call.args {
            let Some(text) = self.certain(word.fixed()) else {
                return;
            };
            // Values of options and the prompt may be anything but the name of a variable that programs heed.
            let name = text.split('=').next().unwrap_or(text);
            if !option && !text.starts_with('-') && !plain(name) {
                self.add(Danger::ChangesEnvironment);
            }
            option = matches!(text, "-p" | "-d" | "-n" | "-t");
        }
    }
}
