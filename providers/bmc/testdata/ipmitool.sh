#!/bin/sh
# ipmitool.sh ARG...: the ipmitool of a machine that is on and boots from the network once. What it was asked for is in the file log beside the link that it is called by.
echo "$*" >>"$(dirname "$0")/log"
case "$*" in
*'power status') echo 'Chassis Power is on' ;;
*'bootparam get 5') echo 'Boot parameter data: 8004000000' ;;
esac
