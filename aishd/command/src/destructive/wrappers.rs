//! Programs that run the program which stands in their words: looked through, whatever they are.

use super::places::Places;
use super::{Call, Danger, Input, Judge, is_one};
use crate::command::{Dialect, Setting, Value, Word};

/// Name, options that are known, and how many words stand before the program.
const WRAPPERS: &[(&str, &str, usize)] = &[
    ("nice", "-n= --adjustment= -#", 0),
    ("nohup", "", 0),
    (
        "time",
        "-p -v -o> -f= -a --verbose --portability --format= --output>",
        0,
    ),
    (
        "timeout gtimeout",
        "-k= -s= -v --signal= --kill-after= --preserve-status --foreground --verbose",
        1,
    ),
    (
        "stdbuf unbuffer",
        "-i= -o= -e= --input= --output= --error=",
        0,
    ),
    ("setsid", "-f -w -c --fork --wait --ctty", 0),
    ("ionice", "-c= -n= -t --class= --classdata= --ignore", 0),
    ("taskset", "-c", 1),
    ("chronic", "-v -e", 0),
    (
        "strace ltrace",
        "-f -ff -e= -o> -c -C -t -tt -r -T -y -v -s= -q -qq -i -k",
        0,
    ),
    (
        "catchsegv valgrind",
        "-q -v --leak-check= --track-origins= --error-exitcode= --show-leak-kinds=",
        0,
    ),
    ("builtin noglob nocorrect", "", 0),
    ("exec", "-c -l -a=", 0),
    (
        "sudo doas",
        "-n -E -H -S -b -k -i -s -u= -g= -h= -p= -C= --preserve-env --non-interactive --user= --group= --login",
        0,
    ),
    ("gosu su-exec", "", 1),
    ("pkexec", "--user=", 0),
    ("runuser", "-u= -g=", 0),
    ("chroot", "--userspec= --groups=", 1),
    (
        "unshare",
        "-r -U -m -n -p -u -i -f -C --map-root-user --fork --mount-proc",
        0,
    ),
    ("setpriv", "--no-new-privs", 0),
    ("firejail bwrap", "--quiet", 0),
    ("caffeinate", "-i -s -d", 0),
    ("rlwrap dbus-run-session xvfb-run", "-a", 0),
];

/// Whether the words of this one are those of another program.
pub(super) fn wraps(name: &str) -> bool {
    let others = "env command xargs watch flock busybox toybox ssh cd pushd chdir popd";
    let mut all = WRAPPERS.iter().map(|it| it.0).chain([others]);
    all.any(|names| names.split_whitespace().any(|it| it == name))
}

