//! Pages of the web: what a model reads of them, from which hosts, and what a server gains that means harm: nothing. The servers are
//! real ones, of the test.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use aish_proto::attach::ReplayStart;
use aish_proto::audit::AuditKind;
use aish_proto::confirm::{Answer, ConfirmRecord, Decision};
use aish_proto::event::{ConfirmRequested, ToolCall, ToolResult};
use aish_proto::hosts::WantedHost;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::tool::Run;
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer as Said, Client, Daemon, Upstream, World};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::consent::with;
use crate::files::created;
use crate::hosts::{audited, counts, doctor, hosts_open};
use crate::lists::{call, result};
use crate::profiles::is_held;
use crate::resources::allowed;
use crate::tools::events;

/// What a server sends for an address, as bytes; then it does what comes next.
#[derive(Clone)]
enum Page {
    Bytes(Vec<u8>),
    /// And nothing after that, with the connection left open.
    Stalls(Vec<u8>),
    /// And this again and again.
    Endless(Vec<u8>, Vec<u8>),
}

fn page(status: &str, media_type: &str, body: &[u8]) -> Page {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n"
    );
    Page::Bytes([head.as_bytes(), body].concat())
}

fn redirect(to: &str) -> Page {
    Page::Bytes(
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes(),
    )
}

