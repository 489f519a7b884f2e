//! `daemon/metrics`: counters in the Prometheus text format. Nothing listens; a client asks.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::RpcServer;

/// One sample of one metric.
struct MetricSample {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: u64,
}

pub(super) fn text(server: &RpcServer, running: u64, queued: u64, conversations: u64) -> String {
    let read = |it: &AtomicU64| it.load(Ordering::Relaxed);
    let counters = &server.counters;
    let metric = |name, kind, help, value| MetricSample {
        name,
        kind,
        help,
        value,
    };
    let all = [
        metric(
            "aish_connections_total",
            "counter",
            "Connections accepted.",
            read(&counters.connections),
        ),
        metric(
            "aish_connections",
            "gauge",
            "Connections open.",
            read(&counters.connected),
        ),
        metric(
            "aish_calls_total",
            "counter",
            "Calls served.",
            read(&counters.calls),
        ),
        metric(
            "aish_events_sent_total",
            "counter",
            "Events sent to subscriptions.",
            read(&counters.events),
        ),
        metric(
            "aish_clients_cut_total",
            "counter",
            "Clients cut because they read nothing.",
            read(&counters.cut),
        ),
        metric(
            "aish_conversations",
            "gauge",
            "Conversations stored.",
            conversations,
        ),
        metric("aish_turns_running", "gauge", "Turns that run.", running),
        metric("aish_turns_queued", "gauge", "Turns that wait.", queued),
        metric(
            "aish_journal_bytes",
            "gauge",
            "Bytes of the journal.",
            server.directory.health().journal_bytes,
        ),
    ];
    let mut text = String::new();
    for MetricSample {
        name,
        kind,
        help,
        value,
    } in all.into_iter().chain(of_routing(server))
    {
        let _infallible = write!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
        );
    }
    text
}

fn of_routing(server: &RpcServer) -> [MetricSample; 3] {
    let counted = server.directory.routes().counts();
    let metric = |name, help, value| MetricSample {
        name,
        kind: "counter",
        help,
        value,
    };
    [
        metric(
            "aish_turns_routed_total",
            "Turns that another preset answered than would have without routing.",
            counted.routed,
        ),
        metric(
            "aish_fallbacks_total",
            "Requests that went to another preset, because a server looked down.",
            counted.fallbacks,
        ),
        metric(
            "aish_fallbacks_failed_total",
            "Those of them that failed there too.",
            counted.fallbacks_failed,
        ),
    ]
}
