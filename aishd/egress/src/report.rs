//! What went through a listener, counted by host. Bounded: what comes after the first hosts is counted together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::host::HostPort;
use crate::refusal::Refusal;

/// What went through a listener until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressReport {
    pub hosts: BTreeMap<HostPort, HostTraffic>,
    /// All hosts that were named when the list was full.
    pub others: HostTraffic,
    /// Connections that named no host: neither of the protocols, or a broken request.
    pub malformed: u64,
}

/// What became of the connections to one host and port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTraffic {
    /// Connections that were made.
    pub allowed: u64,
    /// Connections that were not made, and why.
    pub refusals: BTreeMap<Refusal, u64>,
    /// From the host to the child.
    pub bytes_in: u64,
    /// From the child to the host.
    pub bytes_out: u64,
}

impl HostTraffic {
    /// Connections that a rule or a person did not want.
    pub fn denied(&self) -> u64 {
        self.count(Refusal::is_denial)
    }

    /// Connections that could not be made.
    pub fn refused(&self) -> u64 {
        self.count(|it| !it.is_denial())
    }

    fn count(&self, wanted: impl Fn(Refusal) -> bool) -> u64 {
        let wanted = self.refusals.iter().filter(|(it, _)| wanted(**it));
        wanted.map(|(_, count)| count).sum()
    }
}

/// The counters of a listener.
#[derive(Debug)]
pub(crate) struct TrafficLog {
    most_hosts: usize,
    hosts: Mutex<BTreeMap<HostPort, Arc<HostCounts>>>,
    others: Arc<HostCounts>,
    malformed: AtomicU64,
}

/// The counters of a host.
#[derive(Debug, Default)]
pub(crate) struct HostCounts {
    allowed: AtomicU64,
    refusals: Mutex<BTreeMap<Refusal, u64>>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl TrafficLog {
    pub(crate) fn new(most_hosts: usize) -> Self {
        Self {
            most_hosts,
            hosts: Mutex::default(),
            others: Arc::default(),
            malformed: AtomicU64::default(),
        }
    }

    pub(crate) fn host(&self, target: &HostPort) -> Arc<HostCounts> {
        let mut hosts = self.hosts.lock();
        if let Some(counts) = hosts.get(target) {
            return Arc::clone(counts);
        }
        if hosts.len() >= self.most_hosts {
            return Arc::clone(&self.others);
        }
        Arc::clone(hosts.entry(target.clone()).or_default())
    }

    pub(crate) fn add_malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> EgressReport {
        let hosts = self.hosts.lock();
        let hosts = hosts
            .iter()
            .map(|(host, counts)| (host.clone(), counts.traffic()));
        EgressReport {
            hosts: hosts.collect(),
            others: self.others.traffic(),
            malformed: self.malformed.load(Ordering::Relaxed),
        }
    }
}

impl HostCounts {
    pub(crate) fn add_allowed(&self) {
        self.allowed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_refusal(&self, refusal: Refusal) {
        *self.refusals.lock().entry(refusal).or_default() += 1;
    }

    fn traffic(&self) -> HostTraffic {
        HostTraffic {
            allowed: self.allowed.load(Ordering::Relaxed),
            refusals: self.refusals.lock().clone(),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }
}

/// The bytes of one connection, which are counted for its host too.
#[derive(Debug)]
pub(crate) struct ConnectionBytes {
    host: Arc<HostCounts>,
    moved: AtomicU64,
}

/// Which way bytes go, as the child sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByteDirection {
    In,
    Out,
}

impl ConnectionBytes {
    pub(crate) fn new(host: Arc<HostCounts>) -> Self {
        Self {
            host,
            moved: AtomicU64::default(),
        }
    }

    pub(crate) fn add(&self, direction: ByteDirection, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let of_host = match direction {
            ByteDirection::In => &self.host.bytes_in,
            ByteDirection::Out => &self.host.bytes_out,
        };
        of_host.fetch_add(bytes, Ordering::Relaxed);
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All bytes of this connection, either way.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_after_the_first_are_counted_together() {
        let log = TrafficLog::new(2);
        for host in [
            "a.example:1",
            "b.example:1",
            "c.example:1",
            "d.example:1",
            "a.example:1",
        ] {
            let target = HostPort::parse(host, None).unwrap();
            let counts = log.host(&target);
            counts.add_allowed();
            counts.add_refusal(Refusal::NotListed);
            counts.add_refusal(Refusal::TimedOut);
            ConnectionBytes::new(counts).add(ByteDirection::Out, 3);
        }
        let report = log.report();
        let of = |it: &HostTraffic| (it.allowed, it.denied(), it.refused(), it.bytes_out);
        let hosts: Vec<_> = report
            .hosts
            .iter()
            .map(|(host, it)| (host.to_string(), of(it)))
            .collect();
        let expected = [
            ("a.example:1".to_owned(), (2, 2, 2, 6)),
            ("b.example:1".to_owned(), (1, 1, 1, 3)),
        ];
        assert_eq!(expected[..], hosts);
        assert_eq!((2, 2, 2, 6), of(&report.others));
    }
}
