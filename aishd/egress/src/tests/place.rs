//! A proxy that is served, who talks to it, and the hosts behind it. These are threads with plain sockets.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::{
    EgressLimits, EgressProxy, EgressReport, EgressSettings, HostName, HostPattern, HostRules,
    NameLookup, NamedHost,
};

/// How long anything is waited for.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Place {
    pub(super) runtime: Runtime,
    pub(super) proxy: EgressProxy,
}

impl Place {
    /// `allow` has patterns between spaces.
    pub(super) fn allowing(allow: &str) -> Self {
        Self::with(settings(allow))
    }

    pub(super) fn with(settings: EgressSettings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = {
            let _within = runtime.enter();
            EgressProxy::serve(listener, settings).unwrap()
        };
        Self { runtime, proxy }
    }

    pub(super) fn client(&self) -> TcpStream {
        connected(self.proxy.address())
    }

    /// Says this on a connection of its own, and what is answered until its end.
    pub(super) fn say(&self, text: impl AsRef<[u8]>) -> String {
        let mut client = self.client();
        // A proxy that has heard enough does not listen to the rest.
        drop(client.write_all(text.as_ref()));
        rest(&mut client)
    }

    /// Opens a tunnel with `CONNECT`; else what was answered.
    pub(super) fn tunnel(&self, target: &str) -> Result<TcpStream, String> {
        let mut client = self.client();
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        drop(client.write_all(request.as_bytes()));
        let head = head(&mut client);
        match head.starts_with("HTTP/1.1 200 ") {
            true => Ok(client),
            false => Err(format!("{head}{}", rest(&mut client))),
        }
    }

    /// Asks for a connection by SOCKS5, and what code is replied.
    pub(super) fn socks(&self, address: &[u8], port: u16) -> (u8, TcpStream) {
        let mut client = self.client();
        client.write_all(&[5, 2, 2, 0]).unwrap();
        let mut chosen = [0; 2];
        client.read_exact(&mut chosen).unwrap();
        assert_eq!([5, 0], chosen);
        let asked = [&[5, 1, 0], address, &port.to_be_bytes()].concat();
        client.write_all(&asked).unwrap();
        let mut reply = [0; 10];
        client.read_exact(&mut reply).unwrap();
        (reply[1], client)
    }

    /// Ends the proxy, and with it all that it serves.
    pub(super) fn end(self) -> EgressReport {
        self.runtime.block_on(self.proxy.shutdown())
    }
}

/// These names have these addresses here.
pub(super) fn settings(allow: &str) -> EgressSettings {
    let pinned = [
        ("origin.example", vec![IpAddr::from([127, 0, 0, 1])]),
        ("other.example", vec![IpAddr::from([127, 0, 0, 1])]),
        ("inside.example", vec![IpAddr::from([10, 255, 255, 1])]),
        ("nowhere.example", vec![]),
    ];
    let pinned = pinned.map(|(it, addresses)| (name(it), addresses));
    EgressSettings {
        rules: HostRules {
            allow: patterns(allow),
            ..HostRules::default()
        },
        names: NameLookup::with_pinned(BTreeMap::from(pinned)),
        limits: EgressLimits {
            handshake: Duration::from_secs(30),
            ..EgressLimits::default()
        },
        ..EgressSettings::default()
    }
}

pub(super) fn patterns(text: &str) -> Vec<HostPattern> {
    let patterns = text.split_whitespace();
    patterns.map(|it| it.parse().unwrap()).collect()
}

fn name(text: &str) -> HostName {
    match NamedHost::parse(text).unwrap() {
        NamedHost::Name(name) => name,
        NamedHost::Address(_) => panic!("{text}"),
    }
}

/// The counts of a host: allowed, denied, refused.
pub(super) fn counts(report: &EgressReport, host: &str) -> (u64, u64, u64) {
    let found = report.hosts.iter().find(|(it, _)| it.to_string() == host);
    let traffic = found.unwrap_or_else(|| panic!("{host} in {report:?}")).1;
    (traffic.allowed, traffic.denied(), traffic.refused())
}

pub(super) fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// All until the end, which may be a reset.
pub(super) fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = vec![];
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&bytes)),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All up to an empty line, or to the end.
pub(super) fn head(stream: &mut TcpStream) -> String {
    let mut head = vec![];
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|it| it > 0) {
        head.extend(byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// A host: a thread for each of its connections.
pub(super) struct Host {
    pub(super) address: SocketAddr,
    seen: mpsc::Receiver<String>,
}

impl Host {
    /// What a connection does says what was seen of it.
    pub(super) fn new(serve: impl Fn(TcpStream) -> String + Send + Clone + 'static) -> Self {
        Self::at(Ipv4Addr::LOCALHOST.into(), serve).unwrap()
    }

    pub(super) fn at(
        address: IpAddr,
        serve: impl Fn(TcpStream) -> String + Send + Clone + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        let address = listener.local_addr()?;
        let (tell, seen) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, serve, tell) = (stream.unwrap(), serve.clone(), tell.clone());
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                thread::spawn(move || tell.send(serve(stream)));
            }
        });
        Ok(Self { address, seen })
    }

    /// Answers each request with this, and sees all that it is sent.
    pub(super) fn answering(answer: &'static str) -> Self {
        Self::new(move |mut stream| {
            let mut seen = request(&mut stream);
            drop(stream.write_all(answer.as_bytes()));
            drop(stream.shutdown(Shutdown::Write));
            seen.push_str(&rest(&mut stream));
            seen
        })
    }

    /// A server of HTTP that says hello.
    pub(super) fn hello() -> Self {
        Self::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
    }

    /// Sends back what it gets, and says so at the end.
    pub(super) fn echo() -> Self {
        Self::new(echo)
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What the next connection that ended had sent.
    pub(super) fn seen(&self) -> String {
        self.seen.recv_timeout(LIMIT).unwrap()
    }

    pub(super) fn has_seen_nothing(&self) -> bool {
        self.seen.try_recv().is_err()
    }
}

pub(super) fn echo(mut stream: TcpStream) -> String {
    let mut all = vec![];
    let mut buffer = [0; 4096];
    while let Ok(bytes) = stream.read(&mut buffer)
        && bytes > 0
    {
        all.extend(&buffer[..bytes]);
        if stream.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    drop(stream.write_all(b" and bye"));
    String::from_utf8_lossy(&all).into_owned()
}

/// A whole request with its body.
fn request(stream: &mut TcpStream) -> String {
    let mut all = head(stream);
    let length = all
        .lines()
        .find_map(|it| it.strip_prefix("Content-Length: "));
    let length = length.map_or(0, |it| it.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    all.push_str(&String::from_utf8_lossy(&body));
    let mut byte = [0];
    while all.contains("Transfer-Encoding: chunked") && !all.ends_with("\r\n0\r\n\r\n") {
        if stream.read(&mut byte).unwrap() == 0 {
            all.push_str("<cut>");
            break;
        }
        all.push(byte[0].into());
    }
    all
}
