//! Reaching the daemon: connect, start one where that is allowed, say hello, lend keys.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use aish_proto::attach::AttachResult;
use aish_proto::daemon::{ClientInfo, ClientKind, Hello, HelloParams, HelloResult};
use aish_proto::error::ErrorKind;
use aish_proto::method::ClientRole;
use aish_proto::shell::USUAL_ENVIRONMENT;
use aish_proto::version::{PROGRAM, ProtocolRange};
use tokio::time::Instant;

use crate::client::connect::{self, CallFailure, Caller, DaemonEvents};
use crate::client::spawn::{self, SpawnOutcome};
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;

/// How long a daemon that was started or that is coming back is waited for.
pub const BACK_WITHIN: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Whether a missing daemon may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonStart {
    Allowed,
    Forbidden,
}

/// Whether a missing daemon is worth waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonWait {
    /// It is there or it is not.
    No,
    /// It was there a moment ago.
    UntilBack,
}

/// Everything that is needed to reach the daemon, also a second time.
#[derive(Clone, Debug)]
pub struct DaemonReach {
    pub around: ClientEnvironment,
    pub socket: PathBuf,
    pub start: DaemonStart,
    pub kind: ClientKind,
    pub role: ClientRole,
    pub deadline: Duration,
    pub protocol: ProtocolRange,
}

/// A connection that has said hello.
#[derive(Debug)]
pub struct DaemonLink {
    pub caller: Caller,
    pub events: DaemonEvents,
    pub hello: HelloResult,
    /// This connection's daemon was started by us.
    pub started: bool,
    /// The conversation's events come already: that was asked for together with the question.
    pub attached: Option<AttachResult>,
}

impl DaemonReach {
    /// The same for who only hears of what happens: that is no reason to start a daemon.
    pub fn listening(&self) -> Self {
        Self {
            start: DaemonStart::Forbidden,
            ..self.clone()
        }
    }

    /// Connects and says hello, starting the daemon where that is allowed.
    pub async fn open(&self, wait: DaemonWait) -> Result<DaemonLink, Failure> {
        let nothing = |_caller| std::future::ready(());
        let (link, _none) = self
            .open_with(wait, GreetKind::Only, nothing, || true)
            .await?;
        Ok(link)
    }

    /// The same with a first call right behind hello: who asks waits for the daemon once. It was not made where the
    /// daemon wants to be lent a key first. Nothing more is sent and no key is lent once `goes_on` is false.
    pub async fn open_calling<C: Future>(
        &self,
        wait: DaemonWait,
        first: impl Fn(Caller) -> C,
        goes_on: impl Fn() -> bool,
    ) -> Result<(DaemonLink, Option<C::Output>), Failure> {
        self.open_with(wait, GreetKind::AndCall, first, goes_on)
            .await
    }

