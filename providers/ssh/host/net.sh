#!/bin/sh
# The supervisor of one network configuration. It makes the claim, arms the rollback, applies the
# configuration, and rolls it back unless it is confirmed. It is independent of the session, which
# the change may cut off.
#
#   net run BASE TOKEN DIR LATEST MANAGER ROLLBACK INIT
#   net rollback BASE TOKEN DIR MANAGER WHY [locked]  when the rollback time has passed
#   net boot BASE TOKEN DIR MANAGER                   before the network of the next boot comes up
#
# DIR/job lists the files, one per line: size and path; DIR/script has their contents, one after the
# other. DIR/decision is the outcome. It is made once, by link(2), so that a simultaneous
# confirmation and rollback cannot both win; DIR/say.WORD is used for it on a full disk. DIR/links
# are the links from before. DIR/kept exists once the old files are saved (DIR/old.N), DIR/changed
# from the first change on, DIR/touched once the network itself was changed, DIR/restored once the
# old state is back. DIR/up are the interfaces that ifupdown had up, or the UUIDs of the connections
# that NetworkManager had active.

umask 022
LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
boot_unit=/etc/systemd/system/holdfast-net-rollback.service
boot_link=/etc/systemd/system/multi-user.target.wants/holdfast-net-rollback.service

uptime() {
	read -r up rest </proc/uptime
	now=${up%.*}${up#*.}
}

# decide WORD WHY fails if the outcome was decided before. On a full disk it uses the text that was
# written in advance. A host that cannot even create a link must still be able to roll back.
decide() {
	if echo "$1 $2" >"$dir/decision.$$"; then
		ln "$dir/decision.$$" "$dir/decision" 2>/dev/null
	else
		ln "$dir/say.$1" "$dir/decision" 2>/dev/null
	fi
	set -- $?
	rm -f "$dir/decision.$$"
	[ "$1" = 0 ] || [ ! -s "$dir/decision" ]
}

# keep saves the files that will be overwritten.
keep() {
	n=0
	while read -r size path; do
		n=$((n + 1))
		if [ -e "$path" ] || [ -L "$path" ]; then # -L: also a dangling link
			cp -a "$path" "$dir/old.$n" || return 1
		fi
	done <"$dir/job"
	links_of >"$dir/links"
	echo kept >"$dir/kept" || return 1
	# Syncing a directory does not sync its files: after a power cut they would be empty.
	sync "$dir"/* "$dir" "$base/n-current" "$base" 2>/dev/null || sync
}

write_new() {
	at=1
	while read -r size path; do
		mkdir -p "${path%/*}"
		tail -c +"$at" "$dir/script" | head -c "$size" >"$path.holdfast-new" || return 1
		case $manager in
		netplan | networkmanager) chmod 600 "$path.holdfast-new" ;; # NetworkManager ignores one that others can read
		*) chmod 644 "$path.holdfast-new" ;;
		esac
		mv "$path.holdfast-new" "$path" || return 1
		at=$((at + size))
	done <"$dir/job"
}

write_old() {
	[ -f "$dir/kept" ] || [ -f "$dir/changed" ] || return 0 # a process that died before these has changed nothing
	n=0
	while read -r size path; do
		n=$((n + 1))
		if [ -e "$dir/old.$n" ] || [ -L "$dir/old.$n" ]; then # -L: a relative link dangles here
			cp -a "$dir/old.$n" "$path.holdfast-new" && mv "$path.holdfast-new" "$path"
		else
			rm -f "$path"
		fi
	done <"$dir/job"
}

# before_change and after_change put the files into effect.
before_change() {
	case $manager in
	ifupdown)
		: >"$dir/touched"
		mkdir -p /run/network
		[ -f "$dir/up" ] || ifquery --state >"$dir/up" 2>/dev/null # only the first call sees the former network
		ifdown -a --exclude=lo
		;;
	networkmanager)
		[ -f "$dir/up" ] || nmcli -t -f UUID connection show --active >"$dir/up" 2>/dev/null
		;;
	esac
	:
}

# check_files fails if the manager cannot parse the files, before they do any harm.
check_files() {
	if [ "$manager" = netplan ]; then
		netplan generate
	fi
}

after_change() {
	: >"$dir/touched"
	case $manager in
	netplan) netplan apply ;;
	networkd) networkctl reload || systemctl restart systemd-networkd ;;
	ifupdown) bring_up ;;
	networkmanager) nmcli connection reload && { [ "${back:-}" ] || activate; } ;;
	esac
}

# field prints a value of the section [connection] of NetworkManager's file PATH: field PATH NAME.
field() { sed -n '/^\[connection\]/,/^\[/s/^'"$2"'[[:space:]]*=[[:space:]]*//p' "$1" | head -n 1; }

# activate brings up NetworkManager's connections of the new files, because a reload alone does not
# change devices. Ports come first, which also brings up their controllers. A file that cannot be
# loaded, or a connection that does not come up, is a failure.
activate() {
	for ports in yes no; do
		while read -r size path; do
			if [ "$ports" = yes ]; then
				nmcli connection load "$path" </dev/null || return 1
				nmcli -g connection.uuid connection show "$(field "$path" id)" </dev/null >/dev/null || return 1 # load only warns of a bad file
			fi
			of=$(field "$path" master)$(field "$path" controller)
			[ "$(field "$path" autoconnect)" != false ] || continue
			if { [ "$ports" = yes ] && [ "$of" ]; } || { [ "$ports" = no ] && [ ! "$of" ]; }; then
				nmcli --wait 60 connection up id "$(field "$path" id)" </dev/null || return 1
			fi
		done <"$dir/job"
	done
}

# bring_up fails if an "auto" interface does not come up. ifdown has also taken down "allow-hotplug"
# interfaces, which Debian's installer configures, and no cable event will bring them up again. Not
# every ifup supports such classes.
bring_up() {
	ifup -a --exclude=lo
	set -- $?
	ifup --allow=hotplug -a --exclude=lo
	return "$1"
}

# links_of lists links by name: all, or those of a type (links_of type bond). It does not use sysfs,
# which in a container shows the links of another host.
links_of() {
	ip -o link show "$@" 2>/dev/null | sed 's/^[0-9]*: \([^:@]*\).*/\1/'
}

# remove_links deletes the bonds, bridges and VLANs that the configuration has created. No manager
# deletes them with their files, and they would keep ports, addresses and routes. A link that is not
# in the configuration belongs to another program.
remove_links() {
	[ -s "$dir/links" ] || return 0
	for link in $(links_of type bond) $(links_of type bridge) $(links_of type vlan); do
		if ! grep -Fxq -e "$link" "$dir/links" && grep -Fqw -e "$link" "$dir/script"; then
			ip link delete "$link"
		fi
	done
}

disarm() { rm -f "$boot_link" "$boot_unit"; }

# go_back restores the old state, after the decision. A network that was not touched is left alone,
# because another manager may have configured it.
go_back() {
	back=yes
	if [ -f "$dir/touched" ]; then
		before_change
		write_old
		# A manager that still has the new files would recreate the links, or use them, and fail.
		[ "$manager" = ifupdown ] || after_change
		remove_links # ifupdown needs their ports for the former network
		after_change
		# Interfaces brought up manually are in no class. The lines are like "eth0=eth0", as ifup expects.
		[ ! -s "$dir/up" ] || while read -r up; do
			case $manager-$up in
			ifupdown-lo | ifupdown-lo=*) ;;
			ifupdown-*) ifup "$up" </dev/null ;;
			networkmanager-*) nmcli --wait 30 connection up uuid "$up" </dev/null ;;
			esac
		done <"$dir/up"
	else
		write_old
		check_files
	fi
	disarm
	: >"$dir/restored"
} >>"$dir/log" 2>&1 </dev/null 8>&- # a daemon of the network must not keep the lock

