//! `contain`, `write` and `hosts` of a program: what the kernel holds it to, and what it may reach. The table `[contain]` is of
//! commands in layers, and read elsewhere: `hosts` and `hosts_timeout` in `permissions`, `max_layer_bytes` in `shell`.

use std::path::PathBuf;

use aishd_egress::HostPattern;
use aishd_log::profile::Profile;

use super::fault::Fault;
use super::table_reader::KeyLeaf;
use super::value::Contain;
use crate::key_values::places;

impl Contain {
    pub(super) fn profile(self) -> Profile {
        match self {
            Self::Read => Profile::Read,
            Self::Workspace => Profile::Workspace,
            Self::Open => Profile::Open,
        }
    }
}

/// What `write` names. Under `held`, nothing may be named; `None`: it may.
pub(super) fn widened(
    key: &str,
    write: &KeyLeaf<Vec<String>>,
    held: Option<Profile>,
    faults: &mut Vec<Fault>,
) -> Vec<PathBuf> {
    if let (Some(write), Some(held)) = (write, held) {
        let message =
            format!("`{key}` goes with `contain = \"workspace\"`, and that is \"{held}\"");
        faults.push(Fault::error(&write.place, message));
    }
    places(key, write, faults)
}

/// Hosts, as rules name them. `profile` is what the program is held to, if that is said: what nothing holds reaches all of them.
pub(super) fn hosts(
    key: &str,
    hosts: &KeyLeaf<Vec<String>>,
    profile: Option<Profile>,
    faults: &mut Vec<Fault>,
) -> Vec<String> {
    let Some(hosts) = hosts else { return vec![] };
    if profile == Some(Profile::Open) {
        let message = format!(
            "`{key}` goes with `contain = \"read\"` or `\"workspace\"`: what is open reaches every host"
        );
        faults.push(Fault::error(&hosts.place, message));
    }
    for host in &hosts.value {
        if let Err(error) = host.parse::<HostPattern>() {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            let message = format!("`{key}`: {}", why.unwrap_or_else(|| error.to_string()));
            let help =
                "a host is written example.org, *.example.org, example.org:8443 or 192.0.2.7";
            faults.push(Fault::error(&hosts.place, message).help(help));
        }
    }
    hosts.value.clone()
}
