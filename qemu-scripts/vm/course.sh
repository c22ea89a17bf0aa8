# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder: they share its variables
#
# The course of a run: what the guests tell, and what follows from it.

declare -A started=()	# role -> its command has begun
declare -A ended=()	# role -> exit status of its command
ready=			# the server is

# The command of ROLE ended with STATUS.
command_ended() {
	local role=$1
	ended[$role]=$2
	case $role in
	guest)
		conclude_status "the command" "$2" ;;
	server)
		if [[ -z $ready && $2 == 4 ]]; then
			conclude skip 4 "the server's command ended with status 4"
			kill_guests
		elif [[ -z $ready ]]; then
			conclude fail 1 "the server's command ended with status $2 before it was ready"
			kill_guests
		elif [[ $server_end == self && $2 != 0 ]]; then
			conclude fail 1 "the server's command ended with status $2"
		fi
		# Its client will hardly end well: hear what it says, not for long.
		[[ -z $verdict ]] || allow_grace ;;
	client)
		[[ $2 == 0 ]] || conclude_status "the client's command" "$2"
		if [[ -n ${ended[server]-} ]]; then
			:
		elif [[ $server_end == kill ]]; then
			kill_server
		else
			allow_grace
			[[ $server_end == self && -z $verdict ]] || tell server stop
		fi ;;
	esac
}

kill_server() {
	ended[server]=killed
	kill_guest server
}

# Of the server's persistent memory crash-states wants what was there before the client's first request,
# and what is there at the end: server.pmem0.start and server.pmem0.
keep_pmem() {
	local file to=$run/server.pmem0$1
	[[ $mode == pair && -n $(server_pmem) ]] || return 0
	file=$(pmem_file "$(server_pmem)")
	file=${file:-$run/server.pmem0}
	[[ ! -e $file || $file -ef $to ]] || cp --sparse=always --reflink=auto "$file" "$to" ||
		note "cannot keep $to: crash-states cannot look at this run"
}

# QEMU's end has not lost what a power failure loses.
lose_words() {
	[[ -n $lose && -n $ready ]] || return 0
	"$crash_states" --lose "$(pmem_file "$(server_pmem)")" --seed "$lose" "$run" >"$run/lost" 2>&1 ||
		conclude fail 1 "$(<"$run/lost")"
	note "$(<"$run/lost")"
}

# What has still to end gets this long.
allow_grace() {
	local -i soon=$((SECONDS + 20 * scale))
	((soon > deadline)) || deadline=soon
}

deadline_passed() {
	if all_ended; then
		verdict=	# whatever the command said
		conclude lost 3 "a guest did not power off"
	elif [[ -n ${ended[client]-} ]]; then
		[[ $server_end != self ]] ||
			conclude fail 1 "the server's command did not end after the client's (a daemon wants --stop-server)"
	elif [[ $mode == pair && -z $ready ]]; then
		conclude fail 1 "the server was not ready within $((timeout * scale)) s: it neither ran rxe-ready nor listens"
	else
		conclude lost 3 "a guest did not end within the deadline of $((timeout * scale)) s$(silence "${roles[0]}")"
	fi
	kill_guests
}

# True when no guest's command is running any more.
all_ended() {
	local role
	for role in "${roles[@]}"; do
		[[ -n ${ended[$role]-} ]] || return 1
	done
}

watch_guests() {
	local -A gone=()
	local -i deadline=$((SECONDS + timeout * scale)) left
	local line role event argument

	start_guest "${roles[0]}"
	show_boot "${roles[0]}"
	while ((${#gone[@]} < ${#pid[@]})); do
		left=$((deadline - SECONDS))
		if ((left <= 0)) || ! IFS= read -r -t "$left" line <&"$events"; then
			deadline_passed
			deadline=$((SECONDS + 60))
			continue
		fi
		read -r role event argument <<<"$line"
		case $event in
		started)
			started[$role]=1
			stop_boot_display ;;
		ready)
			ready=1
			keep_pmem .start
			tell client go ;;
		memory)
			echo "$argument" >>"$run/server.memory" ;;
		kill-server)
			[[ -n ${ended[server]-} ]] || kill_server ;;
		exit)
			command_ended "$role" "$argument"
			if all_ended; then
				for role in "${!ended[@]}"; do
					tell "$role" off
				done
				allow_grace
			fi ;;
		fail)
			conclude fail 1 "$role: $argument"
			kill_guests ;;
		gone)
			gone[$role]=1
			if [[ -z ${started[$role]-} ]] && why_not_up "$role"; then
				conclude fail 1 "$role: ${never_up[$role]}"
				kill_guests
			elif [[ -z ${ended[$role]-} ]]; then
				conclude lost 3 "the guest '$role' died$(last_words "$role")"
				kill_guests
			fi ;;
		*)
			# QMP's greeting: the server's QEMU listens for the client's.
			[[ $line != '{"QMP"'* || $mode != pair || -n ${pid[client]-} ]] ||
				start_guest client ;;
		esac
	done
	stop_boot_display
	keep_pmem ""
	lose_words
	conclude pass 0 ""
	wait "${followers[@]}" || true
}