arm() {
	if [ "$init" = systemd ]; then
		# The files first: without systemd's timer a reboot would leave the configuration in force
		# permanently.
		cat >"$boot_unit" <<-UNIT || return 1
			[Unit]
			Description=Holdfast: back to the former network, unless the new one was confirmed
			DefaultDependencies=no
			RequiresMountsFor=$base
			After=local-fs.target
			Before=network-pre.target systemd-networkd.service networking.service NetworkManager.service
			Wants=network-pre.target
			[Service]
			Type=oneshot
			ExecStart=/bin/sh $dir/supervisor boot $base $token $dir $manager
		UNIT
		mkdir -p "${boot_link%/*}" && ln -sf "$boot_unit" "$boot_link" || return 1
		sync "$boot_unit" "${boot_unit%/*}" "${boot_link%/*}" 2>/dev/null || sync
		# KillMode: keep the dhclient that ifup starts, or the host loses its address when the DHCP
		# lease ends.
		systemd-run --quiet --collect --no-ask-password --unit="holdfast-net-$token-rollback" --description="Holdfast: back to the former network" \
			--on-active="$rollback" --timer-property=AccuracySec=100ms -p KillMode=process \
			/bin/sh "$dir/supervisor" rollback "$base" "$token" "$dir" "$manager" 'it was not confirmed in time'
	else
		# shellcheck disable=SC2016 # its own shell expands it
		setsid /bin/sh -c 'sleep "$1"; shift; exec /bin/sh "$@"' rollback "$rollback" "$dir/supervisor" rollback "$base" "$token" "$dir" "$manager" 'it was not confirmed in time' </dev/null >/dev/null 2>&1 8>&- &
	fi
}

