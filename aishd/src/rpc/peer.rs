//! Who sits at the other end of a connection, and what a program that the daemon started may do there.

use aish_proto::error::ErrorKind;
use aish_proto::method::{Method as _, Role};
use aish_proto::{conversation, daemon, turn};

use super::descent;
use super::refusal::Refusal;
use crate::core::policy::{ClientGrant, Policy};
use crate::core::tool_name::Alias;

/// Who sits at the other end, as the kernel says (SO_PEERCRED).
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) pid: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) origin: Origin,
}

/// Who started the peer.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Elsewhere,
    /// The daemon did, by whatever stands between: it is a tool, and no person sits at it. With the MCP server or the tool
    /// that it is of, where that is known.
    Ours(Option<Alias>),
}

/// What a program with the grant to ask may call besides what an observer may: nothing that answers a question, or that
/// changes what runs unasked.
const ASKING: [&str; 4] = [
    conversation::Create::NAME,
    turn::Send::NAME,
    turn::Cancel::NAME,
    daemon::BlobPut::NAME,
];

/// Whose program a process is, by the processes that it descends from.
pub type ProviderAmong = Box<dyn Fn(&[u32]) -> Option<Alias> + Send + Sync>;

impl Origin {
    /// Of this process; one that is not known counts as ours.
    pub(super) fn of(pid: Option<u32>, provider_among: &ProviderAmong) -> Self {
        let Some(pid) = pid else {
            return Self::Ours(None);
        };
        match descent::from_us(pid) {
            Some(line) => Self::Ours(provider_among(&line)),
            None => Self::Elsewhere,
        }
    }
}

impl Peer {
    pub(super) fn is_of_ours(&self) -> bool {
        matches!(self.origin, Origin::Ours(_))
    }

    pub(super) fn provider(&self) -> Option<&Alias> {
        match &self.origin {
            Origin::Elsewhere => None,
            Origin::Ours(provider) => provider.as_ref(),
        }
    }

    /// Whether the origin of the peer is against it.
    pub(super) fn may_call(
        &self,
        method: &str,
        needed: Role,
        policy: &Policy,
    ) -> Result<(), Refusal> {
        let Origin::Ours(provider) = &self.origin else {
            return Ok(());
        };
        let granted = provider.as_ref().and_then(|it| policy.clients.get(it));
        let may = match granted {
            Some(ClientGrant::Read) => needed == Role::Observer,
            Some(ClientGrant::Ask) => needed == Role::Observer || ASKING.contains(&method),
            None => false,
        };
        if may {
            Ok(())
        } else {
            Err(not_granted(method, needed, provider.as_ref()))
        }
    }
}

/// Says what could be granted, where something could.
fn not_granted(method: &str, needed: Role, provider: Option<&Alias>) -> Refusal {
    let message = format!("{method} is not for processes that the daemon started");
    let hint = match provider {
        Some(provider) if needed == Role::Observer => {
            format!("permissions.clients = {{ {provider} = \"read\" }} grants it")
        }
        Some(provider) if ASKING.contains(&method) => {
            format!("permissions.clients = {{ {provider} = \"ask\" }} grants it")
        }
        Some(_) | None => {
            "say it in a terminal of your own, which no conversation has started".to_owned()
        }
    };
    Refusal::new(ErrorKind::ForbiddenRole, message).hint(hint)
}
