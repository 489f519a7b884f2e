//! Programs that build and test a project, and that install packages. A build runs what the project says; that is taken for
//! harmless where everybody does it all day (`cargo test`, `npm test`, `make`), and for nothing else.

use super::packages::{INSTALLS, PACKAGES, REMOVES};
use super::{Call, Danger, Judge};
use crate::command::Word;

const CARGO: &str = "-r -p= -F= -j= -v -vv -q -i= -e= -d --release --all --workspace --package= --lib --bins --bin= --tests --test= --examples --example= \
    --benches --bench= --all-targets --features= --all-features --no-default-features --target= --profile= --jobs= --verbose --quiet --color= \
    --message-format= --locked --offline --frozen --no-run --no-fail-fast --doc --no-deps --check --keep-going --exclude= --depth= --dev --build \
    --optional --dry-run --format-version= --edges= --target-dir> --document-private-items --invert= --duplicates --prefix= --charset= --limit= \
    --rename= --no-report --html --cov --summary-only --message-format --timings --future-incompat-report --precise= --aggressive -E= --no-capture --status-level= --nocapture";

/// Names of scripts and targets that people give to what builds and tests.
const TARGETS: &str = "build test tests check lint docs doc typecheck type-check types coverage bench compile vet fmt-check format-check \
    lint-check unit unit-test unit-tests test-unit integration e2e test-e2e test-integration all help list verify-format check-format validate \
    test-all spec specs debug release build-dev build-prod stylelint eslint tsc ci:test";

const GO: &str = "-v -x -race -run= -count= -cover -coverprofile> -short -timeout= -bench= -benchmem -tags= -o> -json -p= -failfast -parallel= -mod= -trimpath \
    -m -u -f= -e -n -a -work -covermode= -all -src -short -versions -deps -test -find -buildvcs= -benchtime= -shuffle= -list= -vet= -skip= -l -s";

/// Programs that check code, with what they may be told.
const CHECKS: &[(&str, &str)] = &[
    (
        "pytest py.test",
        "-x -v -vv -vvv -q -s -k= -m= -n= -l -r? -rA -rs -ra -rf --lf --ff --tb= --cov --cov= --cov-report= --durations= --maxfail= --co --collect-only \
        --no-header --disable-warnings --strict-markers --last-failed --failed-first --exitfirst --verbose --quiet --no-cov --ignore= --deselect= \
        --color= --markers --fixtures --numprocesses= --stepwise --sw --nf --junitxml> --junit-xml> --timeout= --reruns= --showlocals --asyncio-mode= --sw-skip --no-summary --runxfail",
    ),
    (
        "unittest",
        "-v -q -f -b -k= -s= -p= -t= --verbose --quiet --failfast --buffer --locals",
    ),
    (
        "mypy pyright pylint flake8 pyflakes pycodestyle bandit vulture pydocstyle",
        "-p= -v -q -r -f= --strict --ignore-missing-imports --show-error-codes --max-line-length= --ignore= --select= \
        --count --statistics --exclude= --disable= --enable= --python-version= --no-incremental --extend-ignore= --explicit-package-bases --pretty --verbose -rn --show-source --max-complexity= -x= -ll --severity-level=",
    ),
    (
        "eslint",
        "--ext= --max-warnings= --quiet -f= --format= --no-error-on-unmatched-pattern --cache --color --no-color --report-unused-disable-directives",
    ),
    (
        "prettier",
        "--check -c -l --list-different --log-level= --loglevel= --no-color --ignore-unknown",
    ),
    (
        "tsc vue-tsc",
        "--noEmit -p= --project= -b --build --pretty --strict --skipLibCheck --watch -w --noEmit --showConfig --listFiles --incremental --target= --esModuleInterop --module= --jsx= --traceResolution",
    ),
    (
        "jest vitest mocha ava",
        "-t= -i -w= -b --watchAll=false --coverage --ci --verbose --silent --runInBand --testNamePattern= --testPathPattern= --bail --passWithNoTests --run --reporter= --grep= --listTests --no-coverage --maxWorkers= --findRelatedTests --onlyChanged -o --forceExit --detectOpenHandles --no-cache --timeout=",
    ),
    (
        "stylelint htmlhint cspell tslint svelte-check",
        "--max-warnings= --quiet --no-progress",
    ),
    (
        "rubocop standardrb reek",
        "--format= -f= --only= --parallel --display-cop-names",
    ),
    (
        "rspec",
        "-f= -e= --format= --example= --fail-fast --order= --tag= --color --dry-run",
    ),
    (
        "golangci-lint",
        "--timeout= --fast --new -v --enable= --disable= --verbose",
    ),
    (
        "staticcheck errcheck govulncheck gocyclo",
        "-tests -f= -over= -show=",
    ),
    (
        "phpunit pest phpstan psalm",
        "--filter= --testsuite= --colors --stop-on-failure --level= --no-progress -v",
    ),
    ("ktlint checkstyle detekt", "--reporter= --strict --quiet"),
];

