//! Where people and programs keep keys, as a list of places that are hidden from a command which nobody has approved by its
//! text. The kernel holds it, so it has to name places and not ways to them.

use std::path::{Path, PathBuf};

/// Below a home directory.
const OF_HOME: &str = ".ssh .gnupg .aws .azure .kube .docker/config.json .netrc .pgpass .my.cnf .git-credentials .npmrc .pypirc \
    .password-store .vault-token .mozilla .thunderbird .config/gh .config/glab-cli .config/hub .config/gcloud .config/op \
    .config/rclone .config/google-chrome .config/chromium .config/BraveSoftware .config/git/credentials .config/containers/auth.json \
    .config/sops .local/share/keyrings .cargo/credentials.toml .cargo/credentials .gem/credentials .m2/settings.xml \
    .bash_history .zsh_history .local/share/fish/fish_history .python_history .node_repl_history .psql_history .mysql_history \
    .sqlite_history .lesshst .Xauthority .ICEauthority .pki .terraform.d/credentials.tfrc.json \
    Library/Keychains";

/// Of the system, as far as its user could read them at all.
const OF_SYSTEM: &str = "/etc/shadow /etc/gshadow /etc/sudoers /etc/sudoers.d /etc/ssl/private /etc/pki/tls/private /etc/letsencrypt \
    /etc/wireguard /etc/openvpn /etc/NetworkManager/system-connections /var/backups /var/lib/docker /var/run/secrets";

/// Files of a project that hold keys by custom.
const OF_PROJECT: &str =
    ".env .env.local .env.development .env.test .env.staging .env.production .envrc";

/// Names of files in a project that hold keys by custom, in whichever directory.
pub fn of_project() -> impl Iterator<Item = &'static str> {
    OF_PROJECT.split_whitespace()
}

/// All of it for these homes, directories of configuration elsewhere, and project directories, there or not.
pub fn places(homes: &[PathBuf], configurations: &[PathBuf], projects: &[PathBuf]) -> Vec<PathBuf> {
    let below = |tops: &[PathBuf], names: &'static str| -> Vec<PathBuf> {
        let one = |top: &PathBuf| {
            let top = top.clone();
            names.split_whitespace().map(move |it| top.join(it))
        };
        tops.iter().flat_map(one).collect()
    };
    let system = OF_SYSTEM.split_whitespace();
    let system = system.map(|it| Path::new(it).to_owned());
    let mut all = below(homes, OF_HOME);
    for top in configurations {
        let names = OF_HOME.split_whitespace();
        let names = names.filter_map(|it| it.strip_prefix(".config/"));
        all.extend(names.map(|it| top.join(it)));
    }
    all.extend(below(projects, OF_PROJECT));
    all.extend(system);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_home_and_project_are_named_and_the_rest_of_a_home_is_not() {
        let homes = ["/home/u", "/srv/v"].map(PathBuf::from);
        let all = places(&homes, &[PathBuf::from("/c")], &[PathBuf::from("/w")]);
        let has = |path: &str| all.iter().any(|it| it == Path::new(path));
        assert!(
            has("/home/u/.ssh")
                && has("/c/gh")
                && has("/srv/v/.ssh")
                && has("/w/.env")
                && has("/etc/shadow")
        );
        assert!(!has("/home/u") && !has("/home/u/.config") && !has("/w"));
    }
}
