//! `git`, subcommand by subcommand. In a directory that is not of the roots even looking may run what its configuration says.

use super::{Call, Danger, Judge, is_one};
use crate::command::Word;

/// What comparing and showing may be told.
const SHOWS: &str = "-p -u -s -n= -# -U= -w -b -M? -C? -S= -G= -L= -z -r -t -a -q -i -m -c -R -B? -E -F -P --oneline --graph --all --stat --stat= --shortstat \
    --numstat --name-only --name-status --patch --no-patch --decorate --decorate= --abbrev-commit --abbrev= --abbrev --pretty= --format= --date= --since= --until= \
    --after= --before= --author= --committer= --grep= --max-count= --skip= --reverse --merges --no-merges --first-parent --follow \
    --cached --staged --color --color= --no-color --word-diff --word-diff= --color-words --unified= --ignore-all-space --ignore-space-change \
    --diff-filter= --summary --raw --check --exit-code --quiet --no-index --merge-base --topo-order --date-order --tags --branches \
    --remotes --left-right --cherry-pick --cherry-mark --no-renames --find-renames --minimal --patience --histogram --no-prefix --relative \
    --full-history --simplify-by-decoration --show-signature --no-ext-diff --no-textconv --no-notes --patch-with-stat --ignore-blank-lines \
    --dirstat --compact-summary --pickaxe-regex --regexp-ignore-case --invert-grep --boundary --no-walk --source --cc --root \
    --ignore-space-at-eol --function-context -W --submodule --diff-algorithm= --ancestry-path --walk-reflogs -g --no-decorate --parents --children --log-size --no-abbrev";

/// What looking elsewhere in a repository may be told.
const LOOKS: &str = "-a -b -c -d -e -f -h -i -k -l -m -n -o -p -q -r -s -t -v -w -x -z -E -F -L= -S -C= -M -A= -B= --abbrev= --abbrev-ref --all --always --branches \
    --cached --contains= --count --deleted --dirty --exclude-standard --exact-match --exclude= --first-parent --full-name --git-dir \
    --heads --heads-only --ignored --is-inside-work-tree --is-ancestor --line-number --long --max-count= --merge-base --modified --name-only --name-with-status \
    --not --numbered --others --porcelain --line-porcelain --points-at= --short --short= --show-toplevel --show-prefix --show-current --sort= --format= \
    --stage --summary --symbolic-full-name --tags --tags= --verify --quiet --email --since= --until= --no-merges --left-right --match= --candidates= \
    --ignore-case --word-regexp --fixed-strings --files-with-matches --files-without-match --recurse-submodules --show-cdup --path-format= \
    --untracked --verbose -vH --object-id --dereference --size --size-pretty --human-readable --show-ref-format --get-url --refs --show-object-format --unmerged --error-unmatch";

/// Name, options: harmless with these whatever the other words are.
const COMMANDS: &[(&str, &str)] = &[
    (
        "diff log show shortlog whatchanged diff-tree diff-index diff-files range-diff rev-list",
        SHOWS,
    ),
    (
        "blame annotate describe rev-parse ls-files ls-tree cat-file name-rev show-ref for-each-ref merge-base check-ignore check-attr \
         count-objects ls-remote var verify-commit verify-tag cherry show-branch grep",
        LOOKS,
    ),
    (
        "status",
        "-s -b -v -vv -z -u? -uno -uall --short --branch --porcelain --porcelain= --untracked-files --untracked-files= --ignored --long --show-stash \
        --ahead-behind --no-renames --column --no-column -sb --ignore-submodules --ignored=",
    ),
    (
        "add stage",
        "-A -u -v -n -N -f --all --update --verbose --dry-run --intent-to-add --no-all --ignore-errors --refresh --renormalize --force",
    ),
    (
        "fetch",
        "-v -q -t -p -a -n -j= --all --tags --no-tags --prune --depth= --dry-run --unshallow --quiet --verbose --jobs= --recurse-submodules --progress --multiple --deepen=",
    ),
    (
        "merge",
        "-q -v -m= --no-ff --ff --ff-only --no-edit --squash --no-commit --stat --no-stat --quiet --verbose --log",
    ),
    (
        "cherry-pick revert",
        "-x -n -s --no-edit --no-commit --signoff -m=",
    ),
    ("mv", "-v -n -k --verbose --dry-run"),
    ("help version", "-a -g --all --build-options"),
    (
        "fsck",
        "--full --no-dangling --unreachable --strict --connectivity-only",
    ),
];

