//! A question whose difference somebody goes through hunk by hunk.

use aish_proto::changes::{ChangesDiffResult, ChangesParams, Diff};
use aish_proto::confirm::{AnswerParams, Decision};

use super::{PromptQuestion, PromptReaction, Prompter};
use crate::client::connect::Caller;
use crate::failure::Failure;
use crate::render::question::hunks::{HunkChoice, HunkConsent, HunkStep};
use crate::render::question::wants_whole_word;

impl Prompter {
    /// Has somebody go through the difference of the question that stands: what is to be shown, and asked below it.
    pub async fn begin_choice(
        &mut self,
        caller: &Caller,
        params: ChangesParams,
    ) -> (String, String) {
        let result = caller.call::<Diff>(params).await;
        let Some(open) = &mut self.open else {
            return (String::new(), String::new());
        };
        let reaction = match result {
            Ok(difference) => open.begin_choice(params, &difference),
            Err(error) => {
                let why = Failure::from(error).message;
                PromptReaction::Say(format!("  {why}\n{}", open.show()))
            }
        };
        if let Some(reader) = &self.reader {
            reader.want();
        }
        match reaction {
            PromptReaction::Hunk(difference, question) => (difference, question),
            PromptReaction::Say(text) => (String::new(), text),
            _ => (String::new(), String::new()),
        }
    }
}

impl PromptQuestion {
    /// Begins with what the daemon has of this trial.
    pub fn begin_choice(
        &mut self,
        params: ChangesParams,
        difference: &ChangesDiffResult,
    ) -> PromptReaction {
        let tried = self.tried.as_ref().filter(|_| self.edited.is_none());
        if tried.is_none_or(|it| it.changes != params.changes) {
            let text = "  it was tried again meanwhile; look at that\n".to_owned();
            return PromptReaction::Say(text + &self.show());
        }
        let consent = if wants_whole_word(&self.request) {
            HunkConsent::Word
        } else {
            HunkConsent::Letter
        };
        match HunkChoice::of(difference, consent) {
            Ok(choice) => {
                let begin = choice.begin();
                self.choosing = Some(choice);
                self.chose(begin)
            }
            Err(why) => PromptReaction::Say(format!("  {why}\n{}", self.show())),
        }
    }

    /// Whether it is asked hunk by hunk now.
    pub fn is_choosing(&self) -> bool {
        self.choosing.is_some()
    }

    /// What a line comes to while hunks are chosen. `None`: nobody chooses, or it is no answer to a hunk.
    pub fn choose(&mut self, line: &str) -> Option<PromptReaction> {
        let step = self.choosing.as_mut()?.line(line)?;
        Some(self.chose(step))
    }

    /// The same, where every line is about a hunk.
    pub(super) fn choose_only(&mut self, line: &str) -> Option<PromptReaction> {
        let unclear = self.choosing.as_ref()?.unclear();
        self.choose(line).or(Some(PromptReaction::Say(unclear)))
    }

    fn chose(&mut self, step: HunkStep) -> PromptReaction {
        let (decision, hunks, reason) = match step {
            HunkStep::Show(difference, question) => {
                return PromptReaction::Hunk(difference, question);
            }
            HunkStep::Say(text) => return PromptReaction::Say(text),
            // It stands anew, and what was typed before is no answer to it.
            HunkStep::Left => return PromptReaction::Hunk(String::new(), self.show()),
            HunkStep::Chosen(chosen, reason) => (Decision::Keep, Some(chosen), reason),
            HunkStep::NoneChosen(reason) => (Decision::Deny, None, reason),
        };
        self.choosing = None;
        PromptReaction::Answer(Box::new(AnswerParams {
            hunks,
            reason,
            ..self.answer(decision, None)
        }))
    }

    /// The difference that is to be gone through.
    pub(super) fn wants_choice(&self, again: &str) -> PromptReaction {
        match (&self.tried, &self.edited) {
            (Some(tried), None) => PromptReaction::Choose(ChangesParams {
                changes: tried.changes,
            }),
            _ => PromptReaction::Say(format!(
                "  nothing was tried that could be chosen from\n{again}"
            )),
        }
    }
}
