//! Hosts that no rule is about, while somebody is asked.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::place::{Host, LIMIT, Place, counts, echo, head, patterns, rest, settings};
use crate::questions::Questions;
use crate::{
    EgressSettings, HostAnswer, HostPort, HostRules, HostScheme, OpenQuestion, QuestionSettings,
    Refusal, Upstream, UpstreamProxy,
};

/// A proxy with somebody to ask.
struct Asking {
    place: Place,
    questions: mpsc::Receiver<OpenQuestion>,
}

impl Asking {
    fn new(most_open: usize, deadline: Duration) -> Self {
        Self::with(most_open, deadline, settings(""))
    }

    fn with(most_open: usize, deadline: Duration, settings: EgressSettings) -> Self {
        let (asked, questions) = mpsc::channel(4);
        let questions_of = QuestionSettings {
            asked,
            most_open,
            deadline,
        };
        let place = Place::with(EgressSettings {
            questions: Some(questions_of),
            ..settings
        });
        Self { place, questions }
    }

    fn question(&mut self) -> OpenQuestion {
        let asked = async { tokio::time::timeout(LIMIT, self.questions.recv()).await };
        self.place.runtime.block_on(asked).unwrap().unwrap()
    }

    fn given_up(&self, question: &OpenQuestion) {
        let given_up = async { tokio::time::timeout(LIMIT, question.given_up()).await };
        self.place.runtime.block_on(given_up).unwrap();
    }

