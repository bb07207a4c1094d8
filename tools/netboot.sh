#!/usr/bin/env bash
# Makes the netboot image from DIR/holdfast-agent and a Debian kernel: netboot.sh PACKAGE DIR [CA]. It
# downloads each version of the package once, and installs nothing. NETBOOT_ARCH is Debian's name of the
# machines' architecture (default: that of this host); apt's lists of another one are kept below DIR.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$1 out=$2 ca=${3:-}
host=$(dpkg --print-architecture)
arch=${NETBOOT_ARCH:-$host}
apt=()
if [ "$arch" != "$host" ]; then
	state=$(realpath -m "$out")/apt
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	apt=(-o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$state" -o Dir::State::status=/dev/null -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=root)
	[ -n "$(find "$state/lists" -maxdepth 1 -name '*Packages*' -mmin -1440)" ] || apt-get -q "${apt[@]}" update >&2
fi

# A package such as linux-image-cloud-amd64 only depends on the newest version. The lists of a new
# machine are empty.
newest() { apt-cache "${apt[@]}" depends --important "$package" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -1; }
case $package in linux-image-[0-9]*) real=$package ;; *) real=$(newest) ;; esac
if [ -z "$real" ] && [ "$(id -u)" = 0 ] && [ "$arch" = "$host" ]; then
	apt-get -q -o DPkg::Lock::Timeout=300 update >&2
	real=$(newest)
fi
if [ -z "$real" ]; then
	echo "netboot: apt has no package $package: run apt-get update as root, or set KERNEL=linux-image-VERSION" >&2
	exit 1
fi
mkdir -p "$out/debs"
cd "$out/debs"
apt-get -q "${apt[@]}" download "$real" >&2
deb=$(ls -t "$PWD/${real}"_*.deb | head -1)

# Boot media need boot loaders for BIOS and UEFI. Machines that boot from the network do not.
loaders=$PWD/loaders
if [ "$arch" != amd64 ]; then
	echo "netboot: no boot medium is made: only amd64 has one" >&2
	loaders=
elif apt-get -q "${apt[@]}" download isolinux syslinux-common systemd-boot-efi >&2; then
	rm -rf "$loaders"
	for p in isolinux syslinux-common systemd-boot-efi; do
		dpkg-deb -x "$(ls -t "$PWD/${p}"_*.deb | head -1)" "$loaders"
	done
else
	echo "netboot: no boot medium is made: apt does not have all of isolinux, syslinux-common, systemd-boot-efi" >&2
	loaders=
fi

# Images of a root file system (tar) need these programs and their libraries. Raw and qcow2 images
# do not.
programs=$PWD/programs
needed=$(apt-cache "${apt[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances e2fsprogs dosfstools 2>/dev/null | grep '^[a-z0-9]' | grep -v ':' | sort -u) || true
# shellcheck disable=SC2086
if [ -n "$needed" ] && apt-get -q "${apt[@]}" download $needed >&2; then
	rm -rf "$programs"
	for p in $needed; do
		dpkg-deb -x "$(ls -t "$PWD/${p}"_*.deb | head -1)" "$programs"
	done
else
	echo "netboot: the installer will refuse TAR images: apt does not have all packages that e2fsprogs and dosfstools need" >&2
	programs=
fi
cd - >/dev/null
out=$(realpath "$out")
exec env GOWORK=off go -C tools run ./netboot -agent "$out/holdfast-agent" -deb "$deb" -out "$out" ${ca:+-ca "$(realpath "$ca")"} ${loaders:+-loaders "$loaders"} ${programs:+-programs "$programs"}
