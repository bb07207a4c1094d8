#!/bin/sh
# Runs after the removal. Configuration, keys and data stay until the deb is purged; the rpm never removes them.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "${1:-}" = purge ] && [ ! -e /etc/systemd/system/holdfast.service ]; then
	# The user stays, so that no other user gets its number.
	rm -rf /var/lib/holdfast /etc/holdfast
fi
