#!/bin/sh
# Runs after an install and an upgrade of the deb (configure [VERSION]) and the rpm (1, 2), any number of times.
# A running agent is restarted: that is harmless, because a machine may miss keepalives for longer.
set -e
case ${1:-} in
configure | 1 | 2) ;;
*) exit 0 ;;
esac
systemd-tmpfiles --create holdfast-agent.conf
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart --no-block holdfast-agent.service
fi
