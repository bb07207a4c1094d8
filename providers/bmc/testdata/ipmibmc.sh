#!/bin/sh
# ipmibmc.sh ARG...: an ipmitool of a machine whose state is in the directory of the link that it is called by.
# The file odd there has lines "COMMAND|OUTPUT|EXIT CODE": the first command that contains COMMAND gets that answer, once.
# If the line begins with "always ", it gets it each time.
dir=$(dirname "$0")
exec 9>"$dir/lock" && flock 9
while IFS='|' read -r command output code; do
	case "$*" in
	*"${command#always }"*)
		[ "$command" != "${command#always }" ] || { grep -vxF "$command|$output|$code" "$dir/odd" >"$dir/rest"; mv "$dir/rest" "$dir/odd"; }
		printf "$output"
		exit "$code"
		;;
	esac
done <"$dir/odd"
state() { cat "$dir/$1" 2>/dev/null || echo "$2"; }
case "$*" in
*'mc info') printf 'Manufacturer Name : Contoso\nProduct Name : BMC\nFirmware Revision : 2.1\n' ;;
*'mc reset cold') ;;
*'power status') echo "Chassis Power is $(state power on)" ;;
*'power on') echo on >"$dir/power" ;;
*'power off' | *'power soft') echo off >"$dir/power" ;;
*'bootparam get 5') echo "Boot parameter data: $(state boot 0000000000)" ;;
*'bootdev '*)
	flags=80 device=04
	case "$*" in *persistent*) flags=c0 ;; esac
	case "$*" in *efiboot*) flags=$(printf %02x $((0x$flags | 0x20))) ;; esac
	case "$*" in *' disk'*) device=08 ;; *' cdrom'*) device=14 ;; esac
	echo "$flags${device}000000" >"$dir/boot"
	;;
*'identify 0') echo 40 >"$dir/light" ;;
*'identify force') echo 60 >"$dir/light" ;;
*'raw 0x00 0x01') echo " 21 00 $(state light 40) 00" ;;
*'fru print 0') printf ' Product Manufacturer  : Contoso\n Product Name          : M\n Product Serial        : S1\n' ;;
*'sdr elist all') state sensors 'CPU1 | 01h | ok | 3.1 | 54 degrees C' ;;
*'sel clear') : >"$dir/log" ;;
*'sel '*) cat "$dir/log" 2>/dev/null || : ;;
esac