impl Judge<'_> {
    /// Whether it is git.
    pub(super) fn by_git(&mut self, call: Call<'_>) -> bool {
        if call.name != "git" {
            return false;
        }
        if !self.places.at_home() {
            self.add(Danger::RunsCode);
        }
        let mut args = call.args;
        while let Some((word, behind)) = args.split_first() {
            match word.fixed() {
                Some(
                    "--no-pager"
                    | "-P"
                    | "--no-optional-locks"
                    | "--literal-pathspecs"
                    | "--bare"
                    | "--no-replace-objects",
                ) => {
                    args = behind;
                }
                Some("-C") => {
                    if let Some(place) = behind.first() {
                        self.works_in(place);
                    }
                    args = behind.get(1..).unwrap_or_default();
                }
                Some("-c") => {
                    if !behind
                        .first()
                        .and_then(Word::fixed)
                        .is_some_and(plain_setting)
                    {
                        self.add(Danger::RunsCode);
                    }
                    args = behind.get(1..).unwrap_or_default();
                }
                Some(text) if text.starts_with('-') => {
                    self.add(Danger::UnknownOption);
                    return true;
                }
                Some(_) | None => break,
            }
        }
        let Some((command, args)) = args.split_first() else {
            return true;
        };
        let Some(command) = self.certain(command.fixed()) else {
            return true;
        };
        let found = COMMANDS
            .iter()
            .find(|(names, _)| names.split_whitespace().any(|it| it == command));
        match found {
            Some((_, options)) => {
                if args
                    .iter()
                    .any(|it| it.fixed().is_some_and(|it| it.contains("::")))
                    && command != "grep"
                {
                    self.add(Danger::RunsCode);
                }
                let operands = self.options(options, args);
                if command == "mv" {
                    for place in &operands {
                        self.writes(place);
                    }
                }
                let forced = |it: &str| {
                    it.starts_with('+')
                        || (it.contains(':') && !it.contains("://") && !it.starts_with("git@"))
                };
                if command == "fetch" && operands.iter().any(|it| it.fixed().is_none_or(forced)) {
                    self.add(Danger::RewritesHistory);
                }
            }
            None => self.git_command(command, args),
        }
        true
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each subcommand")]
    fn git_command(&mut self, command: &str, args: &[Word]) {
        let fixed: Vec<&str> = args.iter().filter_map(Word::fixed).collect();
        let first = fixed
            .first()
            .copied()
            .filter(|_| args.first().and_then(Word::fixed).is_some());
        match command {
            "commit" => self.git_commit(args, &fixed),
            "push" => self.git_push(args),
            "pull" => {
                if fixed.iter().any(|it| it.starts_with("--re") || *it == "-r") {
                    self.add(Danger::RewritesHistory);
                }
                if fixed.iter().any(|it| it.starts_with('+') || (it.contains(':') && !it.contains("://"))) {
                    self.add(Danger::RewritesHistory);
                }
                self.options("-v -q -p -t --ff-only --no-rebase --ff --no-edit --tags --prune --all --quiet --verbose --autostash --stat --depth= --no-ff", args);
            }
            "branch" => {
                if fixed.iter().any(|it| it.starts_with("-d") || it.starts_with("-D") || it.starts_with("--de") || *it == "-f") {
                    self.add(Danger::RewritesHistory);
                }
                self.options("-a -r -v -vv -l -i -q -t -u= --list --all --remotes --show-current --merged --no-merged --merged= --no-merged= --contains= \
                    --no-contains= --sort= --format= --points-at= --color --no-color --track --no-track --set-upstream-to= --column -m --move --verbose --ignore-case", args);
            }
            "switch" => self.git_options("-c= -q -t -d --create= --quiet --track --no-track --detach --guess --no-guess -", args, Danger::DiscardsChanges),
            "checkout" => self.git_checkout(args, &fixed),
            "restore" => {
                let staged = fixed.iter().any(|it| matches!(*it, "--staged" | "-S"));
                self.git_options("-S -q --staged --quiet -s= --source=", args, Danger::DiscardsChanges);
                if !staged {
                    self.add(Danger::DiscardsChanges);
                }
            }
            "reset" => self.git_reset(args),
            "stash" => match first {
                None if args.is_empty() => {}
                Some("list" | "show") => drop(self.options(SHOWS, &args[1..])),
                Some("push" | "save" | "apply" | "pop" | "create") => {
                    self.options("-p -u -k -q -m= -a --patch --include-untracked --keep-index --message= --stat --index --quiet --oneline", &args[1..]);
                }
                Some(text) if text.starts_with('-') => {
                    self.options("-u -k -q -m= --include-untracked --keep-index --message= --quiet", args);
                }
                Some(_) | None => self.add(Danger::DiscardsChanges),
            },
            "clean" => {
                let dry = fixed.iter().any(|it| *it == "--dry-run" || (it.starts_with('-') && !it.starts_with("--") && it.contains('n')));
                if dry {
                    self.options("-n -d -x -X -q -e= --dry-run --exclude= --quiet", args);
                } else {
                    self.add(Danger::DeletesTree);
                }
            }
            "rm" => {
                let only_index = fixed.contains(&"--cached");
                self.options("-r -q -n --cached --dry-run --quiet --ignore-unmatch", args);
                if !only_index && !fixed.iter().any(|it| matches!(*it, "-n" | "--dry-run")) {
                    self.add(Danger::DeletesFiles);
                }
            }
            "tag" => self.git_options("-a -l -n? -m= -s -i -F= --list --annotate --message= --sort= --contains= --points-at= --format= --merged --no-merged --column --sign --ignore-case", args, Danger::RewritesHistory),
            "remote" => match first {
                None if args.is_empty() => {}
                Some("-v" | "--verbose" | "show" | "get-url" | "add" | "update") => {
                    self.options("-v -n -f -t= -m= --verbose --all --push --tags --no-tags -p", args);
                    if fixed.iter().any(|it| it.contains("::")) {
                        self.add(Danger::RunsCode);
                    }
                }
                Some(_) | None => self.add(Danger::ChangesEnvironment),
            },
            "config" => self.git_config(args, &fixed),
            "clone" | "init" => self.git_makes(command, args, &fixed),
            "worktree" => match first {
                Some("list") => drop(self.options("-v --porcelain -z --verbose", &args[1..])),
                Some("add") => {
                    let made = self.options("-b= -d -q --detach --quiet --track --checkout", &args[1..]);
                    if let Some(place) = made.first() {
                        self.writes(place);
                    }
                }
                Some(_) | None => self.add(Danger::DeletesTree),
            },
            "submodule" => match first {
                None if args.is_empty() => {}
                Some("status" | "summary") => drop(self.options("--recursive --cached -q --quiet", &args[1..])),
                Some(_) | None => self.add(Danger::RunsCode),
            },
            "reflog" => match first {
                None if args.is_empty() => {}
                Some("show" | "list") => drop(self.options(SHOWS, &args[1..])),
                Some("expire" | "delete") => self.add(Danger::RewritesHistory),
                Some(_) | None => drop(self.options(SHOWS, args)),
            },
            "notes" if matches!(first, Some("list" | "show")) => {}
            "bundle" if first == Some("verify") => {}
            "bisect" if matches!(first, Some("log" | "view")) => {}
            "format-patch" => {
                self.options("-o> -# -n -s --stdout --output-directory> --cover-letter --subject-prefix= -v= --start-number= --signoff", args);
            }
            "archive" => {
                self.options("-o> --output> --format= --prefix= -v --verbose -l --list", args);
            }
            "apply" => {
                if fixed.iter().any(|it| matches!(*it, "--check" | "--stat" | "--numstat" | "--summary")) {
                    self.options("--check --stat --numstat --summary -v -p= --verbose -R --reverse --index --cached", args);
                } else {
                    self.add(Danger::ChangesInPlace);
                }
            }
            "rebase" | "filter-branch" | "filter-repo" | "update-ref" | "replace" | "gc" | "prune" | "repack" | "am"
            | "fast-import" | "symbolic-ref" | "pack-refs" => self.add(Danger::RewritesHistory),
            "difftool" | "mergetool" | "gui" | "citool" | "instaweb" | "daemon" | "shell" => self.add(Danger::Interactive),
            "checkout-index" | "read-tree" | "sparse-checkout" | "update-index" => self.add(Danger::DiscardsChanges),
            // An alias may be anything.
            _ => self.add(Danger::UnknownProgram),
        }
    }

    /// Judges options of which the unknown ones mean a certain danger.
    fn git_options(&mut self, options: &str, args: &[Word], danger: Danger) {
        let before = self.found.contains(&Danger::UnknownOption);
        self.options(options, args);
        if !before && self.found.contains(&Danger::UnknownOption) {
            self.add(danger);
        }
    }

    fn git_commit(&mut self, args: &[Word], fixed: &[&str]) {
        if fixed
            .iter()
            .any(|it| it.len() > 3 && "--amend".starts_with(it))
        {
            self.add(Danger::RewritesHistory);
        }
        self.options("-a -m= -v -q -s -F= -C= -o -i -u? -S? -e --all --message= --verbose --quiet --signoff --no-edit --allow-empty --allow-empty-message \
            --file= --author= --date= --no-gpg-sign --dry-run --fixup= --squash= --only --include --no-status --short --porcelain --branch --amend \
            --trailer= --reuse-message= --cleanup= -t= --no-signoff --long", args);
    }

    fn git_push(&mut self, args: &[Word]) {
        let forces = |it: &str| {
            let long = [
                "--force",
                "--force-with-lease",
                "--force-if-includes",
                "--mirror",
                "--delete",
                "--prune",
            ];
            let name = it.split('=').next().unwrap_or(it);
            let named = name.len() > 3 && long.iter().any(|long| long.starts_with(name));
            let short = it.starts_with('-') && !it.starts_with("--") && it.contains(['f', 'd']);
            named || short || it.starts_with('+') || it.starts_with(':')
        };
        if args.iter().filter_map(Word::fixed).any(forces) {
            self.add(Danger::RewritesHistory);
        }
        let operands = self.options("-u -v -q -n -4 -6 --set-upstream --tags --follow-tags --verbose --quiet --dry-run --all --progress --porcelain --atomic --signed", args);
        for word in operands {
            if !word
                .fixed()
                .is_some_and(|it| !it.contains(':') && !it.starts_with(['/', '.']))
            {
                // Only to where the repository knows: an address could be anybody's.
                self.add(Danger::SendsData);
            }
        }
    }

    /// A name may be of a branch or of a file, whose changes would be gone.
    fn git_checkout(&mut self, args: &[Word], fixed: &[&str]) {
        if fixed.contains(&"--") {
            self.add(Danger::DiscardsChanges);
            return;
        }
        let makes = fixed
            .first()
            .is_some_and(|it| matches!(*it, "-b" | "-t" | "--track" | "--orphan"));
        let operands = self.options(
            "-b= -q -t --quiet --track --detach --orphan= --no-track --progress",
            args,
        );
        let plain = match operands.as_slice() {
            [] => true,
            [only] => makes || only.fixed().is_some_and(is_branch),
            _ => makes,
        };
        if !plain || self.found.contains(&Danger::UnknownOption) {
            self.add(Danger::DiscardsChanges);
        }
    }

    /// Only what takes something out of the index again.
    fn git_reset(&mut self, args: &[Word]) {
        let before = self.found.len();
        let operands = self.options("-q -N --quiet --mixed --intent-to-add", args);
        if self.found.len() > before {
            self.add(Danger::DiscardsChanges);
        }
        let head = operands.first().and_then(|it| it.fixed());
        if head.is_some_and(|it| {
            let path = it.contains('.') && !it.contains(['~', '^', '@']) && !is_branch(it);
            it != "HEAD" && !path
        }) {
            self.add(Danger::RewritesHistory);
        }
        if operands
            .iter()
            .any(|it| !is_one(it) && it.written.starts_with('$'))
        {
            self.add(Danger::KnownOnlyWhenRun);
        }
    }

    fn git_config(&mut self, args: &[Word], fixed: &[&str]) {
        let reads = fixed.iter().any(|it| {
            matches!(
                *it,
                "--get"
                    | "--list"
                    | "-l"
                    | "--get-all"
                    | "--get-regexp"
                    | "list"
                    | "get"
                    | "--show-origin"
            )
        });
        let operands = self.options("-l -z --get --list --get-all --get-regexp --global --system --local --show-origin --show-scope --name-only --type= --default=", args);
        let names_someone = matches!(
            operands.first().and_then(|it| it.fixed()),
            Some("user.name" | "user.email" | "pull.rebase" | "init.defaultBranch")
        );
        let outside = fixed
            .iter()
            .any(|it| matches!(*it, "--global" | "--system"));
        if !reads && operands.len() > 1 {
            if outside {
                self.add(Danger::OutsideRoots);
            }
            if !names_someone {
                self.add(Danger::ChangesEnvironment);
            }
        }
    }

    fn git_makes(&mut self, command: &str, args: &[Word], fixed: &[&str]) {
        let options = "-q -v -b= -n -l --depth= --branch= --single-branch --quiet --verbose --bare --no-checkout --initial-branch= --shallow-since= \
            --filter= --no-tags --progress --origin= -o= --sparse -j= --jobs=";
        let operands = self.options(options, args);
        let place = operands.get(usize::from(command == "clone"));
        match place {
            Some(place) => match place.fixed() {
                Some(path) if self.places.inside(path) => {}
                Some(_) | None => self.writes(place),
            },
            None if self.places.at_home() => {}
            None => self.add(Danger::OutsideRoots),
        }
        if fixed.iter().any(|it| it.contains("::")) {
            self.add(Danger::RunsCode);
        }
    }
}

