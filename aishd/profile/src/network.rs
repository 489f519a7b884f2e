//! The listener by which a contained child reaches hosts, served for as long as the child is there.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use aishd_egress::{
    EgressProxy, EgressReport, EgressReporter, HostPattern, HostPort, HostRules, HostTraffic,
    PatternError, QuestionSettings, proxy_variables,
};
use aishd_log::network::{HostCount, NetworkUse};
use aishd_log::tool_name::Alias;
use aishd_process::child::Child;
use aishd_process::contained::ContainedNetwork;
use aishd_process::spec::ChildSpec;
use parking_lot::Mutex;

use crate::{HeldNews, ProfileGround};

/// The port within. The child's network is its own, so that it is free there; nothing that a program asks of the kernel gives it
/// this one by chance.
const PORT: u16 = 61_080;

/// Where a child that was given a listener finds it.
pub fn listener_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))
}

/// What a child may reach, and who is asked about the rest.
#[derive(Clone, Debug, Default)]
pub struct NetworkWish {
    pub rules: HostRules,
    /// `None`: what no rule names is refused.
    pub questions: Option<QuestionSettings>,
}

/// The way out of one child. Dropped, its connections end.
#[derive(Debug)]
pub struct ChildNetwork {
    ground: ProfileGround,
    proxy: Option<EgressProxy>,
    /// Whose program it is; it is remembered and told for that.
    of: Option<Alias>,
    number: u64,
}

/// What programs of providers reached since the daemon began.
#[derive(Debug, Default)]
pub(crate) struct ProviderTraffic {
    number: u64,
    running: Vec<(u64, Alias, EgressReporter)>,
    ended: BTreeMap<Alias, NetworkUse>,
}

/// Reads lines of a rule.
pub fn host_patterns<'a>(
    lines: impl IntoIterator<Item = &'a String>,
) -> Result<Vec<HostPattern>, PatternError> {
    lines.into_iter().map(|it| it.parse()).collect()
}

/// As a fact, bounded.
pub(crate) fn used(report: &EgressReport) -> NetworkUse {
    let mut used = NetworkUse::default();
    for (host, traffic) in &report.hosts {
        used.add(&of_host(host, traffic));
    }
    let all = |it: &HostTraffic| it.allowed + it.refusals.values().sum::<u64>();
    used.others = used.others.saturating_add(all(&report.others));
    used
}

fn of_host(host: &HostPort, traffic: &HostTraffic) -> NetworkUse {
    let count = |times: u64, bytes: u64| {
        let host = host.to_string();
        (times > 0).then_some(HostCount { host, times, bytes })
    };
    let of = |wanted: bool| {
        let refusals = traffic.refusals.iter();
        let refusals = refusals.filter(|(it, _)| it.is_refusal() == wanted);
        refusals.map(|(_, times)| times).sum()
    };
    let bytes = traffic.bytes_in.saturating_add(traffic.bytes_out);
    NetworkUse {
        reached: count(traffic.allowed, bytes).into_iter().collect(),
        refused: count(of(true), 0).into_iter().collect(),
        failed: count(of(false), 0).into_iter().collect(),
        others: 0,
    }
}

/// Gives a child that is to be contained the listener, and the variables by which programs find it.
pub fn with_listener(spec: &mut ChildSpec) {
    spec.env.extend(proxy_variables(listener_address()));
    if let Some(contained) = &mut spec.contained {
        contained.network = ContainedNetwork::Listener { port: PORT };
    }
}

impl ProfileGround {
    /// Serves the listener of a child that was started with one, within a runtime of tokio.
    pub fn serve_network(
        &self,
        child: &mut Child,
        wish: NetworkWish,
        of: Option<&Alias>,
    ) -> Option<ChildNetwork> {
        let listener = child.take_listener()?;
        let NetworkWish { rules, questions } = wish;
        let proxy = match self.0.egress.serve(listener, rules, questions) {
            Ok(proxy) => proxy,
            Err(error) => {
                tracing::warn!(%error, "serve the network of a child");
                return None;
            }
        };
        let mut traffic = self.0.traffic.lock();
        traffic.number += 1;
        let number = traffic.number;
        if let Some(of) = of {
            let running = (number, of.clone(), proxy.reporter());
            traffic.running.push(running);
        }
        drop(traffic);
        Some(ChildNetwork {
            ground: self.clone(),
            proxy: Some(proxy),
            of: of.cloned(),
            number,
        })
    }

    /// What the programs of a provider reached and were refused since the daemon began.
    pub fn network_of(&self, provider: &Alias) -> NetworkUse {
        let traffic = self.0.traffic.lock();
        let mut all = traffic.ended.get(provider).cloned().unwrap_or_default();
        let running = traffic.running.iter().filter(|it| it.1 == *provider);
        running.for_each(|(_, _, reporter)| all.add(&used(&reporter.report())));
        all
    }

    /// The providers whose programs reached anything, or wanted to.
    pub fn networked(&self) -> Vec<Alias> {
        let traffic = self.0.traffic.lock();
        let running = traffic.running.iter().map(|it| &it.1);
        let mut all: Vec<Alias> = traffic.ended.keys().chain(running).cloned().collect();
        all.sort();
        all.dedup();
        all
    }

    fn network_ended(&self, number: u64, of: &Alias, used: NetworkUse) {
        let mut traffic = self.0.traffic.lock();
        traffic.running.retain(|it| it.0 != number);
        if used.is_empty() {
            return;
        }
        traffic.ended.entry(of.clone()).or_default().add(&used);
        drop(traffic);
        (self.0.tell)(HeldNews::Reached {
            provider: of.clone(),
            network: used,
        });
    }
}

impl ChildNetwork {
    /// Ends all connections and says what went through.
    pub async fn end(mut self) -> NetworkUse {
        let Some(proxy) = self.proxy.take() else {
            return NetworkUse::default();
        };
        let used = used(&proxy.shutdown().await);
        self.tell(used.clone());
        used
    }

    fn tell(&self, used: NetworkUse) {
        if let Some(of) = &self.of {
            self.ground.network_ended(self.number, of, used);
        }
    }
}

impl Drop for ChildNetwork {
    fn drop(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            self.tell(used(&proxy.report()));
        }
    }
}

pub(crate) type Traffic = Mutex<ProviderTraffic>;
