//! From what the log has of a result to the blocks that an MCP client gets.

use aish_proto::event::{Structured, ToolResult};
use aish_proto::id::{ConversationId, ResultId};
use aish_proto::kept::{BlockEncoding, BlockKind, KeptBlock, ReadResult, ReadResultParams};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::revision::McpRevision;
use crate::client::connect::{Caller, RpcCallError};

/// A longer text is the one that a model would be shown, with its mark.
const TEXT_BYTES: u64 = 1 << 20;
/// A larger block stays the line that stands for it.
const BLOCK_BYTES: u64 = 4 << 20;
/// All blocks of one result.
const BLOCKS_BYTES: u64 = 8 << 20;
/// Read at once; a multiple of three, so that base64 can be put together.
const PART_BYTES: u64 = 3 << 18;

/// Clients end a call that promised a value and has none, so they are told what it gave as an error.
const UNPROMISED: &str =
    "[aish] the call ran, but its result has no value that fits the output schema of the tool";

/// What a client is to get of a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentForm {
    pub(super) revision: McpRevision,
    /// The client was told an output schema, and takes no result without a value that fits it.
    pub(super) promises: bool,
}

/// The result as `tools/call` has it. What cannot be fetched stays the line that stands for it.
pub(super) async fn result(
    caller: &Caller,
    conversation: ConversationId,
    mut said: ToolResult,
    form: ContentForm,
) -> Map<String, Value> {
    if let Some(kept) = said.kept.filter(|it| it.bytes <= TEXT_BYTES)
        && let Ok((bytes, _)) = fetch(caller, conversation, kept.result, kept.bytes).await
    {
        said.content = String::from_utf8_lossy(&bytes).into_owned();
    }
    let mut blocks = vec![];
    let mut structured = match said.structured.take() {
        Some(Structured::Text) => serde_json::from_str(&said.content).ok(),
        Some(Structured::Value(value)) => Some(value),
        None => None,
    };
    let mut room = BLOCKS_BYTES;
    for kept in &said.blocks {
        if kept.bytes > BLOCK_BYTES.min(room) || !fits(kept.kind, form.revision) {
            continue;
        }
        room -= kept.bytes;
        let Ok((bytes, is_text)) = fetch(caller, conversation, kept.result, kept.bytes).await
        else {
            continue;
        };
        match from_kept(kept, &bytes, is_text) {
            Some(GatewayContent::Block(block)) => blocks.push((kept.result, block)),
            Some(GatewayContent::Json(value)) => {
                blocks.push((kept.result, text(&value.to_string())));
                // A block's value was judged by no schema.
                if !form.promises {
                    structured.get_or_insert(value);
                }
            }
            None => {}
        }
    }
    let mut content = laid_out(&said.content, blocks);
    let structured = structured.filter(|it| said.ok && form.revision.takes_structured(it));
    let breaks = said.ok && form.promises && structured.is_none();
    if breaks {
        content.push(text(UNPROMISED));
    }
    let mut result = Map::new();
    result.insert("content".to_owned(), content.into());
    result.insert("isError".to_owned(), json!(!said.ok || breaks));
    if let Some(value) = structured {
        result.insert("structuredContent".to_owned(), value);
    }
    result
}

/// What is ours to say about a call that gave no result.
pub(super) fn failed(why: &str) -> Map<String, Value> {
    let mut result = Map::new();
    result.insert("content".to_owned(), json!([text(why)]));
    result.insert("isError".to_owned(), json!(true));
    result
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Puts each block in the place of the line that stands for it: the one that ends in its name.
fn laid_out(said: &str, blocks: Vec<(ResultId, Value)>) -> Vec<Value> {
    let mut all = vec![];
    let mut rest = said;
    for (id, block) in blocks {
        let mark = format!(" kept as {id}");
        if let Some(at) = rest.find(&mark) {
            let before = rest.get(..at).unwrap_or_default();
            let line = before.rfind('\n').map_or(0, |it| it + 1);
            let before = before.get(..line).unwrap_or_default();
            all.extend(some(before.strip_suffix('\n').unwrap_or(before)));
            rest = rest.get(at + mark.len()..).unwrap_or_default();
            rest = rest.strip_prefix('\n').unwrap_or(rest);
            rest = behind_text_of(&block, rest);
        }
        all.push(block);
    }
    all.extend(some(rest));
    if all.is_empty() {
        all.push(text(""));
    }
    all
}

/// What follows on the text of a resource that stands behind its line, whole or cut: the block has it already.
fn behind_text_of<'a>(block: &Value, said: &'a str) -> &'a str {
    let whole = block["resource"]["text"].as_str().unwrap_or_default();
    if whole.is_empty() {
        return said;
    }
    let mark = format!("[cut: {} bytes]", whole.len());
    let behind = said.strip_prefix(whole).or_else(|| {
        let (told, behind) = said.split_once(&mark)?;
        whole.starts_with(told).then_some(behind)
    });
    match behind {
        Some("") => "",
        Some(behind) => behind.strip_prefix('\n').unwrap_or(said),
        None => said,
    }
}

