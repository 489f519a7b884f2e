//! The difference that what was tried would make: shown at its question, or gone through hunk by hunk.

use aish_proto::changes::{ChangesDiffResult, ChangesParams, Diff};
use aish_proto::id::ConfirmId;

use super::ui::{PressedKey, UserInterface};
use super::{CompletedCall, OpenWindow};
use crate::client::connect::RpcCallError;
use crate::failure::Failure;
use crate::render::difference;
use crate::render::terminal_prompt::left_out;

/// What a difference was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum WantedDifference {
    ToSee(ChangesParams),
    /// To choose from it at this question.
    ToChoose(ConfirmId, ChangesParams),
}

impl<U: UserInterface> OpenWindow<U> {
    /// [`OpenWindow::diffed`] hears of it.
    pub(super) fn want_difference(&mut self, wanted: WantedDifference) {
        let (WantedDifference::ToSee(params) | WantedDifference::ToChoose(_, params)) = wanted;
        let caller = self.connection.caller();
        self.calls
            .spawn(async move { CompletedCall::Diff(wanted, caller.call::<Diff>(params).await) });
    }

    /// What a trial would change; the question stands below it again, or is asked hunk by hunk.
    pub(super) async fn diffed(
        &mut self,
        wanted: WantedDifference,
        result: Result<ChangesDiffResult, RpcCallError>,
    ) -> Result<(), Failure> {
        match (result, wanted) {
            (Ok(result), WantedDifference::ToSee(params)) => {
                let diff = difference::safe(&result.diff);
                let (begin, more) = difference::beginning(&diff);
                self.display.show_difference(begin).await?;
                if more > 0 {
                    self.print(&left_out(more, params)).await?;
                }
            }
            (Ok(result), WantedDifference::ToChoose(confirm, params)) => {
                let Some(question) = self.asked.find(confirm) else {
                    return Ok(());
                };
                let begun = question.begin_choice(params, &result);
                return self.react(confirm, begun).await;
            }
            (Err(error), _) => self.display.refuse(&error.into()).await?,
        }
        self.asked.stands_no_more();
        self.ask().await
    }

    /// A part of a difference, and what is asked about it: an answer is what is typed once it stands there.
    pub(super) async fn show_hunk(
        &mut self,
        confirm: ConfirmId,
        difference: &str,
        question: &str,
    ) -> Result<(), Failure> {
        if !difference.is_empty() {
            self.display.show_difference(difference).await?;
        }
        self.stand(confirm, question).await
    }

    /// A key at the question that is asked hunk by hunk. False: it is not.
    pub(super) async fn hunk_by_key(
        &mut self,
        confirm: ConfirmId,
        pressed: PressedKey,
    ) -> Result<bool, Failure> {
        let Some(question) = self.asked.find(confirm).filter(|it| it.is_choosing()) else {
            return Ok(false);
        };
        let word = match pressed {
            PressedKey::Yes => "y",
            PressedKey::No => "n",
            PressedKey::Enter => return Ok(true),
        };
        match question.choose(word) {
            Some(reaction) => self.react(confirm, reaction).await.map(|()| true),
            None => Ok(true),
        }
    }
}
