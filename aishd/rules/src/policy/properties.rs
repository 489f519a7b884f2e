//! What holds of every decision, whatever the rules are.

use aishd_log::tool::NetworkUse;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::allowances::tests::allowed_by;
use crate::log_samples::tool;
use crate::tool_binding::NoBindings;

/// All that a decision is made from, of its own.
#[derive(Clone, Debug)]
struct PolicyCase {
    tool: Tool,
    arguments: Map<String, Value>,
    constraints: Constraints,
    policy: Policy,
    grants: GrantList,
    turn: Patterns,
    clients: AllowanceList,
}

impl PolicyCase {
    fn verdict(&self) -> PolicyDecision {
        let question = PolicyQuestion {
            tool: &self.tool,
            arguments: &self.arguments,
            reads_beyond: false,
            constraints: &self.constraints,
            grants: &self.grants,
            turn: &self.turn,
            clients: &self.clients,
            bound: &NoBindings,
        };
        decide(question, &self.policy)
    }

    /// How much it lets happen: nothing, what a person says, or all.
    fn rank(&self) -> u8 {
        match self.verdict() {
            PolicyDecision::Deny(_) => 0,
            PolicyDecision::Ask(_) => 1,
            PolicyDecision::Allow(_) => 2,
        }
    }
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let texts = prop::sample::select(vec!["a__x", "a__y", "a__*", "b__x", "b__*"]);
    texts.prop_map(|it| it.parse().unwrap())
}

fn patterns() -> impl Strategy<Value = Patterns> {
    vec(pattern(), 0..3).prop_map(Patterns::new)
}

/// Of two clients, the second with a number of calls.
fn clients() -> impl Strategy<Value = AllowanceList> {
    (patterns(), patterns()).prop_map(|(first, second)| {
        let mut all = AllowanceList::default();
        for (number, left, patterns) in [(1, None, first), (2, Some(1), second)] {
            let mut allowance = allowed_by(number, &[], left);
            allowance.patterns = patterns;
            all.set(allowance);
        }
        all
    })
}

fn access() -> impl Strategy<Value = Access> {
    (1u8..=3).prop_map(|it| Access::from_number(it).unwrap())
}

/// Each but the first lies in the one before it.
const NESTED: [&str; 3] = ["/w", "/w/in", "/w/in/deep"];

fn path() -> impl Strategy<Value = &'static str> {
    let paths = [
        "/w",
        "/w/a",
        "/w/in/a",
        "/w/in/deep/a",
        "/w/in/../a",
        "/etc",
        "a",
        "../a",
        "text",
    ];
    prop::sample::select(paths.to_vec())
}

