//! What the suites stand on: a sealed world, a daemon in it, raw clients, and a scripted upstream that
//! examines what it is sent. Blocking code and threads, so that a test reads as a script from top to bottom.
//!
//! Nothing here looks into aish: it talks over the socket, over HTTP and to processes, as strangers do. Every
//! wait has a limit and says what it waited for. A test never sleeps; it waits for an event or a condition.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on ends here, with a message for the person who reads it"
)]

pub mod asked;
pub mod built;
pub mod chance;
pub mod client;
pub mod daemon;
pub mod disk;
pub mod document;
pub mod escapes;
pub mod follow;
pub mod fuzz;
pub mod llama;
mod panics;
pub mod pattern;
pub mod pretty;
pub mod process;
pub mod pty;
pub mod recording;
pub mod replay;
pub mod repository;
pub mod screen;
mod signals;
pub mod surroundings;
pub mod upstream;
pub mod wait;
mod wire;
pub mod world;

pub use asked::Asked;
pub use built::built;
pub use chance::Chance;
pub use client::Client;
pub use daemon::Daemon;
pub use follow::Follow;
pub use fuzz::fuzz;
pub use llama::Llama;
pub use process::{Finished, Run, Running};
pub use recording::Recording;
pub use screen::{PaintedText, Screen};
pub use upstream::Upstream;
pub use upstream::answer::Answer;
pub use upstream::gate::Gate;
pub use wire::{RpcError, Sent};
pub use world::World;
