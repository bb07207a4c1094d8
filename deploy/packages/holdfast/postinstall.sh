#!/bin/sh
# Runs after an install and an upgrade of the deb (configure [VERSION]) and the rpm (1, 2), any number of times.
# It starts and restarts nothing: a running peer keeps its release.
set -e
case ${1:-} in
configure | 1 | 2) ;;
*) exit 0 ;;
esac
systemd-sysusers holdfast.conf
systemd-tmpfiles --create holdfast.conf
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ ! -e /etc/systemd/system/holdfast.service ] && systemctl is-active --quiet holdfast.service; then
		echo "holdfast: the peer was not restarted and still runs the earlier release; when all peers are healthy: systemctl restart holdfast, one peer at a time, the leader last" >&2
	fi
fi
