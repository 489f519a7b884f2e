//! The tools that a request offered, where its model may write a call instead of making it.

use std::sync::OnceLock;

use aishd_log::api_dialect::ApiDialect;
use bytes::Bytes;

/// Their names are read out of the request when an answer begins as a written call would, which few do.
#[derive(Clone, Debug)]
pub(super) struct OfferedTools {
    api: ApiDialect,
    body: Bytes,
    names: OnceLock<Vec<String>>,
}

impl OfferedTools {
    pub(super) fn of(api: ApiDialect, body: Bytes) -> Self {
        let names = OnceLock::new();
        Self { api, body, names }
    }

    pub(super) fn names(&self) -> &[String] {
        let read = || aishd_dialect::written_tools(self.api, &self.body);
        self.names.get_or_init(read)
    }
}
