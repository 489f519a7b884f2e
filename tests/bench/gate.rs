//! Figures of the gate, printed: `cargo bench -p aishd --bench gate`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends here, and its figures go to whoever runs it"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aishd_log::access::Access;
use aishd_log::constraints::Constraints;
use aishd_log::grants::GrantList;
use aishd_log::pattern::{Pattern, Patterns};
use aishd_log::tool::{ClaimSource, NetworkUse, Tool, ToolReach};
use aishd_log::tool_name::ToolName;
use aishd_mcp_messages::tool::{HeaderMirroring, read};
use aishd_rules::allowances::AllowanceList;
use aishd_rules::catalog::Catalog;
use aishd_rules::policy::{Policy, PolicyQuestion, ProviderRule, decide};
use aishd_rules::tool_binding::{Binding, BoundBy};
use serde_json::{Map, Value, json};

/// Rules of each kind: denials, automatic approvals, levels and grants are ten thousand together.
const RULES: usize = 2_500;
const TOOLS: usize = 1_000;
const PROVIDERS: usize = 20;
const ROUNDS: usize = 2_000;

/// What is demanded.
const DECIDE_LIMIT: Duration = Duration::from_micros(500);
const REBUILD_LIMIT: Duration = Duration::from_millis(10);

fn name(at: usize) -> String {
    format!("provider{}__tool_{at}", at % PROVIDERS)
}

/// As servers send it: a description of some lines, a schema with a dozen properties.
fn sent(at: usize) -> Value {
    let properties: Map<String, Value> = (0..12)
        .map(|it| {
            let described =
                json!({"type": "string", "description": "What it is for, in one sentence."});
            (format!("property_{it}"), described)
        })
        .collect();
    json!({
        "name": format!("tool_{at}"),
        "description": "Does one thing, and says here in two or three lines what that is. ".repeat(3),
        "inputSchema": {"type": "object", "properties": properties, "required": ["property_0"]},
        "annotations": {"readOnlyHint": at.is_multiple_of(2)},
    })
}

fn tool(at: usize) -> Tool {
    let sent = sent(at);
    Tool {
        name: name(at).parse().unwrap(),
        description: sent["description"].as_str().unwrap().to_owned(),
        schema: sent["inputSchema"].clone(),
        annotations: sent["annotations"].clone(),
        server: "npx some-server".into(),
        place: "npx some-server".into(),
        needs: Access::Read,
        needs_by: ClaimSource::Servers,
        reads_only: at.is_multiple_of(2),
        reach: ToolReach::World,
        network: NetworkUse::Stays,
        packages: Arc::default(),
        directory: None,
    }
}

/// No rule speaks of a tool that is asked about, but for the last ones, so that all kinds are looked through.
fn policy() -> Policy {
    let pattern = |at: usize| -> Pattern { name(at + TOOLS).parse().unwrap() };
    let mut policy = Policy {
        deny: Patterns::new((0..RULES).map(pattern)),
        auto_approve: (RULES..2 * RULES).map(|it| (pattern(it), true)).collect(),
        ..Policy::default()
    };
    for at in 0..RULES {
        let rule = ProviderRule {
            level: Access::Read,
            max_level: Access::Execute,
        };
        policy
            .providers
            .insert(format!("other{at}").parse().unwrap(), rule);
    }
    policy
}

fn grants(tools: &[Arc<Tool>]) -> GrantList {
    let mut grants = GrantList::default();
    for at in 0..RULES {
        let name: ToolName = name(at).parse().unwrap();
        let digest = tools[at % TOOLS].definition_digest();
        grants.approved.insert(name, digest);
    }
    grants
}

fn bound(tool: &Tool) -> (ToolName, Binding) {
    let (digest, by) = (tool.definition_digest(), BoundBy::Rule);
    (tool.name.clone(), Binding { digest, by })
}

/// The median is judged; the worst says what else the machine did.
fn told(what: &str, mut times: Vec<Duration>, limit: Option<Duration>) {
    times.sort();
    let (half, late) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let judged = limit.map(|limit| {
        let held = if half < limit { "held" } else { "MISSED" };
        format!("; limit {limit:?} {held}")
    });
    println!(
        "{what}: p50 {half:?}, p99 {late:?}{}",
        judged.unwrap_or_default()
    );
}

fn main() {
    let tools: Vec<Arc<Tool>> = (0..TOOLS).map(|it| Arc::new(tool(it))).collect();
    let (policy, grants) = (policy(), grants(&tools));
    let (nothing, nobody) = (Patterns::default(), AllowanceList::default());
    let (arguments, constraints) = (Map::new(), Constraints::default());
    let bound: BTreeMap<ToolName, Binding> = tools.iter().map(|it| bound(it)).collect();
    let times = (0..ROUNDS).map(|round| {
        let question = PolicyQuestion {
            tool: &tools[round % TOOLS],
            arguments: &arguments,
            reads_beyond: false,
            constraints: &constraints,
            grants: &grants,
            turn: &nothing,
            clients: &nobody,
            bound: &bound,
        };
        let started = Instant::now();
        black_box(decide(black_box(question), &policy));
        started.elapsed()
    });
    told(
        &format!("decide with {} rules", 4 * RULES),
        times.collect(),
        Some(DECIDE_LIMIT),
    );
    let rebuilt = (0..ROUNDS / 10).map(|_| {
        // As it is done when a server's tools changed: new values of all tools, and what a request offers of them.
        let fresh: Vec<Arc<Tool>> = tools.iter().map(|it| Arc::new(Tool::clone(it))).collect();
        let started = Instant::now();
        let catalog = Catalog::new(fresh);
        black_box(catalog.offer(&policy, |_| true).iter().len());
        started.elapsed()
    });
    told(
        &format!("a catalog of {TOOLS} tools, and an offer of it"),
        rebuilt.collect(),
        Some(REBUILD_LIMIT),
    );
    let list: Vec<Value> = (0..TOOLS).map(sent).collect();
    let parsed = (0..ROUNDS / 100).map(|_| {
        let started = Instant::now();
        black_box(read(&list, "npx some-server", HeaderMirroring::None));
        started.elapsed()
    });
    told(
        &format!("{TOOLS} tools of one list, read and digested"),
        parsed.collect(),
        None,
    );
}
