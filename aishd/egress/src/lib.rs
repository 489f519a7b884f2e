//! The proxy that gives contained children the network by names of hosts.
//!
//! It is handed a listener, which lies in the network of a child (`ContainedNetwork::Listener`, `Child::take_listener` of
//! `aishd-process`), and serves it: HTTP `CONNECT`, plain HTTP with whole addresses, and SOCKS5, told apart by their first
//! byte. Not here: namespaces, commands, conversations, what a person is shown, and how long an answer holds.
//!
//! A caller starts the child with a listener, serves it, answers the questions, and takes the report when the child has
//! ended. The port has to be known before the start, for the variables; any will do, since the child's network is its own.
//!
//! ```no_run
//! use std::net::{Ipv4Addr, SocketAddr, TcpListener};
//! use std::time::Duration;
//!
//! use aishd_egress::{
//!     EgressGround, HostAnswer, HostRules, NameLookup, QuestionSettings, Refusal, Upstream, UpstreamProxy,
//!     proxy_variables,
//! };
//! use tokio::sync::mpsc;
//!
//! # async fn person_says(question: &aishd_egress::HostQuestion) -> bool { question.target.port == 443 }
//! # async fn example(take_listener: impl Fn() -> TcpListener) -> Result<(), Box<dyn std::error::Error>> {
//! // 1. The child's environment, with the port that its `ContainedNetwork::Listener` has.
//! let port = 3128;
//! let environment = proxy_variables(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
//!
//! // 2. Once for a daemon: how it looks names up, and how it goes out itself.
//! let ground = EgressGround {
//!     names: NameLookup::default(),
//!     upstream: Upstream::Proxy(UpstreamProxy::parse("http://proxy.example:3128", "localhost,.corp.example")?),
//! };
//!
//! // 3. For each child: its rules, and where its questions go.
//! let (asked, mut open) = mpsc::channel(8);
//! let rules = HostRules {
//!     allow: vec!["crates.example".parse()?, "*.crates.example".parse()?],
//!     ..HostRules::default()
//! };
//! let questions = QuestionSettings { asked, most_open: 8, deadline: Duration::from_secs(300) };
//! let proxy = ground.serve(take_listener(), rules, Some(questions))?;
//!
//! // 4. While the child runs. `settle` is for those who wait and all who come later, `answer` for those who wait. An answer to a
//! // name says nothing of addresses: it allows public ones only.
//! while let Some(question) = open.recv().await {
//!     let said = tokio::select! {
//!         said = person_says(question.question()) => said,
//!         () = question.given_up() => continue, // take it from the screen
//!     };
//!     question.settle(if said { HostAnswer::Allow } else { HostAnswer::Deny });
//! #   break;
//! }
//!
//! // 5. When it has ended: all connections end, and the report is complete. `Refusal::explanation` is a line for people.
//! let report = proxy.shutdown().await;
//! for (host, traffic) in &report.hosts {
//!     if traffic.denied() + traffic.refused() > 0 {
//!         let lines = traffic.refusals.keys().map(|it| it.explanation(host));
//!         # drop(lines.collect::<Vec<_>>());
//!     }
//! }
//! # let _: (Option<Refusal>, _) = (None, environment);
//! # Ok(())
//! # }
//! ```
//!
//! The sender in the settings is dropped with the proxy, so that a task of its own that receives questions ends by itself.

mod address_class;
mod admission;
mod dial;
mod gate;
mod ground;
mod host;
mod http;
mod http_forward;
mod http_head;
mod limits;
mod names;
mod no_proxy;
mod pattern;
mod proxy;
mod questions;
mod refusal;
mod relay;
mod report;
mod request_body;
mod rules;
mod socks;
mod stream;
mod upstream;
mod variables;

pub use address_class::{AddressClass, class_of};
pub use ground::EgressGround;
pub use host::{HostError, HostName, HostPort, NamedHost};
pub use limits::EgressLimits;
pub use names::NameLookup;
pub use pattern::{HostPattern, PatternError};
pub use proxy::{EgressProxy, EgressReporter, EgressSettings};
pub use questions::{HostAnswer, HostQuestion, HostScheme, OpenQuestion, QuestionSettings};
pub use refusal::Refusal;
pub use report::{EgressReport, HostTraffic};
pub use rules::{AddressReach, HostRules, HostStanding};
pub use upstream::{Upstream, UpstreamError, UpstreamProxy};
pub use variables::proxy_variables;

#[cfg(test)]
mod tests;
