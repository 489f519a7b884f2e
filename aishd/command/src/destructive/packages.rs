//! Programs that install and remove packages: looking is harmless, and nothing else.

use super::{Call, Danger, Judge};

/// Programs that install and remove what others wrote.
pub(super) const PACKAGES: &str = "pip pip3 pipx uv poetry conda mamba gem bundle composer brew apt apt-get apt-cache aptitude dpkg dpkg-query dnf yum rpm \
    zypper pacman yay paru apk snap flatpak port nix-env nix rustup opam cpan luarocks asdf mise nvm choco winget scoop emerge pkg";

pub(super) const INSTALLS: &str = "install add i in ci upgrade update dist-upgrade full-upgrade reinstall sync dlx exec x get require self-update tap -S -Sy -Syu -U -i -Uvh --install link create init \
    localinstall groupinstall build-dep bundle isntall up inject upgrade-all";
pub(super) const REMOVES: &str = "remove rm uninstall purge autoremove erase un r unlink prune -R -Rs -Rns -Rsc -r -P -e --remove --purge --erase autopurge del delete cleanup clean autoclean mark yank uninject uninstall-all";
const SHOWS: &str = "list ls ll la show search info view outdated why audit explain policy depends rdepends -l -L -s -q -qa -qi -ql -Q -Qi -Qs -Ql -Ss -Si -qf \
    madison showpkg freeze check index tree deps leaves desc provides whatprovides repolist doctor version help licenses fund root prefix bin ping whoami \
    -W -V --list --status --listfiles -h --get-selections --version";

impl Judge<'_> {
    pub(super) fn by_packages(&mut self, call: Call<'_>) {
        let mut words = call.fixed().filter(|it| {
            !matches!(
                *it,
                "-y" | "--yes" | "-q" | "-qq" | "-n" | "--no-pager" | "--user" | "-a"
            )
        });
        let Some(first) = words.next() else {
            return;
        };
        let second = words.next().unwrap_or_default();
        let is_in = |list: &str, name: &str| list.split_whitespace().any(|it| it == name);
        let nested = matches!(
            first,
            "pip"
                | "tool"
                | "toolchain"
                | "target"
                | "component"
                | "cache"
                | "env"
                | "self"
                | "profile"
                | "channel"
        );
        let command = if nested { second } else { first };
        let uncertain = call.args.iter().any(|it| it.fixed().is_none());
        match (call.name, command) {
            (
                "uv" | "poetry" | "bundle" | "pipx" | "nix" | "mise" | "asdf" | "conda"
                | "composer",
                "run" | "exec" | "shell" | "build" | "develop" | "run-script" | "script",
            ) => {
                self.by_runner(call, command);
            }
            ("uv", "lock" | "version" | "python")
            | ("poetry", "lock" | "check" | "version")
            | ("composer", "validate") => {}
            ("bundle", "check") | ("rustup", "which" | "doc") => {}
            _ if is_in(REMOVES, command) => self.add(Danger::RemovesPackages),
            _ if is_in(INSTALLS, command) => self.add(Danger::InstallsPackages),
            _ if is_in(SHOWS, command) => {
                let apt = call.name.starts_with("apt");
                let alters = |it: &str| {
                    let long = [
                        "--fix",
                        "--root",
                        "--eval",
                        "--config",
                        "--pipe",
                        "--define",
                        "--macros",
                        "--load",
                        "--option",
                        "--hookdir",
                        "--rcfile",
                    ];
                    long.iter().any(|long| it.starts_with(long))
                        || (apt && (it.starts_with("-o") || it.starts_with("-c")))
                };
                if uncertain {
                    self.add(Danger::KnownOnlyWhenRun);
                }
                if call.fixed().any(alters) {
                    self.add(Danger::UnknownOption);
                }
            }
            _ => self.add(Danger::ChangesSystem),
        }
    }

    /// `uv run pytest`, `poetry run mypy`: what runs is judged by its own name.
    fn by_runner(&mut self, call: Call<'_>, command: &str) {
        let at = call.args.iter().position(|it| it.fixed() == Some(command));
        let behind = at
            .and_then(|it| call.args.get(it + 1..))
            .unwrap_or_default();
        match (call.name, command) {
            ("uv" | "poetry" | "bundle", "run" | "exec") if !behind.is_empty() => {
                self.run(behind, call.input);
            }
            _ => self.add(Danger::RunsCode),
        }
    }
}
