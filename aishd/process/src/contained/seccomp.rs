//! Calls that a contained child is refused. Sockets, shared memory, semaphores and debuggers are of its own namespaces and
//! let through; what is refused reaches parts of the kernel that no namespace divides, or would make another namespace.

use std::io;

use seccompiler::BackendError;

use crate::syscall_filter::{SyscallFilter, SyscallRules, all, any, bits, not, unmade};

/// Kinds of sockets that namespaces and masks hold. Others, such as those to a hypervisor, no namespace knows.
const UNIX: u64 = 1;
const IPV4: u64 = 2;
const IPV6: u64 = 10;
const NETLINK: u64 = 16;
/// `getaddrinfo` asks there which addresses there are.
const NETLINK_ROUTE: u64 = 0;
/// The second of the kinds that see packets as they are, from before there was a family for it.
const SOCK_PACKET: i32 = 10;
/// Puts characters into a terminal as if somebody had typed them, and what reaches the console's selection.
const TERMINAL_TRICKS: [u64; 2] = [0x5412, 0x541C];
/// How a program wants the kernel to be for it: as usual, as on 32 bits, with addresses that stay (as debuggers want
/// it), and only asking.
const PERSONALITIES: [u64; 4] = [0, 8, 0x0004_0000, 0xffff_ffff];

pub(super) fn hold() -> io::Result<()> {
    filter()?.hold()
}

fn filter() -> io::Result<SyscallFilter<'static>> {
    Ok(SyscallFilter {
        refused: &[],
        unsupported: &[],
        depending: depending().map_err(unmade)?,
    })
}

fn depending() -> Result<SyscallRules, BackendError> {
    let mut rules = SyscallRules::new();
    let raw = |family, kind| all([bits(0, -1, family), bits(1, 0xf, kind)]);
    let [ipv4, ipv6] = [libc::AF_INET, libc::AF_INET6];
    rules.insert(
        libc::SYS_socket,
        vec![
            all([UNIX, IPV4, IPV6, NETLINK].map(|it| not(0, it)))?,
            all([bits(0, -1, libc::AF_NETLINK), not(2, NETLINK_ROUTE)])?,
            raw(ipv4, libc::SOCK_RAW)?,
            raw(ipv6, libc::SOCK_RAW)?,
            raw(ipv4, SOCK_PACKET)?,
        ],
    );
    rules.insert(libc::SYS_socketpair, vec![all([not(0, UNIX)])?]);
    let tricks = TERMINAL_TRICKS.map(|it| is(1, it));
    rules.insert(libc::SYS_ioctl, any(tricks)?);
    let others = all(PERSONALITIES.map(|it| not(0, it)))?;
    rules.insert(libc::SYS_personality, vec![others]);
    Ok(rules)
}

/// The lower half of an argument: the kernel looks at no more of a request.
fn is(argument: u8, value: u64) -> Result<seccompiler::SeccompCondition, BackendError> {
    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::syscall_filter::tests::FilterAnswers;

    #[test]
    fn what_namespaces_hold_is_let_through_and_the_rest_is_not() {
        let answers = FilterAnswers::of(filter().unwrap());
        answers.check_shared(&[], &[]);
        let refused = Some(Errno::PERM);
        for (socket, expected) in [
            ([1, 1, 0], None),
            ([1, 2 | 0x80000, 0], None),
            ([2, 1, 6], None),
            ([10, 2, 0], None),
            ([16, 3 | 0x80000, 0], None),
            ([16, 3, 9], refused),
            ([2, 3, 1], refused),
            ([2, 3 | 0x80000, 255], refused),
            ([10, 3, 58], refused),
            ([2, 10, 0x300], refused),
            ([17, 2, 0], refused),
            ([38, 5, 0], refused),
            ([40, 1, 0], refused),
            // The kernel sees the lower half only, and so does the filter.
            ([0x1_0000_0011, 2, 0], refused),
        ] {
            answers.check(libc::SYS_socket, socket, expected);
        }
        for (request, expected) in [
            (0x5401, None),
            (0x5412, refused),
            (0x541C, refused),
            (0xdead_0000_5412, refused),
        ] {
            answers.check(libc::SYS_ioctl, [0, request, 0], expected);
        }
        for (wanted, expected) in [(0, None), (0xffff_ffff, None), (0x0400_0000, refused)] {
            answers.check(libc::SYS_personality, [wanted, 0, 0], expected);
        }
        for number in [libc::SYS_ptrace, libc::SYS_shmget, libc::SYS_semget] {
            answers.check(number, [0; 3], None);
        }
    }
}
