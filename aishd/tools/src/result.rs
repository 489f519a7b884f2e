//! What a call gave, in the form in which the model is shown it and the log keeps it.

use aish_proto::id::ResultId;
use aishd_log::block::parts;
use aishd_log::resource::ResourceChange;
use aishd_log::shortened_result::{MAX_KEPT_BYTES, MAX_RESULT_BYTES, without_middle};
use aishd_log::structured::StructuredResult;
use aishd_log::todo::Todo;
use aishd_log::tool_name::ToolName;
use aishd_mcp::SignInWanted;
use aishd_mcp_messages::bounded_text::cut;
use aishd_mcp_messages::outcome::OutcomeAttachment;
use aishd_mcp_messages::schema::Schema;
use aishd_platform::clock;
use aishd_turn::turn::CallReturn;
use serde_json::Value;

use super::builtin::how_to_read_on;
use super::result_blocks;

/// What people are told of a failure on the way.
const MAX_NOTICE_CHARS: usize = 2000;

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    pub ok: bool,
    pub text: String,
    pub way: CallProgress,
    /// What else it holds, in the order of the text.
    pub attachments: Vec<OutcomeAttachment>,
    /// What it wants changed in the shared context. They are made all together with its result, or the reply says why
    /// not; where there is no text, it says what was changed.
    pub changes: Vec<ResourceChange>,
    /// The tasks of the conversation from now on, where it wrote them.
    pub todos: Option<Vec<Todo>>,
    /// Tools that it found, which are sent from now on.
    pub found: Vec<ToolName>,
    /// It did not run, because a person has to sign in to its server.
    pub sign_in: Option<SignInWanted>,
    /// What a person should know of it though it counts.
    pub warning: Option<String>,
    /// Its value, where it has one that fits its output schema.
    pub structured: Option<StructuredResult>,
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProgress {
    /// To its tool, and the text is what that said, be it of a failure.
    Answered,
    /// Not to its tool, or not back; the text is ours.
    Failed,
}

impl ToolOutput {
    /// A call that came to its tool and gave this.
    pub fn from_text(text: String) -> Self {
        Self {
            ok: true,
            text,
            way: CallProgress::Answered,
            attachments: vec![],
            changes: vec![],
            todos: None,
            found: vec![],
            sign_in: None,
            warning: None,
            structured: None,
        }
    }

    /// A call that changes the shared context, and says no more than what it changed.
    pub fn changing(change: ResourceChange) -> Self {
        Self {
            changes: vec![change],
            ..Self::from_text(String::new())
        }
    }

    /// Nothing is wrong but the question.
    pub fn refused(why: String) -> Self {
        Self {
            ok: false,
            ..Self::from_text(why)
        }
    }

    /// A call that failed on the way.
    pub fn failed(text: String) -> Self {
        Self {
            ok: false,
            way: CallProgress::Failed,
            ..Self::from_text(text)
        }
    }
}

/// The output as the turn takes it: what is longer than `max_chars` is cut in the middle, and kept whole beside it, as
/// is what is no text.
pub fn returned(output: ToolOutput, ms: u64, max_chars: usize) -> CallReturn {
    let ToolOutput {
        ok,
        text,
        way,
        attachments,
        changes,
        todos,
        found,
        sign_in: _,
        warning,
        structured,
    } = output;
    let notice = match way {
        CallProgress::Answered => warning,
        CallProgress::Failed => Some(cut(&text, MAX_NOTICE_CHARS)),
    };
    let (mut text, blocks) = result_blocks::keep(&text, attachments);
    let result = ResultId(clock::ulid());
    let lost = text.len().saturating_sub(MAX_KEPT_BYTES);
    if lost > 0 {
        text.truncate(text.floor_char_boundary(MAX_KEPT_BYTES));
    }
    let shortened = without_middle(&text, max_chars, MAX_RESULT_BYTES, |left_out| {
        let more = if lost > 0 {
            format!("; {lost} bytes beyond that were not kept")
        } else {
            String::new()
        };
        format!(
            "[aish] {} of {} bytes are left out here{more}; to read on: {}",
            left_out.to - left_out.from,
            left_out.whole,
            how_to_read_on(result, left_out.from)
        )
    });
    let Some(content) = shortened else {
        return CallReturn {
            ok,
            content: text,
            ms,
            notice,
            blocks,
            changes,
            todos,
            found,
            structured,
            ..CallReturn::default()
        };
    };
    CallReturn {
        ok,
        content,
        ms,
        notice,
        blocks,
        kept: Some((result, parts(&text))),
        changes,
        todos,
        found,
        structured,
        ..CallReturn::default()
    }
}

