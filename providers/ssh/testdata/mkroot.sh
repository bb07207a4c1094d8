#!/bin/sh
# Builds the root of a Debian host with systemd, sshd and four network managers, once: mkroot.sh DIR. It wants root and a mirror, and installs the programs
# that it and the container need.
set -e
dir=$1
"$(dirname "$0")/../../../tools/debs.sh" /usr/sbin/debootstrap:debootstrap /usr/bin/systemd-nspawn:systemd-container /bin/ip:iproute2
[ -e "$dir/.complete-2" ] && exit 0
mirror=$(awk '/^URIs:/ { print $2; exit } /^deb / { print $2; exit }' /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true)
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
debootstrap --variant=minbase \
	--include=systemd-sysv,systemd-resolved,dbus,openssh-server,iproute2,iputils-ping,procps,kmod,udev,ifupdown,netplan.io,libpam-systemd,network-manager,sudo \
	bookworm "$dir" "${mirror:-http://deb.debian.org/debian}"
chroot "$dir" systemctl enable systemd-networkd ssh
chroot "$dir" systemctl disable NetworkManager NetworkManager-wait-online NetworkManager-dispatcher # a test starts it
chroot "$dir" useradd -m -s /bin/bash hfuser
echo 'hfuser ALL=(ALL) NOPASSWD: ALL' >"$dir/etc/sudoers.d/hfuser"
: >"$dir/.complete-2"
