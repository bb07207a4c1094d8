#!/bin/sh
# Before the package goes, deb (remove) or rpm (0): the agent ends. Not before an upgrade.
set -e
case ${1:-} in
remove | 0) ;;
*) exit 0 ;;
esac
# A unit in /etc is of somebody else, such as deploy/ansible, and so is what it runs.
[ ! -e /etc/systemd/system/holdfast-agent.service ] || exit 0
if [ -d /run/systemd/system ]; then
	systemctl stop holdfast-agent.service
fi
systemctl --no-reload disable holdfast-agent.service
