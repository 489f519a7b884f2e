//! The part that a filter of system calls holds: the ways out of a wall that are no files. Landlock knows nothing of
//! sockets that have a path, of UDP, and of calls that reach another process by its number.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

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
/// The same calls under the numbers of the other half of the machine's interface.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
/// And those that have numbers of their own there: `ptrace`, `kexec_load`, `process_vm_readv` and `process_vm_writev`.
#[cfg(target_arch = "x86_64")]
const X32_ALONE: [i64; 4] = [521, 528, 539, 540];

pub(super) fn hold() -> io::Result<()> {
    let failed = |error: seccompiler::Error| match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
        seccompiler::Error::EmptyFilter
        | seccompiler::Error::Backend(_)
        | seccompiler::Error::ThreadSync(_) => io::Error::from(Errno::NOSYS),
    };
    for (rules, errno) in [
        (refused().map_err(unmade)?, Errno::PERM),
        // Who asks for it by its structure, which a filter cannot read, asks again in the older way.
        (always(&[libc::SYS_clone3]), Errno::NOSYS),
        (always(&ATTRIBUTES), Errno::OPNOTSUPP),
    ] {
        apply_filter(&program(rules, errno).map_err(unmade)?).map_err(failed)?;
    }
    Ok(())
}

fn unmade(_error: seccompiler::BackendError) -> io::Error {
    Errno::NOSYS.into()
}

fn program(mut rules: Rules, errno: Errno) -> Result<BpfProgram, seccompiler::BackendError> {
    also_for_x32(&mut rules);
    let errno = errno.raw_os_error().cast_unsigned();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        std::env::consts::ARCH.try_into()?,
    )?;
    filter.try_into()
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

fn refused() -> Result<Rules, seccompiler::BackendError> {
    let mut rules = always(&NEVER);
    rules.extend(always(&LATER.map(|(_name, number)| number)));
    #[cfg(target_arch = "x86_64")]
    rules.extend(always(&X32_ALONE.map(|number| number | X32)));
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
    conditions: [Result<SeccompCondition, seccompiler::BackendError>; N],
) -> Result<Vec<SeccompCondition>, seccompiler::BackendError> {
    conditions.into_iter().collect()
}

/// No conditions: every call of that number.
fn always(numbers: &[i64]) -> Rules {
    numbers.iter().map(|it| (*it, vec![])).collect()
}

#[cfg(target_arch = "x86_64")]
fn also_for_x32(rules: &mut Rules) {
    let same: Vec<_> = rules
        .iter()
        .filter(|(number, _)| **number & X32 == 0)
        .map(|(number, rules)| (number | X32, rules.clone()))
        .collect();
    rules.extend(same);
}

#[cfg(not(target_arch = "x86_64"))]
fn also_for_x32(_rules: &mut Rules) {}

/// These bits of an argument are exactly so.
fn bits(
    argument: u8,
    mask: i32,
    value: i32,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    let unsigned = |it: i32| u64::from(it.cast_unsigned());
    SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(unsigned(mask)),
        unsigned(value),
    )
}

fn not(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}
