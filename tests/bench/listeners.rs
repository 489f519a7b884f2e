//! Many clients on one answer: each has a socket of its own, and one thread notes when each chunk reached each.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use aish_proto::attach::ReplayStart;
use anyhow::Context as _;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use serde_json::json;

use crate::link::Link;
use crate::markers::Markers;
use crate::table::millis;
use crate::upstream::Upstream;

/// An answer takes no longer than this.
const LIMIT: Duration = Duration::from_secs(60);

/// Sockets on which the next answer will come, and what asks for it.
pub(crate) struct Audience {
    listeners: Vec<UnixStream>,
    ask: Box<dyn FnOnce() -> anyhow::Result<UnixStream>>,
    /// They read nothing, and are there until the answer is over.
    _deaf: Vec<Link>,
}

impl Audience {
    /// On a new conversation of `aishd`. `deaf` clients more are attached and never read.
    pub(crate) fn of_aishd(
        socket: &Path,
        count: usize,
        deaf: usize,
        model: &str,
    ) -> anyhow::Result<Self> {
        let mut asker = Link::open(socket)?;
        let conversation = asker.create()?;
        let attached = || {
            let mut link = Link::open(socket)?;
            link.attach(conversation, ReplayStart::Now)?;
            Ok::<_, anyhow::Error>(link)
        };
        let deaf = (0..deaf)
            .map(|_| attached())
            .collect::<Result<Vec<_>, _>>()?;
        let listeners = (0..count).map(|_| attached().map(Link::into_stream));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        asker.attach(conversation, ReplayStart::Now)?;
        let model = model.to_owned();
        let ask = move || {
            asker.send(conversation, &model)?;
            Ok(asker.into_stream())
        };
        Ok(Self {
            listeners,
            ask: Box::new(ask),
            _deaf: deaf,
        })
    }

    pub(crate) fn of_relay(socket: &Path, count: usize, model: &str) -> anyhow::Result<Self> {
        let attached = || {
            let mut stream = UnixStream::connect(socket)?;
            stream.write_all(b"{\"attach\":true}\n")?;
            let mut told = [0; 18];
            stream.read_exact(&mut told)?;
            Ok::<_, std::io::Error>(stream)
        };
        let listeners = (0..count)
            .map(|_| attached())
            .collect::<Result<Vec<_>, _>>()?;
        let mut asker = UnixStream::connect(socket)?;
        let question = json!({"model": model, "prompt": "Say ok."});
        let ask = move || {
            asker.write_all(format!("{question}\n").as_bytes())?;
            Ok(asker)
        };
        Ok(Self {
            listeners,
            ask: Box::new(ask),
            _deaf: vec![],
        })
    }

    /// Asks and listens until everybody has everything.
    pub(crate) fn hear(self, upstream: &Upstream) -> anyhow::Result<Heard> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, listener) in self.listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            epoll::add(
                &epoll,
                listener,
                epoll::EventData::new_u64(at as u64),
                epoll::EventFlags::IN,
            )?;
        }
        let began = Instant::now();
        // Whoever asks is attached too, and reads.
        let ask = (self.ask)()?;
        let asker = thread::spawn(move || read_to_end(ask));
        let mut heard: Vec<Markers> = self.listeners.iter().map(|_| Markers::default()).collect();
        let mut exchange = None;
        let mut page = vec![0; 256 << 10];
        let mut events = Vec::with_capacity(256);
        let step = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        loop {
            epoll::wait(&epoll, spare_capacity(&mut events), Some(&step))?;
            for event in events.drain(..) {
                let at = usize::try_from(event.data.u64())?;
                let mut listener = &self.listeners[at];
                match listener.read(&mut page) {
                    Ok(0) => anyhow::bail!("a listener was cut"),
                    Ok(read) => heard[at].feed(&page[..read], Instant::now()),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if exchange.is_none() && upstream.is_done() {
                exchange = Some(upstream.take_one()?);
            }
            let sent = exchange.as_ref().map(|it| it.chunks.len());
            if sent.is_some_and(|sent| heard.iter().all(|it| it.times.len() == sent)) {
                break;
            }
            anyhow::ensure!(began.elapsed() < LIMIT, "not everybody heard everything");
        }
        let chunks = exchange.context("it was asked")?.chunks;
        let all = heard.iter().filter_map(|it| it.times.last()).max();
        let lags = heard.iter().flat_map(|it| chunks.iter().zip(&it.times));
        let done = Heard {
            lags: lags.map(|(sent, got)| millis(*sent, *got)).collect(),
            wall: all.map_or(0.0, |it| millis(began, *it)),
        };
        drop(self.listeners);
        drop(asker);
        Ok(done)
    }
}

fn read_to_end(mut stream: UnixStream) {
    let mut page = vec![0; 64 << 10];
    while matches!(stream.read(&mut page), Ok(read) if read > 0) {}
}

/// What came of it, in milliseconds.
#[derive(Debug)]
pub(crate) struct Heard {
    /// Of each chunk at each listener.
    pub(crate) lags: Vec<f64>,
    /// From the question until the last listener had the last chunk.
    pub(crate) wall: f64,
}
