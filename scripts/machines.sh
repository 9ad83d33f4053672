#!/usr/bin/env bash
# Machines with systemd, for what installs packages, each a container; sourced, never run. It uses the variables `work`, and for machines in
# the network of a site `testbed` and `control`, of the script that sources it.
# shellcheck disable=SC2154

# The process of each machine's container, and its process 1.
declare -A containers leaders

require_machines() {
  command -v systemd-nspawn >/dev/null || install_packages systemd-container
  command -v jq >/dev/null || install_packages jq
}

# usage: boot MACHINE [SITE]: the Debian in `$work/MACHINE`, which is a clean one unless there is one already; without a site it has no network
boot() {
  local network=--private-network
  [ -z "${2:-}" ] ||
    network=--network-namespace-path=/run/netns/$("$testbed" wan --control "$control" sites | awk -v site="$2" '$1 == site { print $3 }')
  [ -d "$work/$1" ] || clone_clean "$1"
  systemd-nspawn --quiet --boot --register=no --keep-unit --machine="$1" --directory="$work/$1" "$network" </dev/null >"$work/$1.console" 2>&1 9>&- &
  containers[$1]=$! leaders[$1]=
  local attempt
  for ((attempt = 0; attempt < 600; attempt++)); do
    leaders[$1]=$(pgrep --parent "${containers[$1]}" | head -n 1) || true
    if [ -n "${leaders[$1]}" ] && is_up "$1"; then return; fi
    kill -0 "${containers[$1]}" 2>/dev/null || break
    sleep 0.2
  done
  tail -n 20 "$work/$1.console" >&2
  fail "the machine $1 does not boot; above is what its console said last"
}

# usage: clone_clean MACHINE: what it changes lies in a folder of its own, over one clean Debian for all
clone_clean() {
  [ -d "$work/clean" ] || clean_debian "$work/clean"
  mkdir "$work/$1" "$work/$1.changed" "$work/$1.unfinished"
  mount -t overlay overlay -o "lowerdir=$work/clean,upperdir=$work/$1.changed,workdir=$work/$1.unfinished" "$work/$1"
}

# Whether it has booted; something else than what is under test may have failed in it, such as the automounter in a container.
is_up() {
  local told
  told=$(on "$1" systemctl is-system-running 2>/dev/null) || true
  [ "$told" = running ] || [ "$told" = degraded ]
}

# usage: on MACHINE COMMAND...: as root
on() {
  nsenter --target "${leaders[$1]}" --mount --uts --ipc --net --pid --root --wd \
    env --ignore-environment PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "${@:2}" 9>&-
}

# usage: as_server MACHINE COMMAND...: as the user of the server
as_server() {
  on "$1" runuser --user meridian -- "${@:2}"
}

# What the servers said last.
tell_machines() {
  local machine
  for machine in "${!containers[@]}"; do
    echo "-- $machine"
    on "$machine" journalctl --unit meridian --no-pager --lines 15 || true
    on "$machine" meridian status || true
  done
}

# Switches them off, each like a machine whose power fails.
stop_machines() {
  local machine
  for machine in "${!containers[@]}"; do
    [ -z "${leaders[$machine]:-}" ] || kill -KILL "${leaders[$machine]}" 2>/dev/null || true
    wait "${containers[$machine]}" 2>/dev/null || true
    ! mountpoint --quiet "$work/$machine" || umount "$work/$machine"
  done
  containers=() leaders=()
}
