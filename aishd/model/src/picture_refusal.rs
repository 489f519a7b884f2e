//! A server that refuses a request for its pictures: by which words it is known, and the same request without them.

use serde_json::{Map, Value, json};

/// What is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PictureRefusal {
    /// Any picture: the model takes none.
    All,
    /// One that is in the request.
    This,
}

/// The words of real servers, in lower case.
const ALL: [&str; 20] = [
    "image_url is only supported",
    "unknown variant `image",
    "unknown variant `file",
    "image input is not supported",
    "image inputs are not supported",
    "support image input",
    "not support image",
    "n't support image",
    "not support vision",
    "vision is not supported",
    "images are not supported",
    "image content is not supported",
    "not a multimodal model",
    "not support multimodal",
    "at most 0 image",
    "not support pdf",
    "not support file",
    "not support document",
    "file input is not supported",
    "content must be a string",
];

const THIS: [&str; 14] = [
    "could not process image",
    "unable to process input image",
    "failed to decode image",
    "failed to load image",
    "invalid image",
    "invalid_image",
    "invalid base64 image",
    "image_parse_error",
    "image exceeds",
    "image dimensions exceed",
    "unsupported image",
    "image is too large",
    "could not process pdf",
    "pdf specified was not valid",
];

/// What stands where a picture was.
const INSTEAD: &str = "[aish] what was here is not shown: the server of this model refused it";

/// What of its pictures a server refuses with such words; `None`: it is about something else.
pub(crate) fn refused(message: &str) -> Option<PictureRefusal> {
    let text = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|it| text.contains(it));
    if says(&ALL) {
        Some(PictureRefusal::All)
    } else if says(&THIS) {
        Some(PictureRefusal::This)
    } else {
        None
    }
}

/// Puts a line in the place of each picture, in whatever dialect it is, and says whether there were any.
pub(crate) fn take_out(body: &mut Map<String, Value>) -> bool {
    let mut any = false;
    for list in ["messages", "input"] {
        let messages = body.get_mut(list).and_then(Value::as_array_mut);
        for message in messages.into_iter().flatten() {
            let parts = ["content", "output"].into_iter();
            parts.for_each(|name| any |= message.get_mut(name).is_some_and(without));
        }
    }
    any
}

fn without(content: &mut Value) -> bool {
    let Some(parts) = content.as_array_mut() else {
        return false;
    };
    let mut is_chat = false;
    let mut any = false;
    for part in parts.iter_mut() {
        let kind = part["type"].as_str().unwrap_or_default();
        let instead = match kind {
            "image_url" | "file" => {
                is_chat = true;
                "text"
            }
            "image" | "document" => "text",
            "input_image" | "input_file" => "input_text",
            "tool_result" => {
                any |= part.get_mut("content").is_some_and(without);
                continue;
            }
            _ => continue,
        };
        let mark = part.get_mut("cache_control").map(Value::take);
        *part = json!({"type": instead, "text": INSTEAD});
        if let Some(mark) = mark {
            part["cache_control"] = mark;
        }
        any = true;
    }
    // Servers that know no pictures often know no parts either.
    if is_chat {
        let texts: Vec<&str> = parts.iter().filter_map(|it| it["text"].as_str()).collect();
        *content = Value::from(texts.join("\n"));
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<PictureRefusal>) {
        assert_eq!(expected, refused(message), "{message}");
    }

    #[test]
    fn a_refusal_of_pictures_is_told_from_one_of_a_picture() {
        check(
            "Invalid content type. image_url is only supported by certain models.",
            Some(PictureRefusal::All),
        );
        check(
            "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text`",
            Some(PictureRefusal::All),
        );
        check(
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            Some(PictureRefusal::All),
        );
        check(
            "No endpoints found that support image input",
            Some(PictureRefusal::All),
        );
        check("Could not process image", Some(PictureRefusal::This));
        check(
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
            Some(PictureRefusal::This),
        );
        check("this model does not support tools", None);
        check("images that include text are not supported", None);
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
    fn check_without(body: Value, expected: Value) {
        let Value::Object(mut body) = body else {
            panic!("{body}")
        };
        assert!(take_out(&mut body));
        assert_eq!(expected, Value::Object(body));
    }

    #[test]
    fn each_dialect_has_a_line_in_its_place() {
        check_without(
            json!({"messages": [{"role": "user", "content": [
                {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:"}}]}]}),
            json!({"messages": [{"role": "user", "content": format!("see\n{INSTEAD}")}]}),
        );
        check_without(
            json!({"input": [{"type": "function_call_output", "output": [
                {"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:"}]}]}),
            json!({"input": [{"type": "function_call_output", "output": [
                {"type": "input_text", "text": "see"}, {"type": "input_text", "text": INSTEAD}]}]}),
        );
        check_without(
            json!({"messages": [{"role": "user", "content": [
                {"type": "tool_result", "content": [{"type": "image", "source": {}}]},
                {"type": "document", "source": {}, "cache_control": {"type": "ephemeral"}}]}]}),
            json!({"messages": [{"role": "user", "content": [
                {"type": "tool_result", "content": [{"type": "text", "text": INSTEAD}]},
                {"type": "text", "text": INSTEAD, "cache_control": {"type": "ephemeral"}}]}]}),
        );
        assert!(!take_out(&mut Map::from_iter([(
            "messages".to_owned(),
            json!([{"content": "image"}])
        )])));
    }
}
