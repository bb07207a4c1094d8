#!/bin/sh
# Installs Debian packages whose program is missing, without starting services: debs.sh FILE:PACKAGE...
set -eu
missing=
for need; do
	[ -e "${need%:*}" ] || missing="$missing ${need##*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "debs: not installed:$missing: that needs root and apt-get" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
install() { apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing; }
install || { # the lists of packages may be old or missing
	apt-get -q -o DPkg::Lock::Timeout=300 update
	install
}
