#!/bin/bash
# Process 1 of a testbed guest: prepares a User Mode Linux kernel whose root is the host's own file
# system, seen read-only, and then serves the command channel until it is told to power off.
#
# The host speaks lines on /dev/ttyS0:        The guest answers:
#   run ID      run ID.sh of the channel        ready            prepared, commands may come
#   kill ID NUM signal that run's processes     failed TEXT      preparation failed
#   off         unmount NFS and power off       exit ID CODE     the run has ended
#
# Scripts come and outputs go through a second hostfs mount of the channel's folder. It is mounted
# `sync`, so that the host sees every write at once, and each run has names of its own, because
# the guest's page cache does not notice when the host changes a file it has already read.
#
# A fork is the dearest thing in this guest. The loop below therefore spends two per command and
# executes no program at all; 20 to 50 ms per command were seen.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/run/home TMPDIR=/run/tmp LANG=C.UTF-8
channel=/run/channel
exec 2>/dev/console

fail() {
    echo "testbed: $*" >&2
    echo "failed $*" >&3
    power_off
}

power_off() {
    echo o >/proc/sysrq-trigger
    while :; do sleep 60; done
}

prepare_file_systems() {
    mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /run || return 1
    # The folders above are there already, or get the usual mode.
    # shellcheck disable=SC2174
    mkdir -p -m 0755 $channel /run/home /run/modules /dev/shm /dev/pts || return 1
    mkdir -m 1777 /run/tmp || return 1
    mount -t hostfs -o "sync,$TESTBED_CHANNEL" none $channel || return 1
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm || return 1
    mount -t devpts devpts /dev/pts || return 1
    # The guest's devtmpfs has none of these, and shells and compilers expect them.
    ln -s /proc/self/fd /dev/fd && ln -s fd/0 /dev/stdin && ln -s fd/1 /dev/stdout &&
        ln -s fd/2 /dev/stderr
}

load_modules() {
    local release
    read -r release </proc/sys/kernel/osrelease
    mount -t tmpfs tmpfs /lib/modules &&
        ln -s "/usr/lib/uml/modules/$release" "/lib/modules/$release" &&
        modprobe nfsv4
}

# The routes lead to the site itself and to the sites that a WAN joins with it.
# There is no default route on purpose: a look-up of a name then fails at once. Where packets for
# the machine's name server vanished instead, nfsidmap waited 20 seconds for it within the first
# mount of a server that names owners in words.
join_network() {
    ip -batch - <<COMMANDS
link set lo up
addr add $TESTBED_ADDRESS/24 dev vec0
link set vec0 up
route add 10.99.0.0/16 via $TESTBED_GATEWAY
route add 10.200.0.0/16 via $TESTBED_GATEWAY
COMMANDS
}

# The exit code goes out only after the subshell that holds the output files is gone, so that the
# host finds them complete. The trap lets the reporter survive a signal sent to the whole run.
run() {
    trap : HUP INT TERM
    (
        exec </dev/null >"$channel/$1.out" 2>"$channel/$1.err" 3>&-
        # shellcheck source=/dev/null
        . "$channel/$1.sh"
    )
    printf 'exit %s %s\n' "$1" "$?" >&3
}

# SIGKILL also ends the reporter, so its line is written here. 137 is 128 + 9, as shells count.
signal_run() {
    kill -n "$2" -- "-${runs[$1]}"
    [ "$2" = 9 ] && printf 'exit %s 137\n' "$1" >&3
}

exec 3<>/dev/ttyS0
stty raw -echo <&3
prepare_file_systems || fail "could not mount the guest's own file systems"
# The Linux client builds its NFSv4 owner identifier from the host name: equal names collide.
echo "$TESTBED_NAME" >/proc/sys/kernel/hostname
load_modules || fail "could not load nfsv4 from /usr/lib/uml/modules"
join_network || fail "could not configure vec0"
# Lets complaints of the NFS client, such as 'server not responding', reach the console log.
echo 7 >/proc/sys/kernel/printk

set -m # gives every run a process group of its own, which signal_run needs
declare -A runs
echo ready >&3
while read -r verb id signal <&3; do
    case $verb in
    run)
        run "$id" &
        runs[$id]=$!
        ;;
    kill) signal_run "$id" "$signal" ;;
    off)
        kill -KILL -1
        umount -a -t nfs,nfs4
        power_off
        ;;
    *) echo "testbed: unknown verb '$verb'" >&2 ;;
    esac
done
echo "testbed: the host has closed the channel" >&2
power_off