/// A server of the world outside. It may be a host itself, or the proxy that the daemon goes through.
struct Site {
    address: String,
    pages: Arc<Mutex<BTreeMap<String, Page>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let site = Self {
            address: listener.local_addr().unwrap().to_string(),
            pages: Arc::default(),
            heads: Arc::default(),
        };
        let (pages, heads) = (site.pages.clone(), site.heads.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (pages, heads) = (pages.clone(), heads.clone());
                thread::spawn(move || serve(client, &pages, &heads));
            }
        });
        site
    }

    /// `path` is what stands in the request: a path, or through a proxy the whole address.
    fn at(&self, path: &str, page: Page) -> String {
        self.pages.lock().unwrap().insert(path.to_owned(), page);
        match path.starts_with('/') {
            true => format!("http://{}{path}", self.address),
            false => path.to_owned(),
        }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn serve(
    mut client: TcpStream,
    pages: &Mutex<BTreeMap<String, Page>>,
    heads: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let path = head.split(' ').nth(1)?.to_owned();
    heads.lock().unwrap().push(head);
    let found = pages.lock().unwrap().get(&path).cloned();
    match found.unwrap_or_else(|| page("404 Not Found", "text/plain", b"no such page")) {
        Page::Bytes(bytes) => client.write_all(&bytes).ok(),
        Page::Stalls(bytes) => {
            client.write_all(&bytes).ok()?;
            // Until the reader has gone.
            client.read_to_end(&mut vec![]).ok().map(drop)
        }
        Page::Endless(head, piece) => {
            client.write_all(&head).ok()?;
            loop {
                client.write_all(&piece).ok()?;
            }
        }
    }
}

/// A daemon whose model may read pages. `None`, and said why: nothing is held here.
fn started(
    upstream: &Upstream,
    site: &Site,
    hosts: &str,
    through: bool,
) -> Option<(World, Daemon)> {
    let world = World::new();
    world.write(
        "machine/aish/config.toml",
        "[tools]\nfiles = false\ntodo = false\n",
    );
    world.write_config(&format!(
        "{}\n[contain]\nhosts = [{hosts}]\n",
        upstream.config("test")
    ));
    let mut daemon = world.daemon();
    if through {
        let proxy = format!("http://{}", site.address);
        daemon = daemon
            .env("https_proxy", proxy.clone())
            .env("http_proxy", proxy);
        daemon = daemon.env("no_proxy", "127.0.0.1");
    }
    let daemon = daemon.spawn();
    let held = is_held(&world.client());
    held.then_some((world, daemon))
}

/// The model reads these, one after another, and then says a word.
fn model_reads(upstream: &Upstream, calls: &[Value]) {
    let calls: Vec<String> = calls.iter().map(Value::to_string).collect();
    upstream.answer_with(move |request| {
        let messages = request.messages();
        let asked = messages.iter().rposition(|(role, _)| role == "user");
        let after = asked.map_or(&[][..], |it| &messages[it..]);
        let done = after.iter().filter(|(role, _)| role == "tool").count();
        match calls.get(done) {
            Some(arguments) => Said::stream().then_call(
                0,
                &format!("call-{}", messages.len()),
                "web__fetch",
                arguments,
            ),
            None => Said::text("Done."),
        }
    });
}

/// What came of each.
fn read(upstream: &Upstream, world: &World, urls: &[String]) -> Vec<ToolResult> {
    let calls: Vec<Value> = urls.iter().map(|it| json!({ "url": it })).collect();
    model_reads(upstream, &calls);
    let client = world.client();
    let conversation = created(world, &client);
    client.wait_turn(client.ask(conversation, "read it"));
    events::<ToolResult>(&client, conversation)
}

fn asked_about(client: &Client, conversation: ConversationId) -> (ConfirmRecord, WantedHost) {
    until("a question about a host", PATIENCE, || {
        hosts_open(client, conversation).pop()
    })
}

#[test]
fn a_page_of_an_allowed_host_is_read_unasked_and_honestly() {
    let (upstream, site) = (Upstream::start(), Site::start());
    let html = b"<title>Notes</title><style>x{}</style><h1>One</h1><p>See <a href=/b>there</a>.</p><script>x()</script>";
    let url = site.at("/a", page("200 OK", "text/html; charset=utf-8", html));
    let latin = site.at(
        "/l",
        page("200 OK", "text/plain; charset=iso-8859-1", b"Gr\xfc\xdfe"),
    );
    let value = site.at("/j", page("200 OK", "application/json", b"{\"a\":1}"));
    let picture = site.at("/p", page("200 OK", "image/png", b"\x89PNG\r\n\0\0"));
    let gone = site.at("/b", redirect("/none"));
    let hosts = format!("{:?}", site.address);
    let Some((world, _daemon)) = started(&upstream, &site, &hosts, false) else {
        return;
    };
    let secret = format!("http://u:secret@{}/a", site.address);
    let wanted = [
        url.clone(),
        latin,
        value,
        picture.clone(),
        gone.clone(),
        secret,
    ];
    let results = read(&upstream, &world, &wanted);
    let text = |at: usize| results[at].content.as_str();
    let address = &site.address;
    assert_eq!(
        format!(
            "{url} (200, text/html)\ntitle: Notes\n\n# One\n\nSee [there](http://{address}/b).\n"
        ),
        text(0)
    );
    assert!(text(1).ends_with("\n\nGrüße\n"), "{}", text(1));
    assert!(text(2).ends_with("\n\n{\n  \"a\": 1\n}\n"), "{}", text(2));
    assert_eq!(
        format!("{picture} (200, image/png)\n[aish] it is not text (8 bytes), so it is not shown"),
        text(3)
    );
    assert_eq!(
        format!(
            "http://{address}/none (404, text/plain, after 1 redirect from {gone})\n\nno such page\n"
        ),
        text(4)
    );
    assert!(text(5).contains("a name or a password"), "{}", text(5));
    let ok: Vec<bool> = results.iter().map(|it| it.ok).collect();
    assert_eq!(vec![true, true, true, true, false, false], ok);

    // It says what it is, and sends nothing of anybody.
    let heads = site.heads();
    assert_eq!(6, heads.len());
    for head in &heads {
        let head = head.to_ascii_lowercase();
        assert!(
            head.starts_with("get /") && head.contains("\r\nuser-agent: aish/"),
            "{head}"
        );
        for private in ["cookie", "authorization", "referer", "proxy"] {
            assert!(!head.contains(private), "{head}");
        }
    }
    let client = world.client();
    let told = audited(&client, AuditKind::ProgramReached);
    assert!(told.iter().all(|it| it.provider.as_deref() == Some("web")));
    let (reached, refused) = counts(told[0].network.as_ref());
    assert_eq!((vec![(address.as_str(), 1)], vec![]), (reached, refused));
    let offered = upstream.requests()[0].json()["tools"].to_string();
    assert!(offered.contains("\"web__fetch\""), "{offered}");
}

#[test]
fn a_long_page_is_read_on_by_its_lines() {
    let (upstream, site) = (Upstream::start(), Site::start());
    let long: String = (1..=2000).map(|it| format!("line {it}\n")).collect();
    let url = site.at("/long", page("200 OK", "text/plain", long.as_bytes()));
    let hosts = format!("{:?}", site.address);
    let Some((world, _daemon)) = started(&upstream, &site, &hosts, false) else {
        return;
    };
    model_reads(
        &upstream,
        &[json!({"url": url}), json!({"url": url, "offset": 1900})],
    );
    let client = world.client();
    let conversation = created(&world, &client);
    client.wait_turn(client.ask(conversation, "read it"));
    let results = events::<ToolResult>(&client, conversation);
    let first = &results[0].content;
    assert!(
        first.contains("\nline 1\n") && !first.contains("line 1900"),
        "{first}"
    );
    assert!(
        first.contains(" of 2000; to read on: web__fetch {"),
        "{first}"
    );
    let second = &results[1].content;
    assert!(
        second.contains("\n\nline 1900\n") && second.contains("line 2000\n"),
        "{second}"
    );
    assert!(
        second.ends_with("[aish] lines 1900 to 2000 of 2000"),
        "{second}"
    );
}

/// A server that means harm, and one that is only broken: each call ends by itself, with what there is.
#[test]
fn what_a_server_does_ends_with_the_call() {
    let (upstream, site) = (Upstream::start(), Site::start());
    let head = |more: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{more}\r\n").into_bytes()
    };
    let mut packed = GzEncoder::new(vec![], Compression::best());
    packed.write_all(&vec![b'a'; 64 << 20]).unwrap();
    let bomb = [head("Content-Encoding: gzip\r\n"), packed.finish().unwrap()].concat();
    let chunked = head("Transfer-Encoding: chunked\r\n");
    let piece = format!("10000\r\n{}\r\n", "b".repeat(0x10000)).into_bytes();
    let deep = format!("<p>before</p>{}", "<div>".repeat(3000));
    let wanted = [
        site.at("/endless", Page::Endless(chunked, piece)),
        site.at("/bomb", Page::Bytes(bomb)),
        site.at(
            "/slow",
            Page::Stalls([head("Content-Length: 100\r\n"), b"begun".to_vec()].concat()),
        ),
        site.at(
            "/half",
            Page::Bytes([head("Content-Length: 100\r\n"), b"half".to_vec()].concat()),
        ),
        site.at("/round", redirect("/round")),
        site.at("/file", redirect("file:///etc/passwd")),
        site.at("/garbage", Page::Bytes(b"nonsense\r\n\r\n".to_vec())),
        site.at(
            "/brotli",
            Page::Bytes(head("Content-Encoding: br\r\nContent-Length: 0\r\n")),
        ),
        site.at("/deep", page("200 OK", "text/html", deep.as_bytes())),
        site.at("/binary", page("200 OK", "text/plain", b"\0\x01\x02")),
    ];
    let hosts = format!("{:?}", site.address);
    let Some((world, daemon)) = started(&upstream, &site, &hosts, false) else {
        return;
    };
    let results = read(&upstream, &world, &wanted);
    let expected = [
        (true, "has more than the 4 MiB that are read"),
        (true, "has more than the 4 MiB that are read"),
        (true, "the rest did not come in time"),
        (true, "the connection broke off"),
        (false, "5 redirects were followed"),
        (false, "begins with http:// or https://"),
        (false, "did not answer in HTTP"),
        (false, "packed as \"br\""),
        (true, "nested too deep"),
        (true, "not text"),
    ];
    assert_eq!(expected.len(), results.len());
    for (result, (ok, part)) in results.iter().zip(expected) {
        assert_eq!(ok, result.ok, "{}", result.content);
        assert!(result.content.contains(part), "{}", result.content);
    }
    for (at, part) in [(2, "begun"), (3, "half"), (8, "before")] {
        assert!(
            results[at].content.contains(part),
            "{}",
            results[at].content
        );
    }
    assert!(
        daemon.peak_rss_kib() < 200 << 10,
        "{} KiB",
        daemon.peak_rss_kib()
    );
}

