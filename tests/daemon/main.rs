//! The daemon as strangers see it: over its socket, as a process, and at the model server's end.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on ends here; the runner shows where"
)]

mod allowances;
mod audit;
mod audit_who;
mod bad_input;
mod blocks;
mod budget;
mod children;
mod configuration;
mod consent;
mod consent_changed;
mod consent_crash;
mod constraints;
mod context;
mod context_again;
mod context_pinned;
mod context_presets;
mod context_summary;
mod crash;
mod definitions;
mod disk;
mod empty_answers;
mod fallback;
mod fallback_table;
mod fanout;
mod first_question;
mod forms;
mod forms_end;
mod levels;
mod listing;
mod lists;
mod lists_crash;
mod logs;
mod many_tools;
mod mcp;
mod memory;
mod memory_bounds;
mod memory_proposed;
mod negotiate;
mod norris;
mod norris_commands;
mod norris_cost;
mod norris_crash;
mod norris_lead;
mod norris_wall;
mod notify;
mod older_questions;
mod optional;
mod order;
mod own_sessions;
mod permission;
mod permission_crash;
mod pinned;
mod place;
mod places;
mod policy;
mod profiles;
mod project;
mod project_context;
mod protocol;
mod refusals;
mod registry;
mod registry_context;
mod registry_files;
mod registry_hostile;
mod registry_races;
mod resources;
mod resources_crash;
mod routing;
mod sampling;
mod shell;
mod shell_context;
mod shell_crash;
mod shell_limits;
mod shell_order;
mod shell_told;
mod stop;
mod store_limits;
mod thinking;
mod too_large;
mod tools;
mod transfer;
mod trial;
mod trust;
mod turns;
mod unanswered;
mod usage;
mod used;
mod wall;
mod wall_escapes;