fn a_tool() -> impl Strategy<Value = Tool> {
    let names = prop::sample::select(vec!["a__x", "a__y", "b__x"]);
    let kinds = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.3));
    (names, access(), kinds).prop_map(|(name, needs, (leaves, own, fetches))| {
        let mut tool = tool(name, needs);
        if fetches {
            tool.packages = ["rich".to_owned()].into();
        }
        if leaves {
            tool.network = NetworkUse::MayLeave;
        }
        if own {
            tool.reach = ToolReach::Conversation;
        }
        tool
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    let rule = (access(), access()).prop_map(|(a, b)| ProviderRule {
        level: a.min(b),
        max_level: a.max(b),
    });
    let rules = prop::option::of(rule);
    let auto = vec((pattern(), any::<bool>()), 0..3);
    let needs = prop::option::of(access());
    (patterns(), auto, rules, needs, access()).prop_map(|(deny, auto, rule, needs, default)| {
        let name: ToolName = "a__x".parse().unwrap();
        Policy {
            deny,
            auto_approve: auto.into_iter().collect(),
            providers: rule
                .map(|it| (name.alias().clone(), it))
                .into_iter()
                .collect(),
            needs: needs.map(|it| (name.clone(), it)).into_iter().collect(),
            default_level: default,
            ..Policy::default()
        }
    })
}

prop_compose! {
    fn case()(
        tool in a_tool(),
        path in path(),
        named in any::<bool>(),
        (read_only, no_network) in any::<(bool, bool)>(),
        root in prop::option::of(0..NESTED.len()),
        policy in policy(),
        level in prop::option::of(access()),
        always in 0u8..3,
        turn in patterns(),
        clients in clients(),
    ) -> PolicyCase {
        let key = if named { "path" } else { "text" };
        let arguments = json!({key: path}).as_object().unwrap().clone();
        let mut grants = GrantList::default();
        grants.levels.extend(level.map(|it| (tool.name.alias().clone(), it)));
        let approved = [None, Some(tool.definition_digest()), Some(ContentDigest([9; 32]))];
        let approved = approved[usize::from(always)];
        grants.approved.extend(approved.map(|it| (tool.name.clone(), it)));
        let roots = root.map(|it| NESTED[it].to_owned().try_into().unwrap());
        let roots = roots.into_iter().collect();
        let constraints = Constraints { read_only, no_network, roots };
        PolicyCase { tool, arguments, constraints, policy, grants, turn, clients }
    }
}

proptest! {
    /// A deny rule wins, whatever else is said.
    #[test]
    fn deny_always_wins(case in case(), whole in any::<bool>()) {
        let mut case = case;
        let name = case.tool.name.clone();
        let rule = if whole { Pattern::Provider(name.alias().clone()) } else { Pattern::Tool(name) };
        case.policy.deny = Patterns::new(case.policy.deny.iter().cloned().chain([rule]));
        prop_assert!(matches!(case.verdict(), PolicyDecision::Deny(DecidingRule::Denied(_))));
    }

    #[test]
    fn another_denial_never_allows_more(case in case(), more in pattern()) {
        let mut stricter = case.clone();
        stricter.policy.deny = Patterns::new(case.policy.deny.iter().cloned().chain([more]));
        prop_assert!(stricter.rank() <= case.rank());
    }

    #[test]
    fn another_constraint_never_allows_more(case in case(), which in 0..3u8, root in 0..NESTED.len()) {
        let mut stricter = case.clone();
        let constraints = &mut stricter.constraints;
        match which {
            0 => constraints.read_only = true,
            1 => constraints.no_network = true,
            _ => {
                // A directory in the one that there was, or one where there was none.
                let before = constraints.roots.first().map(ToString::to_string);
                let before = before.and_then(|it| NESTED.iter().position(|other| *other == it));
                let root = before.map_or(root, |it| it.max(root));
                constraints.roots = vec![NESTED[root].to_owned().try_into().unwrap()];
            }
        }
        prop_assert!(stricter.rank() <= case.rank(), "{:?} and {:?}", case.verdict(), stricter.verdict());
    }

    /// A level alone is no consent.
    #[test]
    fn a_level_alone_lets_nothing_run(case in case(), level in access()) {
        let mut case = case;
        case.policy.auto_approve.clear();
        case.grants.approved.clear();
        (case.turn, case.clients) = (Patterns::default(), AllowanceList::default());
        case.tool.reach = ToolReach::World;
        case.grants.levels.insert(case.tool.name.alias().clone(), level);
        prop_assert!(case.rank() <= 1);
    }

    /// What needs more is never let through more easily.
    #[test]
    fn who_needs_more_gets_no_more(case in case(), needs in access()) {
        let mut more = case.clone();
        let now = case.policy.needs(&case.tool);
        more.policy.needs.insert(case.tool.name.clone(), now.max(needs));
        prop_assert!(more.rank() <= case.rank());
    }

    /// Who allows a name beforehand never lets through what is not what was approved here.
    #[test]
    fn a_changed_definition_asks_whoever_allows_the_name(case in case()) {
        let mut case = case;
        let name = case.tool.name.clone();
        case.tool.reach = ToolReach::World;
        case.policy.auto_approve.clear();
        case.grants.approved.insert(name.clone(), ContentDigest([9; 32]));
        case.turn = Patterns::new([Pattern::Tool(name.clone())]);
        case.clients.set(allowed_by(3, &[&name.to_string()], None));
        prop_assert!(case.rank() <= 1, "{:?}", case.verdict());
    }

    /// Whoever allows a name has not seen what it fetches; only "always" to this very definition is that.
    #[test]
    fn what_fetches_packages_runs_only_where_it_was_approved_as_it_is(case in case()) {
        let mut case = case;
        let name = case.tool.name.clone();
        case.tool.reach = ToolReach::World;
        case.tool.packages = ["rich".to_owned()].into();
        case.turn = Patterns::new([Pattern::Tool(name.clone())]);
        case.clients.set(allowed_by(3, &[&name.to_string()], None));
        case.policy.auto_approve.insert(Pattern::Tool(name.clone()), true);
        let approved = case.grants.approved.get(&name) == Some(&case.tool.definition_digest());
        prop_assert!(approved || case.rank() <= 1, "{:?}", case.verdict());
        case.grants.approved.insert(name, case.tool.definition_digest());
        let asks = matches!(case.verdict(), PolicyDecision::Ask(AskReason::Packages { .. }));
        prop_assert!(!asks, "{:?}", case.verdict());
    }

    /// A client's word turns a question into a yes, and nothing else.
    #[test]
    fn a_client_allows_only_what_would_be_asked_about(case in case(), whole in any::<bool>()) {
        let mut without = case.clone();
        without.clients = AllowanceList::default();
        let mut with = case;
        let name = with.tool.name.clone();
        let rule = if whole { Pattern::Provider(name.alias().clone()) } else { Pattern::Tool(name) };
        with.clients.set(allowed_by(3, &[&rule.to_string()], None));
        match without.verdict() {
            PolicyDecision::Ask(AskReason::EveryCall | AskReason::ReadsBeyond | AskReason::Changes | AskReason::Level { .. }) => {
                let by_client = matches!(with.verdict(), PolicyDecision::Allow(DecidingRule::Client { .. }));
                prop_assert!(by_client, "{:?}", with.verdict());
            }
            PolicyDecision::Ask(
                AskReason::Changed { .. } | AskReason::Unclear { .. } | AskReason::Packages { .. } | AskReason::Halt(_),
            )
            | PolicyDecision::Allow(_)
            | PolicyDecision::Deny(_) => prop_assert_eq!(without.verdict(), with.verdict()),
        }
    }
}