impl Judge<'_> {
    /// Whether it is one of them.
    pub(super) fn by_build(&mut self, call: Call<'_>) -> bool {
        match call.name {
            "cargo" => self.by_cargo(call.args),
            "npm" | "pnpm" | "yarn" => self.by_npm(call),
            "npx" | "pnpx" | "bunx" => self.by_npx(call),
            "make" | "gmake" => self.by_make(call),
            "just" | "task" | "rake" | "ninja" => self.by_targets(call),
            "cmake" | "ctest" | "meson" => self.by_cmake(call),
            "go" => self.by_go(call.args),
            "mvn" | "gradle" | "sbt" | "dotnet" | "mix" | "stack" | "cabal" | "zig"
            | "./gradlew" | "./mvnw" => {
                self.by_other(call);
            }
            name if PACKAGES.split_whitespace().any(|it| it == name) => self.by_packages(call),
            "ruff" | "black" => self.by_formatter(call),
            "isort" | "autopep8" | "yapf" => {
                if !call
                    .fixed()
                    .any(|it| it.starts_with("--check") || matches!(it, "--diff" | "-d" | "-c"))
                {
                    self.add(Danger::ChangesInPlace);
                }
                self.options(
                    "--check --check-only --diff -c -d -r --profile= --recursive",
                    call.args,
                );
            }
            name => {
                let found = CHECKS
                    .iter()
                    .find(|(names, _)| names.split_whitespace().any(|it| it == name));
                let Some((_, options)) = found else {
                    return false;
                };
                if call
                    .fixed()
                    .any(|it| it.starts_with("--fix") || it.starts_with("--write") || it == "-w")
                    && name != "tsc"
                {
                    self.add(Danger::ChangesInPlace);
                }
                let operands = self.options(options, call.args);
                self.tested(&operands);
            }
        }
        let packages = matches!(
            self.found.last(),
            Some(Danger::InstallsPackages | Danger::RemovesPackages)
        );
        if !packages
            && !self.places.at_home()
            && !PACKAGES.split_whitespace().any(|it| it == call.name)
        {
            // What it builds or checks is not the project's.
            self.add(Danger::RunsCode);
        }
        true
    }

    /// Tests and configuration of another directory would run as well.
    fn tested(&mut self, operands: &[&Word]) {
        for word in operands {
            let path = word.written.split("::").next().unwrap_or_default();
            let leads_out = path.starts_with(['/', '~', '"', '\'', '$']) || path.contains("..");
            let inside = word.fixed().is_some_and(|it| self.places.inside(it));
            if leads_out && !inside {
                self.add(Danger::RunsCode);
            }
        }
    }

    fn by_cargo(&mut self, args: &[Word]) {
        let toolchain = args
            .first()
            .and_then(Word::fixed)
            .is_some_and(|it| it.starts_with('+'));
        let args = args.get(usize::from(toolchain)..).unwrap_or_default();
        let args = self.leading(
            "-q -v --quiet --verbose --locked --offline --frozen --color=",
            args,
        );
        let Some((command, args)) = args.split_first() else {
            return;
        };
        let Some(command) = self.certain(command.fixed()) else {
            return;
        };
        let end = args.iter().position(|it| it.fixed() == Some("--"));
        let (own, behind) = args.split_at(end.unwrap_or(args.len()));
        let behind = behind.get(1..).unwrap_or_default();
        match command {
            "build" | "b" | "check" | "c" | "test" | "t" | "doc" | "d" | "bench" | "metadata"
            | "tree" | "fetch" | "search" | "info" | "locate-project" | "pkgid" | "version"
            | "generate-lockfile" | "update" | "add" | "audit" | "outdated" | "help"
            | "verify-project" | "udeps" | "machete" | "deny" | "nextest" | "bloat" | "expand"
            | "geiger" | "semver-checks" => {
                self.options(CARGO, own);
                if !behind.iter().all(|it| it.fixed().is_some()) {
                    self.add(Danger::KnownOnlyWhenRun);
                }
            }
            "clippy" => {
                if own
                    .iter()
                    .any(|it| it.fixed().is_some_and(|it| it.starts_with("--fix")))
                {
                    self.add(Danger::ChangesInPlace);
                }
                self.options(CARGO, own);
                self.options("-D= -W= -A= -F=", behind);
            }
            "fmt" => {
                self.options(CARGO, own);
                self.options("--check -l -v --edition= --color=", behind);
            }
            "run" | "r" | "watch" | "script" | "make" | "xtask" | "miri" | "fuzz" | "eval" => {
                self.add(Danger::RunsCode);
            }
            "install" | "binstall" => self.add(Danger::InstallsPackages),
            "uninstall" | "remove" | "rm" => self.add(Danger::RemovesPackages),
            "publish" | "yank" | "owner" | "login" | "logout" | "release" => {
                self.add(Danger::SendsData);
            }
            "clean" | "sweep" | "cache" => self.add(Danger::DeletesTree),
            "new" | "init" => {
                for place in self.options("--lib --bin --name= --edition= --vcs= -q", own) {
                    self.writes(place);
                }
            }
            "package" => self.add(Danger::RunsCode),
            "fix" => self.add(Danger::ChangesInPlace),
            _ => self.add(Danger::UnknownProgram),
        }
    }

    fn by_npm(&mut self, call: Call<'_>) {
        let args = self.leading("-s -w= --silent --workspace= --workspaces --filter= -r --recursive --no-color --if-present", call.args);
        let Some((command, args)) = args.split_first() else {
            if call.name == "yarn" {
                self.add(Danger::InstallsPackages);
            }
            return;
        };
        let Some(command) = self.certain(command.fixed()) else {
            return;
        };
        match command {
            "test" | "t" | "tst" => self.script_args(call, args),
            "run" | "run-script" => {
                let args = self.leading(
                    "-s -w= --silent --workspace= --workspaces --if-present",
                    args,
                );
                match args.split_first() {
                    None => {}
                    Some((script, args)) => {
                        self.script(script);
                        self.script_args(call, args);
                    }
                }
            }
            "audit" if args.iter().any(|it| it.fixed() == Some("fix")) => {
                self.add(Danger::InstallsPackages);
            }
            "list" | "ls" | "ll" | "la" | "outdated" | "view" | "info" | "show" | "why"
            | "explain" | "audit" | "search" | "ping" | "root" | "prefix" | "bin" | "licenses"
            | "fund" | "help" | "doctor" | "whoami" => {
                self.options("-g -a -l --depth= --all --json --long --global --prod --dev --production --omit= --audit-level= --parseable --only= --recursive -r --include=", args);
            }
            "config" | "get" | "c" => {
                let reads = matches!(
                    args.first().and_then(Word::fixed),
                    Some("list" | "ls" | "get")
                ) || command == "get";
                if !reads {
                    self.add(Danger::ChangesEnvironment);
                }
            }
            "pack" if args.iter().any(|it| it.fixed() == Some("--dry-run")) => {}
            "ci" | "install" | "i" if is_locked(call.name, command, args) => {
                self.options(
                    "--frozen-lockfile --immutable --ignore-scripts --no-audit --no-fund --prefer-offline --offline --silent -s",
                    args,
                );
            }
            "exec" | "dlx" | "x" | "create" | "init" | "start" | "stop" | "restart" | "node"
            | "rebuild" | "dev" | "serve" => self.add(Danger::RunsCode),
            "publish" | "deprecate" | "dist-tag" | "owner" | "login" | "logout" | "adduser"
            | "access" | "token" | "unpublish" | "version" => {
                self.add(Danger::SendsData);
            }
            command if REMOVES.split_whitespace().any(|it| it == command) => {
                self.add(Danger::RemovesPackages);
            }
            command if INSTALLS.split_whitespace().any(|it| it == command) => {
                self.add(Danger::InstallsPackages);
            }
            command if call.name != "npm" && is_target(command) => self.script_args(call, args),
            _ => self.add(Danger::UnknownProgram),
        }
    }

    fn script(&mut self, script: &Word) {
        if !script.fixed().is_some_and(is_target) {
            self.add(Danger::RunsCode);
        }
    }

    /// npm keeps what stands before `--` for itself; the others hand all of it on.
    fn script_args(&mut self, call: Call<'_>, args: &[Word]) {
        let end = args.iter().position(|it| it.fixed() == Some("--"));
        if call.name == "npm" {
            let own = &args[..end.unwrap_or(args.len())];
            self.options(
                "-s -w= --silent --workspace= --workspaces --if-present --watchAll=",
                own,
            );
        }
        for word in args {
            match word.fixed() {
                None => self.add(Danger::KnownOnlyWhenRun),
                Some(text)
                    if text.starts_with("--fix") || text.starts_with("--write") || text == "-u" =>
                {
                    self.add(Danger::ChangesInPlace);
                }
                Some(text)
                    if [
                        "--config",
                        "--require",
                        "--script-shell",
                        "--prefix",
                        "--dir",
                        "--cwd",
                        "-C",
                        "--node-options",
                        "--import",
                        "--loader",
                        "--plugin",
                        "-r",
                        "-c",
                    ]
                    .iter()
                    .any(|it| text.starts_with(it)) =>
                {
                    self.add(Danger::RunsCode);
                }
                Some(_) => {}
            }
        }
    }

    /// Only what is known by its own name; everything else would be fetched and run.
    fn by_npx(&mut self, call: Call<'_>) {
        let rest = self.leading("--no-install --no -q --quiet", call.args);
        let name = rest.first().and_then(Word::fixed).unwrap_or_default();
        let local = [
            "tsc",
            "eslint",
            "prettier",
            "jest",
            "vitest",
            "mocha",
            "stylelint",
            "vue-tsc",
            "svelte-check",
            "ava",
            "cspell",
        ];
        if local.contains(&name) {
            self.run(rest, call.input);
        } else {
            self.add(Danger::RunsCode);
        }
    }

    fn by_make(&mut self, call: Call<'_>) {
        let options = "-j? -k -s -n -B -w -i -q -l? -C= -O? --silent --keep-going --jobs? --dry-run --always-make --just-print --no-print-directory \
            --directory= --quiet --trace --output-sync";
        let operands = self.options(options, call.args);
        for place in call.values('C', &["--directory"]) {
            if !place.is_some_and(|it| self.places.inside(it)) {
                self.add(Danger::OutsideRoots);
            }
        }
        self.targets(&operands);
    }

    fn by_targets(&mut self, call: Call<'_>) {
        let operands = self.options(
            "-j? -l -n -v -k= --list -C= --dry-run --summary --show=",
            call.args,
        );
        if operands.is_empty()
            && !call.fixed().any(|it| matches!(it, "-l" | "--list" | "-n"))
            && call.name != "ninja"
        {
            self.add(Danger::RunsCode);
        }
        self.targets(&operands);
    }

    fn targets(&mut self, operands: &[&Word]) {
        for word in operands {
            match word.fixed() {
                Some(text) if text.contains('=') => {
                    let plain = matches!(text.split_once('='), Some(("V" | "VERBOSE" | "Q" | "DEBUG" | "CI", it)) if it.bytes().all(|it| it.is_ascii_digit()));
                    if !plain {
                        self.add(Danger::ChangesEnvironment);
                    }
                }
                Some(text) if is_target(text) => {}
                Some(_) | None => self.add(Danger::RunsCode),
            }
        }
    }

    fn by_cmake(&mut self, call: Call<'_>) {
        let options = "-S= -B> -G= -j? -V -N -R= -E= --build= --parallel? --config= --output-on-failure --verbose --preset= --list-presets --test-dir= \
            -DCMAKE_BUILD_TYPE= -DCMAKE_EXPORT_COMPILE_COMMANDS= -DBUILD_TESTING= -DBUILD_SHARED_LIBS= --suite= --no-rebuild --print-errorlogs -v";
        let operands = self.options(options, call.args);
        let word = |it: &&Word| it.fixed().map(str::to_owned);
        match call.name {
            "meson" => match operands.first().and_then(word).as_deref() {
                Some("setup" | "compile" | "test" | "introspect") => {}
                Some(_) | None => self.add(Danger::RunsCode),
            },
            "ctest"
                if call
                    .fixed()
                    .any(|it| it.starts_with("-S") || it.starts_with("-E")) =>
            {
                self.add(Danger::RunsCode);
            }
            _ => {
                if call
                    .fixed()
                    .any(|it| it == "-E" || it == "--target" || it == "--install")
                {
                    self.add(Danger::RunsCode);
                }
            }
        }
    }

    fn by_go(&mut self, args: &[Word]) {
        let Some((command, args)) = args.split_first() else {
            return;
        };
        match command.fixed() {
            Some("build" | "test" | "vet" | "list" | "version" | "doc" | "help") => {
                let operands = self.options(GO, args);
                self.tested(&operands);
                if args
                    .iter()
                    .any(|it| it.fixed().is_some_and(|it| it.contains("exec")))
                {
                    self.add(Danger::RunsCode);
                }
            }
            Some("fmt") => drop(self.options("-n -x", args)),
            Some("env") => drop(self.options("-json", args)),
            Some("mod") => match args.first().and_then(Word::fixed) {
                Some("tidy" | "download" | "verify" | "graph" | "why" | "vendor") => {
                    drop(self.options("-v -x -m -json", &args[1..]));
                }
                Some(_) | None => self.add(Danger::UnknownOption),
            },
            Some("clean") => self.add(Danger::DeletesTree),
            Some("install" | "get") => self.add(Danger::InstallsPackages),
            Some(_) => self.add(Danger::RunsCode),
            None => self.add(Danger::KnownOnlyWhenRun),
        }
    }

    fn by_other(&mut self, call: Call<'_>) {
        let operands = self.options("-q -B -DskipTests -o -v -V --offline --quiet --console= --info --stacktrace --batch-mode --no-daemon --nologo --no-restore -c= --configuration= --verbosity= --filter= --trace --cover", call.args);
        let known = |it: &str| {
            is_target(it)
                || matches!(
                    it,
                    "verify"
                        | "package"
                        | "dependency:tree"
                        | "dependencies"
                        | "tasks"
                        | "projects"
                        | "test-compile"
                        | "format-check"
                        | "credo"
                )
        };
        let solution =
            |it: &str| call.name == "dotnet" && (it.ends_with(".sln") || it.ends_with("proj"));
        let mut first = true;
        let all = operands.iter().all(|it| {
            let passes = it
                .fixed()
                .is_some_and(|it| known(it.trim_start_matches(':')) || (!first && solution(it)));
            first = false;
            passes
        });
        if operands.is_empty() || !all {
            self.add(Danger::RunsCode);
        }
    }

    /// They write what they check unless they are told not to.
    fn by_formatter(&mut self, call: Call<'_>) {
        let only_looks = call.fixed().any(|it| matches!(it, "--check" | "--diff"));
        let fixes = call
            .fixed()
            .any(|it| it.starts_with("--fix") || it.starts_with("--unsafe"));
        let checks = call.name == "ruff" && call.first() == Some("check");
        let options = "--check --diff -q -v -l= --line-length= --select= --ignore= --output-format= --statistics --exclude= --extend-select= --no-cache --preview --target-version= -t= --quiet --color --show-fixes --line-ranges=";
        self.options(options, call.args);
        if fixes || !(only_looks || checks) {
            self.add(Danger::ChangesInPlace);
        }
    }
}

