//! Entering namespaces, and giving up what one can do in them.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use nix::sched::{CloneFlags, unshare};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto};
use rustix::net::{bind, socket_with};
use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_no_new_privs,
};

use super::{ContainedNetwork, ContainmentPart};
use crate::spec::StartFailure;

/// Of netlink: the kind of message that changes a device, and that an answer is wanted.
const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;
const LOOPBACK: i32 = 1;

/// Puts this process, which has one thread, into a user namespace of its own, as the same user.
pub(crate) fn own_user() -> Result<(), StartFailure> {
    let failed = |error: io::Error| StartFailure::of(ContainmentPart::UserNamespace, &error);
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| failed(error.into()))?;
    // The files of a process that others may not look at are root's, ours too.
    let seen = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let mapped = std::fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| std::fs::write("/proc/self/uid_map", format!("{user} {user} 1")))
        .and_then(|()| std::fs::write("/proc/self/gid_map", format!("{group} {group} 1")));
    let unseen = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    mapped.map_err(failed)?;
    seen.and(unseen).map_err(|error| failed(error.into()))
}

/// What this thread starts next is the first process of a pid namespace, and keeps what we can do in the user namespace
/// when it loads its program, whoever the user is.
pub(super) fn before_init() -> io::Result<()> {
    let now = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            inheritable: now.permitted,
            ..now
        },
    )?;
    for one in now.permitted.iter() {
        configure_capability_in_ambient_set(one, true)?;
    }
    unshare(CloneFlags::CLONE_NEWPID)?;
    Ok(())
}

/// Everything that a namespace holds and that is not there yet.
pub(super) fn own_rest() -> io::Result<()> {
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWNET,
    )?;
    match unshare(CloneFlags::CLONE_NEWCGROUP) {
        // A kernel without control groups has none to show.
        Ok(()) | Err(nix::Error::EINVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Nothing in here makes another user namespace, not even with a call that no filter knows.
pub(super) fn forbid_more() -> io::Result<()> {
    std::fs::write("/proc/sys/user/max_user_namespaces", "0")
}

/// Brings the loopback device up, and makes the listener that is wanted on it.
pub(super) fn network(wanted: ContainedNetwork) -> io::Result<Option<TcpListener>> {
    loopback_up()?;
    match wanted {
        ContainedNetwork::Nothing => Ok(None),
        ContainedNetwork::Listener { port } => {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(Some)
        }
    }
}

fn loopback_up() -> io::Result<()> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // The first of its protocols, which is about routes and devices.
        None,
    )?;
    bind(&kernel, &SocketAddrNetlink::new(0, 0))?;
    let mut message = vec![];
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    // Its number, and who asks: the kernel knows.
    message.extend([0; 8]);
    // Family and kind of the device: whatever it is.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    // Which flags are meant.
    message.extend(IFF_UP.to_ne_bytes());
    sendto(
        &kernel,
        &message,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    acknowledged(&kernel)
}

fn acknowledged(kernel: &OwnedFd) -> io::Result<()> {
    let mut answer = [0; 256];
    let (got, _whole) = recv(kernel, &mut answer, RecvFlags::empty())?;
    let half = |at: usize| answer.get(at..at + 2)?.try_into().ok();
    let word = |at: usize| answer.get(at..at + 4)?.try_into().ok();
    let kind = half(4).map(u16::from_ne_bytes);
    match word(16).map(i32::from_ne_bytes) {
        Some(error) if got >= 20 && kind == Some(NLMSG_ERROR) => match error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        },
        _other_answer => Err(Errno::PROTO.into()),
    }
}

/// What no ordinary user has outside, no program has inside, as root neither: no capability now, and none that a program
/// could bring.
pub(super) fn give_up() -> io::Result<()> {
    for one in CapabilitySet::all().iter() {
        // A kernel knows fewer of them than there are bits; and what is left is looked at below.
        let _unknown = remove_capability_from_bounding_set(one);
    }
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    clear_ambient_capability_set()?;
    drop_capabilities()?;
    set_no_new_privs(true)?;
    let left = std::fs::read_to_string("/proc/self/status")?;
    let mut sets = left.lines().filter(|it| it.starts_with("Cap"));
    if sets.all(|it| it.trim_end_matches('0').ends_with('\t')) {
        Ok(())
    } else {
        Err(Errno::PERM.into())
    }
}

/// This thread can do nothing any more that its user cannot do.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    Ok(set_capabilities(None, sets)?)
}
