//! What is true without IO: facts, state, the turn machine, requests. No clock, no files, no network.

pub mod assemble;
pub mod event;
pub mod preset;
pub mod reply;
pub mod request;
pub mod state;
pub mod transcript;
pub mod turn;
