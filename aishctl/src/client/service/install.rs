//! `service install` and `uninstall`: the files, and what the service manager is told of them.

use crate::client::daemon_link::DaemonReach;
use crate::client::service::control::{SERVICE_UNIT, SOCKET_UNIT, ServiceControl};
use crate::client::service::takeover::{self, SocketHolder, TakeoverManner};
use crate::client::service::units::{self, InstalledUnit, PlannedUnit};
use crate::client::service::{InstallArgs, drop_in};
use crate::command_output::{CommandOutput, PrintResult};
use crate::exit::Exit;
use crate::failure::Failure;

/// What becomes of units that somebody has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedUnits {
    Kept,
    Taken,
}

pub(super) async fn install(reach: &DaemonReach, args: InstallArgs) -> PrintResult {
    let units = units::planned_units(&reach.around)?;
    if args.print {
        let texts = units
            .iter()
            .map(|it| format!("# {}\n{}", it.path.display(), it.text));
        return Ok(CommandOutput::text(texts.collect::<Vec<_>>().join("\n")));
    }
    let lie = lie(&units)?;
    if !args.force {
        refuse_changed(&units, lie)?;
    }
    let control = ServiceControl::reach(&reach.around).await?;
    in_the_managers_path(&control, &units).await?;
    let mut told = String::new();
    for (unit, lies) in units.iter().zip(lie) {
        let path = unit.path.display();
        let what = match lies {
            InstalledUnit::Same => "unchanged",
            InstalledUnit::Nothing => "written",
            InstalledUnit::Ours | InstalledUnit::Theirs => "replaced",
        };
        if lies != InstalledUnit::Same {
            unit.write()?;
        }
        told.push_str(&format!("{what:<9}  {path}\n"));
    }
    told.push_str(&drop_in::write(&reach.around)?);
    control.run(&["daemon-reload"]).await?;
    let found = takeover::take_over(reach, &control, TakeoverManner::IfIdle).await?;
    told.push_str(&begin(&control, found, args).await?);
    if reach.around.variable("AISH_SOCKET").is_some() {
        told.push_str("note       AISH_SOCKET is set here: clients of this shell go there and not to the service\n");
    }
    if crate::client::service::state::lingers(&reach.around) == Some(false) {
        told.push_str(
            "hint       it ends when you log out; to keep it running: loginctl enable-linger\n",
        );
    }
    Ok(CommandOutput::text(told))
}

/// Enables the socket, and starts what may be started.
async fn begin(
    control: &ServiceControl,
    found: SocketHolder,
    args: InstallArgs,
) -> Result<String, Failure> {
    if let SocketHolder::Busy(why) = found {
        control.run(&["enable", SOCKET_UNIT]).await?;
        let hint = why.hint.unwrap_or_default();
        return Ok(format!(
            "enabled    {SOCKET_UNIT}\nnot begun  {}\nhint       {hint}\n",
            why.message
        ));
    }
    control.reset().await;
    control.run(&["enable", "--now", SOCKET_UNIT]).await?;
    let mut told = String::new();
    if let SocketHolder::Gone(pid) = found {
        told.push_str(&format!(
            "ended      aishd {pid}, which was idle and no service\n"
        ));
    }
    told.push_str(&format!("enabled    {SOCKET_UNIT}\n"));
    if args.now {
        control.run(&["start", SERVICE_UNIT]).await?;
        told.push_str(&format!("started    {SERVICE_UNIT}\n"));
    } else {
        told.push_str("listening  aishd starts with its first client\n");
    }
    Ok(told)
}

pub(super) async fn uninstall(reach: &DaemonReach, changed: ChangedUnits) -> PrintResult {
    let units = match units::planned_units(&reach.around) {
        Ok(units) => units,
        // A daemon that is gone is no reason to keep its units.
        Err(_) => units::anywhere(&reach.around)?,
    };
    let lie = lie(&units)?;
    if lie == [InstalledUnit::Nothing, InstalledUnit::Nothing] {
        return Ok(CommandOutput::text("nothing is installed\n".to_owned()));
    }
    if changed == ChangedUnits::Kept {
        refuse_changed(&units, lie)?;
    }
    let control = ServiceControl::reach(&reach.around).await;
    let mut told = String::new();
    if let Ok(control) = &control {
        // One whose file is gone cannot be disabled, and may run all the same.
        let there = units
            .iter()
            .zip(lie)
            .filter(|(_, it)| *it != InstalledUnit::Nothing);
        let names: Vec<&str> = there.map(|(unit, _)| unit.name).collect();
        control.stop().await;
        control
            .run(&[&["disable", "--now"], &names[..]].concat())
            .await?;
        told.push_str("stopped    aishd and its socket\n");
    }
    for (unit, lies) in units.iter().zip(lie) {
        if lies != InstalledUnit::Nothing {
            unit.remove()?;
            told.push_str(&format!("removed    {}\n", unit.path.display()));
        }
        if unit.name == SERVICE_UNIT {
            told.push_str(&drop_in::remove(&reach.around)?);
        }
        let drop_ins = unit.path.with_extension(format!(
            "{}.d",
            unit.path.extension().unwrap_or_default().to_string_lossy()
        ));
        if drop_ins.exists() {
            told.push_str(&format!(
                "kept       {}, which is yours\n",
                drop_ins.display()
            ));
        }
    }
    match control {
        Ok(control) => {
            control.run(&["daemon-reload"]).await?;
            control.reset().await;
        }
        Err(failure) => told.push_str(&format!("note       {}\n", failure.message)),
    }
    told.push_str("kept       conversations and configuration\n");
    Ok(CommandOutput::text(told))
}

fn lie(units: &[PlannedUnit; 2]) -> Result<[InstalledUnit; 2], Failure> {
    let [first, second] = units;
    Ok([first.installed()?, second.installed()?])
}

fn refuse_changed(units: &[PlannedUnit; 2], lie: [InstalledUnit; 2]) -> Result<(), Failure> {
    let changed = units
        .iter()
        .zip(lie)
        .find(|(_, it)| *it == InstalledUnit::Theirs);
    let Some((unit, _)) = changed else {
        return Ok(());
    };
    let message = format!("{} was written or changed by somebody", unit.path.display());
    Err(Failure::new(Exit::CONFLICT, message).hint(format!(
        "move what you want to keep into a drop-in (systemctl --user edit {}), look at aishctl service install --print, then say --force",
        unit.name
    )))
}

/// Units that the service manager would never look at are no installation.
async fn in_the_managers_path(
    control: &ServiceControl,
    units: &[PlannedUnit; 2],
) -> Result<(), Failure> {
    let path = control.manager("UnitPath").await;
    let folder = units.first().and_then(|it| it.path.parent());
    let known = folder.is_none_or(|folder| {
        path.is_empty() || path.split_whitespace().any(|it| folder.as_os_str() == it)
    });
    if known {
        return Ok(());
    }
    let folder = folder
        .map(|it| it.display().to_string())
        .unwrap_or_default();
    Err(Failure::new(
        Exit::FAILED,
        format!("the service manager does not look for units in {folder}"),
    )
    .hint("it was started with another HOME or XDG_CONFIG_HOME than this shell has"))
}
