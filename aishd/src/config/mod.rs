//! Settings: read raw first, then given their meaning; nothing here touches a socket or a store.

pub mod env;
mod expand;
pub mod file;
pub mod mcp;
pub mod paths;
pub mod permissions;
mod settings;

pub use settings::Settings;
