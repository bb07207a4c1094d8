#!/bin/sh
# Erases every disk of the host that it runs on, and reports for each whether it is erased
# (providers.EraseReport). It erases the disks that the kernel lists for the machine's own
# controllers, and touches nothing else. Other hosts may use a disk that is not known to be local:
# such a disk is left, with a line that names it and the reason.
#
# The most thorough method that a disk supports comes first: its own (NVMe format or sanitize, ATA
# secure erase), a secure discard, a discard, and zeros over all of it. None is trusted: three places
# are read before and after, bypassing the cache, and their contents must not be readable any more.
#
# The disk with the running system comes last. The tools needed after that are read into memory
# before.

LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
sys=/sys
# Tests use disks of their own instead of the machine's: with all of their tools, or none.
if [ -n "${HOLDFAST_ERASE_PATH:-}" ]; then
	[ -x "$HOLDFAST_ERASE_PATH/lsblk" ] || exit 3
	PATH=$HOLDFAST_ERASE_PATH:$PATH sys=$HOLDFAST_ERASE_PATH/sys
fi
export LC_ALL PATH

have() { command -v "$1" >/dev/null 2>&1; }

# The machine's own addresses, if they are known: another host must not be erased in its place.
if [ -n "${HOLDFAST_MACS:-}" ]; then
	ours= cards=
	# lo, bridges and tunnels have no device: their addresses are zero, or made up. Only in a container
	# no interface has one.
	for card in "$sys"/class/net/*/device; do
		[ -e "$card" ] && cards=true
	done
	for mac in $HOLDFAST_MACS; do
		case $mac in
		00:00:00:00:00:00 | [fF][fF]:[fF][fF]:[fF][fF]:[fF][fF]:[fF][fF]:[fF][fF] | ?[13579bBdDfF]:*) continue ;; # of no device
		esac
		for card in "$sys"/class/net/*; do
			[ -e "$card/device" ] || [ -z "$cards" ] || continue
			if cat "$card/address" "$card/bonding_slave/perm_hwaddr" 2>/dev/null | grep -Fixq "$mac"; then
				ours=$mac
			fi
		done
	done
	if [ -z "$ours" ]; then
		echo "this host has none of the machine's MAC addresses ($HOLDFAST_MACS): nothing was erased" >&2
		exit 4
	fi
fi

for tool in lsblk dd cksum blockdev; do
	if ! have "$tool"; then
		echo "the host lacks $tool" >&2
		exit 3
	fi
done

# remote DISK prints the reason why a disk is not known to be the machine's own, or nothing if it is.
# The installer has the same rule (disks/remote.go); testdata/local-disks.txt tests both.
remote() {
	at=$sys/block/${1##*/}/device
	case ${1##*/} in
	vd* | xvd* | hd* | mmcblk* | pmem*) ;; # of the board or of the hypervisor
	nvme*)
		# With multipath the disk belongs to a subsystem, which has the controllers.
		seen=
		for transport in "$at/transport" "$at"/nvme*/transport; do
			[ -f "$transport" ] && read -r transport <"$transport" || continue
			if [ "$transport" != pcie ]; then
				echo "NVMe over $transport"
				return
			fi
			seen=true
		done
		[ "$seen" ] || echo 'NVMe over an unknown transport'
		;;
	sd*)
		host=
		for host in "$at"/scsi_device/*:*; do
			host=${host##*/} host=${host%%:*}
			break
		done
		driver=
		[ -f "$sys/class/scsi_host/host$host/proc_name" ] && read -r driver <"$sys/class/scsi_host/host$host/proc_name"
		case $driver in
		ahci* | ata_* | pata_* | sata_* | isci | mpt3sas | mpt2sas | mptsas | mptspi | mpi3mr | megaraid_* | smartpqi | hpsa | aacraid | arcmsr | \
			mvsas | pm80xx | hisi_sas* | sym53c8xx | virtio_scsi | vmw_pvscsi | storvsc* | ufshcd*) ;;
		*)
			echo "driver ${driver:-unknown}"
			return
			;;
		esac
		for phy in "$sys/class/sas_device/end_device-$host":*/initiator_port_protocols; do
			[ -f "$phy" ] && read -r protocols <"$phy" || continue
			case $protocols in
			*ssp* | *stp*)
				echo 'SAS with another initiator'
				return
				;;
			esac
		done
		;;
	*) echo 'unknown kind of device' ;;
	esac
}

