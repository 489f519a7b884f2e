//! What commands of this conversation, those of people among them, leave to its later ones: what they have exported, and where they ended.

use std::sync::Arc;

use aish_proto::id::ChangesId;
use aishd_log::command_result::{CommandResult, LeftByShell};
use aishd_log::environment::ClientVariables;
use aishd_log::lasting_environment::EnvironmentChange;
use aishd_log::shown_name::shown_path;
use aishd_rules::command_setting::CommandSetting;
use aishd_tools::{entered_directory, shell};

use crate::actor::Conversation;

const TOO_MUCH: &str = "[aish] its variables are more than is kept (64 KiB, 256 variables): later commands begin without what it exported";
const NOT_WRITTEN: &str =
    "[aish] what it exported cannot be written down, and is gone when the daemon is started again";

/// What a command that was tried would leave, if all that it changed is kept.
#[derive(Clone, Debug)]
pub(crate) struct LeftByTrial {
    pub(crate) changes: ChangesId,
    pub(crate) left: Box<LeftByShell>,
}

impl Conversation {
    /// What commands of the running turn run with: the conversation's directory, what its asker's client gave, and what was
    /// exported before.
    pub(crate) fn setting_of_turn(&self) -> Arc<CommandSetting> {
        self.lasting_setting(self.given_to_turn(), &self.state.cwd)
    }

    /// The same for what this client gave, in this directory.
    pub(crate) fn lasting_setting(&self, given: ClientVariables, cwd: &str) -> Arc<CommandSetting> {
        let base = self.services.tools.base();
        let setting = CommandSetting::new(given, base, cwd, shell::is_program);
        Arc::new(setting.after(&self.lasting))
    }

    /// Takes what a command left, and says in its output where later ones run, and what cannot last.
    pub(crate) async fn take_left(&mut self, ended: &mut CommandResult) {
        let Some(left) = ended.left.take() else {
            return;
        };
        if let Some(directory) = left.directory {
            let went = entered_directory::ended_in(&ended.ran_in, &directory, left.hidden).await;
            self.note_moved(ended, &directory, went);
        }
        if !left.exported.is_empty() {
            self.take_exported(left.exported, ended).await;
        }
    }

    fn note_moved(
        &self,
        ended: &mut CommandResult,
        directory: &str,
        went: Result<Option<String>, String>,
    ) {
        let cwd = &self.state.cwd;
        let shown = shown_path(directory);
        match went {
            Ok(target) => {
                // A person's may have begun elsewhere, and ended in the conversation's directory.
                if let Some(target) = target.filter(|it| it != cwd) {
                    ended.remark(&format!("[aish] commands run in {shown} from now on"));
                    ended.moved = Some((cwd.clone(), target));
                }
            }
            Err(why) => ended.remark(&format!(
                "[aish] its shell ended in {shown}, where nothing can go on ({why}): commands run in {} as before",
                shown_path(cwd)
            )),
        }
    }

    async fn take_exported(&mut self, exported: EnvironmentChange, ended: &mut CommandResult) {
        let Some(next) = self.lasting.followed_by(exported) else {
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