    async fn open_with<C: Future>(
        &self,
        wait: DaemonWait,
        greet: GreetKind,
        first: impl Fn(Caller) -> C,
        goes_on: impl Fn() -> bool,
    ) -> Result<(DaemonLink, Option<C::Output>), Failure> {
        let give_up = Instant::now() + BACK_WITHIN;
        let mut pause = FIRST_PAUSE;
        let mut tried = false;
        let mut started = false;
        loop {
            let problem = match connect::connect(&self.socket, self.deadline).await {
                Ok((caller, events)) => {
                    match self.greet(caller, events, greet, &first, &goes_on).await {
                        Ok((link, called)) => return Ok((DaemonLink { started, ..link }, called)),
                        Err(HelloRefused {
                            transient: true,
                            failure,
                        }) => failure,
                        Err(HelloRefused {
                            transient: false,
                            failure,
                        }) => return Err(failure),
                    }
                }
                Err(error) if is_absent(&error) => {
                    if self.start == DaemonStart::Allowed && !tried {
                        tried = true;
                        started =
                            spawn::start(&self.around, &self.socket).await? == SpawnOutcome::ByUs;
                        continue;
                    }
                    if wait == DaemonWait::No && !tried {
                        return Err(self.unreachable(&error));
                    }
                    self.unreachable(&error)
                }
                // The listener's backlog is full for a moment.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.unreachable(&error),
                Err(error) => return Err(self.unreachable(&error)),
            };
            if !goes_on() || Instant::now() + pause > give_up {
                return Err(problem);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn greet<C: Future>(
        &self,
        mut caller: Caller,
        events: DaemonEvents,
        greet: GreetKind,
        first: impl Fn(Caller) -> C,
        goes_on: impl Fn() -> bool,
    ) -> Result<(DaemonLink, Option<C::Output>), HelloRefused> {
        let tentative = greet == GreetKind::AndCall;
        let greeting = self.say_hello(&caller, BTreeMap::new(), &[], tentative);
        let (mut hello, mut called) = match greet {
            GreetKind::Only => (greeting.await?, None),
            GreetKind::AndCall => both(greeting, first(caller.clone())).await?,
        };
        if wants_more(&hello) {
            // It was made before anybody was greeted, and so refused.
            called = None;
            if !goes_on() {
                return Err(HelloRefused {
                    transient: false,
                    failure: Failure::new(Exit::FAILED, "stopped before anything was asked"),
                });
            }
            let secrets = lent(&self.around, &hello.wanted_secrets);
            let more = std::mem::take(&mut hello.wanted_environment);
            let has_more = !lent(&self.around, &more).is_empty();
            if tentative || !secrets.is_empty() || has_more {
                hello = self.say_hello(&caller, secrets, &more, false).await?;
            }
        }
        caller.set_line_bytes(hello.limits.line_bytes);
        let link = DaemonLink {
            caller,
            events,
            hello,
            started: false,
            attached: None,
        };
        Ok((link, called))
    }

    async fn say_hello(
        &self,
        caller: &Caller,
        secrets: BTreeMap<String, String>,
        more: &[String],
        tentative: bool,
    ) -> Result<HelloResult, HelloRefused> {
        let usual = USUAL_ENVIRONMENT.map(str::to_owned);
        let mut environment = lent(&self.around, &usual);
        environment.extend(lent(&self.around, more));
        let params = HelloParams {
            protocol: self.protocol,
            client: ClientInfo {
                name: if self.kind == ClientKind::Line {
                    "aish"
                } else {
                    "aishctl"
                }
                .to_owned(),
                version: PROGRAM.to_owned(),
                kind: self.kind,
                tty: self.around.tty.clone(),
            },
            role: self.role,
            secrets,
            environment,
            umask: self.around.umask,
            tentative,
        };
        caller.call::<Hello>(params).await.map_err(|error| {
            let transient = error.is_transient();
            let mismatch = error.kind == CallFailure::Refused(ErrorKind::VersionMismatch);
            let mut failure = Failure::from(error);
            if mismatch && failure.hint.is_none() {
                failure.hint = Some(format!(
                    "aishctl is {PROGRAM}; restart aishd after an upgrade"
                ));
            }
            HelloRefused { transient, failure }
        })
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        let known = [
            (io::ErrorKind::NotFound, "no such file"),
            (io::ErrorKind::ConnectionRefused, "nobody listens there"),
            (io::ErrorKind::PermissionDenied, "permission denied"),
        ];
        let known = known.iter().find(|(kind, _)| *kind == error.kind());
        let reason = known.map_or_else(|| error.to_string(), |(_, reason)| (*reason).to_owned());
        let socket = self.socket.display();
        let hint = match self.start {
            DaemonStart::Allowed => "aishd --foreground shows why it does not start".to_owned(),
            DaemonStart::Forbidden => start_hint(&self.around, &self.socket),
        };
        Failure::new(
            Exit::NO_DAEMON,
            format!("cannot reach aishd at {socket} ({reason})"),
        )
        .hint(hint)
    }
}

fn start_hint(around: &ClientEnvironment, socket: &Path) -> String {
    if around.has_socket_unit() {
        "systemctl --user start aishd".to_owned()
    } else if around.socket(None) == socket {
        "aishd --detach starts it, and so does any aishctl ask".to_owned()
    } else {
        format!("start it there: aishd --socket {}", socket.display())
    }
}

/// What goes over a connection that was just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GreetKind {
    Only,
    AndCall,
}

/// Hello goes first; where it is refused, nothing else is waited for.
async fn both<T>(
    greeting: impl Future<Output = Result<HelloResult, HelloRefused>>,
    call: impl Future<Output = T>,
) -> Result<(HelloResult, Option<T>), HelloRefused> {
    let (mut greeting, mut call) = (pin!(greeting), pin!(call));
    let mut called = None;
    let hello = loop {
        tokio::select! {
            biased;
            hello = &mut greeting => break hello?,
            done = &mut call, if called.is_none() => called = Some(done),
        }
    };
    if called.is_none() && !wants_more(&hello) {
        called = Some(call.await);
    }
    Ok((hello, called))
}

struct HelloRefused {
    /// The daemon is on its way out; the next one may answer.
    transient: bool,
    failure: Failure,
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

/// Whether hello is to be said again with what the daemon asked for.
fn wants_more(hello: &HelloResult) -> bool {
    !hello.wanted_secrets.is_empty() || !hello.wanted_environment.is_empty()
}

/// The values of the variables that the daemon asked for and this process has.
fn lent(around: &ClientEnvironment, wanted: &[String]) -> BTreeMap<String, String> {
    wanted
        .iter()
        .filter_map(|name| {
            let value = around.variables.get(OsStr::new(name))?.to_str()?;
            (!value.is_empty()).then(|| (name.clone(), value.to_owned()))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_daemon::{self, GatewayPeer};

    pub(crate) fn reach(socket: &Path) -> DaemonReach {
        DaemonReach {
            around: ClientEnvironment {
                cwd: "/".into(),
                ..ClientEnvironment::default()
            },
            socket: socket.to_owned(),
            start: DaemonStart::Forbidden,
            kind: ClientKind::Script,
            role: ClientRole::Driver,
            deadline: connect::CALL_DEADLINE,
            protocol: ProtocolRange::OURS,
        }
    }

    #[tokio::test]
    async fn keys_that_presets_name_are_lent_and_no_others() {
        let peer = GatewayPeer::new();
        let mut reach = reach(&peer.socket);
        for (name, value) in [("A_KEY", "a"), ("EMPTY_KEY", ""), ("OTHER_KEY", "o")] {
            reach.around.variables.insert(name.into(), value.into());
        }
        let script = async {
            let mut link = peer.accept().await;
            let call = link.expect("daemon/hello").await;
            assert!(call.params.get("secrets").is_none());
            link.reply(
                &call,
                test_daemon::hello(&["A_KEY", "EMPTY_KEY", "ABSENT_KEY"]),
            )
            .await;
            let call = link.expect("daemon/hello").await;
            assert_eq!(json!({"A_KEY": "a"}), call.params["secrets"]);
            link.reply(&call, test_daemon::hello(&["ABSENT_KEY"])).await;
            link
        };
        let (link, _link) = tokio::join!(reach.open(DaemonWait::No), script);
        assert_eq!("9.9.9", link.unwrap().hello.server.version);
    }

    #[tokio::test]
    async fn a_missing_daemon_is_said_at_once_with_the_place() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("none.sock");
        let failure = reach(&socket).open(DaemonWait::No).await.unwrap_err();
        assert_eq!(Exit::NO_DAEMON, failure.exit);
        assert!(
            failure.message.contains(&socket.display().to_string()),
            "{failure:?}"
        );
        assert!(failure.message.contains("no such file"), "{failure:?}");
    }

    #[tokio::test]
    async fn a_daemon_that_is_leaving_is_waited_for() {
        let peer = GatewayPeer::new();
        let script = async {
            let mut link = peer.accept().await;
            let call = link.expect("daemon/hello").await;
            link.refuse(&call, ErrorKind::Draining, "going", None).await;
            peer.greet().await
        };
        let reach = reach(&peer.socket);
        let (link, _link) = tokio::join!(reach.open(DaemonWait::No), script);
        link.unwrap();
    }

    #[tokio::test]
    async fn another_protocol_is_told_with_what_to_do() {
        let peer = GatewayPeer::new();
        let script = async {
            let mut link = peer.accept().await;
            let call = link.expect("daemon/hello").await;
            link.refuse(&call, ErrorKind::VersionMismatch, "aishd speaks 7", None)
                .await;
        };
        let reach = reach(&peer.socket);
        let (link, ()) = tokio::join!(reach.open(DaemonWait::No), script);
        let failure = link.unwrap_err();
        assert_eq!(Exit::NO_DAEMON, failure.exit);
        assert!(failure.hint.unwrap().contains("restart"));
    }
}
