#!/bin/sh
# Installs Debian's Ironic, unless it is there: the programs, no running service.
set -eu
command -v ironic-api >/dev/null && command -v ironic-conductor >/dev/null && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "ironic-api and ironic-conductor are not installed: that needs root and apt-get"
	exit 1
fi
# Packages start their services, unless this says no (Debian Policy §9.3.3.1).
if [ ! -e /usr/sbin/policy-rc.d ]; then
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
fi
# A cache of its own: images for containers are set up to empty the usual one whenever any apt-get ends.
cache=/var/cache/holdfast/ironic-debs
mkdir -p "$cache/partial"
export DEBIAN_FRONTEND=noninteractive
if ! apt-get -q -o DPkg::Lock::Timeout=120 update ||
	! apt-get -q -o DPkg::Lock::Timeout=120 -o Dir::Cache::archives="$cache" install -y --no-install-recommends ironic-api ironic-conductor; then
	echo "apt-get could not install ironic-api and ironic-conductor: is there a network, and a mirror of Debian?"
	exit 1
fi
apt-get -q -o Dir::Cache::archives="$cache" clean
