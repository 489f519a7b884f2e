//! `:copy`: the last answer into the clipboard of the terminal that somebody sits at, by OSC 52, and inside of tmux by tmux.

use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::ui::UserInterface;
use super::{CompletedCall, OpenWindow};
use crate::commands::last_said;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::bell::BellSupport;
use crate::render::{extract, size};
use crate::safe;

/// Terminals take no more than about 100,000 characters of base64.
const MOST_BYTES: usize = 74_000;

/// A server of tmux that hangs is waited for so long; then the terminal is told itself.
const TMUX_PATIENCE: Duration = Duration::from_secs(2);

/// What of an answer is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedPart {
    Answer,
    /// Its last block of code.
    Code,
}

impl<U: UserInterface> OpenWindow<U> {
    pub(super) fn look_up_to_copy(&mut self, part: CopiedPart) {
        let (caller, conversation) = (self.connection.caller(), self.conversation);
        let in_tmux = self.window.reach.around.variable("TMUX").is_some();
        self.calls.spawn(async move {
            let text = async {
                let answer = last_said::answer(&caller, conversation).await?;
                let text = part_of(answer, part)?;
                let taken = in_tmux && tmux_takes(&text).await;
                Ok((text, taken))
            };
            CompletedCall::ToCopy(text.await)
        });
    }

    /// Hands the text to the terminal, unless tmux has it already.
    pub(super) async fn copy(
        &mut self,
        found: Result<(String, bool), Failure>,
    ) -> Result<(), Failure> {
        let (text, taken) = match found {
            Ok(found) => found,
            Err(failure) => return self.display.refuse(&failure).await,
        };
        let has_clipboard = self.window.look.rings == BellSupport::All;
        if !(taken || has_clipboard && self.display.ui.send(&osc_52(&text))) {
            let failure = Failure::new(Exit::FAILED, "this terminal has no clipboard")
                .hint("aishctl log -n 1 prints the last turn");
            return self.display.refuse(&failure).await;
        }
        let (bytes, lines) = (size::bytes(text.len() as u64), text.lines().count());
        let lines = if lines == 1 {
            "1 line".to_owned()
        } else {
            format!("{lines} lines")
        };
        self.display
            .print_notice(&format!("copied: {lines}, {bytes}"))
            .await
    }
}

/// What is copied holds nothing that steers a terminal, wherever it is pasted.
fn part_of(answer: Option<String>, part: CopiedPart) -> Result<String, Failure> {
    let answer = answer.ok_or_else(|| Failure::new(Exit::USAGE, "there is no answer here yet"))?;
    let text = match part {
        CopiedPart::Answer => Some(answer),
        CopiedPart::Code => extract::last_code(&answer),
    };
    let text = text.map(|it| safe::screen(&it)).unwrap_or_default();
    if text.trim().is_empty() {
        let message = "the last answer has no block of code";
        return Err(Failure::new(Exit::USAGE, message).hint(":copy takes all of it"));
    }
    if text.len() > MOST_BYTES {
        let bytes = size::bytes(text.len() as u64);
        let message = format!("{bytes} are more than a terminal takes into its clipboard");
        return Err(
            Failure::new(Exit::USAGE, message).hint("aishctl log -n 1 prints the last turn")
        );
    }
    Ok(text)
}

/// It stands in the way of its terminal, and asks nobody for what it is handed by its own command.
async fn tmux_takes(text: &str) -> bool {
    let handing_over = async {
        let mut tmux = Command::new("tmux")
            .args(["load-buffer", "-w", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = tmux.stdin.take() {
            stdin.write_all(text.as_bytes()).await?;
        }
        std::io::Result::Ok(tmux.wait().await?.success())
    };
    matches!(timeout(TMUX_PATIENCE, handing_over).await, Ok(Ok(true)))
}

fn osc_52(text: &str) -> String {
    format!("\u{1b}]52;c;{}\u{7}", BASE64_STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_steers_nothing() {
        let answer = "one\u{1b}[2J\n```\na\n```\n\n```sh\nb\u{202e}\nc\n```\nend";
        let of = |part| part_of(Some(answer.to_owned()), part);
        assert_eq!("b\nc\n", of(CopiedPart::Code).unwrap());
        assert!(of(CopiedPart::Answer).unwrap().starts_with("one[2J\n"));
        assert_eq!("\u{1b}]52;c;YgpjCg==\u{7}", osc_52("b\nc\n"));
        let none = part_of(Some("no code".to_owned()), CopiedPart::Code);
        assert_eq!(
            "the last answer has no block of code",
            none.unwrap_err().message
        );
        let much = part_of(Some("x".repeat(MOST_BYTES + 1)), CopiedPart::Answer);
        assert!(much.unwrap_err().message.starts_with("72.2 KiB are more"));
        assert!(part_of(None, CopiedPart::Answer).is_err());
    }
}
