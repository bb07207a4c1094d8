#!/bin/sh
# Runs before a removal of the deb (remove) or the rpm (0), not before an upgrade, and stops the agent.
set -e
case ${1:-} in
remove | 0) ;;
*) exit 0 ;;
esac
# A unit in /etc belongs to another installation, such as deploy/ansible, and so does its process.
[ ! -e /etc/systemd/system/holdfast-agent.service ] || exit 0
if [ -d /run/systemd/system ]; then
	systemctl stop holdfast-agent.service
fi
systemctl --no-reload disable holdfast-agent.service
