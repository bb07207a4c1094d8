# shellcheck shell=sh disable=SC2154,SC2034 # hf_base, hf_nonce and hf_days come from outside, hf_rest receives unused fields
# The agent answers the requests of one session. It reads a line, runs the function in it, and
# writes the answer to descriptor 3. It ends with the session and keeps no state in memory. It
# needs only POSIX, Linux, flock and setsid.
#
# The session sets hf_base, hf_nonce and hf_days before this. The files below hf_base are
#
#   t-TOKEN   the claim of a command, made once, by link(2), by the supervisor that runs it; or a
#             tombstone
#   d-NONCE/  the files of that supervisor
#   n-TOKEN   the claim of a network configuration; n-current names the last one

umask 077
LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
exec 3>&1 1>&2

# hf_uptime sets hf_now to hundredths of a second since boot. It may start with zeros, so do not
# use it in arithmetic.
hf_uptime() {
	read -r hf_now hf_rest </proc/uptime
	hf_now=${hf_now%.*}${hf_now#*.}
}

# hf_err CLASS TEXT answers with an error.
hf_err() { printf 'err %s %s\n%s' "$1" "${#2}" "$2" >&3; }

# hf_in_time BY fails and answers "late" if that time of the host's clock has passed.
hf_in_time() {
	hf_uptime
	[ "$hf_now" -lt "$1" ] && return 0
	printf 'late %s\n' "$hf_now" >&3
	return 1
}

# hf_started PID prints the start time of a process, which distinguishes it from a later one with that PID.
hf_started() {
	read -r hf_line <"/proc/$1/stat" || return 1
	# shellcheck disable=SC2086 # it is a list of numbers
	set -- ${hf_line##*) }
	[ "$1" != Z ] && echo "${20}"
} 2>/dev/null

# hf_load TOKEN reads the claim of a command. It fails if there is none.
hf_load() {
	hf_unit=holdfast-$1.service
	[ -f "$hf_base/t-$1" ] || return 1
	read -r hf_dir hf_boot_then hf_mode hf_pid hf_since hf_rest <"$hf_base/t-$1"
}

# hf_ended sets hf_state, hf_code and hf_why from the supervisor's final record.
hf_ended() {
	[ -f "$hf_dir/exit" ] || return 1
	read -r hf_state hf_code hf_why <"$hf_dir/exit"
}

# hf_read sets hf_state, hf_code and hf_why of the loaded command.
hf_read() {
	hf_state=failed hf_code=-1 hf_why=
	if [ "$hf_dir" = - ]; then
		hf_why='it was killed before it was started'
	elif [ ! -d "$hf_dir" ]; then
		hf_why='its record is gone from the host, because of its age or by a power cut; it is not started again'
	elif hf_ended; then
		:
	elif [ "$hf_boot_then" != "$hf_boot" ]; then
		hf_why="the host was rebooted while it ran (boot id $hf_boot_then, now $hf_boot); it is not started again"
	elif [ "$(hf_started "$hf_pid")" = "$hf_since" ] || hf_lives; then
		hf_state=running hf_code=0
	elif ! hf_ended; then # a second read: it may have ended meanwhile
		hf_why='its supervisor was killed: what became of it is not known'
	fi
}

# hf_lives succeeds if a process of a command without a supervisor is still running.
hf_lives() {
	if [ "$hf_mode" = systemd ]; then
		case $(systemctl show -p ActiveState "$hf_unit" </dev/null) in
		*=active | *=activating | *=deactivating | *=reloading) return 0 ;;
		esac
		return 1
	fi
	read -r hf_child <"$hf_dir/child" && kill -s 0 -- "-$hf_child" &&
		cat /proc/[0-9]*/stat | awk -v group="$hf_child" '{ sub(/.*\) /, ""); if ($3 == group && $1 != "Z") found = 1 } END { exit !found }'
} 2>/dev/null

# hf_index updates the index of a command's output. Each stream has a file. The index records the
# order in which they were seen to grow, so that every byte has one permanent offset. A record is:
# offset, stream, offset in its file, length, a dot.
hf_index() {
	[ -f "$hf_dir/out" ] && [ -f "$hf_dir/err" ] || return 0
	exec 8>"$hf_dir/lock"
	flock -w 10 8 || return 1
	hf_out=$(($(wc -c <"$hf_dir/out"))) hf_errs=$(($(wc -c <"$hf_dir/err")))
	[ -f "$hf_dir/index" ] || : >"$hf_dir/index"
	# shellcheck disable=SC2046 # three numbers
	set -- $(awk 'NF == 5 && $5 == "." { all = $1 + $4; if ($2 == "out") o = $3 + $4; else e = $3 + $4 } END { printf "%d %d %d", all, o, e }' "$hf_dir/index")
	if [ "$hf_out" -gt "$2" ]; then
		printf '\n%s out %s %s .\n' "$1" "$2" $((hf_out - $2)) >>"$hf_dir/index"
	fi
	if [ "$hf_errs" -gt "$3" ]; then
		printf '\n%s err %s %s .\n' $(($1 + hf_out - $2)) "$3" $((hf_errs - $3)) >>"$hf_dir/index"
	fi
	exec 8>&-
}

# hf_status TOKEN OFFSET MAX answers with the state of a command and at most MAX bytes of its output
# from OFFSET on.
hf_status() {
	if ! hf_load "$1"; then
		echo 'status none 0 0 0' >&3
		return
	fi
	hf_read # before the output, so that the output of an ended command is complete
	hf_index || {
		hf_err transient 'the output is locked by somebody else'
		return
	}
	hf_pieces=
	[ -f "$hf_dir/index" ] && hf_pieces=$(awk -v from="$2" -v most="$3" '
		NF == 5 && $5 == "." && $1 + $4 > from && most > 0 && n < 100 {
			skip = from > $1 ? from - $1 : 0
			len = $4 - skip
			if (len > most) len = most
			most -= len
			n++
			printf "%s %d %d\n", $2, $3 + skip, len
		}' "$hf_dir/index")
	# shellcheck disable=SC2086 # a list of words
	set -- $hf_pieces
	printf 'status %s %s %s %s\n%s' "$hf_state" "$hf_code" "${#hf_why}" $(($# / 3)) "$hf_why" >&3
	while [ $# -gt 0 ]; do
		printf '%s %s\n' "$1" "$3" >&3
		tail -c +$(($2 + 1)) "$hf_dir/$1" | head -c "$3" >&3
		shift 3
	done
}

# hf_stage NONCE USER SIZE SIZE SIZE stores the files for a start: supervisor, job and script follow
# the line. If it cannot, the agent ends, because the rest of them must not be read as requests.
hf_stage() {
	if [ "$2" != root ] && ! id -u "$2" >/dev/null 2>&1; then
		hf_err unsupported "the host has no user $2"
		exit 1
	fi
	hf_dir=$hf_base/d-$1
	if ! { hf_mkbase && mkdir -m 711 "$hf_dir" && hf_put supervisor "$3" && hf_put job "$4" && hf_put script "$5" &&
		chmod 500 "$hf_dir/job" "$hf_dir/script" && chown "$2" "$hf_dir/job" "$hf_dir/script"; }; then
		hf_err transient "cannot write $hf_dir: is the disk full?"
		rm -rf "$hf_dir"
		exit 1
	fi
	hf_clean
	echo ok >&3
}

# hf_mkbase creates the base directory. The users of commands can pass through it, but not list it.
hf_mkbase() { [ -d "$hf_base" ] || { (umask 022 && mkdir -p "$hf_base") && chmod 711 "$hf_base"; }; }

hf_put() { head -c "$2" >"$hf_dir/$1" && [ "$(($(wc -c <"$hf_dir/$1")))" = "$2" ]; }

# hf_drop NONCE deletes staged files.
hf_drop() {
	rm -rf "$hf_base/d-$1"
	echo ok >&3
}

# hf_start TOKEN NONCE BY LATEST USER TIMEOUT BLOCKS GRACE makes a supervisor run the staged job. It
# may be repeated for a token: the supervisor that makes the claim runs the job, the others end.
hf_start() {
	hf_dir=$hf_base/d-$2 hf_staged=$hf_base/d-$2
	if [ -f "$hf_base/t-$1" ]; then
		rm -rf "$hf_dir"
		echo ok >&3
		return
	fi
	hf_in_time "$3" || {
		rm -rf "$hf_dir"
		return
	}
	set -- "$1" "$2" /bin/sh "$hf_dir/supervisor" run "$hf_base" "$1" "$hf_dir" "$hf_init" "$4" "$5" "$6" "$7" "$8"
	if [ "$hf_init" = systemd ]; then
		hf_run systemd-run "$@"
	else
		hf_run setsid "$@"
	fi
	hf_tries=0
	until [ -f "$hf_base/t-$1" ]; do
		hf_tries=$((hf_tries + 1))
		if [ "$hf_tries" -gt 100 ]; then # 5 seconds, and LATEST has passed: make sure that it never starts
			if hf_bury "$1" "$2"; then
				hf_err transient "the host did not start it: $(head -c 500 "$hf_base/x-$2.log" 2>/dev/null)"
				rm -rf "$hf_staged" "$hf_base/x-$2.log"
				return
			fi
			break
		fi
		sleep 0.05
	done
	rm -f "$hf_base/x-$2.log"
	echo ok >&3
}

# hf_run HOW TOKEN NONCE COMMAND... starts a supervisor that is independent of this session.
hf_run() {
	hf_how=$1 hf_unit=holdfast-$2.service hf_log=$hf_base/x-$3.log
	shift 3
	if [ "$hf_how" = systemd-run ]; then
		# ${10} and ${12}: timeout and grace. If the service exists, another caller has started it.
		systemd-run --quiet --collect --no-ask-password --unit="$hf_unit" --description="Holdfast: ${hf_unit%.service}" \
			-p KillMode=control-group -p TimeoutStopSec="${12}" -p IgnoreSIGPIPE=no \
			${10:+-p "RuntimeMaxSec=${10}"} \
			-p ExecStopPost="-/bin/sh $hf_staged/supervisor post $hf_staged" \
			"$@" </dev/null >"$hf_log" 2>&1
	elif setsid -f true 2>/dev/null; then
		setsid -f "$@" </dev/null >"$hf_log" 2>&1
	else
		setsid "$@" </dev/null >"$hf_log" 2>&1 &
	fi
	:
}

# hf_bury TOKEN NONCE creates a tombstone, unless the command has begun.
hf_bury() {
	echo '- killed' >"$hf_base/x-$2" && ln "$hf_base/x-$2" "$hf_base/t-$1" 2>/dev/null
	set -- $? "$2"
	rm -f "$hf_base/x-$2"
	return "$1"
}

# hf_kill TOKEN NONCE BY GRACE ends a command and its children, and waits until they are gone. A
# command that has not begun never will.
hf_kill() {
	hf_in_time "$3" || return
	hf_mkbase
	if ! hf_load "$1" && { hf_bury "$1" "$2" || ! hf_load "$1"; }; then
		echo ok >&3
		return
	fi
	hf_read
	if [ "$hf_state" = running ]; then
		[ -f "$hf_dir/kill" ] || echo 'killed' >"$hf_dir/kill"
		if [ "$hf_mode" = systemd ]; then
			systemctl stop --no-block "$hf_unit" </dev/null
		else
			setsid /bin/sh "$hf_dir/supervisor" kill "$hf_dir" "$1" "$4" </dev/null >/dev/null 2>&1 &
		fi
	fi
	hf_tries=$((($4 + 3) * 20))
	while [ "$hf_state" = running ]; do
		if [ "$hf_tries" -eq 0 ]; then
			hf_err transient 'it is still there after it was killed'
			return
		fi
		hf_tries=$((hf_tries - 1))
		sleep 0.05
		hf_read
	done
	echo ok >&3
}

# hf_clean removes ended commands older than hf_days, and claims four times as old.
hf_clean() {
	find "$hf_base" -mindepth 2 -maxdepth 2 -name exit -mtime "+$hf_days" | while read -r hf_old; do rm -rf "${hf_old%/exit}"; done
	find "$hf_base" -mindepth 1 -maxdepth 1 \( -name 't-*' -o -name 'x-*' \) -mtime "+$((4 * hf_days))" -exec rm -f {} +
	hf_net_current && [ -n "$hf_current" ] && read -r hf_keep hf_rest <"$hf_base/n-$hf_current"
	find "$hf_base" -mindepth 1 -maxdepth 1 -name 'd-*' -mtime "+$((4 * hf_days))" | while read -r hf_old; do
		# running commands stay, however old
		if [ "$hf_old" != "${hf_keep:-}" ] && ! { read -r hf_rest hf_rest hf_rest hf_pid hf_since hf_rest <"$hf_old/claim" && [ "$(hf_started "$hf_pid")" = "$hf_since" ]; }; then
			rm -rf "$hf_old"
		fi
	done
} </dev/null 2>/dev/null

# hf_inspect answers with facts about the host.
hf_inspect() {
	hf_image=
	if [ -f /etc/holdfast/image ]; then
		read -r hf_image </etc/holdfast/image
	fi
	printf 'facts %s %s\n%s' "$hf_boot" "${#hf_image}" "$hf_image" >&3
}

read -r hf_boot </proc/sys/kernel/random/boot_id
hf_init=none
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
	hf_init=systemd
fi
hf_missing=
for hf_tool in awk chown find flock head ln mkfifo setsid sleep tail wc; do
	command -v $hf_tool >/dev/null || hf_missing=$hf_missing,$hf_tool
done
hf_uptime
printf '\nready %s %s %s %s %s\n' "$hf_nonce" "$hf_now" "$hf_boot" "$hf_init" "${hf_missing#,}" >&3
# hf_net_load TOKEN reads the claim of a network configuration, and sets hf_net_state to its state:
# applying, applied, confirmed, reverting or reverted.
hf_net_load() {
	[ -f "$hf_base/n-$1" ] || return 1
	read -r hf_dir hf_rest <"$hf_base/n-$1"
	hf_net_state=applying hf_why=
	if [ -f "$hf_dir/decision" ]; then
		read -r hf_net_state hf_why <"$hf_dir/decision"
		if [ "$hf_net_state" = reverted ] && [ -f "$hf_dir/changed" ] && [ ! -f "$hf_dir/restored" ]; then
			hf_net_state=reverting
		fi
	elif [ ! -d "$hf_dir" ]; then
		hf_net_state=reverted
	elif [ -f "$hf_dir/applied" ]; then
		hf_net_state=applied
	fi
}

hf_net_current() {
	hf_current=
	[ -f "$hf_base/n-current" ] && read -r hf_current <"$hf_base/n-current"
}

# hf_net_status answers with the last configuration and its state. It waits while one is being
# applied or reverted.
hf_net_status() {
	hf_net_current
	hf_tries=0
	while hf_net_load "${hf_current:-none}"; do
		case $hf_net_state in
		applying | reverting) ;;
		*) break ;;
		esac
		hf_tries=$((hf_tries + 1))
		if [ "$hf_tries" -gt 200 ]; then
			[ "$hf_net_state" = reverting ] && break # decided, even if it takes long
			hf_err transient 'a network configuration is still being applied'
			return
		fi
		sleep 0.1
	done
	if hf_net_load "${hf_current:-none}"; then
		[ "$hf_net_state" != reverting ] || hf_net_state=reverted
		printf 'net %s %s %s\n%s' "$hf_current" "$hf_net_state" "${#hf_why}" "$hf_why" >&3
	else
		echo 'net - none 0' >&3
	fi
}

# hf_net_apply TOKEN NONCE BY LATEST MANAGER ROLLBACK applies the staged configuration, once.
hf_net_apply() {
	hf_dir=$hf_base/d-$2 hf_staged=$hf_base/d-$2
	if [ -f "$hf_base/n-$1" ]; then
		rm -rf "$hf_dir"
		hf_net_begun "$1"
		return
	fi
	case $5 in
	netplan) hf_tool=netplan ;;
	networkd) hf_tool=networkctl ;;
	networkmanager) hf_tool=nmcli ;;
	*) hf_tool=ifup ;;
	esac
	if ! command -v $hf_tool >/dev/null; then
		rm -rf "$hf_dir"
		hf_err unsupported "the configuration is for $5, and the host has no $hf_tool"
		return
	fi
	hf_in_time "$3" || {
		rm -rf "$hf_dir"
		return
	}
	set -- "$1" /bin/sh "$hf_dir/supervisor" run "$hf_base" "$1" "$hf_dir" "$4" "$5" "$6" "$hf_init"
	hf_unit=holdfast-net-$1.service
	if [ "$hf_init" = systemd ]; then
		shift
		# KillMode: keep the dhclient that ifup starts, or the host loses its address when the DHCP
		# lease ends.
		systemd-run --quiet --collect --no-ask-password --unit="$hf_unit" --description="Holdfast: network configuration" -p KillMode=process "$@" </dev/null
		set -- "$5"
	else
		shift
		setsid "$@" </dev/null >/dev/null 2>&1 &
		set -- "$5"
	fi
	hf_tries=0
	while
		hf_net_current # which fails on a host that has never had one
		[ "$hf_current" != "$1" ] && ! { hf_net_load "$1" && [ -f "$hf_dir/decision" ]; }
	do
		hf_tries=$((hf_tries + 1))
		if [ "$hf_tries" -gt 240 ]; then
			hf_err timeout 'it waits for its turn, or the host did not begin to apply it' # it may still begin
			return
		fi
		sleep 0.05
	done
	hf_net_begun "$1"
}

