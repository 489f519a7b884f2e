//! Calls that read a page. Each is done by this program itself, started once more behind a boundary: it has no network but the
//! proxy that judges hosts, writes nothing, and sees nothing of a person, so that a page that breaks it gains nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aishd_fetch::{ARGUMENT, FetchCall, FetchReply, FetchRequest, longest};
use aishd_log::profile::Profile;
use aishd_log::tool_name::Alias;
use aishd_process::child::OutputExtent;
use aishd_process::spec::{ChildSpec, KernelLimits, StandardStream};
use aishd_profile::{HeldChild, NetworkWish, ProfileWish, listener_address};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::builtin::WEB_PROVIDER;
use crate::registry::CallPlace;
use crate::{ToolOutput, ToolRunner};

const OURSELVES: &str = "/proc/self/exe";
/// A part of a page is far less.
const REPLY_BYTES: usize = 1 << 20;
/// The proxy ends a question a little later than people are told.
const BEYOND: Duration = Duration::from_secs(5);
/// Where people keep what is theirs.
const OF_PEOPLE: [&str; 5] = ["/home", "/root", "/srv", "/mnt", "/media"];
/// Without these it would not start.
const OF_SYSTEM: [&str; 9] = [
    "/usr", "/etc", "/lib", "/lib64", "/bin", "/sbin", "/nix", "/gnu", "/proc",
];
/// Where the authorities of TLS are, if not in the usual place.
const AUTHORITIES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
/// A page is made of trees that may grow; none needs as much.
const LIMITS: KernelLimits = KernelLimits {
    open_files: Some(256),
    file_bytes: Some(0),
    cpu_seconds: Some(60),
    processes: None,
    memory_bytes: Some(2 << 30),
};

impl ToolRunner {
    /// Reads a page, as far as the hosts on the way are allowed; every failure becomes text.
    pub async fn fetch(
        &self,
        call: FetchCall,
        place: &CallPlace,
        reach: NetworkWish,
    ) -> ToolOutput {
        match self.fetched(call, place, reach).await {
            Ok(FetchReply { ok: true, text }) => ToolOutput::from_text(text),
            Ok(FetchReply { ok: false, text }) => ToolOutput::refused(text),
            Err(why) => ToolOutput::failed(format!("[aish] tool dispatch failed: {why}")),
        }
    }

    async fn fetched(
        &self,
        call: FetchCall,
        place: &CallPlace,
        reach: NetworkWish,
    ) -> Result<FetchReply, String> {
        let profiles = self.profiles();
        let host_wait = reach.questions.as_ref().map(|it| it.deadline + BEYOND);
        let host_wait = host_wait.unwrap_or_default();
        let request = FetchRequest {
            call,
            proxy: listener_address(),
            host_wait_ms: u64::try_from(host_wait.as_millis()).unwrap_or(u64::MAX),
            user_agent: format!(
                "aish/{} (reads a page for a person and their language model)",
                env!("CARGO_PKG_VERSION")
            ),
        };
        let question = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
        let hidden = hidden(profiles.home(), &place.roots);
        let base = self.base();
        let authorities = AUTHORITIES.iter().filter_map(|it| base.get(*it));
        let authorities: Vec<PathBuf> = authorities.map(PathBuf::from).collect();
        let provider: Option<Alias> = WEB_PROVIDER.parse().ok();
        let wish = ProfileWish {
            profile: Profile::Read,
            hidden: &hidden,
            programs: &authorities,
            provider: provider.as_ref(),
            ..ProfileWish::OPEN
        };
        let spec = ChildSpec {
            args: vec![ARGUMENT.to_owned()],
            stdin: StandardStream::Piped,
            limits: LIMITS,
            ..ChildSpec::new(OURSELVES, "/")
        };
        let child = profiles.spawn_reaching(spec, wish, reach).await;
        let HeldChild { mut child, network } =
            child.map_err(|error| format!("{error}; `aishctl doctor` says more"))?;
        let stdin = child.stdin.take();
        let asking = async move {
            if let Some(mut stdin) = stdin {
                // One that ended early says why, or its end does.
                let _closed = stdin.write_all(&question).await;
            }
        };
        let within = longest(host_wait);
        let both = async { tokio::join!(asking, child.output(REPLY_BYTES)).1 };
        let printed = timeout(within, both).await;
        if let Some(network) = network {
            network.end().await;
        }
        let printed = printed
            .map_err(|_elapsed| format!("it took longer than {} s", within.as_secs()))?
            .map_err(|error| format!("read its reply: {error}"))?;
        match printed.extent {
            OutputExtent::Cut => Err("its reply is too large".to_owned()),
            OutputExtent::Whole | OutputExtent::Held => serde_json::from_slice(&printed.bytes)
                .map_err(|_| format!("the page could not be read ({})", printed.exit)),
        }
    }
}

/// What of this machine is a person's. The program itself is seen wherever it is.
fn hidden(home: Option<&Path>, roots: &[PathBuf]) -> Vec<PathBuf> {
    let of_people = OF_PEOPLE.iter().map(PathBuf::from);
    let own = home.map(Path::to_owned).into_iter();
    let all = of_people.chain(own).chain(roots.iter().cloned());
    let mut hidden: Vec<PathBuf> = all.filter(|it| !is_of_system(it)).collect();
    hidden.sort();
    hidden.dedup();
    hidden
}

fn is_of_system(path: &Path) -> bool {
    let mut system = OF_SYSTEM.iter().map(Path::new);
    path == Path::new("/") || system.any(|it| it.starts_with(path) || path.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_persons_is_hidden_and_what_the_program_is_made_of_is_not() {
        let roots = ["/data/a", "/", "/usr/src", "/home/u/b"].map(PathBuf::from);
        let hidden = hidden(Some(Path::new("/u/x")), &roots);
        let expected = [
            "/data/a",
            "/home",
            "/home/u/b",
            "/media",
            "/mnt",
            "/root",
            "/srv",
            "/u/x",
        ];
        assert_eq!(expected.map(PathBuf::from).to_vec(), hidden);
    }
}