fn some(said: &str) -> Option<Value> {
    (!said.is_empty()).then(|| text(said))
}

enum GatewayContent {
    Block(Value),
    /// A value, which is no block of MCP.
    Json(Value),
}

fn fits(kind: BlockKind, revision: McpRevision) -> bool {
    match kind {
        BlockKind::Image | BlockKind::Resource | BlockKind::Other => true,
        BlockKind::Audio => revision.has_audio(),
        BlockKind::Link => revision.has_links(),
    }
}

/// `None`: it cannot be a block again.
fn from_kept(kept: &KeptBlock, bytes: &[u8], is_text: bool) -> Option<GatewayContent> {
    let read = || serde_json::from_slice::<Value>(bytes).ok();
    let named = |name: &str| {
        let data = BASE64_STANDARD.encode(bytes);
        GatewayContent::Block(json!({"type": name, "data": data, "mimeType": kept.mime_type}))
    };
    match kept.kind {
        // Text in their place is what was no base64.
        BlockKind::Image | BlockKind::Audio if is_text => None,
        BlockKind::Image => Some(named("image")),
        BlockKind::Audio => Some(named("audio")),
        BlockKind::Resource => {
            let uri = kept.uri.clone();
            let uri = uri.unwrap_or_else(|| format!("aish://result/{}", kept.result));
            let mut resource = json!({"uri": uri, "mimeType": kept.mime_type});
            if is_text {
                resource["text"] = json!(String::from_utf8_lossy(bytes));
            } else {
                resource["blob"] = json!(BASE64_STANDARD.encode(bytes));
            }
            Some(GatewayContent::Block(
                json!({"type": "resource", "resource": resource}),
            ))
        }
        BlockKind::Link => {
            let link = read()?;
            let says = |name: &str| link.get(name).is_some_and(Value::is_string);
            (says("uri") && says("name")).then_some(GatewayContent::Block(link))
        }
        BlockKind::Other => {
            let block = read()?;
            let is_json = block.get("type").is_some_and(|it| it == "json");
            let value = block.get("json").cloned()?;
            is_json.then_some(GatewayContent::Json(value))
        }
    }
}

