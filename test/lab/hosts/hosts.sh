#!/bin/bash
# Boots Debian hosts with systemd and sshd in containers (systemd-nspawn) on one bridge. Each disk is
# an overlay over one root.
#
#   hosts.sh up DIR NAME…      builds the root if it is missing, creates the bridge, boots the hosts, waits for sshd
#   hosts.sh kill DIR NAME     cuts the power of the host
#   hosts.sh wipe DIR NAME     deletes its disk
#   hosts.sh boot DIR NAME     turns the host on
#   hosts.sh down DIR          removes everything
#
# DIR has the disks, consoles, the SSH key of the hosts (id_ed25519) and inventory (lines of NAME
# ADDRESS). Its file system must support overlays. The controller is NET.1, the hosts are NET.11 and
# up (NET: HOSTS_NET, default 10.214.77). Needs root, systemd-container and debootstrap.
set -euo pipefail
verb=$1 dir=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
root=${E2E_HOST_ROOT:-/var/cache/holdfast/host-root}
net=${HOSTS_NET:-10.214.77}
lab=${net##*.}
bridge=hfb$lab

die() {
	echo "hosts.sh: $*" >&2
	exit 1
}

address() { awk -v n="$1" '$1 == n { print $2 }' "$dir/inventory"; }

# own moves the host to its own control group in each hierarchy: with --keep-unit all hosts would share
# the group of the caller.
own() {
	local name=$1 h
	for h in /sys/fs/cgroup /sys/fs/cgroup/*; do
		[ -e "$h/cgroup.procs" ] || continue
		mkdir -p "$h/hf$lab-$name" 2>/dev/null || continue
		if [ -e "$h/hf$lab-$name/cpuset.mems" ]; then
			cat "$h/cpuset.mems" >"$h/hf$lab-$name/cpuset.mems"
			cat "$h/cpuset.cpus" >"$h/hf$lab-$name/cpuset.cpus"
		fi
		echo $BASHPID >"$h/hf$lab-$name/cgroup.procs"
	done
}

disown_groups() {
	local h
	for h in /sys/fs/cgroup /sys/fs/cgroup/*; do
		[ -d "$h/hf$lab-$1" ] && find "$h/hf$lab-$1" -depth -type d -exec rmdir {} + 2>/dev/null
	done
	return 0
}

# disk makes an empty disk: an overlay over the shared root.
disk() {
	local name=$1 d=$dir/$1
	mkdir -p "$d/up" "$d/work" "$d/root"
	mountpoint -q "$d/root" || mount -t overlay overlay -o "lowerdir=$root,upperdir=$d/up,workdir=$d/work" "$d/root"
	mkdir -p "$d/root/root/.ssh" "$d/root/etc/systemd/network"
	cp "$dir/id_ed25519.pub" "$d/root/root/.ssh/authorized_keys"
	chmod 600 "$d/root/root/.ssh/authorized_keys"
	echo "$name" >"$d/root/etc/hostname"
	printf '[Match]\nName=host0\n[Network]\nAddress=%s/24\nLinkLocalAddressing=no\n' "$(address "$name")" >"$d/root/etc/systemd/network/20-lab.network"
	[ -s "$d/root/etc/machine-id" ] || tr -d - </proc/sys/kernel/random/uuid >"$d/root/etc/machine-id"
	rm -f "$d/root"/etc/ssh/ssh_host_*
	ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$d/root/etc/ssh/ssh_host_ed25519_key"
}

boot() {
	local name=$1 d=$dir/$1 m
	m=hf$lab-$name
	rm -rf "/run/systemd/nspawn/propagate/$m"
	(
		own "$name"
		exec setsid systemd-nspawn -q -D "$d/root" -b -M "$m" --register=no --keep-unit --network-bridge="$bridge" \
			--capability=CAP_NET_ADMIN --resolv-conf=off --link-journal=no </dev/null
	) >>"$d/console" 2>&1 9>&- &
	echo $! >"$d/pid"
}

# cut cuts the power: it kills nspawn, and then the processes in the groups of the host, which survive
# nspawn.
cut() {
	local name=$1 d=$dir/$1 g left pid
	g=/sys/fs/cgroup/systemd
	[ -d "$g" ] || g=/sys/fs/cgroup
	g=$g/hf$lab-$1
	if [ -e "$d/pid" ]; then
		kill -KILL "$(cat "$d/pid")" 2>/dev/null || true
	fi
	for _ in $(seq 200); do
		left=$(find "$g" -name cgroup.procs -exec cat {} + 2>/dev/null) || true
		[ -n "$left" ] || break
		for pid in $left; do kill -KILL "$pid" 2>/dev/null || true; done
		sleep 0.05
	done
	for _ in $(seq 20); do
		disown_groups "$name"
		[ -d "$g" ] || break
		sleep 0.05
	done
	ip link del "vb-hf$lab-$name" 2>/dev/null || true
	rm -f "$d/pid"
}

answers() {
	local name=$1 addr
	addr=$(address "$name")
	for _ in $(seq 300); do
		(exec 3<>"/dev/tcp/$addr/22" && read -r -t 2 -u 3 line && [[ $line == SSH-* ]]) 2>/dev/null && return 0
		kill -0 "$(cat "$dir/$name/pid")" 2>/dev/null || break
		sleep 0.2
	done
	tail -n 40 "$dir/$name/console" >&2
	die "host $name ($addr) does not answer"
}

case $verb in
up)
	[ "$(id -u)" = 0 ] || die "want root"
	"$here/mkroot.sh" "$root"
	mkdir -p "$dir"
	[ -e "$dir/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C lab -f "$dir/id_ed25519"
	ip link show "$bridge" >/dev/null 2>&1 || {
		ip link add "$bridge" type bridge
		ip addr add "$net.1/24" dev "$bridge"
		ip link set "$bridge" up
	}
	touch "$dir/inventory"
	for name; do
		[ -n "$(address "$name")" ] || echo "$name $net.$((11 + $(wc -l <"$dir/inventory")))" >>"$dir/inventory"
		disk "$name"
		boot "$name"
	done
	for name; do answers "$name"; done
	;;
boot)
	boot "$1"
	answers "$1"
	;;
kill) cut "$1" ;;
wipe)
	cut "$1"
	for _ in $(seq 50); do
		umount "$dir/$1/root" && break
		sleep 0.1
	done
	rm -rf "${dir:?}/$1"
	disk "$1"
	;;
down)
	[ -e "$dir/inventory" ] || exit 0
	while read -r name _; do
		cut "$name"
		for _ in $(seq 50); do # a killed process releases its files a moment later
			mountpoint -q "$dir/$name/root" || break
			umount "$dir/$name/root" 2>/dev/null || sleep 0.1
		done
	done <"$dir/inventory"
	ip link del "$bridge" 2>/dev/null || true
	;;
*) die "unknown verb $verb" ;;
esac
