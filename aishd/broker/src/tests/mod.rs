//! The broker against recorded and written streams, against hostile servers, and against a real one.

use std::collections::BTreeMap;

use aishd_process::Children;

use super::Broker;

mod closing;
mod discovery;
mod fuzz;
mod hostile;
mod llamacpp;
mod scripted;
mod streams;
mod unreachable;

fn with_key(key: fn(&str) -> Option<String>) -> Broker {
    Broker::new(key, Children::new(BTreeMap::new()))
}

fn without_keys() -> Broker {
    with_key(|_| None)
}
