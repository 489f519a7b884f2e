//! MCP without its wires: how a server is reached, what its tools are, how it does, what a call gave.

mod called;
pub mod confidential;
pub mod content;
pub mod expand;
pub mod form;
pub mod mirror;
pub mod offered;
pub mod outcome;
pub mod prompt;
pub mod reach;
pub mod remarks;
pub mod schema;
pub mod secret_name;
pub mod server;
pub mod settings;
pub mod text;
pub mod tool;
mod words;
