//! What stops something: Ctrl-C, and the signals of a terminal and of a system.

use aish_proto::turn::{Cancel, TurnParams};
use tokio::time::Instant;

use super::ui::{self, HalfTyped, UserInterface};
use super::{CompletedCall, OpenWindow};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::TerminalSignal;

impl<U: UserInterface> OpenWindow<U> {
    pub(super) fn cancel(&mut self) -> bool {
        let Some(turn) = self.turns.running else {
            return false;
        };
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            CompletedCall::Quiet(caller.call::<Cancel>(TurnParams { turn }).await.map(drop))
        });
        true
    }

    pub(super) async fn signal(&mut self, signal: TerminalSignal) -> Result<bool, Failure> {
        match signal {
            TerminalSignal::Terminate | TerminalSignal::Hangup => {
                self.exit = signal.exit();
                Ok(true)
            }
            TerminalSignal::Continued => {
                self.display.ui.resumed();
                self.catch_up();
                Ok(false)
            }
            // From outside, for the keys of a terminal with an editor are no signals: it is to end.
            TerminalSignal::Interrupt
                if self.has_editor() && !self.turns.is_at_work() && self.own.is_empty() =>
            {
                self.exit = signal.exit();
                Ok(true)
            }
            TerminalSignal::Interrupt if self.connection.is_lost() => {
                self.exit = signal.exit();
                Ok(true)
            }
            TerminalSignal::Interrupt => self.interrupt(HalfTyped::Nothing).await,
        }
    }

    /// Ctrl-C.
    pub(super) async fn interrupt(&mut self, typed: HalfTyped) -> Result<bool, Failure> {
        let now = Instant::now();
        if self
            .interrupted_at
            .is_some_and(|it| now.duration_since(it) < ui::LEAVE_WITHIN)
        {
            self.exit = Exit::INTERRUPTED;
            return Ok(true);
        }
        let drives = !self.window.args.read_only;
        if drives && (self.cancel_command() || self.cancel() || self.cancel_anybodys()) {
            self.interrupted_at = Some(now);
            self.display.ui.leaving_is_near();
        } else if typed == HalfTyped::Nothing {
            self.display
                .print_notice("Ctrl-D detaches; the conversation goes on")
                .await?;
        }
        Ok(false)
    }
}
