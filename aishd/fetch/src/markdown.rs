//! HTML as Markdown: what a person would read of the page, with whole addresses in its links. Pages are hostile: their depth is cut
//! before anybody goes down into them.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use htmd::element_handler::Handlers;
use htmd::{Element, HtmlToMarkdown, Node};
use url::Url;

/// Deeper than pages are; each level takes some of the stack.
const MOST_LEVELS: usize = 256;
/// Each of them takes some kilobytes.
const STACK_BYTES: usize = 64 << 20;
/// What is no text of the page.
const SKIPPED: [&str; 14] = [
    "audio", "canvas", "dialog", "embed", "iframe", "link", "map", "math", "meta", "object",
    "script", "style", "svg", "template",
];
/// More of a title says nothing.
const TITLE_CHARS: usize = 200;

/// A page as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PageText {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    /// It had more levels than are read.
    pub(crate) is_cut: bool,
}

/// The text of a page that was found there, unless a page that was made for it takes longer.
pub(crate) fn of_html_within(html: String, at: Url, within: Duration) -> Result<PageText, String> {
    let (done, reads) = mpsc::channel();
    let reading = thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || done.send(of_html(&html, &at)));
    drop(reading.map_err(|error| error.to_string())?);
    let read = reads.recv_timeout(within);
    read.unwrap_or_else(|_| Err(format!("it takes longer than {} s", within.as_secs())))
}

/// The text of a page that was found there.
fn of_html(html: &str, at: &Url) -> Result<PageText, String> {
    let title = Arc::new(Mutex::new(None));
    let converter = converter(at, title.clone());
    let tree = converter
        .html_to_tree(html)
        .map_err(|error| error.to_string())?;
    let is_cut = cut_depth(&tree);
    let text = converter.tree_to_markdown(&tree);
    let title = title.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(PageText {
        title,
        text,
        is_cut,
    })
}

fn converter(at: &Url, title: Arc<Mutex<Option<String>>>) -> HtmlToMarkdown {
    let (of_links, of_pictures) = (at.clone(), at.clone());
    HtmlToMarkdown::builder()
        // What stands there for readers without scripts is for us.
        .scripting_enabled(false)
        .skip_tags(SKIPPED.to_vec())
        .add_handler(
            vec!["title"],
            move |within: &dyn Handlers, it: Element<'_>| {
                let said = within.walk_children(it.node).content;
                let words: Vec<&str> = said.split_whitespace().collect();
                let said: String = words.join(" ").chars().take(TITLE_CHARS).collect();
                let mut title = title.lock().unwrap_or_else(PoisonError::into_inner);
                if !said.is_empty() {
                    title.get_or_insert(said);
                }
                None
            },
        )
        .add_handler(vec!["a"], move |within: &dyn Handlers, it: Element<'_>| {
            let said = within.walk_children(it.node);
            let text = said.content.trim();
            let to = attribute(&it, "href").and_then(|href| link(&of_links, href));
            match to {
                Some(to) if !text.is_empty() => {
                    let (before, after) = edges(&said.content);
                    Some(format!("{before}[{text}]({to}){after}").into())
                }
                Some(_) | None => Some(said),
            }
        })
        .add_handler(vec!["img"], move |_: &dyn Handlers, it: Element<'_>| {
            let alt = attribute(&it, "alt")
                .map(str::trim)
                .filter(|it| !it.is_empty())?;
            let alt: Vec<&str> = alt.split_whitespace().collect();
            let from = attribute(&it, "src").and_then(|src| link(&of_pictures, src));
            let from = from.unwrap_or_default();
            Some(format!("![{}]({from})", alt.join(" ")).into())
        })
        .build()
}

fn attribute<'a>(element: &'a Element<'_>, name: &str) -> Option<&'a str> {
    let mut all = element.attrs.iter();
    all.find(|it| &*it.name.local == name).map(|it| &*it.value)
}

/// The whole address, where one could be read there.
fn link(at: &Url, said: &str) -> Option<String> {
    let to = at.join(said.trim()).ok()?;
    let mut page = to.clone();
    page.set_fragment(None);
    let is_page = matches!(to.scheme(), "http" | "https" | "mailto");
    // Within the page it leads nowhere that could be read.
    (is_page && page != *at).then(|| to.as_str().replace('(', "%28").replace(')', "%29"))
}

/// The blanks around a text, which are no part of a link.
fn edges(text: &str) -> (&'static str, &'static str) {
    let blank = |is: bool| if is { " " } else { "" };
    (
        blank(text.starts_with(char::is_whitespace)),
        blank(text.ends_with(char::is_whitespace)),
    )
}

/// Takes out what lies too deep, going down without a stack.
fn cut_depth(tree: &Rc<Node>) -> bool {
    let mut is_cut = false;
    let mut open = vec![(tree.clone(), 0)];
    while let Some((node, level)) = open.pop() {
        let mut children = node.children.borrow_mut();
        if level >= MOST_LEVELS {
            is_cut |= !children.is_empty();
            children.clear();
            continue;
        }
        open.extend(children.iter().map(|it| (it.clone(), level + 1)));
    }
    is_cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(html: &str, title: Option<&str>, text: &str) {
        let at = Url::parse("https://a.example/x/page").unwrap();
        let read = of_html(html, &at).unwrap();
        assert_eq!((title, text), (read.title.as_deref(), read.text.as_str()));
    }

    #[test]
    fn a_page_is_what_a_person_reads_of_it() {
        check(
            "<html><head><title> The\n page </title><style>p{}</style><script>alert(1)</script></head>\
             <body><h1>One</h1><p>See <a href='../y?q=(1)'>that </a>or <a href='#here'>below</a>, \
             <a href='javascript:x()'>no</a>.</p><noscript>plain</noscript><svg><text>x</text></svg>\
             <img src='data:image/png;base64,AAAA'><img src=p.png alt='a\n picture'><iframe src=//evil></iframe>\
             <pre><code>let a = 1;\n  b</code></pre><ul><li>one<li>two</ul></body></html>",
            Some("The page"),
            "# One\n\nSee [that](https://a.example/y?q=%281%29) or below, no.\n\nplain![a picture](https://a.example/x/p.png)\n\n```\nlet a = 1;\n  b\n```\n\n*   one\n*   two",
        );
        check("no tags at all", None, "no tags at all");
        check("", None, "");
        check(
            "<table><tr><th>a<th>b<tr><td>1<td>2</table>",
            None,
            "| a | b |\n| - | - |\n| 1 | 2 |",
        );
    }

    #[test]
    fn a_page_of_endless_depth_is_cut_and_ends() {
        let at = Url::parse("https://a.example/").unwrap();
        let deep = format!(
            "<p>before</p>{}x{}",
            "<div>".repeat(3000),
            "<b>".repeat(1000)
        );
        let read = of_html(&deep, &at).unwrap();
        assert!(
            read.is_cut && read.text.contains("before"),
            "{}",
            read.text.len()
        );
        // Each one is looked for in all those around it.
        let slow = "<div>".repeat(300_000);
        let why = of_html_within(slow, at, Duration::from_secs(1)).unwrap_err();
        assert_eq!("it takes longer than 1 s", why);
    }
}
