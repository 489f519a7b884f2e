//! The part that a filter of system calls holds: the ways out of a wall that are no files. Landlock knows nothing of
//! sockets that have a path, of UDP, and of calls that reach another process by its number.

use std::io;

use seccompiler::BackendError;

use crate::syscall_filter::{SyscallFilter, SyscallRules, any, bits, not, unmade};

pub(super) fn hold() -> io::Result<()> {
    filter()?.hold()
}

fn filter() -> io::Result<SyscallFilter<'static>> {
    Ok(SyscallFilter {
        refused: &NEVER,
        unsupported: &ATTRIBUTES,
        depending: depending().map_err(unmade)?,
    })
}

/// Attributes of files, lists of who may what among them: unlike the files themselves, Landlock lets them be changed
/// anywhere. Programs that copy them take it that there are none.
const ATTRIBUTES: [i64; 6] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

/// What is refused whatever its arguments are, besides what every filter refuses.
const NEVER: [i64; 23] = [
    // Sockets of every kind; pairs of them are below. Without `connect`, one of a pair cannot be turned outwards.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_ptrace,
    // Memory and messages that processes share by a number; whoever guesses one could also remove what it stands for.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // setxattrat, removexattrat and file_setattr: what they change, Landlock lets be changed anywhere.
    463,
    466,
    469,
];

/// What is refused for some arguments.
fn depending() -> Result<SyscallRules, BackendError> {
    let mut rules = SyscallRules::new();
    // One of a pair of streams stays what it is; one that takes messages could be sent to anybody's socket.
    let of_messages = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(|kind| bits(1, 0xf, kind));
    rules.insert(libc::SYS_socketpair, any(of_messages)?);
    // Of others: what comes first is who.
    for number in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        rules.insert(number, any([not(0, 0)])?);
    }
    // A process, not a group or a user; and that it is the caller.
    rules.insert(libc::SYS_setpriority, any([not(0, 0), not(1, 0)])?);
    rules.insert(libc::SYS_ioprio_set, any([not(0, 1), not(1, 0)])?);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::syscall_filter::tests::FilterAnswers;

    #[test]
    fn one_short_program_answers_every_call() {
        let answers = FilterAnswers::of(filter().unwrap());
        answers.check_shared(&NEVER, &ATTRIBUTES);
        let [stream, messages] = [libc::SOCK_STREAM, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC]
            .map(|it| u64::from(it.cast_unsigned()));
        answers.check(libc::SYS_socketpair, [1, stream, 0], None);
        answers.check(libc::SYS_socketpair, [1, messages, 0], Some(Errno::PERM));
        answers.check(libc::SYS_prlimit64, [0, 0, 0], None);
        answers.check(libc::SYS_prlimit64, [1, 0, 0], Some(Errno::PERM));
    }
}