# former finishes an earlier configuration. It fails with 1 if that one still waits for a
# confirmation, and with 2 if the host is rolling it back: the rollback needs the lock and would
# overwrite our files.
former() {
	[ -f "$base/n-current" ] || return 0
	read -r other <"$base/n-current"
	[ "$other" != "$token" ] && [ -f "$base/n-$other" ] || return 0
	read -r other_dir other_boot other_until rest <"$base/n-$other"
	[ -d "$other_dir" ] || return 0
	uptime
	alive=
	if [ "$other_boot" = "$boot" ] && [ "$now" -lt "$other_until" ]; then
		alive=true
	fi
	if [ -f "$other_dir/decision" ]; then
		read -r word rest <"$other_dir/decision"
		if [ "$alive" ] && [ "$word" = reverted ] && [ -f "$other_dir/changed" ] && [ ! -f "$other_dir/restored" ]; then
			return 2
		fi
		return 0
	fi
	[ ! "$alive" ] || return 1
	# The process that should have rolled back has died.
	/bin/sh "$dir/supervisor" rollback "$base" "$other" "$other_dir" "$manager" 'it was not confirmed in time' locked 8>&-
	return 0
}

# turn takes the lock if no earlier configuration is pending, and sets why to the reason if not.
turn() {
	exec 8>"$base/n-lock"
	tries=0
	while [ "$tries" -lt 120 ]; do
		why='another network configuration is being applied'
		flock -w 60 8 || return 1
		former
		case $? in
		0) return 0 ;;
		1)
			why='another network configuration waits to be confirmed'
			return 1
			;;
		esac
		why='the host is still going back to its former network'
		flock -u 8
		tries=$((tries + 1))
		sleep 0.5
	done
	return 1
}

run() {
	base=$1 token=$2 dir=$3 latest=$4 manager=$5 rollback=$6 init=$7
	uptime
	if [ "$now" -ge "$latest" ]; then
		rm -rf "$dir"
		exit 0
	fi
	read -r boot </proc/sys/kernel/random/boot_id
	seconds=${rollback%.*}
	echo 'reverted it was not confirmed, and the disk is full' >"$dir/say.reverted" && echo confirmed >"$dir/say.confirmed" || exit 1
	echo "$dir $boot $((${now#"${now%%[!0]*}"} + (seconds + 60) * 100)) $manager" >"$dir/claim" || exit 1
	if ! ln "$dir/claim" "$base/n-$token" 2>/dev/null; then
		rm -rf "$dir"
		exit 0
	fi
	if ! turn; then
		decide reverted "$why"
		exit 0
	fi
	echo "$token" >"$base/n-current.new" && mv "$base/n-current.new" "$base/n-current"
	sleep 0.3 # send the answer first: this may cut the connection
	if ! keep || { [ "$rollback" != 0 ] && ! arm; }; then
		decide reverted 'the way back could not be prepared: is the disk full?'
		disarm
		exit 0
	fi
	: >"$dir/changed"
	if { before_change && write_new && check_files && after_change; } >>"$dir/log" 2>&1 </dev/null 8>&-; then
		uptime
		echo "$now" >"$dir/applied.new" && mv "$dir/applied.new" "$dir/applied"
		if [ "$rollback" = 0 ]; then
			decide confirmed 'it was applied for good'
		fi
	elif decide reverted "it could not be applied: $(tail -c 300 "$dir/log" | tr '\n' ' ')"; then
		go_back
	fi
}

rollback() {
	base=$1 token=$2 dir=$3 manager=$4
	exec 8>"$base/n-lock"
	if decide reverted "$5"; then
		if [ "${6:-}" != locked ]; then # unless the caller holds the lock
			flock -w 20 8 # an apply that hangs does not prevent the rollback
		fi
		go_back
	fi
}

boot() {
	base=$1 token=$2 dir=$3 manager=$4
	decide reverted 'the host was rebooted before it was confirmed'
	word=
	[ ! -f "$dir/decision" ] || read -r word rest <"$dir/decision"
	if [ "$word" != confirmed ] && [ ! -f "$dir/restored" ]; then # also if an earlier process decided and died
		write_old
		check_files
		: >"$dir/restored"
	fi
	disarm
}

what=$1
shift
case $what in
run) run "$@" ;;
rollback) rollback "$@" ;;
boot) boot "$@" ;;
esac
