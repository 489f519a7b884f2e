//! Programs that talk to machines elsewhere, to services and to databases.

use super::{Call, Danger, Judge, places, sql};
use crate::command::Word;

/// Name, verbs that only look, as far as the second word.
const LOOKS: &[(&str, &str)] = &[
    (
        "docker podman nerdctl",
        "ps images logs inspect version info stats top port diff events search history build \
        compose:ps compose:logs compose:config compose:images compose:ls compose:version compose:top container:ls container:list container:inspect \
        container:logs container:top container:stats image:ls image:list image:inspect image:history network:ls network:inspect volume:ls \
        volume:inspect system:df system:info context:ls context:show buildx:ls buildx:version manifest:inspect",
    ),
    ("docker-compose", "ps logs config images version top ls"),
    (
        "kubectl",
        "get describe logs explain version api-resources api-versions cluster-info top diff auth:can-i auth:whoami config:view \
        config:current-context config:get-contexts config:get-clusters rollout:status rollout:history events",
    ),
    (
        "helm",
        "list ls status get lint search show history version env",
    ),
    (
        "terraform tofu terragrunt",
        "validate show output version providers graph plan state:list state:show workspace:list workspace:show",
    ),
    (
        "gh",
        "status auth:status pr:list pr:view pr:status pr:checks pr:diff issue:list issue:view issue:status repo:list repo:view run:list run:view \
        run:watch release:list release:view workflow:list workflow:view label:list search:repos search:issues search:prs search:code gist:list gist:view",
    ),
    (
        "glab",
        "mr:list mr:view mr:diff issue:list issue:view repo:view ci:status ci:view ci:list release:list",
    ),
    (
        "systemctl",
        "status is-active is-enabled is-failed is-system-running list-units list-unit-files list-timers list-sockets list-jobs list-dependencies show cat help get-default show-environment",
    ),
    (
        "loginctl machinectl networkctl resolvectl coredumpctl busctl",
        "list status show list-sessions list-users session-status user-status query statistics info tree",
    ),
    ("launchctl", "list print"),
];

/// Words of a cloud's command line that alter something.
const ALTERS: &str = "delete remove create update set add deploy reset stop start restart terminate rm mv cp sync put run ssh scp resize import \
    export attach detach enable disable apply cancel purge restore invoke";

/// Words after which another program is not needed to know that a thing is gone.
const DESTROYS: &[(&str, Danger)] = &[(
    "poweroff reboot halt suspend hibernate kexec hybrid-sleep soft-reboot emergency rescue isolate",
    Danger::StopsSystem,
)];

