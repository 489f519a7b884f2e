//! Which pictures a request shows: those that its model takes, and of very many the newest.

use aishd_dialect::prompt::PromptPicture;
use aishd_log::picture::NamedPicture;
use aishd_model::preset::Preset;
use aishd_model::unshown_picture::UnshownPicture;

use crate::transcript::{Transcript, TranscriptMessage};

/// Services refuse more, or take only small ones then.
const MOST: usize = 20;
/// Of all in base64. A whole request has 32 MB at most.
const MOST_BYTES: usize = 20 << 20;
/// So many are left out at once: what stands before the question stays byte for byte what it was in between.
const STEP: usize = 5;

/// A walk over the pictures of a transcript, in their order.
pub(super) struct ShownPictures<'a> {
    preset: &'a Preset,
    /// Of those that the model takes, the oldest so many are not shown.
    too_many: usize,
    /// By how much what is shown is longer than it weighs.
    excess: usize,
}

impl<'a> ShownPictures<'a> {
    pub(super) fn new(preset: &'a Preset, transcript: &Transcript) -> Self {
        let pictures = transcript.messages().flat_map(TranscriptMessage::pictures);
        let taken = pictures.filter(|it| preset.unshown(&it.picture).is_none());
        let sizes: Vec<usize> = taken.map(|it| it.picture.data.len()).collect();
        let fits = |rest: &[usize]| rest.len() <= MOST && rest.iter().sum::<usize>() <= MOST_BYTES;
        let mut too_many = 0;
        while sizes.get(too_many..).is_some_and(|it| !fits(it)) {
            too_many += STEP;
        }
        Self {
            preset,
            too_many,
            excess: 0,
        }
    }

    /// Those of the next message that are shown, and a line for each of the others.
    pub(super) fn next(&mut self, of_message: &'a [NamedPicture]) -> ShownOfMessage<'a> {
        let mut next = ShownOfMessage::default();
        for named in of_message {
            let picture = &named.picture;
            let kinds = picture.kind.plural();
            if let Some(why) = self.preset.unshown(picture) {
                let why = match why {
                    UnshownPicture::Kind => format!("this model takes no {kinds}"),
                    UnshownPicture::TooManyPixels { most } => {
                        format!("its server takes at most {most} pixels a side")
                    }
                    UnshownPicture::Refused => "the server of this model refused it".to_owned(),
                };
                let line = format!("[aish] {} is not shown: {why}", named.line());
                next.lines.push(line);
            } else if self.too_many > 0 {
                self.too_many -= 1;
                let line = format!(
                    "[aish] {} is not shown any more: there are newer {kinds}, and no room for all",
                    named.line()
                );
                next.lines.push(line);
            } else {
                let weight = usize::try_from(picture.weight()).unwrap_or(usize::MAX);
                self.excess += picture.data.len().saturating_sub(weight);
                next.shown.push(PromptPicture {
                    name: &named.name,
                    picture,
                });
            }
        }
        next
    }

    /// What the text of a request weighs, where a picture weighs what a model reads of it.
    pub(super) fn weight(&self, text: &str) -> usize {
        text.len().saturating_sub(self.excess)
    }
}

/// Pictures of answers, on their way to the next message of a person: a model is shown there what it drew.
#[derive(Default)]
pub(super) struct MadePictures<'a>(ShownOfMessage<'a>);

impl<'a> MadePictures<'a> {
    pub(super) fn note(&mut self, of_answer: ShownOfMessage<'a>) {
        self.0.shown.extend(of_answer.shown);
        self.0.lines.extend(of_answer.lines);
    }

    /// In front of what the message has itself.
    pub(super) fn before(&mut self, of_message: ShownOfMessage<'a>) -> ShownOfMessage<'a> {
        self.note(of_message);
        std::mem::take(&mut self.0)
    }
}

/// What becomes of the pictures of one message.
#[derive(Default)]
pub(super) struct ShownOfMessage<'a> {
    pub(super) shown: Vec<PromptPicture<'a>>,
    /// For the model.
    pub(super) lines: Vec<String>,
}
