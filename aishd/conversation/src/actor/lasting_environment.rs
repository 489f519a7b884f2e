//! What commands of this conversation have exported, and its later ones begin with.

use std::sync::Arc;

use aish_proto::id::ChangesId;
use aishd_log::command_result::CommandResult;
use aishd_log::lasting_environment::EnvironmentChange;
use aishd_rules::command_setting::CommandSetting;
use aishd_tools::shell;

use crate::actor::Conversation;

const TOO_MUCH: &str = "[aish] its variables are more than is kept (64 KiB, 256 variables): later commands begin without what it exported";
const NOT_WRITTEN: &str =
    "[aish] what it exported cannot be written down, and is gone when the daemon is started again";

/// What a command that was tried would leave, if all that it changed is kept.
#[derive(Clone, Debug)]
pub(crate) struct TriedExports {
    pub(crate) changes: ChangesId,
    pub(crate) exported: Box<EnvironmentChange>,
}

impl Conversation {
    /// What commands of the running turn run with: the conversation's directory, what its asker's client gave, and what was
    /// exported before.
    pub(crate) fn setting_of_turn(&self) -> Arc<CommandSetting> {
        let base = self.services.tools.base();
        let setting = CommandSetting::new(
            self.given_to_turn(),
            base,
            &self.state.cwd,
            shell::is_program,
        );
        Arc::new(setting.after(&self.lasting))
    }

    /// Takes what a command exported, and says in its output where it cannot last.
    pub(crate) async fn take_exported(&mut self, ended: &mut CommandResult) {
        let Some(exported) = ended.exported.take() else {
            return;
        };
        let Some(next) = self.lasting.followed_by(*exported) else {
            return ended.remark(TOO_MUCH);
        };
        if next == self.lasting {
            return;
        }
        let (folder, id, written) = (self.services.environments.clone(), self.id, next.clone());
        let written = tokio::task::spawn_blocking(move || folder.write(id, &written)).await;
        if let Err(error) = written.unwrap_or_else(|panic| Err(std::io::Error::other(panic))) {
            tracing::warn!(conversation = %self.id, %error, "exported variables cannot be written down");
            ended.remark(NOT_WRITTEN);
        }
        self.lasting = next;
    }

    pub(crate) async fn load_environment(&mut self) {
        let (folder, id) = (self.services.environments.clone(), self.id);
        let read = tokio::task::spawn_blocking(move || folder.read(id)).await;
        self.lasting = read.unwrap_or_default();
    }

    pub(crate) fn forget_environment(&self) {
        let (folder, id) = (self.services.environments.clone(), self.id);
        // At the next start it would be done too.
        let _goes_on = tokio::task::spawn_blocking(move || folder.forget(id));
    }
}
