#!/bin/sh
# Runs after the removal. The configuration, the token and the machine's identity stay until the deb is purged; the rpm never removes them.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "${1:-}" = purge ] && [ ! -e /etc/systemd/system/holdfast-agent.service ]; then
	rm -rf /var/lib/private/holdfast-agent /var/lib/holdfast-agent /etc/holdfast-agent
fi