/// The person who is asked sees the call and the host; a redirect to another host is another question.
#[test]
fn a_host_that_no_rule_names_is_asked_about_and_so_is_where_it_leads() {
    let (upstream, site) = (Upstream::start(), Site::start());
    let first = site.at("http://one.example/a", redirect("http://two.example/b"));
    site.at(
        "http://two.example/b",
        page("200 OK", "text/plain", b"the second"),
    );
    let Some((world, _daemon)) = started(&upstream, &site, "", true) else {
        return;
    };
    let client = world.client();
    let other = world.person("pts/7");
    let conversation = created(&world, &client);
    let ask = |count: usize| -> TurnId {
        model_reads(&upstream, &vec![json!({ "url": first }); count]);
        client.ask(conversation, "read it")
    };
    let say = |decision: Decision, host: &str| {
        let (asked, wanted) = asked_about(&other, conversation);
        assert_eq!(
            (host, true, Some("web__fetch")),
            (wanted.host.as_str(), wanted.plain, wanted.tool.as_deref())
        );
        assert_eq!("web__fetch http://one.example/a", wanted.command);
        other.done::<Answer>(with(&asked, decision));
    };
    let last = || events::<ToolResult>(&client, conversation).pop().unwrap();

    let turn = ask(1);
    let (_, wanted) = asked_about(&other, conversation);
    assert_eq!("one.example", wanted.rule);
    assert!(site.heads().is_empty(), "it was reached before a yes");
    say(Decision::AllowOnce, "one.example:80");
    say(Decision::Deny, "two.example:80");
    client.wait_turn(turn);
    assert_eq!(
        "[aish] the page was not read: two.example:80 is not allowed",
        last().content
    );
    assert_eq!(1, site.heads().len());

    // A yes was for that call. One for the conversation stays, and of a no nobody is asked again in the turn.
    let turn = ask(2);
    say(Decision::AllowConversation, "one.example:80");
    say(Decision::Deny, "two.example:80");
    client.wait_turn(turn);
    assert!(last().content.contains("two.example:80 is not allowed"));
    let turn = ask(1);
    say(Decision::AllowOnce, "two.example:80");
    client.wait_turn(turn);
    let read = last();
    assert!(
        read.ok && read.content.ends_with("\n\nthe second\n"),
        "{}",
        read.content
    );
    // The call itself is nothing that a person is asked about.
    let asked = events::<ConfirmRequested>(&client, conversation);
    assert_eq!(
        (5, 4),
        (asked.len(), events::<ToolCall>(&client, conversation).len())
    );
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until(|it| {
        it.read::<ToolResult>()
            .is_some_and(|it| it.content.contains("the second"))
    });
}