/// A setting for one command that runs nothing.
fn plain_setting(text: &str) -> bool {
    let Some((key, value)) = text.split_once('=') else {
        return false;
    };
    let key = key.to_lowercase();
    key.starts_with("color.")
        || key.starts_with("advice.")
        || matches!(
            &*key,
            "user.name"
                | "user.email"
                | "core.quotepath"
                | "log.date"
                | "init.defaultbranch"
                | "diff.renames"
                | "core.autocrlf"
        )
        || (key == "core.pager" && value == "cat")
        || (key == "commit.gpgsign" && value == "false")
}

/// Whether a name is surely one of a branch, a tag or a commit.
fn is_branch(name: &str) -> bool {
    let kinds = [
        "feature/",
        "feat/",
        "fix/",
        "bugfix/",
        "hotfix/",
        "release/",
        "chore/",
        "docs/",
        "origin/",
        "refactor/",
        "wip/",
        "users/",
    ];
    let hash = (7..=40).contains(&name.len())
        && name.bytes().all(|it| it.is_ascii_hexdigit())
        && name.bytes().any(|it| it.is_ascii_digit());
    let tag = name.strip_prefix('v').is_some_and(|it| {
        it.starts_with(|it: char| it.is_ascii_digit())
            && it.chars().all(|it| it.is_ascii_digit() || it == '.')
    });
    matches!(
        name,
        "main"
            | "master"
            | "develop"
            | "dev"
            | "trunk"
            | "staging"
            | "-"
            | "HEAD"
            | "next"
            | "stable"
    ) || (kinds.iter().any(|it| name.starts_with(it)) && !name.ends_with('/'))
        || hash
        || tag
}