impl Judge<'_> {
    /// Whether it is one of them.
    pub(super) fn elsewhere(&mut self, call: Call<'_>) -> bool {
        match call.name {
            "curl" => self.by_curl(call),
            "wget" => self.by_wget(call),
            "aws" | "gcloud" | "az" => self.by_cloud(call),
            "psql" | "mysql" | "mariadb" | "sqlite3" | "duckdb" => self.by_database(call),
            "ip" => self.by_ip(call),
            "crontab" => {
                if !matches!(call.args, [only] if only.fixed() == Some("-l")) {
                    self.add(Danger::Schedule);
                }
            }
            "service" => {
                if call.args.get(1).and_then(Word::fixed) != Some("status")
                    && call.first() != Some("--status-all")
                {
                    self.add(Danger::ChangesSystem);
                }
            }
            "terraform" | "tofu" if call.first() == Some("fmt") => {
                if !call.fixed().any(|it| {
                    it.starts_with("-check") || it.starts_with("-diff") || it.starts_with("--check")
                }) {
                    self.add(Danger::ChangesInPlace);
                }
            }
            name => {
                let found = LOOKS
                    .iter()
                    .find(|(names, _)| names.split_whitespace().any(|it| it == name));
                let Some((_, verbs)) = found else {
                    return false;
                };
                self.by_verbs(call, verbs);
            }
        }
        true
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one check after the other of the same words"
    )]
    fn by_verbs(&mut self, call: Call<'_>, verbs: &str) {
        if call.args.iter().any(|it| it.fixed().is_none()) {
            self.add(Danger::KnownOnlyWhenRun);
        }
        let mut words = vec![];
        let mut value = false;
        for text in call.fixed() {
            let option = text.starts_with('-');
            if !option && !value {
                words.push(text);
            }
            // Options before the verb that take a word.
            value = words.is_empty()
                && matches!(
                    text,
                    "-n" | "--namespace"
                        | "--context"
                        | "-f"
                        | "--file"
                        | "-p"
                        | "-H"
                        | "--host"
                        | "-R"
                        | "--repo"
                );
            if matches!(text, "-H" | "--host" | "-M" | "--machine") && call.name != "docker-compose"
            {
                self.add(Danger::OtherMachine);
            }
        }
        let Some(first) = words.first().copied() else {
            // Without a verb they list, or tell how they are used.
            if call
                .fixed()
                .any(|it| !it.starts_with("--") || it.contains('='))
                && call.name != "systemctl"
            {
                self.add(Danger::UnknownOption);
            }
            return;
        };
        let both = format!("{first}:{}", words.get(1).copied().unwrap_or_default());
        if let Some((_, danger)) = DESTROYS
            .iter()
            .find(|(names, _)| names.split_whitespace().any(|it| it == first))
        {
            self.add(*danger);
        }
        let looks = verbs.split_whitespace().any(|it| it == first || it == both);
        if !looks {
            self.add(match call.name {
                "systemctl" | "loginctl" | "machinectl" | "networkctl" | "resolvectl"
                | "coredumpctl" | "busctl" | "launchctl" => Danger::ChangesSystem,
                "gh" | "glab" => Danger::SendsData,
                _ => Danger::Infrastructure,
            });
        }
        if first == "build" {
            let at = call
                .args
                .iter()
                .position(|it| it.fixed() == Some("build"))
                .unwrap_or_default();
            let options = "-t= -f= -q --tag= --file= --no-cache --pull --target= --progress= --build-arg= --platform= --quiet --label=";
            self.options(options, &call.args[at..]);
        }
        let secret = words.iter().skip(1).any(|it| it.starts_with("secret"));
        let in_words = call.fixed().any(|it| {
            matches!(it, "-o" | "--template" | "-ojson" | "-oyaml" | "--raw")
                || it.starts_with("-o=")
                || it.starts_with("--output")
        });
        if (call.name == "kubectl" && secret && in_words)
            || (call.name == "gh" && call.fixed().any(|it| it == "--show-token"))
        {
            self.add(Danger::ReadsSecrets);
        }
        let raw = call.fixed().any(|it| {
            it.starts_with("--raw=")
                || it == "--raw"
                || it == "-exec"
                || it.starts_with("-out")
                || it == "--output-directory"
                || it.starts_with("--post-renderer")
                || it.starts_with("--output-dir")
                || it == "--web"
        });
        let replaces =
            call.name == "terraform" && call.fixed().any(|it| it.starts_with("-destroy"));
        if raw || replaces {
            self.add(Danger::UnknownOption);
        }
    }

    fn by_curl(&mut self, call: Call<'_>) {
        let sends = |it: &str| {
            let long = [
                "--data",
                "--form",
                "--upload-file",
                "--json",
                "--request-target",
                "--config",
                "--url-query",
                "--mail-from",
                "--mail-rcpt",
            ];
            long.iter().any(|long| it.starts_with(long))
                || (it.starts_with('-')
                    && !it.starts_with("--")
                    && it.contains(['d', 'F', 'T', 'K'])
                    && !it.starts_with("-H")
                    && !it.starts_with("-o")
                    && !it.starts_with("-A"))
        };
        let method =
            |it: &Option<&str>| !it.is_some_and(|it| matches!(it, "GET" | "HEAD" | "OPTIONS"));
        if call.values('X', &["--request"]).iter().any(method) {
            self.add(Danger::SendsData);
        }
        let mut before = "";
        for text in call.fixed() {
            if sends(text)
                && !matches!(
                    before,
                    "-H" | "--header"
                        | "-A"
                        | "--user-agent"
                        | "-w"
                        | "--write-out"
                        | "-o"
                        | "--output"
                )
            {
                self.add(Danger::SendsData);
            }
            before = text;
        }
        let options = "-s -S -L -f -k -v -i -I -g -N -4 -6 -C= -o> -O -X= -H= -A= -e= -m= -w= -u= -r= -# -G -R --silent --show-error --location --fail --fail-with-body --insecure \
            --verbose --include --head --output> --remote-name --request= --header= --user-agent= --max-time= --connect-timeout= --retry= --write-out= \
            --compressed --http1.1 --http2 --globoff --no-buffer --range= --retry-delay= --retry-all-errors --progress-bar --no-progress-meter --create-dirs --output-dir> --ipv4 --ipv6 --get --max-redirs= --referer= \
            --proto= --tlsv1.2 --retry-connrefused --resolve= --cacert= --url=";
        let urls = self.options(options, call.args);
        self.fetched(&urls);
        let names_files = call.fixed().any(|it| {
            it == "--remote-name"
                || (it.starts_with('-') && !it.starts_with("--") && it.contains('O'))
        });
        if names_files && !self.places.at_home() {
            self.add(Danger::OutsideRoots);
        }
    }

    fn by_wget(&mut self, call: Call<'_>) {
        let options = "-q -O> -c -S -nv -v -nc -N -t= -T= -U= -4 -6 --quiet --output-document> --continue --spider --timeout= --tries= --user-agent= --header= \
            --no-check-certificate --server-response --max-redirect= --no-verbose --show-progress --no-clobber --timestamping -P> --directory-prefix> --progress= --content-on-error";
        let mut args = call.args.to_vec();
        // To standard output is nowhere.
        for at in 0..args.len() {
            let to_output = args
                .get(at)
                .and_then(Word::fixed)
                .is_some_and(|it| it == "-O" || it == "-qO");
            if to_output && args.get(at + 1).and_then(Word::fixed) == Some("-") {
                args.remove(at + 1);
                args.remove(at);
                break;
            }
        }
        args.retain(|it| !matches!(it.fixed(), Some("-qO-" | "-O-" | "--output-document=-")));
        let urls = self.options(options, &args);
        self.fetched(&urls);
        if !self.places.at_home() {
            self.add(Danger::OutsideRoots);
        }
    }

    /// Addresses say what they are, and nothing of this machine is in them.
    fn fetched(&mut self, urls: &[&Word]) {
        for url in urls {
            if url.fixed().is_none() {
                self.add(Danger::SendsData);
            }
            if url.fixed().is_some_and(|it| {
                it.starts_with("file:")
                    || it.starts_with("gopher:")
                    || it.starts_with("dict:")
                    || it.starts_with("telnet:")
            }) {
                self.add(Danger::UnknownOption);
            }
        }
    }

    /// `aws s3 ls`, `aws ec2 describe-instances`, `gcloud compute instances list`.
    fn by_cloud(&mut self, call: Call<'_>) {
        if call.args.iter().any(|it| it.fixed().is_none()) {
            self.add(Danger::KnownOnlyWhenRun);
        }
        let words: Vec<&str> = call.fixed().take_while(|it| !it.starts_with('-')).collect();
        let verb = words.iter().skip(1).copied().find(|it| {
            matches!(*it, "ls" | "list" | "show" | "describe")
                || it.starts_with("describe-")
                || it.starts_with("list-")
                || it.starts_with("get-")
        });
        let secret = call.fixed().any(|it| {
            [
                "secret",
                "password",
                "token",
                "credential",
                "keyvault",
                "decrypt",
            ]
            .iter()
            .any(|part| it.contains(part))
        });
        let alters = |it: &&str| ALTERS.split_whitespace().any(|verb| verb == *it);
        match verb {
            Some(_) if words.iter().any(alters) => self.add(Danger::Infrastructure),
            Some(verb)
                if words.last() == Some(&verb)
                    || words.get(1) == Some(&verb)
                    || words.get(2) == Some(&verb) => {}
            Some(_) | None => self.add(Danger::Infrastructure),
        }
        if secret {
            self.add(Danger::ReadsSecrets);
        }
    }

    fn by_database(&mut self, call: Call<'_>) {
        let options = "-h= -p= -U= -d= -u= -P= -t -A -q -x -X -c= -e= -l -N -B -s -F= -w -readonly -header -column -csv -json -line -box --host= --port= --username= --dbname= \
            --command= --execute= --list --tuples-only --no-align --batch --csv --user= --database= -D= --table -H --expanded --no-psqlrc --silent --skip-column-names";
        let operands = self.options(options, call.args);
        let lists = call.fixed().any(|it| matches!(it, "-l" | "--list"));
        let mut statements = match call.name {
            "psql" => call.values('c', &["--command"]),
            "mysql" | "mariadb" => call.values('e', &["--execute"]),
            _ => vec![],
        };
        if matches!(call.name, "sqlite3" | "duckdb") {
            statements.extend(operands.iter().skip(1).map(|it| it.fixed()));
            if let Some(file) = operands.first()
                && !file
                    .fixed()
                    .is_some_and(|it| !it.starts_with("/dev/") && !places::is_secret(it))
            {
                self.add(Danger::KnownOnlyWhenRun);
            }
        }
        let reads =
            !statements.is_empty() && statements.iter().all(|it| it.is_some_and(sql::reads));
        if !(reads || (lists && statements.is_empty())) {
            self.add(Danger::Database);
        }
    }

    /// Addresses, links and routes are looked at by their names alone or with a word that shows.
    fn by_ip(&mut self, call: Call<'_>) {
        let operands = self.options("-4 -6 -br -brief -c -color -d -s -o -j -p -h", call.args);
        let shows = |it: &&Word| matches!(it.fixed(), Some("show" | "list" | "ls" | "get"));
        let known =
            operands.get(1).is_none_or(shows) && operands.iter().all(|it| it.fixed().is_some());
        if !known {
            self.add(Danger::ChangesSystem);
        }
    }
}
