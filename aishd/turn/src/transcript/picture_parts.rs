//! Pictures in results of tools: their parts stand in the log before the result that they belong to.

use aish_proto::id::ResultId;
use aishd_log::block::{BlockForm, KeptBlock};
use aishd_log::picture::{NamedPicture, Picture};

/// What has been kept since the last result and begins as a picture does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PictureParts(Vec<(ResultId, String)>);

impl PictureParts {
    pub(super) fn push(&mut self, result: ResultId, text: &str) {
        match self.0.last_mut() {
            Some((last, whole)) if *last == result => whole.push_str(text),
            Some(_) | None if Picture::may_begin(text) => self.0.push((result, text.to_owned())),
            Some(_) | None => {}
        }
    }

    /// Those of a result with such blocks, and a new beginning. What is no picture that models take is none of them.
    pub(super) fn take(&mut self, blocks: &[KeptBlock]) -> Vec<NamedPicture> {
        let mut parts = std::mem::take(&mut self.0);
        let blocks = blocks.iter().filter(|it| it.form == BlockForm::Base64);
        let pictures = blocks.filter_map(|block| {
            let place = parts.iter().position(|(it, _)| *it == block.result)?;
            let picture = Picture::read(parts.swap_remove(place).1).ok()?;
            let name = block
                .uri
                .clone()
                .unwrap_or_else(|| block.result.to_string());
            Some(NamedPicture { name, picture })
        });
        pictures.collect()
    }
}
