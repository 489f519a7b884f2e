//! How servers are reached from a daemon that a client started: through the proxy and with the certificates that the
//! shell of that client names.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use aish_testkit::{Answer, Upstream, World, repository};

/// A forward proxy that notes what it was asked for and asks the model's server, whatever name was meant.
struct Proxy {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(upstream: &Upstream) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let endpoint = upstream.endpoint();
        let server = endpoint.trim_start_matches("http://");
        let server = server.trim_end_matches("/v1").to_owned();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let notes = asked.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, notes) = (server.clone(), notes.clone());
                thread::spawn(move || pass(client, &server, &notes));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// One connection. A request for a whole URL becomes one for its path.
fn pass(client: TcpStream, server: &str, notes: &Mutex<Vec<String>>) -> Option<()> {
    let mut from = BufReader::new(client.try_clone().ok()?);
    let mut first = String::new();
    from.read_line(&mut first).ok()?;
    notes.lock().unwrap().push(first.trim_end().to_owned());
    let mut words = first.split(' ');
    let (method, url) = (words.next()?, words.next()?);
    let below = url.strip_prefix("http://")?;
    let path = &below[below.find('/')?..];
    let mut to = TcpStream::connect(server).ok()?;
    write!(to, "{method} {path} HTTP/1.1\r\n").ok()?;
    let (mut answers, mut back) = (to.try_clone().ok()?, client);
    thread::spawn(move || io::copy(&mut answers, &mut back));
    io::copy(&mut from, &mut to).ok()?;
    Some(())
}

fn upstream() -> Upstream {
    let upstream = Upstream::start();
    upstream.answer_with(|_| Answer::text("here"));
    upstream
}

#[test]
fn a_daemon_that_a_client_starts_goes_through_the_proxy_of_that_client() {
    let upstream = upstream();
    let proxy = Proxy::start(&upstream);
    let world = World::new();
    world.write_config(&format!(
        "default_model = \"far\"\n[models.far]\nendpoint = \"http://models.example/v1\"\nmodel = \"m\"\n\n[models.near]\nendpoint = \"{}\"\nmodel = \"m\"\n",
        upstream.endpoint()
    ));
    let through = format!("http://me:s3cretpw@{}", proxy.address);
    let asked = world.ctl(&["ask", "hello"]).env("HTTP_PROXY", &through);
    let asked = asked.env("http_proxy", &through).run().ok();
    assert_eq!("here\n", asked.out());
    assert_eq!(
        vec!["POST http://models.example/v1/chat/completions HTTP/1.1"],
        proxy.asked()
    );
    // What is on this machine is reached directly.
    let near = world.ctl(&["-m", "near", "ask", "hello"]).run().ok();
    assert_eq!("here\n", near.out());
    assert_eq!(1, proxy.asked().len(), "{:?}", proxy.asked());
    // Its children have it too; its doctor tells of it, and nobody tells the password.
    let ran = world.ctl(&["conv", "new", "proj"]).run();
    drop(ran.ok());
    let doctor = world.ctl(&["doctor"]).run();
    let shown = format!("HTTP_PROXY=http://***@{}", proxy.address);
    assert!(doctor.out().contains(&shown), "{}", doctor.out());
    assert!(!doctor.out().contains("s3cretpw"), "{}", doctor.out());
    assert!(!world.log_text().contains("s3cretpw"));
}

/// Runs openssl, which must be there; false where it is not. A daemon that a client starts has the machine's own clock, so
/// certificates have it too.
fn openssl(folder: &Path, args: &str) -> bool {
    let ran = std::process::Command::new("openssl")
        .args(args.split(' '))
        .env_remove("LD_PRELOAD")
        .current_dir(folder)
        .output();
    match ran {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            true
        }
        Err(_not_there) => false,
    }
}

#[test]
fn a_private_authority_that_the_shell_names_is_trusted_by_the_daemon_that_it_starts() {
    let upstream = upstream();
    let world = World::new();
    let folder = world.path("tls");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    if !openssl(
        &folder,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=corp -days 30",
    ) {
        println!("skipped: there is no openssl");
        return;
    }
    for step in [
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out server.csr -subj /CN=server",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 30 -extfile names",
    ] {
        openssl(&folder, step);
    }
    let script = repository::top().join("tests/data/tls_front.py");
    let endpoint = upstream.endpoint();
    let server = endpoint.trim_start_matches("http://");
    let (host, port) = server.trim_end_matches("/v1").split_once(':').unwrap();
    let path = |it: &str| folder.join(it).display().to_string();
    let (certificate, key) = (path("server.pem"), path("server.key"));
    let script = script.display().to_string();
    let args = [script.as_str(), &certificate, &key, host, port];
    let mut front = world.program(Path::new("python3"), &args).spawn();
    let line = front.line_with("LISTEN ");
    let port = line.trim_start_matches("LISTEN ").to_owned();
    world.write_config(&format!(
        "[models.corp]\nendpoint = \"https://127.0.0.1:{port}/v1\"\nmodel = \"m\"\n"
    ));
    // Without it the question fails, and what cures it is said.
    let refused = world.ctl(&["ask", "hello"]).run();
    assert!(refused.err().contains("SSL_CERT_FILE"), "{}", refused.err());
    assert_eq!("", refused.out());
    drop(world.ctl(&["rpc", "daemon/shutdown"]).run());
    for pid in world.daemon_pids() {
        aish_testkit::process::wait_gone(pid);
    }
    let asked = world
        .ctl(&["ask", "hello"])
        .env("SSL_CERT_FILE", path("ca.pem"));
    assert_eq!("here\n", asked.run().ok().out());
    let doctor = world.ctl(&["doctor"]).run();
    let shown = format!("SSL_CERT_FILE={}", path("ca.pem"));
    assert!(doctor.out().contains(&shown), "{}", doctor.out());
    front.signal(rustix::process::Signal::TERM);
    drop(front);
}
