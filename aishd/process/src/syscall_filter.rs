//! Making a filter of system calls, and the tables that all our filters share. What one boundary refuses besides is said
//! where that boundary is: `wall/seccomp` and `contained/seccomp`.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter, sock_filter,
};

/// What a filter refuses besides [`REFUSED`], [`LATER`] and namespaces.
pub(super) struct SyscallFilter<'a> {
    /// `EPERM`, whatever the arguments are.
    pub(super) refused: &'a [i64],
    /// `EOPNOTSUPP`, whatever the arguments are.
    pub(super) unsupported: &'a [i64],
    /// `EPERM` for some arguments.
    pub(super) depending: SyscallRules,
}

/// For each call the sets of conditions on its arguments that refuse it.
pub(super) type SyscallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// What every filter refuses whatever the arguments are.
const REFUSED: [i64; 32] = [
    // Other processes: their memory, and what they run at.
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
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
    libc::SYS_acct,
    libc::SYS_syslog,
];
/// The same for calls of the later numbers, which are the same on every machine; libc does not name all of them
/// everywhere.
const LATER: [(&str, i64); 15] = [
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
    ("quotactl_fd", 443),
    ("process_mrelease", 448),
    ("open_tree_attr", 467),
];
/// The flags of `clone` and `unshare` that make a namespace.
pub(super) const NAMESPACES: [i32; 8] = [
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

impl SyscallFilter<'_> {
    /// Holds the calling thread, and what it starts from now on.
    pub(super) fn hold(self) -> io::Result<()> {
        let failed = |error: seccompiler::Error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            seccompiler::Error::EmptyFilter
            | seccompiler::Error::Backend(_)
            | seccompiler::Error::ThreadSync(_) => io::Error::from(Errno::NOSYS),
        };
        apply_filter(&self.program()?).map_err(failed)
    }

    /// All of it as one program, and that a short one: the kernel translates it for each command and tries it with each
    /// number. As three programs with a rule for each number and each half, which the crate makes, that takes 0.4 ms
    /// instead of 0.1.
    fn program(mut self) -> io::Result<BpfProgram> {
        for number in [libc::SYS_clone, libc::SYS_unshare] {
            let each = NAMESPACES.map(|flag| bits(0, flag, flag));
            self.depending.insert(number, any(each).map_err(unmade)?);
        }
        let filter = SeccompFilter::new(
            self.depending,
            SeccompAction::Allow,
            refusal(Errno::PERM),
            std::env::consts::ARCH.try_into().map_err(unmade)?,
        );
        let mut program: BpfProgram = filter.and_then(TryInto::try_into).map_err(unmade)?;
        // What begins there has looked at the machine's kind, and has the number.
        let loads_number = instruction(LOAD, 0, 0, 0);
        let at = program.iter().position(|it| *it == loads_number);
        let at = at.ok_or(Errno::NOSYS)? + 1;
        let refused = REFUSED.iter().chain(self.refused).copied();
        let refused = refused.chain(LATER.map(|(_name, number)| number));
        let mut first = vec![
            instruction(IF_AT_LEAST, OTHER_HALF, 0, 1),
            instruction(RETURN, refusal(Errno::NOSYS).into(), 0, 0),
        ];
        first.extend(always(&refused.collect::<Vec<_>>(), Errno::PERM)?);
        // Who asks for it by its structure, which a filter cannot read, asks again in the older way.
        first.extend(always(&[libc::SYS_clone3], Errno::NOSYS)?);
        first.extend(always(self.unsupported, Errno::OPNOTSUPP)?);
        program.splice(at..at, first);
        Ok(program)
    }
}

/// The kernel cannot be given such a filter.
pub(super) fn unmade(_error: BackendError) -> io::Error {
    Errno::NOSYS.into()
}

fn refusal(errno: Errno) -> SeccompAction {
    SeccompAction::Errno(errno.raw_os_error().cast_unsigned())
}

fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Every call of these numbers is answered so, and every other goes on behind this.
fn always(numbers: &[i64], errno: Errno) -> io::Result<BpfProgram> {
    let unmade = |_| io::Error::from(Errno::NOSYS);
    let mut left = numbers.len();
    let mut all = vec![];
    for number in numbers {
        left -= 1;
        let to_answer = u8::try_from(left).map_err(unmade)?;
        // The last one goes round the answer.
        let onward = u8::from(left == 0);
        let number = u32::try_from(*number).map_err(unmade)?;
        all.push(instruction(IF_EQUAL, number, to_answer, onward));
    }
    if !numbers.is_empty() {
        all.push(instruction(RETURN, refusal(errno).into(), 0, 0));
    }
    Ok(all)
}

/// Refused when one of these holds.
pub(super) fn any<const N: usize>(
    conditions: [Result<SeccompCondition, BackendError>; N],
) -> Result<Vec<SeccompRule>, BackendError> {
    let each = conditions.into_iter();
    each.map(|it| SeccompRule::new(vec![it?])).collect()
}

/// Refused when all of these hold.
pub(super) fn all<const N: usize>(
    conditions: [Result<SeccompCondition, BackendError>; N],
) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

/// These bits of an argument are exactly so.
pub(super) fn bits(argument: u8, mask: i32, value: i32) -> Result<SeccompCondition, BackendError> {
    let unsigned = |it: i32| u64::from(it.cast_unsigned());
    SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(unsigned(mask)),
        unsigned(value),
    )
}

pub(super) fn not(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What the kernel does with it: the answer to a call.
    fn answer(program: &[sock_filter], machine: u32, number: u32, arguments: [u64; 3]) -> u32 {
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
                        low @ (16 | 24 | 32) => arguments[(low as usize - 16) / 8] as u32,
                        high @ (20 | 28 | 36) => (arguments[(high as usize - 20) / 8] >> 32) as u32,
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

    /// What a filter answers to a call of this machine; `None` when it lets it through.
    pub(crate) struct FilterAnswers(BpfProgram);

    impl FilterAnswers {
        pub(crate) fn of(filter: SyscallFilter<'_>) -> Self {
            let program = filter.program().unwrap();
            assert!(program.len() < 300, "{}", program.len());
            Self(program)
        }

        #[track_caller]
        pub(crate) fn check(&self, number: i64, arguments: [u64; 3], expected: Option<Errno>) {
            // The first thing that it does is to compare the kind of the machine.
            let ours = self.0[1].k;
            let number = u32::try_from(number).unwrap();
            let expected = expected.map_or(SeccompAction::Allow, refusal);
            let said = answer(&self.0, ours, number, arguments);
            assert_eq!(u32::from(expected), said, "{number} {arguments:?}");
        }

        /// What is so in every filter, and what these are for.
        pub(crate) fn check_shared(&self, refused: &[i64], unsupported: &[i64]) {
            let none = [0; 3];
            let later = LATER.map(|(_name, number)| number);
            for number in REFUSED.iter().chain(refused).chain(&later) {
                self.check(*number, none, Some(Errno::PERM));
                self.check(number | 0x4000_0000, none, Some(Errno::NOSYS));
            }
            for number in unsupported {
                self.check(*number, none, Some(Errno::OPNOTSUPP));
            }
            self.check(libc::SYS_clone3, none, Some(Errno::NOSYS));
            for number in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve] {
                self.check(number, none, None);
                self.check(number | 0x4000_0000, none, Some(Errno::NOSYS));
            }
            let thread = u64::from((libc::CLONE_VM | libc::CLONE_THREAD).cast_unsigned());
            for flag in NAMESPACES {
                let flag = u64::from(flag.cast_unsigned());
                for number in [libc::SYS_clone, libc::SYS_unshare] {
                    self.check(number, [flag | thread, 0, 0], Some(Errno::PERM));
                    self.check(number, [thread, 0, 0], None);
                }
            }
            let other = answer(&self.0, self.0[1].k ^ 1, 0, none);
            assert_eq!(libc::SECCOMP_RET_KILL_PROCESS, other);
        }
    }
}
