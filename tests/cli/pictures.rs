//! Pictures that a person takes along: with `-f`, with an `@`, over a pipe, dropped on a window; and what is refused.

use std::fs;

use aish_testkit::upstream::Request;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Upstream, World, repository};

use crate::shell::shell;
use crate::terminal::{open, wait_typed, world};

/// A white one of 2 by 3 pixels.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x02\0\0\0\x03\x08\x06\0\0\0\xb9\xea\xde\x81\0\0\0\x0eIDATx\x9cc\xf8\x0f\x05\x0c\x18\x0c\0B\xe6\x17\xe9;\xe2W\xe4\0\0\0\0IEND\xaeB`\x82";
const BASE64: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAYAAAC56t6BAAAADklEQVR4nGP4DwUMGAwAQuYX6TviV+QAAAAASUVORK5CYII=";

fn pictures(request: &Request) -> usize {
    String::from_utf8_lossy(&request.body)
        .matches(BASE64)
        .count()
}

#[test]
fn a_picture_goes_along_however_it_is_given() {
    let (upstream, world, _daemon) = world();
    fs::write(world.work().join("a picture"), PNG).unwrap();
    fs::write(world.work().join("b.txt"), PNG).unwrap();
    for (line, name) in [
        ("aishctl ask -f 'a picture' 'what is it?'", "a picture"),
        ("aishctl ask 'what is @b.txt?'", "b.txt"),
        ("aishctl ask 'what is it?' <b.txt", "stdin"),
        ("aishctl ask -f - 'what is it?' <b.txt", "stdin"),
    ] {
        let before = upstream.requests().len();
        let ended = shell(&world, line).run().ok();
        let said = format!("attached {name} (PNG, 71 bytes)");
        assert!(ended.err().contains(&said), "{line}: {}", ended.err());
        let request = upstream.wait_requests(before + 1);
        assert_eq!(1, pictures(&request), "{line}");
        let row = format!("[picture {name}, 2×3]");
        assert!(
            request.question().contains(&row),
            "{line}: {}",
            request.question()
        );
    }
    upstream.finish();
}

#[test]
fn the_picture_of_a_resource_goes_along() {
    let upstream = Upstream::start();
    let world = World::new();
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    let server = format!("command = \"python3\"\nargs = [{script:?}, \"watched\"]\n");
    let config = upstream.config("fast");
    world.write_config(&format!("{config}\n[mcp.servers.notes]\n{server}"));
    let _daemon = world.daemon().spawn();
    until_true("notes is ready", || {
        shell(&world, "aishctl mcp ls")
            .run()
            .out()
            .contains("ready")
    });
    upstream.answer(Answer::text("a dot"));
    let asked = shell(&world, "aishctl ask 'what is on @notes:note://chart?'");
    let asked = asked.run().ok();
    let said = "attached @notes:note://chart (GIF, 42 bytes)";
    assert!(asked.err().contains(said), "{}", asked.err());
    let body = upstream.wait_requests(1).body;
    assert!(
        String::from_utf8_lossy(&body).contains("data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP")
    );
}

/// A client is not told the bytes of a picture that it does not find again, and does not send another thing in its place.
#[test]
fn a_picture_that_is_not_named_does_not_go_along_with_the_edited_question() {
    let (upstream, world, _daemon) = world();
    fs::write(world.work().join("a.png"), PNG).unwrap();
    let asked = ["ask", "-C", "proj", "-f", "a.png", "what is it?"];
    drop(world.ctl(&asked).run().ok());
    let mut screen = open(&world, 80, 24);
    screen.key(":edit and that?\r");
    screen.wait_for("[aish] without the picture a.png; @a.png takes one along");
    let request = upstream.wait_requests(2);
    assert_eq!("and that?", request.question());
    assert_eq!(0, pictures(&request));
    upstream.finish();
}

