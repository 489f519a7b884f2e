//! Who sits at the other end of a connection, and what a program that the daemon started may do there.

use aish_proto::error::ErrorKind;
use aish_proto::method::{ClientRole, Method as _};
use aish_proto::{conversation, daemon, doctor, intent, model, turn};
use aishd_log::tool_name::Alias;
use aishd_rules::policy::{ClientGrant, Policy};

use super::method_error::MethodError;
use super::process_descent;

/// Who sits at the other end, as the kernel says (SO_PEERCRED).
#[derive(Clone, Debug)]
pub(super) struct SocketPeer {
    pub(super) pid: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) origin: PeerOrigin,
}

/// Who started the peer.
#[derive(Clone, Debug)]
pub(super) enum PeerOrigin {
    Elsewhere,
    /// The daemon did, by whatever stands between: it is a tool, and no person sits at it. With the MCP server or the tool
    /// that it is of, where that is known.
    Ours(Option<Alias>),
}

/// What a program with the grant to ask may call besides what an observer may: nothing that answers a question, or that
/// changes what runs unasked.
const ASKING: [&str; 3] = [
    conversation::Create::NAME,
    turn::Send::NAME,
    daemon::BlobPut::NAME,
];

/// What an observer may call and such a program may not: it runs programs that print keys, asks servers, or writes to the
/// audit trail.
const NOT_ONLY_READING: [&str; 3] = [
    intent::Route::NAME,
    model::Probe::NAME,
    doctor::Doctor::NAME,
];

/// Whose program a process is, by the processes that it descends from.
pub type ProviderAmong = Box<dyn Fn(&[u32]) -> Option<Alias> + Send + Sync>;

impl PeerOrigin {
    /// Of this process; one that is not known counts as ours.
    pub(super) fn of(pid: Option<u32>, provider_among: &ProviderAmong) -> Self {
        let Some(pid) = pid else {
            return Self::Ours(None);
        };
        match process_descent::from_us(pid) {
            Some(line) => Self::Ours(provider_among(&line)),
            None => Self::Elsewhere,
        }
    }
}

impl SocketPeer {
    pub(super) fn is_of_ours(&self) -> bool {
        matches!(self.origin, PeerOrigin::Ours(_))
    }

    pub(super) fn provider(&self) -> Option<&Alias> {
        match &self.origin {
            PeerOrigin::Elsewhere => None,
            PeerOrigin::Ours(provider) => provider.as_ref(),
        }
    }

    /// Whether the origin of the peer is against it.
    pub(super) fn may_call(
        &self,
        method: &str,
        needed: ClientRole,
        policy: &Policy,
    ) -> Result<(), MethodError> {
        let PeerOrigin::Ours(provider) = &self.origin else {
            return Ok(());
        };
        let least = if needed == ClientRole::Observer && !NOT_ONLY_READING.contains(&method) {
            Some(ClientGrant::Read)
        } else {
            ASKING.contains(&method).then_some(ClientGrant::Ask)
        };
        if least.is_some() && self.grant(policy) >= least {
            Ok(())
        } else {
            Err(not_granted(method, provider.as_ref().zip(least)))
        }
    }

    /// What is granted to it, if it is a program that the daemon started.
    pub(super) fn grant(&self, policy: &Policy) -> Option<ClientGrant> {
        policy.clients.get(self.provider()?).copied()
    }
}

/// Says what could be granted, where something could.
fn not_granted(method: &str, could: Option<(&Alias, ClientGrant)>) -> MethodError {
    let message = format!("{method} is not for processes that the daemon started");
    let hint = match could {
        Some((provider, ClientGrant::Read)) => {
            format!("permissions.clients = {{ {provider} = \"read\" }} grants it")
        }
        Some((provider, ClientGrant::Ask)) => {
            format!("permissions.clients = {{ {provider} = \"ask\" }} grants it")
        }
        None => "say it in a terminal of your own, which no conversation has started".to_owned(),
    };
    MethodError::new(ErrorKind::ForbiddenRole, message).hint(hint)
}
