//! A server that refuses a request for its pictures: by which words it is known, and the same request without them.

use aishd_log::tool::ContentDigest;
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

/// Where a picture stands in a request: the number of its message, and of the part of that, by which a server may name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PicturePlace {
    message: usize,
    part: usize,
    /// No answer has come since: no server has taken it yet.
    is_new: bool,
}

/// Puts a line in the place of what was refused, in whatever dialect it is, and says which pictures those were. Of one that
/// the words do not name, all are taken that are new, and all there are when none is: what came before was taken once.
pub(crate) fn take_out(
    body: &mut Map<String, Value>,
    refusal: PictureRefusal,
    message: &str,
) -> Vec<ContentDigest> {
    let mut places = vec![];
    each_picture(body, &mut |place, _| {
        places.push(place);
        false
    });
    let named = named_place(message);
    let is_named = |it: &PicturePlace| Some((it.message, it.part)) == named;
    let any_named = places.iter().any(is_named);
    let any_new = places.iter().any(|it| it.is_new);
    let mut taken = vec![];
    each_picture(body, &mut |place, data| {
        let goes = match refusal {
            PictureRefusal::All => true,
            PictureRefusal::This if any_named => is_named(&place),
            PictureRefusal::This => place.is_new || !any_new,
        };
        if goes {
            taken.push(ContentDigest::of(data.as_bytes()));
        }
        goes
    });
    taken
}

/// As in `messages.0.content.1.image.source.base64: …`.
fn named_place(message: &str) -> Option<(usize, usize)> {
    let (_, rest) = message.split_once("messages.")?;
    let mut words = rest.split(['.', ':', ' ']);
    let number = words.next()?.parse().ok()?;
    (words.next() == Some("content")).then_some(())?;
    Some((number, words.next()?.parse().ok()?))
}

/// Shows each picture's place and base64, and puts a line in its place where that says so.
fn each_picture(body: &mut Map<String, Value>, goes: &mut impl FnMut(PicturePlace, &str) -> bool) {
    for list in ["messages", "input"] {
        let Some(messages) = body.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        let answered = messages.iter().rposition(is_of_model);
        for (number, message) in messages.iter_mut().enumerate() {
            let is_new = answered.is_none_or(|it| it < number);
            for name in ["content", "output"] {
                let Some(parts) = message.get_mut(name).and_then(Value::as_array_mut) else {
                    continue;
                };
                let mut is_chat = false;
                for (part, value) in parts.iter_mut().enumerate() {
                    let place = PicturePlace {
                        message: number,
                        part,
                        is_new,
                    };
                    is_chat |= within_part(value, place, goes);
                }
                // Servers that know no pictures often know no parts either.
                if is_chat && parts.iter().all(|it| it["type"] == "text") {
                    let texts: Vec<&str> =
                        parts.iter().filter_map(|it| it["text"].as_str()).collect();
                    message[name] = Value::from(texts.join("\n"));
                }
            }
        }
    }
}

fn is_of_model(message: &Value) -> bool {
    let kind = message["type"].as_str().unwrap_or_default();
    message["role"] == "assistant" || matches!(kind, "function_call" | "reasoning")
}

/// Whether a picture went from a part of chat completions.
fn within_part(
    part: &mut Value,
    place: PicturePlace,
    goes: &mut impl FnMut(PicturePlace, &str) -> bool,
) -> bool {
    let kind = part["type"].as_str().unwrap_or_default();
    let (instead, is_chat) = match kind {
        "image_url" | "file" => ("text", true),
        "image" | "document" => ("text", false),
        "input_image" | "input_file" => ("input_text", false),
        "tool_result" => {
            let parts = part.get_mut("content").and_then(Value::as_array_mut);
            for inner in parts.into_iter().flatten() {
                within_part(inner, place, goes);
            }
            return false;
        }
        _ => return false,
    };
    if !goes(place, base64_of(part)) {
        return false;
    }
    let mark = part.get_mut("cache_control").map(Value::take);
    *part = json!({"type": instead, "text": INSTEAD});
    if let Some(mark) = mark {
        part["cache_control"] = mark;
    }
    is_chat
}

fn base64_of(part: &Value) -> &str {
    let at = [
        &part["source"]["data"],
        &part["image_url"]["url"],
        &part["image_url"],
        &part["file"]["file_data"],
        &part["file_data"],
    ];
    let text = at.iter().find_map(|it| it.as_str()).unwrap_or_default();
    text.split_once(";base64,").map_or(text, |(_, data)| data)
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
        assert_ne!(
            Vec::<ContentDigest>::new(),
            take_out(&mut body, PictureRefusal::All, "")
        );
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
        let text = json!([{"content": "image"}]);
        let mut none = Map::from_iter([("messages".to_owned(), text)]);
        assert!(take_out(&mut none, PictureRefusal::All, "").is_empty());
    }

    #[track_caller]
    fn check_this(message: &str, taken: &[&str], left: &[&str]) {
        let picture = |data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
        let messages = json!([
            {"role": "user", "content": [{"type": "text", "text": "see"}, picture("b2xk")]},
            {"role": "assistant", "content": [{"type": "text", "text": "I see."}]},
            {"role": "user", "content": [picture("bmV3"), picture("bW9yZQ==")]},
        ]);
        let mut body = Map::from_iter([("messages".to_owned(), messages)]);
        let expected: Vec<_> = taken
            .iter()
            .map(|it| ContentDigest::of(it.as_bytes()))
            .collect();
        assert_eq!(
            expected,
            take_out(&mut body, PictureRefusal::This, message),
            "{message}"
        );
        let rest = Value::Object(body).to_string();
        for data in left {
            assert!(rest.contains(data), "{message}: {rest}");
        }
        for data in taken {
            assert!(!rest.contains(data), "{message}: {rest}");
        }
    }

    #[test]
    fn one_picture_goes_and_those_that_were_taken_before_stay() {
        check_this(
            "messages.2.content.1.image.source.base64: image exceeds 5 MB maximum",
            &["bW9yZQ=="],
            &["b2xk", "bmV3"],
        );
        check_this(
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum",
            &["b2xk"],
            &["bmV3", "bW9yZQ=="],
        );
        check_this("Could not process image", &["bmV3", "bW9yZQ=="], &["b2xk"]);
        check_this(
            "messages.9.content.0: Could not process image",
            &["bmV3", "bW9yZQ=="],
            &["b2xk"],
        );
    }

    #[test]
    fn what_is_no_part_of_its_message_does_not_end_it() {
        let mut body = Map::from_iter([(
            "messages".to_owned(),
            json!([
                {"role": "user", "content": [{"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,b2xk"}}]},
                {"role": "assistant", "content": "I see."},
                {"role": "user", "content": [{"type": "text", "text": "and"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,bmV3"}}]},
            ]),
        )]);
        let taken = take_out(&mut body, PictureRefusal::This, "invalid image");
        assert_eq!(vec![ContentDigest::of(b"bmV3")], taken);
        assert_eq!("image_url", body["messages"][0]["content"][1]["type"]);
        assert_eq!(
            json!(format!("and\n{INSTEAD}")),
            body["messages"][2]["content"]
        );
        let taken = take_out(&mut body, PictureRefusal::This, "invalid image");
        assert_eq!(vec![ContentDigest::of(b"b2xk")], taken);
        assert!(take_out(&mut body, PictureRefusal::This, "invalid image").is_empty());
    }
}
