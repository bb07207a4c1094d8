#!/bin/sh
# After the package went. Configuration, keys and data stay, until the deb is purged; the rpm never takes them.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "${1:-}" = purge ] && [ ! -e /etc/systemd/system/holdfast.service ]; then
	# The user stays, so that no other one gets its number.
	rm -rf /var/lib/holdfast /etc/holdfast
fi
