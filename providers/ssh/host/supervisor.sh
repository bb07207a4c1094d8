#!/bin/sh
# The supervisor of one command. It makes the claim, runs the job once, and keeps its output and
# outcome. It is independent of sessions: it continues without the connection and the leader.
#
#   supervisor run BASE TOKEN DIR MODE LATEST USER TIMEOUT BLOCKS GRACE
#   supervisor post DIR              by systemd, after the service has ended for any reason
#   supervisor kill DIR TOKEN GRACE  TERM, then KILL, on hosts without systemd

umask 077
LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH

started() {
	read -r line <"/proc/$1/stat" || return 1
	# shellcheck disable=SC2086 # it is a list of numbers
	set -- ${line##*) }
	echo "${20}"
}

# finish STATE CODE WHY records the outcome permanently.
finish() {
	printf '%s %s %s\n' "$1" "$2" "$3" >"$dir/exit.$$" && mv "$dir/exit.$$" "$dir/exit" && sync "$dir/exit" 2>/dev/null
}

# pump FIFO FILE stores input up to the cap and drops the rest. It survives the TERM that ends the
# others, to drain the pipe.
pump() {
	trap '' TERM INT HUP
	{
		(
			ulimit -f "$blocks"
			trap '' XFSZ
			exec cat >>"$dir/$2"
		)
		cat >/dev/null
	} <"$dir/$1" 2>/dev/null
	: >"$dir/$1.end"
}

# marked prints the processes of the job, also those in sessions of their own, by its token.
marked() {
	# shellcheck disable=SC2013 # names without blanks
	for file in $(grep -lFs "HOLDFAST_TOKEN=$1;" /proc/[0-9]*/environ); do
		file=${file%/environ}
		echo "${file#/proc/}"
	done
}

# signal SIG TOKEN signals the job's process group and its processes outside of that group.
signal() {
	read -r child <"$dir/child" && kill -s "$1" -- "-$child"
	for pid in $(marked "$2"); do kill -s "$1" "$pid"; done
} 2>/dev/null

# grouped succeeds if the job's group has a process that is not a zombie: some inits reap slowly.
grouped() {
	read -r child <"$dir/child" && kill -s 0 -- "-$child" &&
		cat /proc/[0-9]*/stat | awk -v group="$child" '{ sub(/.*\) /, ""); if ($3 == group && $1 != "Z") found = 1 } END { exit !found }'
} 2>/dev/null

# alive TOKEN
alive() { grouped || [ -n "$(marked "$1")" ]; }

ended() {
	if [ -f "$dir/kill" ]; then
		read -r why <"$dir/kill"
		finish failed -1 "$why"
	elif [ "$terminated" = 1 ]; then
		read -r up rest </proc/uptime
		if [ -n "$timeout" ] && [ $((${up%.*} + 1 - began)) -ge "${timeout%.*}" ]; then
			finish failed -1 "it ran into its timeout of ${timeout}s"
		else
			finish failed -1 'it was terminated from outside: is the host going down?'
		fi
	else
		finish "$1" "$2" "$3"
	fi
}

run() {
	base=$1 token=$2 dir=$3 mode=$4 latest=$5 user=$6 timeout=$7 blocks=$8 grace=$9 terminated=0
	trap 'terminated=1' TERM
	read -r up rest </proc/uptime
	now=${up%.*}${up#*.} began=${up%.*}
	if [ "$now" -ge "$latest" ]; then # the caller has given up by now
		rm -rf "$dir"
		exit 0
	fi
	read -r boot </proc/sys/kernel/random/boot_id
	echo "$dir $boot $mode $$ $(started $$) $now" >"$dir/claim" || exit 1
	: >"$dir/out"
	: >"$dir/err"
	mkfifo "$dir/o" "$dir/e" || exit 1
	# The claim. From here on the command is never started again, even after a power cut: hence the
	# sync.
	if ! ln "$dir/claim" "$base/t-$token" 2>/dev/null; then
		rm -rf "$dir"
		exit 0
	fi
	sync "$dir/claim" "$base" 2>/dev/null || sync

	case $user in
	root) set -- env ;;
	*)
		home=$(getent passwd "$user" 2>/dev/null || grep "^$user:" /etc/passwd)
		shell=${home##*:} home=${home%:*} home=${home##*:}
		if command -v setpriv >/dev/null; then
			set -- setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups env
		elif command -v runuser >/dev/null; then
			set -- runuser -u "$user" -- env
		else # shellcheck disable=SC2016 # su's shell expands it
			set -- su -s /bin/sh "$user" -c 'exec env "$0" "$@"'
		fi
		;;
	esac
	set -- "$@" -i "PATH=$PATH" "HOME=${home:-/root}" "USER=$user" "LOGNAME=$user" "SHELL=${shell:-/bin/sh}" LANG=C.UTF-8 \
		"HOLDFAST_TOKEN=$token;" /bin/sh "$dir/job"

	watchdog=
	if [ "$mode" != systemd ] && [ -n "$timeout" ]; then
		# shellcheck disable=SC2016 # its own shell expands it
		setsid /bin/sh -c 'sleep "$1"; echo "it ran into its timeout of ${1}s" >"$3/kill"; exec /bin/sh "$2" kill "$3" "$4" "$5"' watchdog "$timeout" "$0" "$dir" "$token" "$grace" &
		watchdog=$!
	fi
	pump o out &
	pump e err &
	if [ -f "$dir/kill" ] || [ "$terminated" = 1 ]; then
		ended failed -1 'killed'
		: >"$dir/o" 2>"$dir/e"
		exit 0
	fi
	# In the foreground, because a shell makes background children ignore INT and QUIT. The job leads
	# a process group and stores its number. It has the umask of a login, because packages and
	# services cannot read files that have ours.
	# shellcheck disable=SC2016 # its own shell expands it
	setsid /bin/sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0" && umask 022 && exec "$@"' "$dir/child" "$@" </dev/null >"$dir/o" 2>"$dir/e"
	code=$?
	if [ -n "$watchdog" ] && [ ! -f "$dir/kill" ]; then
		kill -s KILL -- "-$watchdog" 2>/dev/null
	fi
	# Processes left in its group are killed. Daemons end with the service if there is systemd.
	read -r child <"$dir/child" && kill -s TERM -- "-$child" 2>/dev/null
	tries=0
	while [ "$tries" -lt 60 ]; do
		if [ "$tries" -eq 40 ]; then
			kill -s KILL -- "-$child" 2>/dev/null
		fi
		if [ -f "$dir/o.end" ] && [ -f "$dir/e.end" ] && ! grouped; then
			break
		fi
		tries=$((tries + 1))
		sleep 0.05 # do not wait for a daemon that keeps its output open
	done
	ended "done" "$code"
}

post() {
	dir=$1 timeout='' terminated=0
	[ -f "$dir/claim" ] && [ ! -f "$dir/exit" ] || exit 0
	case $SERVICE_RESULT in
	timeout) why='it ran into its timeout' ;;
	*) why="its service ended: $SERVICE_RESULT ($EXIT_CODE $EXIT_STATUS)" ;;
	esac
	ended failed -1 "$why"
}

stop() {
	dir=$1
	read -r rest rest rest supervisor rest <"$dir/claim"
	tries=0 asked=
	while [ ! -f "$dir/exit" ] && [ "$tries" -lt $(($3 * 20)) ]; do
		if [ -z "$asked" ] && [ -f "$dir/child" ]; then
			asked=1
			signal TERM "$2"
		fi
		if [ -n "$asked" ] && ! alive "$2"; then
			break
		fi
		sleep 0.05
		tries=$((tries + 1))
	done
	# The supervisor ends by itself after the job.
	tries=0
	while alive "$2" && [ "$tries" -lt 100 ]; do
		signal KILL "$2"
		sleep 0.05
		tries=$((tries + 1))
	done
	if [ ! -f "$dir/exit" ] && ! kill -s 0 "$supervisor" 2>/dev/null; then
		timeout='' terminated=0
		ended failed -1 killed
	fi
}

what=$1
shift
case $what in
run) run "$@" ;;
post) post "$@" ;;
kill) stop "$@" ;;
esac