    /// A connection that wants this and waits.
    fn wants(&self, target: &str) -> TcpStream {
        let mut client = self.place.client();
        write!(client, "CONNECT {target} HTTP/1.1\r\n\r\n").unwrap();
        client
    }
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn connections_to_one_host_wait_for_one_question() {
    let mut asking = Asking::new(8, LONG);
    let mut clients = vec![asking.wants("example.org:443")];
    let question = asking.question();
    assert_eq!("example.org:443", question.question().target.to_string());
    assert_eq!(HostScheme::Tunnel, question.question().scheme);
    clients.extend((0..5).map(|_| asking.wants("EXAMPLE.org.:443")));
    // Another port is another question.
    let mut other = asking.place.client();
    other
        .write_all(b"GET http://example.org/ HTTP/1.1\r\n\r\n")
        .unwrap();
    let second = asking.question();
    assert_eq!("example.org:80", second.question().target.to_string());
    assert_eq!(HostScheme::PlainHttp, second.question().scheme);
    second.answer(HostAnswer::Deny);
    assert!(head(&mut other).starts_with("HTTP/1.1 403 "));
    question.answer(HostAnswer::Deny);
    // Those of the five that came after the answer ask again.
    let mut questions = asking.questions;
    std::thread::spawn(move || while questions.blocking_recv().is_some() {});
    for mut client in clients {
        assert!(head(&mut client).starts_with("HTTP/1.1 403 aish: example.org:443 is not allowed"));
    }
    assert_eq!((0, 6, 0), counts(&asking.place.end(), "example.org:443"));
}

#[tokio::test]
async fn who_wants_the_same_joins_until_there_is_an_answer() {
    let (asked, mut receiver) = mpsc::channel(1);
    let (rules, _followed) = watch::channel(HostRules::default());
    let settings = QuestionSettings {
        asked,
        most_open: 2,
        deadline: LONG,
    };
    let questions = Questions::new(settings, rules);
    let wait =
        |it: &str| questions.wait(&HostPort::parse(it, Some(443)).unwrap(), HostScheme::Tunnel);
    let first = wait("a.example").unwrap();
    let second = wait("a.example").unwrap();
    // The queue of who answers has room for one.
    assert_eq!(Some(Refusal::TooManyQuestions), wait("b.example").err());
    let question = receiver.try_recv().unwrap();
    assert!(receiver.try_recv().is_err());
    drop(first);
    question.answer(HostAnswer::Allow);
    assert_eq!(Ok(()), second.answered().await);
    let third = wait("a.example").unwrap();
    let question = receiver.try_recv().unwrap();
    drop(second);
    assert!(std::sync::Arc::ptr_eq(&third, &wait("a.example").unwrap()));
    drop(question);
    assert_eq!(Err(Refusal::DeniedByAnswer), third.answered().await);
    drop(third);
    // What is gone leaves its place.
    let open = [wait("a.example").unwrap(), {
        drop(receiver.try_recv());
        wait("b.example").unwrap()
    }];
    drop(receiver.try_recv());
    assert_eq!(Some(Refusal::TooManyQuestions), wait("c.example").err());
    drop(open);
    assert!(wait("c.example").is_ok());
    drop(receiver);
    assert_eq!(Some(Refusal::NotListed), wait("d.example").err());
}

#[test]
fn an_answer_lets_the_connection_through() {
    let host = Host::new(|mut stream| {
        let seen = head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        echo(stream);
        seen
    });
    let upstream = UpstreamProxy::parse(&host.address.to_string(), "").unwrap();
    let mut asking = Asking::with(
        8,
        LONG,
        EgressSettings {
            upstream: Upstream::Proxy(upstream),
            ..settings("")
        },
    );
    let mut client = asking.wants("example.org:443");
    asking.question().answer(HostAnswer::Allow);
    assert!(head(&mut client).starts_with("HTTP/1.1 200 "));
    // It was an answer for who waited then.
    let mut client = asking.wants("example.org:443");
    asking.question().answer(HostAnswer::Deny);
    assert!(head(&mut client).starts_with("HTTP/1.1 403 "));
    assert_eq!((1, 1, 0), counts(&asking.place.end(), "example.org:443"));
}

#[test]
fn an_answer_to_a_name_does_not_reach_a_private_address() {
    let host = Host::hello();
    let mut asking = Asking::new(8, LONG);
    let mut client = asking.wants(&format!("origin.example:{}", host.port()));
    asking.question().answer(HostAnswer::Allow);
    assert!(rest(&mut client).contains("is at a private address"));
    // And about an address of which that is clear, nobody is asked.
    let mut client = asking.wants(&format!("127.0.0.1:{}", host.port()));
    assert!(rest(&mut client).contains("is at a private address"));
    assert!(asking.questions.try_recv().is_err());
    assert!(host.has_seen_nothing());
}

#[test]
fn rules_that_change_answer_too() {
    let host = Host::hello();
    let target = format!("origin.example:{}", host.port());
    let mut asking = Asking::new(8, LONG);
    let mut client = asking.wants(&target);
    let question = asking.question();
    asking
        .place
        .proxy
        .change_rules(|it| it.deny = patterns("elsewhere.example"));
    asking
        .place
        .proxy
        .change_rules(|it| it.allow = patterns(&target));
    assert!(head(&mut client).starts_with("HTTP/1.1 200 "));
    asking.given_up(&question);
}

#[test]
fn a_question_goes_with_who_waits() {
    let mut asking = Asking::new(8, LONG);
    let client = asking.wants("example.org:443");
    let question = asking.question();
    drop(client);
    asking.given_up(&question);
    // What is asked then is a new question.
    let mut client = asking.wants("example.org:443");
    asking.question().answer(HostAnswer::Deny);
    assert!(head(&mut client).starts_with("HTTP/1.1 403 "));
}

#[test]
fn a_question_that_nobody_answers_ends() {
    let mut asking = Asking::new(8, Duration::from_millis(50));
    let mut client = asking.wants("example.org:443");
    let said = rest(&mut client);
    assert!(said.starts_with("HTTP/1.1 403 aish: example.org:443 is not allowed for this command: nobody answered in time"));
    let question = asking.question();
    asking.given_up(&question);
    // One that is dropped was denied.
    let mut asking = Asking::new(8, LONG);
    let mut client = asking.wants("example.org:443");
    drop(asking.question());
    assert!(rest(&mut client).ends_with("aish: example.org:443 is not allowed for this command\n"));
    // And where nobody listens any more, nothing is listed.
    let Asking { place, questions } = asking;
    drop(questions);
    assert!(
        place
            .tunnel("example.org:443")
            .unwrap_err()
            .contains("is not allowed")
    );
}

#[test]
fn there_are_only_so_many_questions() {
    let mut asking = Asking::new(2, LONG);
    let waiting = [asking.wants("a.example:443"), asking.wants("b.example:443")];
    let questions = [asking.question(), asking.question()];
    let mut third = asking.wants("c.example:443");
    assert!(rest(&mut third).contains("too many questions are open"));
    let [one, _two] = questions;
    one.answer(HostAnswer::Deny);
    drop(waiting);
    let report = asking.place.end();
    let third = report
        .hosts
        .iter()
        .find(|(it, _)| it.to_string() == "c.example:443")
        .unwrap()
        .1;
    assert_eq!(Some(&1), third.refusals.get(&Refusal::TooManyQuestions));
}

/// An answer for good is one for those who come later too, and says why to those who waited.
#[test]
fn what_is_settled_is_not_asked_again() {
    let host = Host::echo();
    let target = format!("origin.example:{}", host.port());
    for (answer, waits, later) in [
        (
            HostAnswer::Deny,
            "is not allowed for this command\r\n",
            "is not allowed for this command\r\n",
        ),
        (
            HostAnswer::Unanswered,
            "nobody answered in time\r\n",
            "is not allowed for this command\r\n",
        ),
        // Who answered saw a name, and it leads here.
        (
            HostAnswer::Allow,
            "is at a private address",
            "is at a private address",
        ),
    ] {
        let mut asking = Asking::new(8, LONG);
        let mut waiting = asking.wants(&target);
        asking.question().settle(answer);
        assert!(head(&mut waiting).contains(waits), "{answer:?}");
        let mut second = asking.wants(&target);
        assert!(head(&mut second).contains(later), "{answer:?}");
        assert!(asking.questions.try_recv().is_err(), "{answer:?}");
    }
}
