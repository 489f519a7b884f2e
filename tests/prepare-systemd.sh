#!/usr/bin/env bash
# Prepares what the tests under a real service manager need: an ordinary user, and the proof that such a manager can
# be started here. Needs root. Run again, it does little. Tests that need it say so and skip where it has not run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${CARGO_TARGET_DIR:-$here/../target}/systemd
user=aish-test
mkdir -p "$out"
rm -f "$out/stamp"

without() {
  echo "$*"
  exit 3
}

[[ $(id -u) -eq 0 ]] || without "only root can start a service manager for another user"
for program in unshare nsenter setpriv systemctl /lib/systemd/systemd; do
  command -v "$program" >/dev/null || without "there is no $program on this machine"
done
id -u "$user" >/dev/null 2>&1 || useradd --create-home --user-group "$user" >/dev/null 2>&1 ||
  without "the user $user could not be made"
if getent group systemd-journal >/dev/null; then usermod --append --groups systemd-journal "$user"; fi

home=$(mktemp -d /tmp/aish-systemd-XXXXXX)
trap 'rm -rf "$home"' EXIT
chown "$user" "$home"
said=$("$here/user-manager.sh" "$user" "$home" </dev/null 2>&1) || true
[[ $said == *ready* ]] || without "no service manager starts here: ${said:-it says nothing}"
echo "$user" >"$out/stamp"
echo "a service manager for tests is ready, for the user $user"
