//! Pictures of tools' results among the rows of a window. A result names its pictures at once; they are fetched and drawn
//! beside everything else, and shown where nothing is half printed. What a terminal cannot draw stays a name.

use std::collections::VecDeque;

use aish_proto::event::{ClientEvent, Event};

use super::ui::{PromptState, UserInterface};
use super::{CompletedCall, OpenWindow};
use crate::commands::result_picture::{self, ResultPicture};
use crate::failure::Failure;
use crate::picture::answers::{ASKS, Asking, QueryProgress, TerminalAnswer};
use crate::picture::area::PictureArea;
use crate::picture::drawing::DrawnPicture;
use crate::picture::protocol::{PictureSupport, PictureTerminal};
use crate::render::half_printed::HalfPrinted;
use crate::render::rows::SafeRow;

/// Pictures that wait; of more the newest are shown.
const WAITING: usize = 8;

/// What came of drawing one.
#[derive(Debug)]
pub(super) struct FinishedDrawing {
    of: ResultPicture,
    /// `None`: it cannot be drawn, and stays a name.
    drawn: Option<DrawnPicture>,
}

#[derive(Debug, Default)]
enum DrawingStage {
    #[default]
    Idle,
    Drawing,
    /// It waits for a place among the rows.
    Drawn(ResultPicture, DrawnPicture),
}

#[derive(Debug, Default)]
pub(super) struct WindowPictures {
    support: PictureSupport,
    /// While the terminal is asked.
    asking: Option<Asking>,
    half: HalfPrinted,
    wanted: VecDeque<ResultPicture>,
    stage: DrawingStage,
}

impl WindowPictures {
    pub(super) fn drawn(&mut self, finished: FinishedDrawing) {
        self.stage = match finished.drawn {
            Some(drawn) => DrawingStage::Drawn(finished.of, drawn),
            None => DrawingStage::Idle,
        };
    }

    /// For a command: nobody is asked in between.
    pub(super) fn support(&self) -> PictureSupport {
        match self.support {
            PictureSupport::Known(terminal) => PictureSupport::Known(terminal),
            PictureSupport::None | PictureSupport::ToBeAsked => PictureSupport::None,
        }
    }

    fn want(&mut self, picture: ResultPicture) {
        if self.wanted.len() == WAITING {
            self.wanted.pop_front();
        }
        self.wanted.push_back(picture);
    }
}

impl<U: UserInterface> OpenWindow<U> {
    /// What the terminal takes, as far as nobody has to be asked.
    pub(super) fn find_picture_support(&mut self) {
        let draws = self.has_editor() && self.connection.link.hello.ui.pictures;
        if draws {
            let looks = self.window.global.looks;
            self.pictures.support = PictureSupport::of(looks, &self.window.reach.around);
        }
    }

    /// The room among the rows, once it is known how pictures are drawn.
    pub(super) fn picture_area(&self) -> Option<PictureArea> {
        match self.pictures.support {
            PictureSupport::Known(terminal) => self.display.ui.picture_area(terminal.cell),
            PictureSupport::None | PictureSupport::ToBeAsked => None,
        }
    }

    /// Notes the pictures of a result that comes now. Those of the past stay names.
    pub(super) fn want_pictures(&mut self, event: &ClientEvent) {
        self.pictures.half.take(event);
        let (tool, blocks) = match &event.data {
            Event::ToolResult(result) => (&*result.name, &result.blocks),
            Event::AnswerPictures(made) => (result_picture::MODEL, &made.blocks),
            _ => return,
        };
        if self.pictures.support == PictureSupport::None || !self.connection.is_settled() {
            return;
        }
        for picture in ResultPicture::of(self.conversation, tool, blocks) {
            self.pictures.want(picture);
        }
    }

    /// One picture after the other: has it drawn, and shows it where it can stand.
    pub(super) async fn go_on_with_pictures(&mut self) -> Result<(), Failure> {
        let here = self.conversation;
        self.pictures.wanted.retain(|it| it.conversation == here);
        self.show_picture().await?;
        let is_idle = matches!(self.pictures.stage, DrawingStage::Idle);
        if self.pictures.wanted.is_empty() || !is_idle {
            return Ok(());
        }
        match self.pictures.support {
            PictureSupport::None => self.pictures.wanted.clear(),
            PictureSupport::ToBeAsked if self.pictures.asking.is_none() => {
                self.pictures.asking = Some(Asking::default());
                self.display.ui.ask_terminal(ASKS);
            }
            PictureSupport::ToBeAsked => {}
            PictureSupport::Known(terminal) => self.begin_drawing(terminal),
        }
        Ok(())
    }

    fn begin_drawing(&mut self, terminal: PictureTerminal) {
        let area = self.display.ui.picture_area(terminal.cell);
        let (Some(area), Some(wanted)) = (area, self.pictures.wanted.pop_front()) else {
            return;
        };
        self.pictures.stage = DrawingStage::Drawing;
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            let drawn = wanted.drawn(&caller, terminal, area).await;
            CompletedCall::Pictured(Box::new(FinishedDrawing { of: wanted, drawn }))
        });
    }

    /// Its name, and below it the picture, unless something is half printed or asked.
    async fn show_picture(&mut self) -> Result<(), Failure> {
        let is_asked = self.turns.state() == PromptState::Waiting;
        let stands_alone = self.pictures.half.is_whole() && !is_asked;
        if !stands_alone || !self.connection.is_settled() || !self.display.ui.has_room() {
            return Ok(());
        }
        let stage = std::mem::take(&mut self.pictures.stage);
        let DrawingStage::Drawn(picture, drawn) = stage else {
            self.pictures.stage = stage;
            return Ok(());
        };
        if picture.conversation != self.conversation {
            return Ok(());
        }
        let area = self.picture_area();
        if area.is_none_or(|it| it.columns < drawn.columns || it.rows < drawn.rows) {
            // The terminal is smaller than it was.
            self.pictures.wanted.push_front(picture);
            return Ok(());
        }
        let name = picture.name(":result");
        self.display.show(vec![SafeRow::Aside(name)]).await?;
        self.display.ui.show(drawn.text).await
    }

    /// What the terminal has answered.
    pub(super) fn terminal_said(&mut self, answer: &TerminalAnswer) {
        let Some(asking) = &mut self.pictures.asking else {
            return;
        };
        match asking.take(answer) {
            QueryProgress::Waits => {}
            QueryProgress::Asks(more) => self.display.ui.ask_terminal(more),
            QueryProgress::Over(found) => {
                self.pictures.asking = None;
                let known = |it| PictureSupport::Known(PictureTerminal::from(it));
                self.pictures.support = found.map_or(PictureSupport::None, known);
            }
        }
    }
}