#[test]
fn private_addresses_stay_out_of_reach_whoever_leads_there() {
    let (upstream, site) = (Upstream::start(), Site::start());
    let inner = Site::start();
    inner.at("/secret", page("200 OK", "text/plain", b"inner"));
    let port = inner.address.rsplit(':').next().unwrap().to_owned();
    let wanted = [
        site.at("/in", redirect(&format!("http://127.0.0.1:{port}/secret"))),
        site.at(
            "/v6",
            redirect(&format!("http://[::ffff:127.0.0.1]:{port}/secret")),
        ),
        site.at(
            "/name",
            redirect(&format!("http://localhost:{port}/secret")),
        ),
        site.at(
            "/cloud",
            redirect("http://169.254.169.254/latest/meta-data/"),
        ),
        "http://127.0.0.1:61080/".to_owned(),
    ];
    // `*` allows hosts by their names, and no private address.
    let hosts = format!("\"*\", \"*:{port}\", \"*:61080\", {:?}", site.address);
    let Some((world, _daemon)) = started(&upstream, &site, &hosts, false) else {
        return;
    };
    let results = read(&upstream, &world, &wanted);
    assert_eq!(wanted.len(), results.len());
    for result in &results {
        assert!(
            !result.ok && result.content.contains("private address"),
            "{}",
            result.content
        );
    }
    assert!(inner.heads().is_empty(), "{:?}", inner.heads());
    let client = world.client();
    let check = doctor(&client, "hosts of web");
    println!("{check:?}");
}

/// Nobody can be asked, nothing may leave, or the kernel holds nothing: nothing is reached.
#[test]
fn where_it_may_not_be_nothing_is_reached() {
    let (upstream, site) = (Upstream::start(), Site::start());
    let url = site.at("http://one.example/a", page("200 OK", "text/plain", b"one"));
    let Some((world, daemon)) = started(&upstream, &site, "", true) else {
        return;
    };
    let denied = world.ctl(&["ask", "--no-stdin", "--confirm=deny", "read it"]);
    model_reads(&upstream, &[json!({ "url": url })]);
    drop(denied.run());
    let client = world.client();
    let last = upstream.requests().pop().unwrap();
    let (_, reply) = last.messages().pop().unwrap();
    assert!(reply.contains("one.example:80 is not allowed"), "{reply}");
    assert!(site.heads().is_empty());
    drop((client, daemon));

    let _daemon = world.daemon().failpoint("profile=miss").spawn();
    let client = world.client();
    let conversation = created(&world, &client);
    let calls = [call("w", "web__fetch", json!({ "url": url }))];
    let turn = client
        .done::<Run>(allowed(conversation, &calls, "web__*"))
        .turn;
    client.wait_turn(turn);
    let result = result(&client, conversation, "w");
    let part =
        "the profile `read` cannot be held here: it is switched off; `aishctl doctor` says more";
    assert!(
        !result.ok && result.content.contains(part),
        "{}",
        result.content
    );
    assert!(site.heads().is_empty());
}
