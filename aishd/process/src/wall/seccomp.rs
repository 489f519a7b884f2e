//! The part that a filter of system calls holds: the ways out of a wall that are no files. Landlock knows nothing of
//! sockets that have a path, of UDP, and of calls that reach another process by its number.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter, sock_filter,
};

type SyscallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls of the later numbers, which are the same on every machine; libc does not name all of them everywhere.
const LATER: [(&str, i64); 17] = [
    ("io_uring_setup", 425),
    ("io_uring_enter", 426),
    ("io_uring_register", 427),
    ("open_tree", 428),
    ("move_mount", 429),
    ("fsopen", 430),
    ("fsconfig", 431),
    ("fsmount", 432),
    ("fspick", 433),
    ("pidfd_getfd", 438),
    ("process_madvise", 440),
    ("mount_setattr", 442),
    ("process_mrelease", 448),
    ("setxattrat", 463),
    ("removexattrat", 466),
    ("open_tree_attr", 467),
    ("file_setattr", 469),
];
/// The flags of `clone` and `unshare` that make a namespace.
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    CLONE_NEWTIME,
];
/// Of clocks; in `clone` it would be a part of a signal's number, and there is no such signal.
const CLONE_NEWTIME: i32 = 0x80;
/// Where the numbers of the other half of the machine's interface begin (x32): programs for it exist hardly anywhere, most
/// kernels know none of its calls, and none is let through.
const OTHER_HALF: u32 = 0x4000_0000;

/// Instructions of such a program, as the kernel numbers them.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

pub(super) fn hold() -> io::Result<()> {
    let failed = |error: seccompiler::Error| match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
        seccompiler::Error::EmptyFilter
        | seccompiler::Error::Backend(_)
        | seccompiler::Error::ThreadSync(_) => io::Error::from(Errno::NOSYS),
    };
    apply_filter(&program()?).map_err(failed)
}

fn unmade(_error: BackendError) -> io::Error {
    Errno::NOSYS.into()
}

/// All of it as one program, and that a short one: the kernel translates it for each command and tries it with each number.
/// As three programs with a rule for each number and each half, which the crate makes, that takes 0.4 ms instead of 0.1.
fn program() -> io::Result<BpfProgram> {
    let filter = SeccompFilter::new(
        depending().map_err(unmade)?,
        SeccompAction::Allow,
        refusal(Errno::PERM),
        std::env::consts::ARCH.try_into().map_err(unmade)?,
    );
    let mut program: BpfProgram = filter.and_then(TryInto::try_into).map_err(unmade)?;
    // What begins there has looked at the machine's kind, and has the number.
    let loads_number = instruction(LOAD, 0, 0, 0);
    let at = program.iter().position(|it| *it == loads_number);
    let at = at.ok_or(Errno::NOSYS)? + 1;
    let never = NEVER.into_iter().chain(LATER.map(|(_name, number)| number));
    let mut first = vec![
        instruction(IF_AT_LEAST, OTHER_HALF, 0, 1),
        instruction(RETURN, refusal(Errno::NOSYS).into(), 0, 0),
    ];
    first.extend(always(never.collect(), Errno::PERM)?);
    // Who asks for it by its structure, which a filter cannot read, asks again in the older way.
    first.extend(always(vec![libc::SYS_clone3], Errno::NOSYS)?);
    first.extend(always(ATTRIBUTES.to_vec(), Errno::OPNOTSUPP)?);
    program.splice(at..at, first);
    Ok(program)
}

fn refusal(errno: Errno) -> SeccompAction {
    SeccompAction::Errno(errno.raw_os_error().cast_unsigned())
}

fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Every call of these numbers is answered so, and every other goes on behind this.
fn always(numbers: Vec<i64>, errno: Errno) -> io::Result<BpfProgram> {
    let unmade = |_| io::Error::from(Errno::NOSYS);
    let mut left = numbers.len();
    let mut all = vec![];
    for number in numbers {
        left -= 1;
        let to_answer = u8::try_from(left).map_err(unmade)?;
        // The last one goes round the answer.
        let onward = u8::from(left == 0);
        let number = u32::try_from(number).map_err(unmade)?;
        all.push(instruction(IF_EQUAL, number, to_answer, onward));
    }
    all.push(instruction(RETURN, refusal(errno).into(), 0, 0));
    Ok(all)
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

/// What is refused whatever its arguments are.
const NEVER: [i64; 52] = [
    // Sockets of every kind; pairs of them are below. Without `connect`, one of a pair cannot be turned outwards.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    // Other processes: their memory, their descriptors, what they run at.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
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
    // Keys that the kernel keeps.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The file system as a whole.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // The machine.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_syslog,
];

/// What is refused for some arguments.
fn depending() -> Result<SyscallRules, BackendError> {
    let mut rules = SyscallRules::new();
    let mut some = |number: i64, conditions: Vec<SeccompCondition>| {
        let each = conditions.into_iter().map(|it| SeccompRule::new(vec![it]));
        let each: Result<Vec<_>, _> = each.collect();
        each.map(|it| rules.insert(number, it)).map(|_none| ())
    };
    // One of a pair of streams stays what it is; one that takes messages could be sent to anybody's socket.
    let of_messages = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(|kind| bits(1, 0xf, kind));
    some(libc::SYS_socketpair, all(of_messages)?)?;
    for number in [libc::SYS_clone, libc::SYS_unshare] {
        some(number, all(NAMESPACES.map(|flag| bits(0, flag, flag)))?)?;
    }
    // Of others: what comes first is who.
    for number in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        some(number, vec![not(0, 0)?])?;
    }
    // A process, not a group or a user; and that it is the caller.
    some(libc::SYS_setpriority, vec![not(0, 0)?, not(1, 0)?])?;
    some(libc::SYS_ioprio_set, vec![not(0, 1)?, not(1, 0)?])?;
    Ok(rules)
}

fn all<const N: usize>(
    conditions: [Result<SeccompCondition, BackendError>; N],
) -> Result<Vec<SeccompCondition>, BackendError> {
    conditions.into_iter().collect()
}

/// These bits of an argument are exactly so.
fn bits(argument: u8, mask: i32, value: i32) -> Result<SeccompCondition, BackendError> {
    let unsigned = |it: i32| u64::from(it.cast_unsigned());
    SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(unsigned(mask)),
        unsigned(value),
    )
}

fn not(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does with it: the answer to a call.
    fn answer(program: &[sock_filter], machine: u32, number: u32, arguments: [u64; 2]) -> u32 {
        let mut held = 0;
        let mut at = 0;
        loop {
            let it = &program[at];
            at += 1;
            let onward = |holds: bool| usize::from(if holds { it.jt } else { it.jf });
            match it.code {
                LOAD => {
                    held = match it.k {
                        0 => number,
                        4 => machine,
                        low @ (16 | 24) => arguments[(low as usize - 16) / 8] as u32,
                        high @ (20 | 28) => (arguments[(high as usize - 20) / 8] >> 32) as u32,
                        other => panic!("{other}"),
                    }
                }
                0x05 => at += it.k as usize,
                IF_EQUAL => at += onward(held == it.k),
                IF_AT_LEAST => at += onward(held >= it.k),
                0x25 => at += onward(held > it.k),
                0x54 => held &= it.k,
                RETURN => return it.k,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn one_short_program_answers_every_call() {
        let program = program().unwrap();
        assert!(program.len() < 300, "{}", program.len());
        // The first thing that it does is to compare the kind of the machine.
        let ours = program[1].k;
        let check = |number: i64, arguments: [u64; 2], expected: Option<Errno>| {
            let number = u32::try_from(number).unwrap();
            let expected = expected.map_or(SeccompAction::Allow, refusal);
            let said = answer(&program, ours, number, arguments);
            assert_eq!(u32::from(expected), said, "{number} {arguments:?}");
        };
        let later = LATER.map(|(_name, number)| number);
        for number in NEVER.into_iter().chain(later) {
            check(number, [0; 2], Some(Errno::PERM));
            check(number | 0x4000_0000, [0; 2], Some(Errno::NOSYS));
        }
        for number in ATTRIBUTES {
            check(number, [0; 2], Some(Errno::OPNOTSUPP));
        }
        check(libc::SYS_clone3, [0; 2], Some(Errno::NOSYS));
        for number in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve] {
            check(number, [0; 2], None);
            check(number | 0x4000_0000, [0; 2], Some(Errno::NOSYS));
        }
        let thread = u64::from((libc::CLONE_VM | libc::CLONE_THREAD).cast_unsigned());
        for flag in NAMESPACES {
            let flag = u64::from(flag.cast_unsigned());
            for number in [libc::SYS_clone, libc::SYS_unshare] {
                check(number, [flag | thread, 0], Some(Errno::PERM));
                check(number, [thread, 0], None);
            }
        }
        let [stream, messages] = [libc::SOCK_STREAM, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC]
            .map(|it| u64::from(it.cast_unsigned()));
        check(libc::SYS_socketpair, [1, stream], None);
        check(libc::SYS_socketpair, [1, messages], Some(Errno::PERM));
        check(libc::SYS_prlimit64, [0, 0], None);
        check(libc::SYS_prlimit64, [1, 0], Some(Errno::PERM));
        let other = answer(&program, ours ^ 1, 0, [0; 2]);
        assert_eq!(libc::SECCOMP_RET_KILL_PROCESS, other);
    }
}