# disks prints the disks, one per line: path, read-only, size; for a disk that is left: path, "left",
# reason. The disk with the running system is the last.
disks() {
	lsblk -dnbpo NAME,TYPE,RO,SIZE | while read -r path type ro size; do
		case $type:${path##*/} in
		disk:zram* | disk:ram* | disk:fd*) continue ;;
		disk:mmcblk*boot* | disk:mmcblk*rpmb*) continue ;; # firmware of the board
		disk:*) ;;
		*) continue ;;
		esac
		[ "${size:-0}" -gt 0 ] || continue
		over=$(remote "$path")
		if [ -n "$over" ]; then
			echo "0 $path left $over"
			continue
		fi
		order=1
		if lsblk -nro MOUNTPOINT "$path" 2>/dev/null | grep -Eqx '/|/usr|/var|/var/lib'; then
			order=2
		fi
		echo "$order $path $ro $size"
	done | sort -s -k1,1 | cut -d' ' -f2-
}

# place DISK BYTE prints a checksum of the MiB there, bypassing the cache; "zero" for zeros only.
place() {
	blockdev --flushbufs "$1" 2>/dev/null
	sum=$(dd if="$1" bs=4096 skip=$(($2 / 4096)) count=256 iflag=direct 2>/dev/null | cksum)
	case $sum in
	"$zero") echo zero ;;
	*' 0') echo unreadable ;;
	*) echo "$sum" | tr ' ' - ;;
	esac
}

# places DISK SIZE
places() {
	if [ "$2" -lt 3145728 ]; then
		place "$1" 0
		return
	fi
	echo "$(place "$1" 0) $(place "$1" $((($2 / 2 / 4096) * 4096))) $(place "$1" $((($2 - 1048576) / 4096 * 4096)))"
}

# gone BEFORE AFTER succeeds if none of the contents of before is readable after.
gone() {
	# shellcheck disable=SC2086 # they are lists
	set -- $1 : $2
	old=
	while [ "$1" != : ]; do
		old="$old $1"
		shift
	done
	shift
	for was in $old; do
		case $1 in
		unreadable) return 1 ;;
		zero) ;;
		"$was") return 1 ;;
		esac
		shift
	done
	return 0
}

# zeroed AFTER succeeds if all places are zeros: a discard guarantees nothing.
zeroed() {
	for now in $1; do
		[ "$now" = zero ] || return 1
	done
}

nvme_own() { # DISK
	have nvme || return 1
	if nvme format "$1" --ses=1 --force >&2; then
		how='nvme format, user data erase'
		return 0
	fi
	if nvme format "$1" --ses=2 --force >&2; then
		how='nvme format, cryptographic erase'
		return 0
	fi
	nvme sanitize "$1" --sanact=2 >&2 || return 1
	tries=0
	while [ "$tries" -lt 8640 ]; do # a day, at most
		case $(nvme sanitize-log "$1" 2>/dev/null | sed -n 's/.*(SSTAT)[^:]*: *//p') in
		0x101 | 0x1 | 0x104) how='nvme sanitize, block erase' && return 0 ;;
		0x103 | 0x3) return 1 ;;
		'') return 1 ;;
		esac
		tries=$((tries + 1))
		sleep 10
	done
	return 1
}

# security DISK prints the security section of an ATA disk.
security() { hdparm -I "$1" 2>/dev/null | sed -n '/^Security:/,/^[A-Z][a-z]*[^:]*:$/p' | tr -s '\t ' ' '; }

# ata_unlock unlocks a disk that an interrupted erase of ours has left locked. Otherwise it could not
# be read, and no attempt could continue.
ata_unlock() { # DISK
	have hdparm && security "$1" | grep -Eq '^ ?locked$' || return 0
	if ! hdparm --user-master u --security-unlock holdfast "$1" >&2; then
		note='it is locked, and not with our password (holdfast) or frozen by the firmware; '
		return
	fi
	hdparm --user-master u --security-disable holdfast "$1" >&2
	blockdev --rereadpt "$1" 2>/dev/null
}

