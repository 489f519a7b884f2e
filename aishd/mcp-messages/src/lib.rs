//! MCP without its wires: how a server is reached, what its tools are, how it does, what a call gave.

pub mod bounded_text;
pub mod chosen_tools;
pub mod confidential;
pub mod content;
mod description;
pub mod form;
pub mod log_level;
pub mod mirrored_headers;
pub mod oauth_settings;
pub mod outcome;
pub mod prompt;
pub mod remarks;
pub mod revision;
pub mod schema;
pub mod secret_name;
pub mod server;
pub mod server_reach;
pub mod settings;
pub mod task;
pub mod tool;
pub mod tool_approval;
mod tool_naming;
pub mod variable_expansion;
