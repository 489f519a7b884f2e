//! What all listeners of a daemon share.

use std::io;
use std::net::TcpListener;

use crate::names::NameLookup;
use crate::proxy::{EgressProxy, EgressSettings};
use crate::questions::QuestionSettings;
use crate::rules::HostRules;
use crate::upstream::Upstream;

/// How the daemon itself looks names up and goes out; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct EgressGround {
    pub upstream: Upstream,
    pub names: NameLookup,
}

impl EgressGround {
    /// Begins to serve a listener, within a runtime of tokio.
    pub fn serve(
        &self,
        listener: TcpListener,
        rules: HostRules,
        questions: Option<QuestionSettings>,
    ) -> io::Result<EgressProxy> {
        let settings = EgressSettings {
            rules,
            questions,
            upstream: self.upstream.clone(),
            names: self.names.clone(),
            ..EgressSettings::default()
        };
        EgressProxy::serve(listener, settings)
    }
}
