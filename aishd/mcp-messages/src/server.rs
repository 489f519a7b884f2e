//! How the servers do, as one value that is replaced as a whole.

use std::sync::Arc;

use aishd_log::profile::ChosenProfile;
use aishd_log::time::Timestamp;
use aishd_log::tool_name::{Alias, ToolName};

use crate::chosen_tools::LeftOutTool;
use crate::revision::Revision;
use crate::tool::ServerTool;

/// All servers at one moment, by alias.
#[derive(Clone, Debug, Default)]
pub struct ServerSnapshot {
    /// Grows whenever a tool came, went or changed.
    pub toolset: u64,
    pub list: Vec<Arc<ServerEntry>>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct ServerEntry {
    pub alias: Alias,
    /// The URL or the command, without secrets.
    pub endpoint: String,
    pub kind: ServerKind,
    /// What the kernel holds it to.
    pub contain: ChosenProfile,
    /// What its definitions are bound to.
    pub identity: String,
    pub state: ServerPhase,
    pub since: Timestamp,
    /// Who it says it is.
    pub about: ServerIdentity,
    /// What can be offered: the listed tools, those of the last session while it connects, none after a failure.
    pub tools: Arc<[Arc<ServerTool>]>,
    /// What it has besides and the configuration leaves out, as far as it has listed it.
    pub left_out: Arc<[LeftOutTool]>,
    /// Tools that cannot be used or were repaired, and other oddities of this session.
    pub remarks: Arc<[String]>,
    /// How long the last handshake took.
    pub connect_ms: Option<u64>,
    /// The one that is spoken with it because somebody said so.
    pub revision: Option<Revision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    Http,
    Stdio,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerPhase {
    /// Not to be connected to, and why.
    Off(String),
    Connecting,
    Ready,
    /// Nothing goes on before a person signs in. It is not tried again by itself; its tools stay offered, so that a call
    /// says what is to be done.
    NeedsSignIn {
        why: String,
        hint: String,
    },
    /// It is tried again by itself, for HTTP also when it is needed.
    Failed {
        why: String,
        /// Why in detail, where a person can do something about it.
        hint: Option<String>,
    },
}

/// What a server told of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    pub name: String,
    pub version: String,
    /// The protocol revision in use; empty before the first session.
    pub protocol: String,
    pub instructions: Option<String>,
    pub offers: ServerOffers,
}

/// What a server announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the protocol's capabilities are independent switches"
)]
pub struct ServerOffers {
    pub tools: bool,
    pub tools_changes: bool,
    pub resources: bool,
    /// It tells when one changes that somebody asked it to tell of.
    pub resources_changes: bool,
    /// It tells when there are others.
    pub resources_list_changes: bool,
    pub prompts: bool,
    pub prompts_list_changes: bool,
    /// It says what arguments of prompts and variables of templates may become.
    pub completions: bool,
    /// Calls of tools can be asked to be tasks, as in 2025-11-25.
    pub tasks: bool,
    /// It takes a level for what it says in log messages.
    pub logging: bool,
}

/// The first revision had completions, and no word for announcing them.
const UNANNOUNCED: &str = "2024-11-05";
/// Completions of this revision and later ones are told what else is filled in.
const WITH_CONTEXT: &str = "2025-06-18";

impl ServerIdentity {
    /// Whether it may be asked what an argument could become.
    pub fn completes(&self) -> bool {
        let unannounced = self.protocol == UNANNOUNCED;
        self.offers.completions || (unannounced && (self.offers.prompts || self.offers.resources))
    }

    /// Whether it takes the other arguments along with that question.
    pub fn completes_in_context(&self) -> bool {
        self.protocol.as_str() >= WITH_CONTEXT
    }
}

impl ServerSnapshot {
    pub fn get(&self, alias: &Alias) -> Option<&Arc<ServerEntry>> {
        self.list.iter().find(|it| it.alias == *alias)
    }

    /// A tool that can be offered.
    pub fn tool(&self, name: &ToolName) -> Option<&Arc<ServerTool>> {
        self.get(name.alias())?
            .tools
            .iter()
            .find(|it| it.called == name.tool())
    }

    /// Why a tool is not there that its server has.
    pub fn left_out(&self, name: &ToolName) -> Option<&LeftOutTool> {
        let server = self.get(name.alias())?;
        server.left_out.iter().find(|it| it.called == name.tool())
    }

    /// Every tool that can be offered, with its whole name.
    pub fn tools(&self) -> impl Iterator<Item = (ToolName, &Arc<ServerTool>)> {
        self.list.iter().flat_map(|server| {
            server.tools.iter().filter_map(|tool| {
                let name = ToolName::new(server.alias.clone(), &tool.called).ok()?;
                Some((name, tool))
            })
        })
    }
}
