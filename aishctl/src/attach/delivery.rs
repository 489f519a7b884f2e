//! What was typed on its way to the daemon, and what is said of lines that do not get there.

use std::time::Duration;

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::turn::SendResult;

use super::switching::KeptQuestion;
use super::ui::UserInterface;
use super::{CompletedCall, OpenWindow, outbox};
use crate::client::connect::{CallFailure, RpcCallError};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// Before a daemon that was silent is asked the same again.
const PAUSE: Duration = Duration::from_secs(1);

impl<U: UserInterface> OpenWindow<U> {
    pub(super) fn send_next(&mut self) {
        if self.connection.is_lost() || self.switching {
            return;
        }
        let pause = self.outbox.is_late().then_some(PAUSE);
        if let Some(question) = self.outbox.next() {
            let (caller, conversation) = (self.connection.caller(), question.conversation);
            let model = self.window.global.model.clone();
            self.calls.spawn(async move {
                if let Some(pause) = pause {
                    tokio::time::sleep(pause).await;
                }
                CompletedCall::Sent(conversation, outbox::send(&caller, model, question).await)
            });
        }
    }

    /// A call of the outbox has come back.
    pub(super) async fn delivered(
        &mut self,
        conversation: ConversationId,
        sent: Result<SendResult, RpcCallError>,
    ) -> Result<(), Failure> {
        match sent {
            Err(error) if error.is_transient() => {
                self.outbox.lost();
                Ok(())
            }
            // Nobody knows whether it arrived. Under its key it can be sent again and is never two turns.
            Err(error) if error.kind == CallFailure::Deadline => {
                if self.outbox.late() {
                    self.display
                        .print_notice("not answered yet; the line is kept")
                        .await?;
                }
                Ok(())
            }
            Err(error) if error.kind == CallFailure::Refused(ErrorKind::Costly) => {
                self.outbox.set_costly_aside();
                self.exit = Exit::BUDGET;
                let told = format!("not sent: {}; :send sends it", error.message);
                self.display.print_notice(&told).await
            }
            Ok(sent) => {
                self.outbox.done();
                self.kept = None;
                self.sent(conversation, Ok(sent)).await
            }
            Err(error) => {
                let refused = self.outbox.done();
                self.sent(conversation, Err(error.into())).await?;
                match refused {
                    Some(refused) => self.keep(KeptQuestion::refused(refused)).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// A question of this conversation was taken. The end of its turn is seen, and waited for, only while the window
    /// is on that conversation.
    pub(super) async fn sent(
        &mut self,
        conversation: ConversationId,
        sent: Result<SendResult, Failure>,
    ) -> Result<(), Failure> {
        match sent {
            Ok(_) if conversation != self.conversation => Ok(()),
            Ok(sent) => {
                self.exit = self.turns.sent(&sent).unwrap_or(self.exit);
                Ok(())
            }
            Err(failure) => {
                self.exit = failure.exit;
                self.display.refuse(&failure).await
            }
        }
    }

    /// A person has left, and the daemon takes nothing now: he is not kept waiting for it.
    pub(super) fn gives_up(&self) -> bool {
        self.input_ended
            && self.has_editor()
            && (self.connection.is_lost() || self.outbox.is_late())
    }

    pub(super) async fn tell_unsent(&mut self) -> Result<(), Failure> {
        let held = self.held.iter().map(String::as_str);
        for text in self.outbox.unsent().chain(held) {
            self.display
                .print_notice(&format!("not sent: {text}"))
                .await?;
        }
        if self.connection.is_lost() {
            for command in self.own.waiting() {
                let command = safe::one_line(command);
                let text = format!("not known whether it will run, for it waited: !{command}");
                self.display.print_notice(&text).await?;
            }
        }
        Ok(())
    }

    /// Commands that waited when their daemon went; nothing else tells of them.
    pub(super) async fn tell_lost(&mut self) -> Result<(), Failure> {
        for command in self.own.take_lost() {
            let command = safe::one_line(&command);
            let text = format!("not run: aishd ended before it began: !{command}");
            self.display.print_notice(&text).await?;
        }
        Ok(())
    }
}