impl Judge<'_> {
    /// Whether it is one of them. What it runs has been judged then.
    pub(super) fn wrapped(&mut self, call: Call<'_>) -> bool {
        match call.name {
            "env" => self.by_env(call),
            "command" => self.by_command(call),
            "xargs" => self.by_xargs(call),
            "watch" => self.by_watch(call),
            "flock" => self.by_flock(call),
            "busybox" | "toybox" => self.further(call, call.args),
            "ssh" => self.by_ssh(call),
            "cd" | "pushd" | "chdir" => self.by_cd(call),
            "popd" => {}
            name => {
                let found = WRAPPERS
                    .iter()
                    .find(|(names, ..)| names.split_whitespace().any(|it| it == name));
                let Some((_, options, before)) = found else {
                    return false;
                };
                let rest = self.leading(options, call.args);
                let rest = match rest.split_first() {
                    Some((end, behind)) if end.fixed() == Some("--") => behind,
                    Some(_) | None => rest,
                };
                let passed = rest.iter().take(*before).all(is_one);
                if !passed {
                    self.add(Danger::KnownOnlyWhenRun);
                }
                self.further(call, rest.get(*before..).unwrap_or_default());
            }
        }
        true
    }

    /// Judges the command in the words that are left; without any it is not known what happens.
    fn further(&mut self, call: Call<'_>, words: &[Word]) {
        if words.is_empty() && call.name != "exec" {
            self.add(Danger::UnknownProgram);
        }
        self.run(words, call.input);
    }

    fn by_env(&mut self, call: Call<'_>) {
        let mut rest = self.leading(
            "-i -0 -u= --unset= --ignore-environment --null -v",
            call.args,
        );
        while let Some((word, behind)) = rest.split_first() {
            let text = match &word.value {
                Value::Fixed(text) | Value::Pattern(text) => text,
                Value::Open { before, .. } => before,
            };
            let Some((name, value)) = text.split_once('=') else {
                break;
            };
            let value = Some(Word {
                written: value.to_owned(),
                value: Value::Fixed(value.to_owned()),
            });
            let name = name.to_owned();
            let harmless = super::variables::is_harmless(&Setting { name, value });
            if !harmless || !is_one(word) {
                self.add(Danger::ChangesEnvironment);
            }
            rest = behind;
        }
        if rest.is_empty() {
            self.shows_environment();
        }
        self.run(rest, call.input);
    }

    fn by_command(&mut self, call: Call<'_>) {
        match call.first() {
            Some("-v" | "-V") => {}
            Some("-p") => self.further(call, call.args.get(1..).unwrap_or_default()),
            Some(_) | None => self.further(call, call.args),
        }
    }

    /// What it is given by its input stands behind the words that are written.
    fn by_xargs(&mut self, call: Call<'_>) {
        let options = "-0 -r -t -x -n= -P= -L= -I= -d= -s= -a= -E= --null --no-run-if-empty --max-args= --max-procs= \
            --max-lines= --delimiter= --verbose --replace= --arg-file= --exit";
        let rest = self.leading(options, call.args);
        let mut words = rest.to_vec();
        if words.is_empty() {
            return;
        }
        let replaced = call
            .args
            .iter()
            .zip(call.args.iter().skip(1))
            .find_map(|(option, it)| (option.fixed() == Some("-I")).then(|| it.fixed()).flatten());
        let attached = call
            .fixed()
            .find_map(|it| it.strip_prefix("-I").filter(|it| !it.is_empty()));
        for word in &mut words {
            let mark = replaced.or(attached);
            if mark.is_some_and(|it| word.written.contains(it)) {
                word.value = Value::Open {
                    before: String::new(),
                    one_word: true,
                };
            }
        }
        words.push(Word {
            written: "…".to_owned(),
            value: Value::Open {
                before: String::new(),
                one_word: false,
            },
        });
        self.run(&words, &Input::Inherited);
    }

    fn by_watch(&mut self, call: Call<'_>) {
        let options = "-n= -d -t -b -e -g -c -x -w --interval= --differences --no-title --color --errexit --chgexit";
        let rest = self.leading(options, call.args);
        self.joined(rest, Dialect::Sh);
    }

    /// A shell gets these words with spaces between them.
    pub(super) fn joined(&mut self, words: &[Word], dialect: Dialect) {
        let fixed: Option<Vec<&str>> = words.iter().map(Word::fixed).collect();
        if let Some(fixed) = self.certain(fixed) {
            self.text(&fixed.join(" "), dialect);
        }
    }

    fn by_flock(&mut self, call: Call<'_>) {
        let options =
            "-n -x -s -u -e -w= -E= -o -F --nonblock --exclusive --shared --timeout= --close";
        let rest = self.leading(options, call.args);
        let Some((lock, rest)) = rest.split_first() else {
            return;
        };
        self.writes(lock);
        match rest {
            [] => {}
            [option, text] if matches!(option.fixed(), Some("-c" | "--command")) => {
                self.joined(std::slice::from_ref(text), Dialect::Sh);
            }
            _ => self.further(call, rest),
        }
    }

    /// A command there is read as one here, and there is no place that it may write.
    fn by_ssh(&mut self, call: Call<'_>) {
        let options = "-p= -l= -i= -T -t -q -v -vv -4 -6 -n -C -x -a -b=";
        let rest = self.leading(options, call.args);
        let Some((host, words)) = rest.split_first() else {
            return;
        };
        if host.fixed().is_none_or(|it| it.starts_with('-')) {
            self.add(Danger::KnownOnlyWhenRun);
        }
        if words.is_empty() {
            self.add(Danger::OtherMachine);
            self.add(Danger::Interactive);
            return;
        }
        let here = std::mem::replace(&mut self.places, Places::elsewhere());
        self.joined(words, Dialect::Bash);
        self.places = here;
    }

    fn by_cd(&mut self, call: Call<'_>) {
        let rest = self.leading("-P -L -q", call.args);
        match rest {
            [] => self.places.go(None),
            [only] => self.places.go(only.fixed().filter(|it| *it != "-")),
            _ => self.add(Danger::UnknownOption),
        }
    }
}
