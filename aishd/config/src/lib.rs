//! Settings: read raw first, then given their meaning; nothing here touches a socket or a store.

pub mod address;
pub mod command;
pub mod edit;
pub mod effective_values;
pub mod environment_variables;
pub mod fault;
pub mod file;
pub mod filter;
mod held_programs;
mod key_values;
pub mod keys;
pub mod layers;
pub mod live;
pub mod load;
pub mod manifest;
pub mod manifest_store;
pub mod mcp;
pub mod merged_list;
pub mod norris;
pub mod paths;
pub mod permissions;
pub mod preset;
pub mod project;
pub mod prompts;
pub mod redaction;
pub mod routing;
pub mod schema;
pub mod settings;
mod shell;
pub mod source;
mod spending;
pub mod system_prompt;
pub mod table_reader;
pub mod trust;
pub mod value;

pub use settings::Settings;
