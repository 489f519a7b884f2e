//! The addresses of a name, as the daemon's system gives them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::host::HostName;

/// The resolver of the system has a thread for each lookup, and nothing ends one that waits. These are all that a daemon has.
const MOST_LOOKUPS: usize = 16;
/// Of what a name may have.
const MOST_ADDRESSES: usize = 16;

/// Finds the addresses of names; cheap to clone. The lookups of all clones together are bounded.
#[derive(Clone, Debug)]
pub struct NameLookup {
    pinned: Arc<BTreeMap<HostName, Vec<IpAddr>>>,
    lookups: Arc<Semaphore>,
}

impl Default for NameLookup {
    fn default() -> Self {
        Self::with_pinned(BTreeMap::new())
    }
}

impl NameLookup {
    /// These names have these addresses, whatever the system says. What a rule asks of an address is asked of them too.
    pub fn with_pinned(pinned: BTreeMap<HostName, Vec<IpAddr>>) -> Self {
        Self {
            pinned: Arc::new(pinned),
            lookups: Arc::new(Semaphore::new(MOST_LOOKUPS)),
        }
    }

    pub(crate) async fn addresses(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        if let Some(pinned) = self.pinned.get(name) {
            return Ok(pinned.clone());
        }
        let permit = Arc::clone(&self.lookups).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        let name = name.as_str().to_owned();
        let looked_up = tokio::task::spawn_blocking(move || {
            let found = (name.as_str(), 0).to_socket_addrs();
            // It is held by the lookup, not by who waits for it, who may be gone long before.
            drop(permit);
            found
        });
        let mut addresses = vec![];
        for found in looked_up.await.map_err(io::Error::other)?? {
            let address = found.ip().to_canonical();
            if addresses.len() < MOST_ADDRESSES && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }
}