/// What a lock file names comes as it came before, like the dependencies of a build.
fn is_locked(manager: &str, command: &str, args: &[Word]) -> bool {
    let locked = |option: &str| args.iter().any(|it| it.fixed() == Some(option));
    let nothing_else = args
        .iter()
        .all(|it| it.fixed().is_some_and(|it| it.starts_with('-')));
    nothing_else
        && match (manager, command) {
            ("npm", "ci") => true,
            ("pnpm", "install" | "i") => locked("--frozen-lockfile"),
            ("yarn", "install") => locked("--frozen-lockfile") || locked("--immutable"),
            _ => false,
        }
}

/// Whether a target or script is called like those that build and test.
fn is_target(name: &str) -> bool {
    let known = |it: &str| TARGETS.split_whitespace().any(|target| target == it);
    let changes = |it: &str| {
        [
            "fix", "write", "update", "clean", "deploy", "prod", "publish", "release",
        ]
        .iter()
        .any(|change| it.contains(change))
    };
    known(name)
        || name.split_once([':', '-']).is_some_and(|(kind, what)| {
            matches!(
                kind,
                "test" | "lint" | "build" | "check" | "typecheck" | "docs" | "coverage"
            ) && !changes(what)
        })
        || matches!(
            name,
            "format:check" | "fmt:check" | "prettier:check" | "check:all"
        )
}