/// Much larger than a line of the wire.
#[test]
fn a_large_picture_goes_ahead_in_pieces() {
    let (upstream, world, _daemon) = world();
    let mut large = PNG.to_vec();
    large.resize(3_700_000, 0);
    fs::write(world.work().join("large.png"), &large).unwrap();
    drop(
        shell(&world, "aishctl ask 'what is @large.png?'")
            .run()
            .ok(),
    );
    assert!(upstream.wait_requests(1).body.len() > 4_900_000);
    upstream.finish();
}

#[test]
fn what_cannot_go_along_is_said_and_nothing_is_asked() {
    let (upstream, world, _daemon) = world();
    let write = |name: &str, content: &[u8]| fs::write(world.work().join(name), content).unwrap();
    let mut huge = PNG.to_vec();
    huge.resize(3_750_001, 0);
    write("huge.png", &huge);
    write("a.bmp", b"BM\x36\0\0\0\0\0\0\0\x36\0\0\0");
    write("broken.png", &PNG[..12]);
    for (line, code, why) in [
        (
            "-f huge.png x",
            7,
            "huge.png is too large: a PNG of at most 3.5 MiB goes along with a question",
        ),
        (
            "'@huge.png'",
            7,
            "hint: a smaller copy serves as well: magick huge.png -resize 1600x1600 smaller.jpg",
        ),
        (
            "-f a.bmp x",
            2,
            "a.bmp is a BMP picture, which no model takes",
        ),
        (
            "'@a.bmp'",
            2,
            "hint: magick a.bmp a.bmp.png makes one that they take",
        ),
        (
            "-f broken.png x",
            1,
            "it begins as a PNG and its size cannot be read",
        ),
        ("-f nothing.png x", 2, "cannot read nothing.png"),
    ] {
        let ended = shell(&world, &format!("aishctl ask {line}")).run();
        assert!(ended.err().contains(why), "{line}: {}", ended.err());
        drop(ended.code(code));
    }
    assert_eq!(0, upstream.requests().len());
    upstream.finish();
}

#[test]
fn a_model_that_takes_none_is_named_with_one_that_does() {
    let (upstream, world) = (Upstream::start(), World::new());
    let blind = upstream.preset("blind", "pictures = false");
    let seeing = upstream.preset("seeing", "pictures = true");
    world.write_config(&format!("default_model = \"blind\"\n{blind}\n{seeing}"));
    let _daemon = world.daemon().spawn();
    fs::write(world.work().join("a.png"), PNG).unwrap();
    let ended = shell(&world, "aishctl ask -f a.png 'what is it?'").run();
    let said = ended.err().to_owned();
    assert!(
        said.contains("the preset blind (test-model) takes no pictures"),
        "{said}"
    );
    assert!(said.contains("aishctl ask -m seeing"), "{said}");
    drop(ended.code(1));
    assert_eq!(0, upstream.requests().len());
    drop(
        shell(&world, "aishctl ask -m seeing -f a.png 'what is it?'")
            .run()
            .ok(),
    );
    assert_eq!(1, pictures(&upstream.wait_requests(1)));
    upstream.finish();
}

/// As a terminal writes the path of a file that is dropped on it.
#[test]
fn a_picture_that_is_dropped_on_a_window_is_named_in_the_line() {
    let (upstream, world, _daemon) = world();
    let path = world.work().join("a picture.png");
    fs::write(&path, PNG).unwrap();
    let mut screen = open(&world, 160, 20);
    let dropped = path.display().to_string().replace(' ', "\\ ");
    screen.key("what is ");
    wait_typed(&screen, "what is ");
    screen.key(&format!("\u{1b}[200~{dropped}\u{1b}[201~"));
    screen.wait_for(&format!("what is @\"{}\"", path.display()));
    screen.key("\r");
    assert_eq!(1, pictures(&upstream.wait_requests(1)));
    screen.wait_for("a picture.png (PNG, 71 bytes)");
    // Who looks on sees that there is one.
    open(&world, 160, 20).wait_for("a picture.png · 2×3 · 71 bytes");
    upstream.finish();
}
