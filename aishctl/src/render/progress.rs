//! What a running call of a tool says of itself, as a line for people; few of them, however often it speaks.

use aish_proto::event::{ToolProgress, ToolResult};

/// Lines of one call.
const MOST: u32 = 12;

/// Why a call that ran, or should have, gave no result of its own: the line of aish's own words. What a server
/// says of a failure is its result.
pub fn trouble(result: &ToolResult) -> Option<&str> {
    let said = result.content.strip_prefix("[aish] ");
    said.filter(|_| !result.ok)?.lines().next()
}

/// Remembers what was shown of the call that spoke last.
#[derive(Debug, Default)]
pub struct ShownProgress {
    call: String,
    lines: u32,
    tenth: Option<u64>,
    message: Option<String>,
}

impl ShownProgress {
    /// The line, if this is worth one: each new tenth of the whole, or other words than before.
    pub fn line(&mut self, said: &ToolProgress) -> Option<String> {
        if self.call != said.call {
            *self = Self {
                call: said.call.clone(),
                ..Self::default()
            };
        }
        let tenth = match (said.progress, said.total) {
            (Some(progress), Some(total)) if total > 0.0 => Some(tenth(progress / total)),
            (Some(_) | None, Some(_) | None) => None,
        };
        let news = if tenth.is_some() {
            tenth != self.tenth
        } else {
            said.message != self.message
        };
        self.tenth = tenth;
        self.message.clone_from(&said.message);
        if !news || self.lines >= MOST {
            return None;
        }
        self.lines += 1;
        let how_far = match (said.progress, said.total) {
            (Some(progress), Some(total)) => format!(" {progress}/{total}"),
            (Some(progress), None) => format!(" {progress}"),
            (None, _) => String::new(),
        };
        let message = said.message.as_ref().map(|it| format!(" {it}"));
        let message = message.unwrap_or_default();
        Some(format!("{}:{how_far}{message}", said.name))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is clamped to what fits"
)]
fn tenth(part: f64) -> u64 {
    (part * 10.0).clamp(0.0, 10.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(call: &str, progress: Option<f64>, total: Option<f64>, message: &str) -> ToolProgress {
        ToolProgress {
            call: call.to_owned(),
            name: "a__b".to_owned(),
            progress,
            total,
            message: (!message.is_empty()).then(|| message.to_owned()),
            level: None,
            logger: None,
        }
    }

    #[test]
    fn however_often_a_call_speaks_it_has_few_lines() {
        let mut shown = ShownProgress::default();
        let lines = (0..=1000).filter_map(|it| {
            let progress = f64::from(it);
            shown.line(&said("1", Some(progress), Some(1000.0), "at it"))
        });
        let lines: Vec<_> = lines.collect();
        assert_eq!(11, lines.len());
        assert_eq!("a__b: 300/1000 at it", lines[3]);
        let talk = (0..100).filter_map(|it| shown.line(&said("2", None, None, &it.to_string())));
        assert_eq!(MOST as usize, talk.count());
        assert_eq!(None, shown.line(&said("3", Some(1.0), None, "")));
    }
}