# hf_net_begun TOKEN answers that a configuration is being or was applied, or why it was not. In the
# second case nothing has changed, and a retry may succeed.
hf_net_begun() {
	hf_net_current
	if [ "$hf_current" != "$1" ] && hf_net_load "$1" && [ "$hf_net_state" = reverted ] && [ ! -f "$hf_dir/changed" ]; then
		hf_err transient "$hf_why"
		return
	fi
	echo ok >&3
}

# hf_net_confirm TOKEN NONCE BY CONNECTED keeps a configuration. It answers "old" if the connection
# is older than the change, and so proves nothing about the new path.
hf_net_confirm() {
	hf_in_time "$3" || return
	hf_net_current
	if [ "$hf_current" != "$1" ] || ! hf_net_load "$1"; then
		hf_err unsupported "network configuration $1 is not the one in force"
		return
	fi
	case $hf_net_state in
	applying)
		hf_err transient 'it is not applied yet'
		return
		;;
	applied)
		read -r hf_since <"$hf_dir/applied"
		if [ "$4" -le "$hf_since" ]; then
			echo old >&3
			return
		fi
		if echo 'confirmed' >"$hf_dir/decision.$2"; then
			ln "$hf_dir/decision.$2" "$hf_dir/decision" 2>/dev/null
		else # the disk is full
			ln "$hf_dir/say.confirmed" "$hf_dir/decision" 2>/dev/null
		fi
		rm -f "$hf_dir/decision.$2"
		sync "$hf_dir/decision" "$hf_dir" 2>/dev/null || sync # otherwise a power cut undoes it
		hf_net_load "$1"
		;;
	esac
	if [ "$hf_net_state" != confirmed ]; then
		hf_err unsupported "it was rolled back: $hf_why"
		return
	fi
	rm -f /etc/systemd/system/multi-user.target.wants/holdfast-net-rollback.service /etc/systemd/system/holdfast-net-rollback.service
	if [ "$hf_init" = systemd ]; then
		systemctl stop --no-block "holdfast-net-$1-rollback.timer" </dev/null
	fi
	echo ok >&3
}

# hf_ping answers with the clock. It is the heartbeat of the session.
hf_ping() {
	hf_uptime
	echo "pong $hf_now" >&3
}

while IFS= read -r hf_line; do
	eval "$hf_line"
	echo end >&3
done
