//! The way of every connection, whatever protocol it came by: admitted, dialed, counted.

use std::sync::Arc;

use crate::admission::{Admission, NotAdmitted};
use crate::dial::{Dialed, Dialer};
use crate::host::HostPort;
use crate::limits::EgressLimits;
use crate::questions::HostScheme;
use crate::refusal::Refusal;
use crate::report::{ConnectionBytes, TrafficLog};
use crate::stream::StreamReader;

/// What all connections of a listener share.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) admission: Admission,
    pub(crate) dialer: Dialer,
    pub(crate) limits: EgressLimits,
    pub(crate) traffic: Arc<TrafficLog>,
}

/// What the child gets of its wish.
#[derive(Debug)]
pub(crate) enum Passage {
    Open(Dialed, ConnectionBytes),
    Refused(Refusal),
    /// The child has hung up, and nothing is left to be said.
    GivenUp,
}

impl Gate {
    pub(crate) async fn open(
        &self,
        target: &HostPort,
        scheme: HostScheme,
        child: &mut StreamReader,
    ) -> Passage {
        let counts = self.traffic.host(target);
        let refused = |refusal| {
            tracing::debug!(%target, ?refusal, "a connection of a child is refused");
            counts.add_refusal(refusal);
            Passage::Refused(refusal)
        };
        let reach = match self.admission.admit(target, scheme, child.ended()).await {
            Ok(reach) => reach,
            Err(NotAdmitted::Refused(refusal)) => return refused(refusal),
            Err(NotAdmitted::GivenUp) => return Passage::GivenUp,
        };
        let rules = self.admission.rules();
        let dialed = self.dialer.dial(target, scheme, reach, &rules);
        match tokio::time::timeout(self.limits.connect, dialed).await {
            Ok(Ok(dialed)) => {
                tracing::debug!(%target, "a connection of a child is made");
                counts.add_allowed();
                Passage::Open(dialed, ConnectionBytes::new(counts))
            }
            Ok(Err(refusal)) => refused(refusal),
            Err(_) => refused(Refusal::TimedOut),
        }
    }
}