ata_own() { # DISK
	have hdparm || return 1
	said=$(security "$1")
	echo "$said" | grep -Eq '^ ?supported$' || return 1
	if ! echo "$said" | grep -Eq '^ ?not frozen$'; then
		note='its security is frozen by the firmware; '
		return 1
	fi
	echo "$said" | grep -Eq '^ ?not locked$' || {
		return 1 # ata_unlock has reported it
	}
	hdparm --user-master u --security-set-pass holdfast "$1" >&2 || return 1
	if echo "$said" | grep -q 'supported: enhanced erase' && hdparm --user-master u --security-erase-enhanced holdfast "$1" >&2; then
		how='ATA enhanced secure erase'
		return 0
	fi
	if hdparm --user-master u --security-erase holdfast "$1" >&2; then
		how='ATA secure erase'
		return 0
	fi
	hdparm --user-master u --security-disable holdfast "$1" >&2 || note="${note}it may have kept the password holdfast; "
	return 1
}

# erase DISK SIZE sets how to the method. If it fails, how is the reason.
erase() {
	case ${1##*/} in
	sd* | hd*) ata_unlock "$1" ;;
	esac
	before=$(places "$1" "$2")
	case $before in
	*unreadable*)
		how="${note}it cannot be read"
		return 1
		;;
	esac
	for way in own secure discard zeros; do
		how= sure=
		case $way in
		own)
			case ${1##*/} in
			nvme*) nvme_own "$1" ;;
			sd* | hd*) ata_own "$1" ;;
			*) false ;;
			esac
			;;
		secure) have blkdiscard && how='secure discard' && blkdiscard -f -s "$1" >&2 ;;
		discard) have blkdiscard && how='discard, read back as zeros' sure=zeros && blkdiscard -f "$1" >&2 ;;
		zeros) how='overwritten with zeros' sure=zeros && overwrite "$1" "$2" ;;
		esac || continue
		sync
		after=$(places "$1" "$2")
		if gone "$before" "$after" && { [ -z "$sure" ] || zeroed "$after"; }; then
			return 0
		fi
		note="$note$how did not take; "
	done
	how="${note}it could not be overwritten"
	return 1
}

# overwrite DISK SIZE
overwrite() {
	whole=$(($2 / 4194304)) rest=$((($2 % 4194304) / 512))
	if [ "$whole" -gt 0 ]; then
		dd if=/dev/zero of="$1" bs=4194304 count="$whole" oflag=direct conv=notrunc,fsync >&2 || return 1
	fi
	if [ "$rest" -gt 0 ]; then
		dd if=/dev/zero of="$1" bs=512 seek=$((whole * 8192)) count="$rest" conv=notrunc,fsync >&2 || return 1
	fi
}

serial() {
	s=$(lsblk -dno SERIAL "$1" 2>/dev/null | tr -cd '[:alnum:]._-')
	echo "${s:--}"
}

zero=$(dd if=/dev/zero bs=4096 count=256 2>/dev/null | cksum)
list=$(disks) || exit 3
# Tools needed for later reports are read into memory, because their disk may be erased.
for tool in sh head tail cat dd cksum stat awk sed grep sort cut tr lsblk sync sleep mv ln rm blockdev blkdiscard nvme hdparm sudo systemd-run systemctl; do
	file=$(command -v "$tool") && [ -f "$file" ] && cat "$file" >/dev/null
done
swapoff -a 2>/dev/null
all=0 good=0 left=0
while read -r path ro size; do
	[ -n "$path" ] || continue
	if [ "$ro" = left ]; then
		echo "holdfast-erase left ${path##*/} $(serial "$path") it is not known to be local ($size): others may use it"
		left=$((left + 1))
		continue
	fi
	all=$((all + 1)) how='' note=''
	name=${path##*/} number=$(serial "$path")
	if [ "$ro" = 1 ]; then
		how='it cannot be written'
		false
	else
		echo "erasing $name of $size bytes" >&2
		erase "$path" "$size"
	fi </dev/null && {
		good=$((good + 1))
		echo "holdfast-erase disk $name $number erased $how"
		continue
	}
	echo "holdfast-erase disk $name $number failed $how"
done <<LIST
$list
LIST
echo "holdfast-erase done $good of $all"
if [ "$all" = 0 ] && [ "$left" != 0 ]; then
	echo 'no disk of this host is known to be local: nothing was erased' >&2
	exit 1
fi
[ "$good" = "$all" ]