/// All of it, and whether it is kept as text.
async fn fetch(
    caller: &Caller,
    conversation: ConversationId,
    result: ResultId,
    bytes: u64,
) -> Result<(Vec<u8>, bool), RpcCallError> {
    let mut whole = vec![];
    let mut is_text = true;
    while (whole.len() as u64) < bytes {
        let params = ReadResultParams {
            conversation,
            result,
            offset: whole.len() as u64,
            bytes: Some(PART_BYTES),
        };
        let part = caller.call::<ReadResult>(params).await?;
        let read = match part.encoding {
            None => part.text.into_bytes(),
            Some(BlockEncoding::Base64) => {
                is_text = false;
                BASE64_STANDARD.decode(&part.text).unwrap_or_default()
            }
        };
        if read.is_empty() {
            break;
        }
        whole.extend(read);
    }
    Ok((whole, is_text))
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    fn id(n: u128) -> ResultId {
        ResultId(Ulid(n))
    }

    #[track_caller]
    fn check(said: &str, blocks: &[u128], expected: &[&str]) {
        let blocks = blocks
            .iter()
            .map(|it| (id(*it), json!({"type": it.to_string()})));
        let laid = laid_out(said, blocks.collect());
        let shown: Vec<String> = laid
            .iter()
            .map(|it| match it["text"].as_str() {
                Some(text) => format!("{text:?}"),
                None => it["type"].as_str().unwrap().to_owned(),
            })
            .collect();
        assert_eq!(expected, shown);
    }

    #[test]
    fn blocks_stand_where_their_lines_stood() {
        let line = |n: u128| format!("[image image/png 4 B] kept as {}", id(n));
        check("plain", &[], &["\"plain\""]);
        check("", &[], &["\"\""]);
        check(&line(1), &[1], &["1"]);
        check(
            &format!("a\nb\n{}\n{}\nc", line(1), line(2)),
            &[1, 2],
            &["\"a\\nb\"", "1", "2", "\"c\""],
        );
        // What was not fetched keeps its line, and a line that is lost costs nothing.
        let shown = format!("{:?}", format!("{}\nc", line(1)));
        check(
            &format!("{}\nc\n{}", line(1), line(2)),
            &[2],
            &[&shown, "2"],
        );
        check("cut", &[3], &["3", "\"cut\""]);
    }

    #[test]
    fn a_text_that_its_block_has_is_not_told_twice() {
        let line = |n: u128| format!("[resource n:{n} text/plain 9 B] kept as {}", id(n));
        let block = |n, text: &str| {
            (
                id(n),
                json!({"type": "resource", "resource": {"text": text}}),
            )
        };
        let check = |said: &str, blocks: Vec<(ResultId, Value)>, expected: &[&str]| {
            let laid = laid_out(said, blocks);
            let told = |it: &Value| it["text"].as_str().unwrap_or("block").to_owned();
            assert_eq!(
                expected,
                laid.iter().map(told).collect::<Vec<_>>(),
                "{said}"
            );
        };
        let (one, two) = (line(1), line(2));
        let milk = || block(1, "buy\nmilk");
        check(&format!("{one}\nbuy\nmilk"), vec![milk()], &["block"]);
        check(
            &format!("a\n{one}\nbuy\nmilk\nb\n{two}\nbuy[cut: 8 bytes]\nc"),
            vec![milk(), block(2, "buy milk")],
            &["a", "block", "b", "block", "c"],
        );
        // Another text of the server's that begins alike, and none where there was no room.
        check(
            &format!("{one}\nbuy\nmilk!"),
            vec![milk()],
            &["block", "buy\nmilk!"],
        );
        check(&format!("{one}\nb"), vec![block(1, "")], &["block", "b"]);
    }

    #[test]
    fn a_block_is_what_it_was() {
        let kept = |kind, uri: Option<&str>| KeptBlock {
            result: id(1),
            kind,
            mime_type: "a/b".to_owned(),
            bytes: 2,
            uri: uri.map(str::to_owned),
        };
        let block = |kept: &KeptBlock, bytes: &[u8], is_text| match from_kept(kept, bytes, is_text)
        {
            Some(GatewayContent::Block(block)) => block,
            Some(GatewayContent::Json(value)) => json!({ "json": value }),
            None => Value::Null,
        };
        assert_eq!(
            json!({"type": "image", "data": "aGk=", "mimeType": "a/b"}),
            block(&kept(BlockKind::Image, None), b"hi", false)
        );
        assert_eq!(
            Value::Null,
            block(&kept(BlockKind::Image, None), b"hi", true)
        );
        assert_eq!(
            json!({"type": "resource", "resource": {"uri": "n:1", "mimeType": "a/b", "text": "hi"}}),
            block(&kept(BlockKind::Resource, Some("n:1")), b"hi", true)
        );
        let link = br#"{"type":"resource_link","uri":"n:1","name":"n"}"#;
        assert_eq!(
            "n:1",
            block(&kept(BlockKind::Link, None), link, true)["uri"]
        );
        assert_eq!(
            Value::Null,
            block(&kept(BlockKind::Link, None), b"{}", true)
        );
        let json = br#"{"type":"json","json":[1]}"#;
        assert_eq!(
            json!({"json": [1]}),
            block(&kept(BlockKind::Other, None), json, true)
        );
        assert_eq!(
            Value::Null,
            block(&kept(BlockKind::Other, None), b"{\"type\":\"x\"}", true)
        );
    }
}
