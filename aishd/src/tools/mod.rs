//! Who offers tools, and running a call of one. What may run is decided elsewhere; this room does what it is told.

pub mod builtin;
mod result;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::watch;

pub use self::result::{Output, returned};
use crate::core::catalog::Catalog;
use crate::core::gate::Go;
use crate::core::tool::Tool;

/// All tools there are, and the way to run them; cheap to clone.
#[derive(Clone, Debug)]
pub struct Tools {
    catalog: watch::Receiver<Arc<Catalog>>,
}

/// What a call needs to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    Builtin(builtin::Call),
    /// It is not what was approved any more, or is gone.
    Gone(String),
}

impl Tools {
    /// The tools of the daemon itself.
    #[must_use]
    pub fn new() -> Self {
        let catalog = Catalog::new(builtin::tools().map(Arc::new));
        let (_never_changes, catalog) = watch::channel(Arc::new(catalog));
        Self { catalog }
    }

    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// What has to be done for a call, if the tool still is what the gate looked at (R3).
    #[must_use]
    pub fn work(&self, go: &Go) -> Work {
        let name = &go.tool.name;
        let now = self.catalog().get(name).cloned();
        match now {
            Some(now) if same(&now, &go.tool) => match builtin::call(name, &go.arguments) {
                Some(Ok(call)) => Work::Builtin(call),
                Some(Err(why)) => Work::Gone(format!("[aish] tool dispatch failed: {why}")),
                None => Work::Gone(format!("[aish] tool dispatch failed: unknown tool {name}")),
            },
            Some(_) => Work::Gone(format!(
                "[aish] tool dispatch failed: {name} changed after the call was approved; nothing ran"
            )),
            None => Work::Gone(format!("[aish] tool dispatch failed: unknown tool {name}")),
        }
    }
}

impl Default for Tools {
    fn default() -> Self {
        Self::new()
    }
}

fn same(a: &Arc<Tool>, b: &Arc<Tool>) -> bool {
    Arc::ptr_eq(a, b) || a.definition_digest() == b.definition_digest()
}

/// A member of a call's arguments that has to be a text.
fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("{name:?} has to be a text"))
}
