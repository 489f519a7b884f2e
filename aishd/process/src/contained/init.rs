//! `aishd --child-init`: the first process of a contained child's pid namespace. It makes the surroundings from within,
//! starts the program, and reaps; what it says, it says to the trampoline, in the form in which that speaks to the daemon.
//!
//! It is no more than what it started: it has given up the same and is held by the same filter. Nobody in the namespace
//! can signal it, and nobody can look at it. When it ends, the kernel kills what is left.

use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use landlock::{
    ABI, Access as _, CompatLevel, Compatible as _, LandlockStatus, Ruleset, RulesetAttr as _,
    RulesetError, RulesetStatus, Scope,
};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{
    DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal, setsid,
};
use rustix::stdio::stdin;
use rustix::thread::set_name;

use super::bound_sockets;
use super::mounts;
use super::placed::LayerLocks;
use super::{Containment, ContainmentPart, HeldBy, LandlockHold, namespaces, seccomp};
use crate::spec::{ChildStreams, StartFailure, TrampolineJob, TrampolineReport};
use crate::{control_line, program_start};

/// The argument that makes this program the first process of a namespace.
pub(crate) const ARGUMENT: &str = "--child-init";

/// Runs until nothing is left in the namespace.
pub(crate) fn main() -> ExitCode {
    let _longer_name_in_ps = set_name(c"aish-init");
    let _leader_already = setsid();
    close_fds::set_fds_cloexec(3, &[]);
    let prepared = die_with_trampoline().and_then(|()| control_line::receive());
    let (job, streams) = match prepared {
        Ok(Some(received)) if !is_alone() => received,
        // The trampoline has gone.
        Ok(_) => return ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_reads = writeln!(
                io::stderr(),
                "aishd: {ARGUMENT} is for aishd itself: {error}"
            );
            return ExitCode::FAILURE;
        }
    };
    match begin(&job, streams) {
        Ok((report, listener, locks)) => {
            drop(job);
            let TrampolineReport::Started { pid, .. } = report else {
                return ExitCode::FAILURE;
            };
            control_line::report_beside(&report, listener.as_ref().map(TcpListener::as_fd));
            drop(listener);
            program_start::reap(pid);
            drop(locks);
        }
        Err(failed) => control_line::report(&TrampolineReport::Failed(failed)),
    }
    ExitCode::SUCCESS
}

fn die_with_trampoline() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Whether the trampoline ended before its death would have been ours: nothing comes behind the job but the end.
fn is_alone() -> bool {
    let mut none = [0];
    let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    !matches!(recv(stdin(), &mut none, peek), Err(Errno::AGAIN))
}

type Begun = (TrampolineReport, Option<TcpListener>, LayerLocks);

fn begin(job: &TrampolineJob, streams: ChildStreams) -> Result<Begun, StartFailure> {
    let nothing = Containment::default();
    let wanted = job.contained.as_deref().unwrap_or(&nothing);
    let failed = |part: ContainmentPart| move |error: io::Error| StartFailure::of(part, &error);
    let sockets = bound_sockets::absolute().map_err(failed(ContainmentPart::Mounts))?;
    namespaces::own_rest().map_err(failed(ContainmentPart::Namespaces))?;
    let listener = namespaces::network(wanted.network).map_err(failed(ContainmentPart::Network))?;
    let locks = mounts::arrange(wanted, &sockets)?;
    let held = Some(hold()?);
    let pid = program_start::start(job, streams)?;
    Ok((TrampolineReport::Started { pid, held }, listener, locks))
}

/// Holds this process to what the program is to be held to, without mounts, which are made.
fn hold() -> Result<HeldBy, StartFailure> {
    let failed = |part: ContainmentPart| move |error: io::Error| StartFailure::of(part, &error);
    namespaces::give_up().map_err(failed(ContainmentPart::Privileges))?;
    // What is given up changes who we are, which would end this.
    die_with_trampoline().map_err(failed(ContainmentPart::Privileges))?;
    let landlock = scope().map_err(failed(ContainmentPart::Landlock))?;
    seccomp::hold().map_err(failed(ContainmentPart::SystemCalls))?;
    Ok(HeldBy { landlock })
}

/// The second line, where the kernel has it.
fn scope() -> io::Result<LandlockHold> {
    let restricted = restrict().map_err(|_| io::Error::from(Errno::NOSYS))?;
    let (status, landlock) = restricted;
    Ok(match landlock {
        LandlockStatus::NotImplemented => LandlockHold::Missing,
        LandlockStatus::NotEnabled => LandlockHold::Off,
        LandlockStatus::Available {
            effective_abi,
            kernel_abi,
        } => {
            let known = effective_abi as u32;
            let abi = kernel_abi.and_then(|it| u32::try_from(it).ok());
            let abi = abi.unwrap_or(known);
            match status {
                RulesetStatus::FullyEnforced => LandlockHold::Scoped { abi },
                RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
                    LandlockHold::TooOld { abi }
                }
            }
        }
    })
}

fn restrict() -> Result<(RulesetStatus, LandlockStatus), RulesetError> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .restrict_self()?;
    Ok((status.ruleset, status.landlock))
}
