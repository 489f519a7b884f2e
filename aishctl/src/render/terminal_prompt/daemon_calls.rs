//! What the daemon is asked while a question stands: what other arguments are, what a command would change, and how.

use aish_proto::changes::{ChangesParams, Diff};
use aish_proto::confirm::{ConfirmSubject, Try, TryParams};

use super::{Prompter, edit, judge, left_out};
use crate::client::connect::Caller;
use crate::failure::Failure;
use crate::render::markdown::Colours;
use crate::render::{difference, question};

impl Prompter {
    /// Has the arguments edited, and the daemon say what they are: what is to be shown, and the question stands again.
    pub async fn edit(
        &mut self,
        caller: &Caller,
        words: Result<Vec<String>, Failure>,
        subject: Box<ConfirmSubject>,
    ) -> String {
        let Some(open) = &mut self.open else {
            return String::new();
        };
        let confirm = open.request.confirm;
        let judged = match edit(words, subject).await {
            Ok(arguments) => judge(caller, confirm, arguments).await,
            Err(failure) => Err(failure),
        };
        let text = open.edited(judged);
        if let Some(reader) = &self.reader {
            reader.want();
        }
        text
    }

    /// Has the command tried, and the question asks whether that is kept: what is to be shown.
    pub async fn try_first(&mut self, caller: &Caller, params: TryParams) -> String {
        let tried = caller.call_within::<Try>(params, None).await;
        let Some(open) = &mut self.open else {
            return String::new();
        };
        let text = match tried {
            Ok(result) => {
                let rows =
                    question::tried::rows(Some(open.request.number), &result.tried, Colours::None);
                open.tried(result.tried);
                rows.join("\n") + "\n"
            }
            Err(error) => {
                open.not_tried();
                format!("  {}\n", Failure::from(error).message)
            }
        };
        text + &self.ask_again()
    }

    /// The difference that the trial would make, safe, and the question once more.
    pub async fn diff(&mut self, caller: &Caller, params: ChangesParams) -> (String, String) {
        let (shown, more) = match caller.call::<Diff>(params).await {
            Ok(result) => {
                let diff = difference::safe(&result.diff);
                let (begin, more) = difference::beginning(&diff);
                (begin.to_owned(), left_out(more, params))
            }
            Err(error) => {
                let why = format!("  {}\n", Failure::from(error).message);
                (String::new(), why)
            }
        };
        (shown, more + &self.ask_again())
    }
}
