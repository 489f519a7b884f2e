//! `find`: tests, what it prints, and what it runs. `fd` too, which runs with two options only.

use super::{Call, Danger, Judge, is_one};
use crate::command::{Value, Word};

/// Tests and actions that take nothing.
const ALONE: &str = "-print -print0 -ls -prune -quit -depth -xdev -mount -follow -daystart -noleaf -empty -readable -writable \
    -executable -nouser -nogroup -true -false -a -and -o -or -not ! ( ) , -H -L -P -d -x -X -ignore_readdir_race";

/// Those that take one word.
const WITH_VALUE: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -mmin \
    -atime -amin -ctime -cmin -newer -anewer -cnewer -newermt -newerct -newerat -user -group -uid -gid -perm -links -inum -samefile \
    -maxdepth -mindepth -lname -ilname -fstype -printf -used -context -D -O";

impl Judge<'_> {
    /// Whether it is one of them.
    pub(super) fn finds(&mut self, call: Call<'_>) -> bool {
        match call.name {
            "find" | "gfind" => self.by_find(call),
            "fd" | "fdfind" => {
                let options = "-e= -t= -H -I -u -g -F -p -a -l -d= -E= -i -s -L -0 -c= -S= -j= -1 --extension= --type= --hidden --no-ignore \
                    --glob --max-depth= --min-depth= --exclude= --size= --changed-within= --changed-before= --absolute-path \
                    --full-path --color= --follow --max-results= --owner= --print0 --exact-depth=";
                let runs =
                    |it: &Word| matches!(it.fixed(), Some("-x" | "--exec" | "-X" | "--exec-batch"));
                let at = call.args.iter().position(runs).unwrap_or(call.args.len());
                let (own, behind) = call.args.split_at(at);
                self.options(options, own);
                if let Some((_, words)) = behind.split_first() {
                    let ends = |it: &Word| it.fixed() == Some(";");
                    let end = words.iter().position(ends).unwrap_or(words.len());
                    let (words, after) = words.split_at(end);
                    if after.len() > 1 {
                        self.add(Danger::UnknownOption);
                    }
                    self.on_each(call, words);
                }
            }
            _ => return false,
        }
        true
    }

    fn by_find(&mut self, call: Call<'_>) {
        let mut rest = call.args;
        let mut in_places = true;
        while let Some((word, behind)) = rest.split_first() {
            rest = behind;
            let text = match &word.value {
                Value::Fixed(text) => text.as_str(),
                // Where it begins; a word that could be more than one could be anything.
                Value::Pattern(text)
                    if in_places && !text.starts_with(['-', '*', '?', '[', '{']) =>
                {
                    continue;
                }
                Value::Open { before, .. }
                    if in_places
                        && is_one(word)
                        && !before.is_empty()
                        && !before.starts_with('-') =>
                {
                    continue;
                }
                Value::Pattern(_) | Value::Open { .. } => {
                    self.add(Danger::KnownOnlyWhenRun);
                    continue;
                }
            };
            let test = text.starts_with(['-', '(', '!']) || matches!(text, ")" | ",");
            if !test {
                if !in_places {
                    self.add(Danger::UnknownOption);
                }
                continue;
            }
            in_places &= matches!(text, "-H" | "-L" | "-P");
            rest = self.predicate(call, text, behind);
        }
    }

    /// Judges one test or action. Gives what stands behind it.
    fn predicate<'w>(&mut self, call: Call<'_>, text: &str, behind: &'w [Word]) -> &'w [Word] {
        let has = |list: &str| list.split_whitespace().any(|it| it == text);
        if has(ALONE) || text.starts_with("-O") {
            return behind;
        }
        if has(WITH_VALUE) {
            if !behind.first().is_some_and(is_one) {
                self.add(Danger::KnownOnlyWhenRun);
            }
            return behind.get(1..).unwrap_or_default();
        }
        match text {
            "-delete" => self.add(Danger::DeletesTree),
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                if let Some(place) = behind.first() {
                    self.writes(place);
                }
                return behind.get(1..).unwrap_or_default();
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let ends = |it: &Word| matches!(it.fixed(), Some(";" | "+"));
                let end = behind.iter().position(ends).unwrap_or(behind.len());
                let (words, after) = behind.split_at(end);
                self.on_each(call, words);
                return after.get(1..).unwrap_or_default();
            }
            _ => self.add(Danger::UnknownOption),
        }
        behind
    }

    /// The command that it runs for what it finds, whatever that is called.
    fn on_each(&mut self, call: Call<'_>, words: &[Word]) {
        for named in call.args {
            self.read_by(named);
        }
        let certain = self.looks_in_no_place_of_keys(call.args);
        let mut words = words.to_vec();
        for word in &mut words {
            if word.written.contains("{}") {
                let before = word
                    .fixed()
                    .and_then(|it| it.split_once("{}"))
                    .map_or("", |it| it.0);
                // What it finds begins with where it looks, and that was no option.
                let before = if before.is_empty() { "./" } else { before };
                word.value = Value::Open {
                    before: before.to_owned(),
                    one_word: true,
                };
            }
        }
        if !words.iter().any(|it| it.written.contains("{}")) {
            words.push(Word {
                written: "{}".to_owned(),
                value: Value::Open {
                    before: "./".to_owned(),
                    one_word: true,
                },
            });
        }
        if words.first().and_then(Word::fixed) == Some("rm") {
            self.add(Danger::DeletesTree);
        }
        let before = std::mem::replace(&mut self.found_names, certain);
        self.run(&words, call.input);
        self.found_names = before;
    }
}
