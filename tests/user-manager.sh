#!/usr/bin/env bash
# A service manager of an ordinary user, on a machine that systemd did not boot and without touching one that it did:
# in mount, process and cgroup namespaces of its own. Says `ready`, and ends when its standard input does.
#   tests/user-manager.sh USER HOME        (as root)
set -euo pipefail
user=$1 home=$2
uid=$(id -u "$user") gid=$(id -g "$user")
export user home uid gid

# A hierarchy of its own, so that several of these do not meet, with the names that a login would have made: the
# journal knows a user's units by them.
hierarchy() {
  set -euo pipefail
  mount --make-rprivate /
  umount --recursive /sys/fs/cgroup 2>/dev/null || umount --lazy --recursive /sys/fs/cgroup
  mount -t cgroup2 none /sys/fs/cgroup
  rmdir /sys/fs/cgroup/aish-test-* 2>/dev/null || true
  local own=/sys/fs/cgroup/aish-test-$(basename "$home")
  # One that starts at the same moment takes it for a remainder, as long as nothing is in it.
  for _ in $(seq 20); do
    mkdir -p "$own"
    echo $$ >"$own/cgroup.procs" && break
  done 2>/dev/null
  grep -qF "/${own##*/}" /proc/self/cgroup || { echo "no control group of its own at $own"; exit 1; }
  exec unshare --cgroup bash -c inside
}

inside() {
  set -euo pipefail
  umount /sys/fs/cgroup
  mount -t cgroup2 none /sys/fs/cgroup
  # What services find of a booted system; without these directories they do not start.
  mount -t tmpfs -o mode=0755 tmpfs /run
  mkdir -p /run/systemd/{system,unit-root,incoming,propagate,seats,journal} /run/credentials /run/lock /run/log
  mount -t tmpfs -o mode=0755 tmpfs /var/log
  local runtime=/run/user/$uid slice=/sys/fs/cgroup/user.slice/user-$uid.slice/user@$uid.service
  mkdir -p "$runtime"
  mount -t tmpfs -o "mode=0700,uid=$uid,gid=$gid" tmpfs "$runtime"
  mkdir -p "$slice"
  chown -R "$uid" "$slice"
  if [[ -x /lib/systemd/systemd-journald ]]; then
    # As tmpfiles would make it, so that the group may read.
    install -d -g systemd-journal -m 2755 /run/log/journal
    /lib/systemd/systemd-journald >/dev/null 2>&1 &
    for _ in $(seq 50); do [[ -S /run/systemd/journal/stdout ]] && break; sleep 0.1; done
  fi
  (
    echo "$BASHPID" >"$slice/cgroup.procs"
    exec setpriv --reuid "$uid" --regid "$gid" --init-groups \
      env -i HOME="$home" USER="$user" LOGNAME="$user" PATH=/usr/local/bin:/usr/bin:/bin SHELL=/bin/sh LANG=C.UTF-8 \
      XDG_RUNTIME_DIR="$runtime" SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=notice \
      /lib/systemd/systemd --user
  ) >"$home/manager.log" 2>&1 </dev/null &
  local manager=$!
  for _ in $(seq 100); do
    [[ -S $runtime/systemd/private ]] && break
    kill -0 "$manager" 2>/dev/null || { echo "the manager ended: $(tail -n 3 "$home/manager.log")"; exit 1; }
    sleep 0.1
  done
  [[ -S $runtime/systemd/private ]] || { echo "the manager does not answer: $(tail -n 3 "$home/manager.log")"; exit 1; }
  # It answers once it has started what it starts at a login.
  timeout 60 setpriv --reuid "$uid" --regid "$gid" --init-groups env -i XDG_RUNTIME_DIR="$runtime" \
    systemctl --user is-system-running --wait >/dev/null 2>&1 || true
  echo ready
  cat >/dev/null
  # Its exit, as `systemctl --user exit` asks for it; the namespace ends all that is left.
  kill -s RTMIN+24 "$manager" 2>/dev/null || true
  for _ in $(seq 50); do kill -0 "$manager" 2>/dev/null || break; sleep 0.1; done
  kill -KILL "$manager" 2>/dev/null || true
  wait "$manager" 2>/dev/null || true
  find /sys/fs/cgroup/user.slice -depth -type d -exec rmdir {} + 2>/dev/null || true
}

export -f hierarchy inside
exec unshare --mount --pid --cgroup --fork --kill-child --mount-proc bash -c hierarchy
