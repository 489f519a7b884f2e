//! The wire between `aishd` and its clients: method names, their params and results, events and
//! errors (spec 10). Nothing here does IO; both sides link it, so a wrong pair does not compile.

pub mod attach;
pub mod audit;
pub mod config;
pub mod confirm;
pub mod context;
pub mod conversation;
pub mod daemon;
pub mod doctor;
pub mod error;
pub mod event;
pub mod form;
pub mod id;
pub mod intent;
pub mod kept;
pub mod limits;
pub mod log;
pub mod mcp;
pub mod memory;
pub mod method;
pub mod model;
pub mod norris;
pub mod permission;
pub mod place;
pub mod prompt;
pub mod proposed;
pub mod resource;
pub mod route;
pub mod sampling;
pub mod schema;
pub mod shell;
pub mod tool;
pub mod transfer;
pub mod turn;
pub mod usage;
pub mod version;
