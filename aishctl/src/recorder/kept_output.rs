//! How a question gets at what a recorder keeps: over a socket without a file, which only this user may use and which wants the
//! word that the shell was given. It ends with the recorder, however that ends.

use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream as BlockingStream;
use std::os::unix::net::{SocketAddr, UnixListener as BlockingListener};
use std::str::FromStr;
use std::time::Duration;

use rustix::process::getuid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// A request is a word and a number.
const REQUEST_BYTES: u64 = 256;
/// More than a reply has.
const REPLY_BYTES: u64 = 256 << 10;
/// How long the recorder waits for a prompt that the shell has told already.
const PROMPT_PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(3);

/// The end of what a command printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptOutput {
    pub(crate) text: String,
    /// Rows in it.
    pub(crate) kept: usize,
    /// Rows that the command printed.
    pub(crate) all: usize,
}

/// What a recorder knows at a prompt.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestOutput {
    /// The last prompt that was told.
    pub(crate) prompt: u64,
    /// Of the last command before it.
    pub(crate) output: Option<KeptOutput>,
}

/// Where a recorder is, and the word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecorderAddress {
    pub(crate) name: String,
    pub(crate) word: String,
}

impl fmt::Display for RecorderAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.word)
    }
}

/// It is not what a recorder gives its shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAddress;

impl FromStr for RecorderAddress {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let (name, word) = text.split_once(':').ok_or(NoAddress)?;
        let is_plain = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_graphic());
        if !is_plain(name) || !is_plain(word) {
            return Err(NoAddress);
        }
        Ok(Self {
            name: name.to_owned(),
            word: word.to_owned(),
        })
    }
}

impl RecorderAddress {
    fn socket(&self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(&self.name)
    }

    /// What the command printed that ended before this prompt.
    pub(crate) async fn ask(&self, prompt: u64) -> io::Result<Option<KeptOutput>> {
        timeout(PATIENCE, self.exchange(prompt)).await?
    }

    async fn exchange(&self, prompt: u64) -> io::Result<Option<KeptOutput>> {
        let stream = BlockingStream::connect_addr(&self.socket()?)?;
        stream.set_nonblocking(true)?;
        let mut stream = UnixStream::from_std(stream)?;
        refuse_others(&stream)?;
        let request = format!("{} {prompt}\n", self.word);
        stream.write_all(request.as_bytes()).await?;
        stream.shutdown().await?;
        let mut reply = vec![];
        let read = stream.take(REPLY_BYTES).read_to_end(&mut reply).await?;
        if read == 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(serde_json::from_slice(&reply)?)
    }
}

/// A name without a file has no mode that would keep others out.
fn refuse_others(stream: &UnixStream) -> io::Result<()> {
    if stream.peer_cred()?.uid() == getuid().as_raw() {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The recorder's end.
#[derive(Debug)]
pub(crate) struct KeptOutputServer {
    listener: UnixListener,
}

impl KeptOutputServer {
    pub(crate) fn open(address: &RecorderAddress) -> io::Result<Self> {
        let listener = BlockingListener::bind_addr(&address.socket()?)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        Ok(Self { listener })
    }

    /// Waits for somebody who asks.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _address) = self.listener.accept().await?;
        Ok(stream)
    }
}

/// Tells one who asks, if he may know; of others the connection just ends.
pub(crate) async fn tell(
    mut stream: UnixStream,
    word: String,
    mut latest: watch::Receiver<LatestOutput>,
) -> io::Result<()> {
    refuse_others(&stream)?;
    let mut request = String::new();
    let reading = (&mut stream).take(REQUEST_BYTES);
    let mut reading = std::pin::pin!(reading);
    timeout(PROMPT_PATIENCE, reading.read_to_string(&mut request)).await??;
    let asked = request.trim_end().split_once(' ');
    let prompt = asked
        .filter(|(said, _)| *said == word)
        .and_then(|(_, number)| number.parse::<u64>().ok());
    let Some(prompt) = prompt else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    // The mark may still be on its way through the terminal.
    let told = timeout(PROMPT_PATIENCE, latest.wait_for(|it| it.prompt >= prompt));
    let output = match told.await {
        Ok(Ok(latest)) => latest.output.clone(),
        Ok(Err(_)) | Err(_) => None,
    };
    stream.write_all(&serde_json::to_vec(&output)?).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(word: &str) -> RecorderAddress {
        RecorderAddress {
            name: format!("aish-record-test-{}", ulid::Ulid::new()),
            word: word.to_owned(),
        }
    }

    #[tokio::test]
    async fn who_knows_the_word_is_told_once_the_prompt_is_there() {
        let address = address("W");
        assert_eq!(Ok(address.clone()), address.to_string().parse());
        let server = KeptOutputServer::open(&address).unwrap();
        let (sender, receiver) = watch::channel(LatestOutput::default());
        let mut served = tokio::task::JoinSet::new();
        served.spawn(async move {
            for _ in 0..2 {
                let stream = server.accept().await.unwrap();
                let _refused = tell(stream, "W".to_owned(), receiver.clone()).await;
            }
        });
        let kept = KeptOutput {
            text: "out".to_owned(),
            kept: 1,
            all: 1,
        };
        let asking = address.ask(2);
        let telling = async {
            tokio::task::yield_now().await;
            sender.send_replace(LatestOutput {
                prompt: 2,
                output: Some(kept.clone()),
            });
        };
        let (asked, ()) = tokio::join!(asking, telling);
        assert_eq!(Some(kept), asked.unwrap());
        let stranger = RecorderAddress {
            word: "V".to_owned(),
            ..address.clone()
        };
        assert!(stranger.ask(2).await.is_err());
        served.join_all().await;
        assert!(address.ask(2).await.is_err(), "nobody is there any more");
    }

    #[test]
    fn other_texts_are_no_address() {
        for text in ["", "none", ":", "a:", ":b", "a b:c"] {
            assert_eq!(Err(NoAddress), text.parse::<RecorderAddress>(), "{text}");
        }
    }
}
