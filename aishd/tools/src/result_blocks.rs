//! Blocks of a result that are no text, as the log keeps them: each has a name, which stands behind the
//! line that the model is shown for it.

use aish_proto::id::ResultId;
use aishd_log::block::{BlockForm, KeptBlock, KeptParts, parts};
use aishd_log::shortened_result::MAX_KEPT_BYTES;
use aishd_mcp_messages::outcome::{AttachmentBody, OutcomeAttachment};
use aishd_platform::clock;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Names the attachments of a text, and says behind the line of each what became of it. Those of one result have as
/// much room as a text has.
pub(super) fn keep(text: &str, attachments: Vec<OutcomeAttachment>) -> (String, Vec<KeptParts>) {
    let mut named = String::with_capacity(text.len());
    let mut kept = vec![];
    let mut begun = 0;
    let mut room = MAX_KEPT_BYTES;
    for attachment in attachments {
        named.push_str(&text[begun..attachment.end]);
        begun = attachment.end;
        let bytes = attachment.body.bytes();
        if bytes > room {
            named.push_str(" not kept: too much for one result");
            continue;
        }
        room -= bytes;
        let result = ResultId(clock::ulid());
        named.push_str(&format!(" kept as {result}"));
        kept.push(written(result, attachment));
    }
    named.push_str(&text[begun..]);
    (named, kept)
}

fn written(result: ResultId, attachment: OutcomeAttachment) -> KeptParts {
    let bytes = attachment.body.bytes() as u64;
    let (form, text) = match attachment.body {
        AttachmentBody::Text(text) => (BlockForm::Text, text),
        AttachmentBody::Bytes(bytes) => (BlockForm::Base64, BASE64_STANDARD.encode(bytes)),
    };
    let block = KeptBlock {
        result,
        kind: attachment.kind,
        mime: attachment.mime,
        bytes,
        form,
        uri: attachment.uri,
    };
    (block, parts(&text))
}

#[cfg(test)]
mod tests {
    use aishd_log::block::MAX_BLOCKS;
    use aishd_mcp_messages::content::flatten;
    use serde_json::{Value, json};

    use super::*;

    fn kept(content: &[Value]) -> (String, Vec<KeptParts>) {
        let outcome = flatten(&json!({ "content": content }));
        keep(&outcome.text, outcome.attachments)
    }

    fn image(bytes: usize) -> Value {
        let data = BASE64_STANDARD.encode(vec![7; bytes]);
        json!({"type": "image", "mimeType": "image/png", "data": data})
    }

    #[test]
    fn each_block_has_a_name_behind_its_line() {
        let text = json!({"type": "text", "text": "and"});
        let note = json!({"type": "resource", "resource": {"uri": "note:1", "text": "milk"}});
        let (text, blocks) = kept(&[image(300 << 10), text, note]);
        let [(image, parts), (note, said)] = &blocks[..] else {
            panic!("{blocks:?}");
        };
        assert_eq!(
            format!(
                "[image image/png 300 KiB] kept as {}\nand\n[resource note:1 text/plain 4 B] kept as {}\nmilk",
                image.result, note.result
            ),
            text
        );
        assert_eq!((300 << 10, BlockForm::Base64), (image.bytes, image.form));
        let whole = BASE64_STANDARD.decode(parts.concat()).unwrap();
        assert!(parts.len() == 2 && whole == vec![7; 300 << 10]);
        assert_eq!((4, BlockForm::Text), (note.bytes, note.form));
        assert_eq!(
            (Some("note:1"), "milk"),
            (note.uri.as_deref(), &*said.concat())
        );
    }

    /// Neither many blocks nor large ones fill the disk, and what is left out is said.
    #[test]
    fn a_result_keeps_so_many_blocks_of_so_many_bytes() {
        let (text, blocks) = kept(&vec![image(1); MAX_BLOCKS + 2]);
        assert_eq!(MAX_BLOCKS, blocks.len());
        assert!(text.ends_with("\n[2 more blocks not kept: too much for one result]"));
        let (text, blocks) = kept(&[image(9 << 20), image(9 << 20), image(7 << 20)]);
        let sizes: Vec<u64> = blocks.iter().map(|(it, _)| it.bytes).collect();
        assert_eq!(vec![9 << 20, 7 << 20], sizes);
        assert_eq!(1, text.matches("9 MiB] not kept").count());
    }

    #[test]
    fn a_block_of_nothing_is_one_all_the_same() {
        let (_, blocks) = kept(&[image(0)]);
        assert_eq!((0, 0), (blocks[0].0.bytes, blocks[0].1.len()));
    }
}
