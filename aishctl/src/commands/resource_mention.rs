//! `@alias:uri` in a question: what that resource of an MCP server holds now goes along.

use aish_proto::mcp::{List, ReadResource, ReadResourceParams};
use aish_proto::method::Empty;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::client::connect::{Caller, RpcCallError};
use crate::commands::mcp::ASK_DEADLINE;
use crate::commands::picture_file::PictureFile;

/// More than anybody names in one question.
const MOST: usize = 16;

/// A word that may name a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mention<'a> {
    alias: &'a str,
    uri: &'a str,
}

/// What a question names: a resource is a text, and the pictures that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MentionedResource {
    Text { name: String, text: String },
    Picture(PictureFile),
}

impl MentionedResource {
    pub fn name(&self) -> &str {
        match self {
            Self::Text { name, .. } => name,
            Self::Picture(picture) => &picture.name,
        }
    }
}

/// What the resources hold that a question names. A word whose alias is no server's is a word.
pub async fn read(caller: &Caller, question: &str) -> Result<Vec<MentionedResource>, RpcCallError> {
    let mentions = find(question);
    if mentions.is_empty() {
        return Ok(vec![]);
    }
    let known = caller.call::<List>(Empty {}).await?.servers;
    let mut found = vec![];
    for mention in mentions {
        if !known.iter().any(|it| it.alias == mention.alias) {
            continue;
        }
        let params = ReadResourceParams {
            alias: mention.alias.to_owned(),
            uri: mention.uri.to_owned(),
        };
        let deadline = Some(caller.deadline().max(ASK_DEADLINE));
        let read = caller.call_within::<ReadResource>(params, deadline).await?;
        let name = format!("@{}:{}", mention.alias, mention.uri);
        found.extend(contents(&name, &read.contents));
    }
    Ok(found)
}

/// The parts of one resource: those that are no picture are one text.
fn contents(name: &str, parts: &[Value]) -> Vec<MentionedResource> {
    let mut pictures = vec![];
    let mut texts = vec![];
    for part in parts {
        let kind = part["mimeType"].as_str().unwrap_or("bytes");
        let blob = part["blob"].as_str().map(|it| BASE64_STANDARD.decode(it));
        match (part["text"].as_str(), blob) {
            (Some(text), _) => texts.push(text.to_owned()),
            (None, Some(Ok(content))) => {
                let name = match pictures.len() {
                    0 => name.to_owned(),
                    before => format!("{name}#{}", before + 1),
                };
                match PictureFile::of(name, &content) {
                    Ok(picture) => pictures.push(MentionedResource::Picture(picture)),
                    Err(why) => texts.push(format!("[{kind}, {why}]")),
                }
            }
            (None, None | Some(Err(_))) => texts.push(format!("[{kind}, which is no text]")),
        }
    }
    if !texts.is_empty() || pictures.is_empty() {
        let text = MentionedResource::Text {
            name: name.to_owned(),
            text: texts.join("\n"),
        };
        pictures.insert(0, text);
    }
    pictures
}

/// Whether a question may name one, so that the daemon has to be asked first.
pub fn may_be_in(question: &str) -> bool {
    !find(question).is_empty()
}

/// Whether a word behind an `@` names a resource.
pub fn is_resource(word: &str) -> bool {
    let named = word.split_once(':');
    named.is_some_and(|(alias, uri)| is_alias(alias) && has_scheme(uri))
}

/// Words of the form `@alias:scheme:rest`, each once. A sign that ends a sentence does not belong to one.
fn find(question: &str) -> Vec<Mention<'_>> {
    let mut found: Vec<Mention<'_>> = vec![];
    for word in question.split_whitespace() {
        let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'']);
        let Some((alias, uri)) = word.strip_prefix('@').and_then(|it| it.split_once(':')) else {
            continue;
        };
        let mention = Mention { alias, uri };
        if is_alias(alias) && has_scheme(uri) && !found.contains(&mention) && found.len() < MOST {
            found.push(mention);
        }
    }
    found
}

fn is_alias(text: &str) -> bool {
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    !text.is_empty() && text.chars().all(plain)
}

fn has_scheme(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return false;
    };
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '+' | '-' | '.');
    scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme.chars().all(plain)
        && !rest.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(question: &str, expected: &[(&str, &str)]) {
        let seen = find(question);
        let seen: Vec<_> = seen.iter().map(|it| (it.alias, it.uri)).collect();
        assert_eq!(expected, seen, "{question}");
    }

    #[test]
    fn the_pictures_of_a_resource_go_along_as_such() {
        let png = BASE64_STANDARD.encode(b"\x89PNG\r\n\x1a\nrest");
        let found = contents(
            "@a:x:1",
            &[
                json!({"mimeType": "image/png", "blob": png}),
                json!({"text": "one"}),
                json!({"mimeType": "image/png", "blob": png}),
                json!({"mimeType": "audio/wav", "blob": "UklGRg=="}),
                json!({"mimeType": "image/png", "blob": "no base64"}),
            ],
        );
        let names: Vec<&str> = found.iter().map(MentionedResource::name).collect();
        assert_eq!(vec!["@a:x:1", "@a:x:1", "@a:x:1#2"], names);
        let text = "one\n[audio/wav, which is no text and no picture that models take]\n[image/png, which is no text]";
        assert_eq!(
            MentionedResource::Text {
                name: "@a:x:1".to_owned(),
                text: text.to_owned()
            },
            found[0]
        );
        assert!(matches!(&found[1], MentionedResource::Picture(it) if it.base64 == png));
        assert_eq!(1, contents("@a:x:1", &[]).len());
    }

    #[test]
    fn a_resource_is_named_by_server_and_uri() {
        check("what of @notes:note://1?", &[("notes", "note://1")]);
        check(
            "(@a_b:file:///x/y.md), @a_b:file:///x/y.md and @c-d:urn:x:y",
            &[("a_b", "file:///x/y.md"), ("c-d", "urn:x:y")],
        );
        for plain in [
            "mail me@host:a:b",
            "@bob: hello",
            "@bob:12:30",
            "@org/pkg:x:y",
            "@notes:note",
            "@:a:b",
        ] {
            check(plain, &[]);
        }
    }
}
