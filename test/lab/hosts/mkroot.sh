#!/bin/sh
# Builds the shared root of the lab's hosts once: mkroot.sh DIR. It is Debian with systemd, sshd and the
# packages that the playbooks need, because the hosts reach no mirror: python3, Prometheus, ipxe,
# ipmitool. Needs root, debootstrap and a mirror. A root of another version of this script is rebuilt.
set -e
dir=$1
edition=4
[ "$(cat "$dir/.complete" 2>/dev/null)" = "$edition" ] && exit 0
mirror=$(awk '/^URIs:/ { print $2; exit } /^deb / { print $2; exit }' /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true)
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
debootstrap --variant=minbase \
	--include=systemd-sysv,dbus,openssh-server,iproute2,iputils-ping,procps,kmod,nftables,python3,sudo,ca-certificates,prometheus,ipxe,ipmitool \
	bookworm "$dir" "${mirror:-http://deb.debian.org/debian}"
chroot "$dir" systemctl enable systemd-networkd ssh
chroot "$dir" systemctl disable prometheus
chroot "$dir" systemctl mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer
rm -rf "$dir"/var/cache/apt/archives/*.deb "$dir"/var/lib/apt/lists/*
mkdir -p "$dir/root/.ssh"
chmod 700 "$dir/root/.ssh"
printf 'UseDNS no\n' >"$dir/etc/ssh/sshd_config.d/lab.conf"
echo "$edition" >"$dir/.complete"
