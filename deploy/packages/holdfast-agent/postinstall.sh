#!/bin/sh
# After an install and after an upgrade, of the deb (configure [VERSION]) and of the rpm (1, 2). It may run any number of times.
# An agent that runs is restarted: that costs nothing, as a machine may miss keepalives for longer.
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
