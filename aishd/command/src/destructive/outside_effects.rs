//! What a run is asked about because it reaches others, or brings and runs what others wrote. A build or a test of the
//! project is neither, whatever it fetches by its lock file: everybody runs those all day.

use super::packages::PACKAGES;
use super::{Call, Danger, Judge, harmless_programs};

/// Programs that talk to another machine whatever they are told, besides [`known::ASKS_NETWORK`].
const REACH: &str =
    "curl wget ssh gh glab kubectl helm terraform tofu terragrunt aws gcloud az psql mysql mariadb";

/// What `getent` looks up here.
const LOCAL: &str = "passwd group services protocols shells rpc";

/// Subcommands that ask another machine, or look for packages there.
const ASKS: &[(&str, &str)] = &[
    (
        "git",
        "fetch pull push clone ls-remote submodule fetch-pack send-pack",
    ),
    (
        "docker podman nerdctl docker-compose",
        "search manifest build buildx pull push login",
    ),
    (
        "npm pnpm yarn",
        "view info show search audit outdated ping whoami doctor fund",
    ),
    (
        "cargo",
        "fetch search info audit outdated generate-lockfile deny",
    ),
    ("go", "mod"),
    ("rustup", "check"),
];

/// Subcommands that bring programs of others, or what is run when they are built.
const BRINGS: &[(&str, &str)] = &[
    ("npm pnpm yarn", "ci install i"),
    ("cargo", "add update semver-checks"),
    ("uv", "run lock tree"),
    ("poetry", "lock"),
];

/// Subcommands of all that install packages.
const OF_PACKAGES: &str = "search info index outdated audit view ping whoami doctor fund";

/// Options after which a word is no subcommand.
const WITH_VALUE: &str = "-C -c -w -F --filter --workspace --prefix --color --project --directory";

impl Judge<'_> {
    pub(super) fn reaches(&mut self, call: Call<'_>) {
        let is_in = |list: &str, name: &str| list.split_whitespace().any(|it| it == name);
        let mut before = "";
        let mut words = call.fixed().filter(|it| {
            let value = is_in(WITH_VALUE, std::mem::replace(&mut before, it));
            !value && !it.starts_with(['-', '+'])
        });
        let first = words.next().unwrap_or_default();
        let second = words.next().unwrap_or_default();
        let fixed = call.args.iter().all(|it| it.fixed().is_some());
        let says = |it: &str| call.fixed().any(|word| word == it);
        let asks = |table: &[(&str, &str)], verb: &str| {
            let mut table = table.iter();
            table.any(|(names, verbs)| is_in(names, call.name) && is_in(verbs, verb))
        };
        let packages = is_in(PACKAGES, call.name)
            && !matches!(
                call.name,
                "dpkg" | "dpkg-query" | "rpm" | "pacman" | "apt-cache" | "apt"
            );
        let reaches = is_in(REACH, call.name)
            || is_in(harmless_programs::ASKS_NETWORK, call.name)
            || asks(ASKS, first)
            || (call.name == "getent" && !(is_in(LOCAL, first) && fixed))
            || (call.name == "git" && first == "remote" && matches!(second, "update" | "show"))
            || (call.name == "go" && first == "list" && (says("-u") || says("-versions")))
            || (packages && (is_in(OF_PACKAGES, first) || is_in(OF_PACKAGES, second)))
            || (packages && (says("--outdated") || says("-o") || says("-u")));
        if reaches {
            self.add(Danger::ReachesNetwork);
        }
        let fetches = matches!(call.name, "npx" | "pnpx" | "bunx")
            && !(call.name == "npx" && (says("--no-install") || says("--no")));
        let venv = call.name.starts_with("python") && says("--upgrade-deps");
        if fetches || venv || asks(BRINGS, first) || (call.name == "yarn" && first.is_empty()) {
            self.add(Danger::InstallsPackages);
        }
    }
}
