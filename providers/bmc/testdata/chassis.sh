#!/bin/sh
# chassis.sh DIR 0x20 get|set NAME [VALUE]...: the machine behind ipmi_sim, as its chassis_control program. See pybmc.py for the files.
D=$1; op=$3; shift 3
[ "$op" = set ] && echo "$*" >>"$D/log"
on() {
	[ "$(cat "$D/power")" = 0 ] && echo $(($(cat "$D/boots") + 1)) >"$D/boots"
	echo 1 >"$D/power"
}
case $op in
get)
	for p in "$@"; do
		case $p in
		power) echo "power:$(cat "$D/power")" ;;
		boot) echo "boot:$(cat "$D/boot")" ;;
		*) exit 1 ;;
		esac
	done
	;;
set)
	while [ -n "$1" ]; do
		case $1 in
		power) if [ "$2" = 1 ]; then on; else echo 0 >"$D/power"; fi ;;
		shutdown) echo 0 >"$D/power" ;;
		boot) echo "$2" >"$D/boot" ;;
		identify) exit 0 ;; # interval and force: they are in the log
		*) exit 1 ;;
		esac
		shift 2
	done
	;;
esac
