//! The hosts that a command in layers may reach: a listener in its network, served while it runs.

use aishd_log::network::NetworkUse;
use aishd_process::SpawnError;
use aishd_process::child::Child;
use aishd_process::spec::ChildSpec;
use aishd_profile::{ChildNetwork, NetworkWish, ProfileGround, with_listener};

/// The way out of one command. `None`: it could not be served, and nothing is reached.
pub(super) struct CommandNetwork(Option<ChildNetwork>);

impl CommandNetwork {
    /// Starts a contained command that finds the listener.
    pub(super) async fn start(
        profiles: &ProfileGround,
        spec: &mut ChildSpec,
        wish: NetworkWish,
    ) -> Result<(Child, Self), SpawnError> {
        with_listener(spec);
        let mut child = profiles.children().spawn(spec).await?;
        let network = profiles.serve_network(&mut child, wish, None);
        Ok((child, Self(network)))
    }

    /// Ends all connections and says what went through.
    pub(super) async fn end(self) -> NetworkUse {
        match self.0 {
            Some(network) => network.end().await,
            None => NetworkUse::default(),
        }
    }
}
