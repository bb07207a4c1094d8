#!/usr/bin/env bash
# The part of release-check.sh for rpms: release-check-rpm.sh DIR ROOT ARCH. It installs, upgrades and
# erases the rpms of DIR in an overlay over ROOT, which has systemd's tools and is not changed. Scripts
# run by chroot, so without a running systemd. ROOT has no database of rpm, hence --nodeps.
set -euo pipefail
[ -n "${OWN_MOUNTS:-}" ] || exec env OWN_MOUNTS=1 unshare -m "$0" "$@" # the mounts end with the process
dir=$1 base=$2 arch=$3 own=$1/rpm root=$1/rpm/root
rm -rf "$own"
mkdir -p "$own/upper" "$own/work" "$root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$own/upper,workdir=$own/work" "$root"
mount --bind /proc "$root/proc" # without it systemd-tmpfiles does nothing
die() {
	echo "release-check-rpm: $*" >&2
	exit 1
}
rpms() { rpm --root "$root" --dbpath /var/lib/release-check-rpm --nosignature "$@" 2> >(grep -v -e 'should not be used directly' -e 'you know what you are doing' >&2); }
version() { chroot "$root" /usr/bin/holdfast version -o name; }
there() { [ -e "$root$1" ] || die "$1 is not there $2"; }
gone() { [ ! -e "$root$1" ] || die "$1 is still there $2"; }

for path in /usr/bin/holdfast /etc/holdfast /var/lib/holdfast; do gone "$path" "before the install"; done
rpms -i --nodeps "$dir/old/holdfast-0.0.1-1.$arch.rpm" "$dir/old/holdfast-agent-0.0.1-1.$arch.rpm"
rpms -V --nodeps holdfast holdfast-agent
[ "$(version)" = 0.0.1 ] || die "the version after the install is $(version)"
there /etc/holdfast/keys "after the install"
[ "$(chroot "$root" stat -c '%a %U' /etc/holdfast/keys)" = "700 root" ] || die "/etc/holdfast/keys: $(chroot "$root" stat -c '%a %U' /etc/holdfast/keys)"
[ "$(chroot "$root" getent passwd holdfast | cut -d: -f6,7)" = "/var/lib/holdfast:/usr/sbin/nologin" ] || die "the user is not as it should be"
echo kept >"$root/etc/holdfast/config.yaml"

rpms -U --nodeps "$dir/new/holdfast-0.0.2-1.$arch.rpm" "$dir/new/holdfast-agent-0.0.2-1.$arch.rpm"
rpms -V --nodeps holdfast holdfast-agent
[ "$(version)" = 0.0.2 ] || die "the version after the upgrade is $(version)"
there /usr/lib/systemd/system/holdfast.service "after the upgrade"

rpms -e --nodeps holdfast holdfast-agent
for path in /usr/bin/holdfast /usr/bin/holdfast-agent /usr/lib/systemd/system/holdfast.service; do gone "$path" "after the removal"; done
[ "$(cat "$root/etc/holdfast/config.yaml")" = kept ] || die "the configuration went with the package"
echo "release-check: rpm: all is well"