/// The output with its value, for those who read values, and what the output schema of its tool says of that: a value
/// that does not fit is a warning and no value. A schema that cannot be used forbids nothing.
pub(super) fn judged(
    tool: &str,
    schema: Option<&Value>,
    value: Option<Value>,
    output: ToolOutput,
) -> ToolOutput {
    // Servers that promise a value and give only its JSON as text.
    let spelled = || schema.and_then(|_| serde_json::from_str(&output.text).ok());
    let is_said = value.is_some();
    let Some(value) = value.or_else(spelled) else {
        return output;
    };
    let usable = schema.and_then(|it| Schema::new(it).ok());
    match usable.and_then(|it| it.misfit(&value)) {
        Some(why) if is_said => ToolOutput {
            warning: Some(format!(
                "[aish] the result of {tool} does not fit its output schema: {why}"
            )),
            ..output
        },
        Some(_) => output,
        None if output.ok => ToolOutput {
            structured: StructuredResult::of(&value, &output.text),
            ..output
        },
        None => output,
    }
}

#[cfg(test)]
mod tests {
    use aishd_log::shortened_result::MAX_RESULT_CHARS;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_short_result_is_shown_as_it_is() {
        let text = "é".repeat(MAX_RESULT_CHARS);
        let returned = returned(ToolOutput::from_text(text.clone()), 5, MAX_RESULT_CHARS);
        assert_eq!(
            (text, 5, None),
            (returned.content, returned.ms, returned.kept)
        );
    }

    #[test]
    fn a_long_one_is_cut_in_the_middle_and_kept_whole() {
        let text: String = (0..100_000).map(|it| format!("line {it}\n")).collect();
        let ok = false;
        let returned = returned(
            ToolOutput {
                ok,
                ..ToolOutput::from_text(text.clone())
            },
            5,
            MAX_RESULT_CHARS,
        );
        let (result, parts) = returned.kept.unwrap();
        assert_eq!(text, parts.concat());
        assert!(parts.iter().all(|it| it.len() <= 256 << 10) && parts.len() > 3);
        let mark = returned.content.lines().find(|it| it.starts_with("[aish]"));
        let mark = mark.unwrap();
        assert!(mark.contains(&result.to_string()) && mark.contains("aish__read_result"));
        assert!(
            returned.content.starts_with("line 0\n") && returned.content.ends_with("line 99999\n")
        );
        assert!(returned.content.chars().count() < MAX_RESULT_CHARS + 300);
        assert!(!returned.ok);
    }

    #[track_caller]
    fn check_judged(schema: Option<&Value>, value: Option<Value>, text: &str, expected: &str) {
        let output = judged(
            "t__t",
            schema,
            value,
            ToolOutput::from_text(text.to_owned()),
        );
        let seen = match (output.warning, output.structured) {
            (Some(warning), None) => warning,
            (None, Some(structured)) => format!("{structured:?}"),
            (None, None) => "nothing".to_owned(),
            (Some(_), Some(_)) => panic!("a value that does not fit is none"),
        };
        assert_eq!(expected, seen);
    }

    #[test]
    fn a_value_is_told_where_there_is_one_that_fits() {
        let schema = json!({"type": "object", "required": ["n"]});
        let (right, wrong) = (json!({"n": 1}), json!({"m": 1}));
        let unfit = "[aish] the result of t__t does not fit its output schema: /: \"n\" is a required property";
        check_judged(None, None, "{}", "nothing");
        check_judged(None, Some(wrong.clone()), "{\"m\": 1}", "Text");
        check_judged(Some(&schema), Some(wrong), "x", unfit);
        check_judged(Some(&schema), None, "{\"n\": 1}", "Text");
        check_judged(Some(&schema), None, "{\"m\": 1}", "nothing");
        check_judged(Some(&schema), None, "n is 1", "nothing");
        let beside = format!("{:?}", StructuredResult::Value(right.clone()));
        check_judged(Some(&schema), Some(right.clone()), "n is 1", &beside);
        // One that nobody can use forbids nothing.
        check_judged(
            Some(&json!({"$ref": "#"})),
            Some(right),
            "{\"n\":1}",
            "Text",
        );
    }

    #[test]
    fn a_notice_has_an_end() {
        let long = returned(ToolOutput::failed("x".repeat(9000)), 0, MAX_RESULT_CHARS);
        let notice = long.notice.unwrap();
        assert_eq!(
            (2001, true),
            (notice.chars().count(), notice.ends_with('…'))
        );
    }

    #[test]
    fn what_is_beyond_all_measure_is_lost_and_said_to_be() {
        let text = "x".repeat(MAX_KEPT_BYTES + 7);
        let returned = returned(ToolOutput::from_text(text), 0, MAX_RESULT_CHARS);
        assert!(
            returned
                .content
                .contains("7 bytes beyond that were not kept")
        );
        let bytes: usize = returned.kept.unwrap().1.iter().map(String::len).sum();
        assert_eq!(MAX_KEPT_BYTES, bytes);
    }
}
