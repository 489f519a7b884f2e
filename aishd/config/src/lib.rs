//! Settings: read raw first, then given their meaning; nothing here touches a socket or a store.

pub mod address;
pub mod command;
pub mod edit;
pub mod env;
pub mod fault;
pub mod file;
pub mod filter;
pub mod joined;
pub mod keys;
pub mod layers;
pub mod live;
pub mod load;
pub mod manifest;
pub mod mcp;
pub mod norris;
pub mod opening;
pub mod paths;
pub mod permissions;
pub mod preset;
pub mod project;
pub mod prompts;
pub mod routing;
pub mod schema;
pub mod settings;
pub mod shelf;
mod shell;
pub mod show;
pub mod source;
mod spending;
pub mod table;
pub mod trust;
pub mod value;
pub mod veil;

pub use settings::Settings;
