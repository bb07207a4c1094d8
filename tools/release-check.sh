#!/usr/bin/env bash
# Builds two releases, one of them in two directories, and tests their debs on a systemd host in a
# container: release-check.sh [DIR]. It installs, verifies, runs a peer, upgrades, removes and purges. It tests the rpms over the host's root,
# runs the services of deploy/container with the files of the image, and checks the files of the other
# architecture; with qemu-user it also runs their binaries.
# Needs root, systemd-container, debootstrap and a mirror. The root of the host is built once, in
# /var/cache/holdfast (E2E_HOST_ROOT=dir). man, rpm and qemu-user are used if they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(realpath -m "${1:-bin/release-check}")
export HOSTS_NET=${HOSTS_NET:-10.214.81} SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
arch=$(go env GOHOSTARCH)
case $arch in arm64) foreign=amd64 ;; *) foreign=arm64 ;; esac
export ARCHES=$arch
die() {
	echo "release-check: $*" >&2
	exit 1
}
[ "$(id -u)" = 0 ] || die "want root, to boot a host"

tools/debs.sh /usr/bin/minisign:minisign
rm -rf "${dir:?}/new"
tools/release-check-bytes.sh 0.0.1 "$dir"
ARCHES="$arch $foreign" tools/release.sh 0.0.2 "$dir/new"
(cd "$dir/new" && sha256sum --quiet -c SHA256SUMS)
# The names of the architecture in rpm, readelf and qemu.
word_of() { case $1 in amd64) echo x86_64 ;; *) echo aarch64 ;; esac }
machine_of() { case $1 in amd64) echo X86-64 ;; *) echo AArch64 ;; esac }
files_of() { dpkg-deb -c "$1" | awk '{ print $6 }'; }
for binary in holdfast holdfast-agent; do
	for a in $arch $foreign; do
		file=$dir/new/${binary}_0.0.2_linux_$a deb=$dir/new/${binary}_0.0.2_$a.deb
		linked=$(go version -m "$file" | grep -c '^	dep	')
		listed=$(grep -c '"type": "library"' "$file.cdx.json")
		[ "$listed" = $((linked + 1)) ] || die "$file.cdx.json lists $listed libraries: want the $linked modules that are linked, and Go's own"
		! readelf -lW "$file" 2>/dev/null | grep -q INTERP || die "$file is not static"
		readelf -hW "$file" | grep -q "Machine:.*$(machine_of "$a")" || die "$file is no binary for $a"
		[ "$(dpkg-deb -f "$deb" Architecture)" = "$a" ] || die "$deb says that it is for $(dpkg-deb -f "$deb" Architecture)"
		dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/bin/$binary" | cmp - "$file" || die "$deb has another binary than $file"
	done
	diff <(files_of "$dir/new/${binary}_0.0.2_$arch.deb") <(files_of "$dir/new/${binary}_0.0.2_$foreign.deb") >&2 || die "the debs of $binary have not the same files for $arch and $foreign"
	if qemu=$(command -v "qemu-$(word_of "$foreign")" || command -v "qemu-$(word_of "$foreign")-static"); then
		"$qemu" "$dir/new/${binary}_0.0.2_linux_$foreign" version | grep -q "0\.0\.2.*linux/$foreign" || die "$binary for $foreign does not run"
	else
		echo "release-check: SKIPPED: there is no qemu-user here, $binary for $foreign was not run" >&2
	fi
done
echo "release-check: sums and bills are right, $foreign too"

E2E_IMAGE=$dir/new/holdfast-0.0.2-oci.tar GOWORK=off go -C tools/release test -count=1 -timeout 5m -run '^TestRun$' ./image
echo "release-check: image: all is well"

lab=$dir/lab
down() {
	test/lab/hosts/hosts.sh down "$lab"
	rm -rf "$lab"
}
trap down EXIT
down
test/lab/hosts/hosts.sh up "$lab" n1
address=$(awk '{ print $2 }' "$lab/inventory")
mkdir -p "$lab/n1/root/root/old" "$lab/n1/root/root/new"
cp "$dir"/old/*_"$arch".deb "$lab/n1/root/root/old"
cp "$dir"/new/*_"$arch".deb "$lab/n1/root/root/new"
on_host() {
	ssh -q -i "$lab/id_ed25519" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes "root@$address" bash -s "$@" <tools/release-check-host.sh
}
on_host install
if command -v man >/dev/null; then
	pages=$lab/n1/root/usr/share/man
	for page in holdfast holdfast-run-start; do
		MANPAGER=cat man -M "$pages" "$page" 2>&1 | grep -q SYNOPSIS || die "man $page finds no page in $pages"
	done
else
	echo "release-check: SKIPPED: man is not installed, manual pages were not checked" >&2
fi
for shell in zsh fish; do
	file=$(find "$lab/n1/root/usr/share/$shell" -type f)
	if command -v "$shell" >/dev/null; then
		"$shell" -n "$file" || die "$shell refuses $file"
	else
		echo "release-check: SKIPPED: $shell is not installed, its completion was not checked" >&2
	fi
done
on_host upgrade
on_host remove
if command -v rpm >/dev/null; then
	for package in "$dir"/new/*.rpm; do
		rpm -K --nosignature "$package" >/dev/null || die "$package is not whole"
		name=$(rpm -qp --nosignature --qf '%{NAME}' "$package")
		rpm -qlp --nosignature "$package" | grep -x "/usr/bin/$name" >/dev/null || die "$package has no binary"
	done
	for a in $arch $foreign; do
		for binary in holdfast holdfast-agent; do
			package=$dir/new/$binary-0.0.2-1.$(word_of "$a").rpm
			[ "$(rpm -qp --nosignature --qf '%{ARCH}' "$package")" = "$(word_of "$a")" ] || die "$package is for another architecture"
			diff <(rpm -qlp --nosignature "$dir/new/$binary-0.0.2-1.$(word_of "$arch").rpm") <(rpm -qlp --nosignature "$package") >&2 || die "$package has not the same files as that of $arch"
		done
	done
	tools/release-check-rpm.sh "$dir" "${E2E_HOST_ROOT:-/var/cache/holdfast/host-root}" "$(word_of "$arch")"
else
	echo "release-check: SKIPPED: rpm is not installed, rpms were not checked" >&2
fi
echo "release-check: all is well"
