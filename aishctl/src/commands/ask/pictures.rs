//! Pictures that a turn's tools have given, below its answer.

use std::pin::Pin;

use crate::client::connect::Caller;
use crate::commands::result_picture::ResultPicture;
use crate::picture::area::PictureArea;
use crate::picture::asking;
use crate::picture::protocol::{PictureSupport, PictureTerminal};

/// Of more the newest are shown.
const MOST: usize = 8;

/// What is to be drawn, and where it is read.
pub(crate) struct TurnPictures {
    pub(super) caller: Caller,
    pub(super) support: PictureSupport,
    /// Oldest first.
    pub(super) pictures: Vec<ResultPicture>,
}

/// Draws them: a row for each, and the picture below it. A pointer, so that a program that never does need not hold what can.
pub(crate) type PictureDrawer = fn(TurnPictures) -> Pin<Box<dyn Future<Output = Vec<DrawnRow>>>>;

/// A picture with the row that names it.
pub(crate) struct DrawnRow {
    pub(super) name: String,
    /// Every byte of it is ours.
    pub(super) drawing: String,
}

pub(crate) fn drawer(wanted: TurnPictures) -> Pin<Box<dyn Future<Output = Vec<DrawnRow>>>> {
    Box::pin(drawn(wanted))
}

async fn drawn(wanted: TurnPictures) -> Vec<DrawnRow> {
    let Some(terminal) = terminal(wanted.support).await else {
        return vec![];
    };
    let area = PictureArea::among_rows(rustix::stdio::stdout(), terminal.cell);
    let newest = wanted.pictures.len().saturating_sub(MOST);
    let mut rows = vec![];
    for picture in wanted.pictures.iter().skip(newest) {
        if let Some(drawn) = picture.drawn(&wanted.caller, terminal, area).await {
            rows.push(DrawnRow {
                name: picture.name("aishctl result"),
                drawing: drawn.text,
            });
        }
    }
    rows
}

/// Asks the terminal where only it can say.
async fn terminal(support: PictureSupport) -> Option<PictureTerminal> {
    match support {
        PictureSupport::None => None,
        PictureSupport::Known(terminal) => Some(terminal),
        PictureSupport::ToBeAsked => {
            let asked = tokio::task::spawn_blocking(asking::sixels).await;
            asked.ok().flatten().map(Into::into)
        }
    }
}
