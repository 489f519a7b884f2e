//! `@alias:uri` in a question: what that resource of an MCP server holds now goes along.

use aish_proto::mcp::{List, ReadResource, ReadResourceParams};
use aish_proto::method::Empty;

use crate::client::connect::{Caller, RpcCallError};
use crate::commands::mcp::ASK_DEADLINE;

/// More than anybody names in one question.
const MOST: usize = 16;

/// A word that may name a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mention<'a> {
    alias: &'a str,
    uri: &'a str,
}

/// The texts that a question names, each with its name. A word whose alias is no server's is a word.
pub async fn read(caller: &Caller, question: &str) -> Result<Vec<(String, String)>, RpcCallError> {
    let mentions = find(question);
    if mentions.is_empty() {
        return Ok(vec![]);
    }
    let known = caller.call::<List>(Empty {}).await?.servers;
    let mut texts = vec![];
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
        let parts = read.contents.iter().map(|it| match it["text"].as_str() {
            Some(text) => text.to_owned(),
            None => {
                let kind = it["mimeType"].as_str().unwrap_or("bytes");
                format!("[{kind}, which is no text]")
            }
        });
        let text = parts.collect::<Vec<_>>().join("\n");
        texts.push((format!("@{}:{}", mention.alias, mention.uri), text));
    }
    Ok(texts)
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
    use super::*;

    #[track_caller]
    fn check(question: &str, expected: &[(&str, &str)]) {
        let seen = find(question);
        let seen: Vec<_> = seen.iter().map(|it| (it.alias, it.uri)).collect();
        assert_eq!(expected, seen, "{question}");
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
