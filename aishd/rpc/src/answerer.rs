//! Who did something, as the wire shows it.

use aish_proto::answerer::Answerer;
use aishd_log::answering_person::AnsweringPerson;

pub(super) fn answerer(person: AnsweringPerson) -> Answerer {
    Answerer {
        client_id: person.client,
        name: person.name,
        tty: person.tty,
        pid: person.pid,
        uid: person.uid,
    }
}
