# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# The event loop of a run: what the guests report, and what follows from it.

declare -A started=()	# boot -> its command has begun
declare -A ended=()	# guest -> exit status of its command, or killed
declare -A ready=()	# server -> it is
declare -A asked_by=()	# server that is to boot again -> the client that waits for it
declare -A cut_for=()	# server whose power is cut -> the clients that wait for that, and their number for it: CLIENT:N...
up=			# all guests have been started
gone_on=		# the clients have been told that their servers are ready

# Whose command, in words.
command_of() {
	case $mode in
	run | shell) echo "the command" ;;
	pair) echo "the $1's command" ;;
	group) echo "the command of $1" ;;
	esac
}

# have_all STATE GUEST...: is it so of all of these?
have_all() {
	local -n state=$1
	local guest
	for guest in "${@:2}"; do
		[[ -n ${state[$guest]-} ]] || return 1
	done
}

# command_ended GUEST STATUS
command_ended() {
	local guest=$1 server
	ended[$guest]=$2
	case ${side[$guest]} in
	guest)
		conclude_status "$(command_of "$guest")" "$2" ;;
	server)
		if [[ -z ${ready[$guest]-} && $2 == 4 ]]; then
			conclude skip 4 "$(command_of "$guest") ended with status 4"
			kill_guests
		elif [[ -z ${ready[$guest]-} ]]; then
			conclude fail 1 "$(command_of "$guest") ended with status $2 before it was ready"
			kill_guests
		elif [[ $server_end == self && $2 != 0 ]]; then
			conclude fail 1 "$(command_of "$guest") ended with status $2"
		fi
		# Its clients will hardly end well: hear what they say, not for long.
		[[ -z $verdict ]] || allow_grace ;;
	client)
		[[ $2 == 0 ]] || conclude_status "$(command_of "$guest")" "$2"
		if ! have_all ended "${clients[@]}"; then
			[[ -z $verdict ]] || allow_grace
			return 0
		fi
		for server in "${servers[@]}"; do
			if [[ -n ${ended[$server]-} ]]; then
				:
			# For one that boots again, no client is left to come back for.
			elif [[ $server_end == kill || -n ${asked_by[$server]-} ]]; then
				cut_power "$server"
			else
				allow_grace
				[[ $server_end == self && -z $verdict ]] || tell "$server" stop
			fi
		done
		asked_by=() ;;
	esac
}

cut_power() {
	ended[$1]=killed
	kill_guest "$1"
}

# From the number that rxe-kill-server and rxe-start-server have.
server_of() { echo "${servers[$1 - 1]}"; }

# When its power is off those who asked for that go on.
tell_it_is_off() {
	local client
	[[ -z ${running[${boot_of[$1]}]-} ]] || return 0
	for client in ${cut_for[$1]-}; do
		[[ -n ${ended[${client%:*}]-} ]] || tell "${client%:*}" "answer ${client#*:}"
	done
	unset "cut_for[$1]"
}

# start_again CLIENT N: what the client wants of its N-th server.
start_again() {
	local server
	server=$(server_of "$2")
	if [[ ${ended[$server]-} != killed ]]; then
		tell "$1" "answer $2 $server has its power: rxe-kill-server $2 comes first"
	elif [[ -n ${asked_by[$server]-} ]]; then
		tell "$1" "answer $2 $server is on its way already"
	else
		asked_by[$server]=$1
		# It may be dying yet.
		[[ -n ${running[${boot_of[$server]}]-} ]] || boot_again "$server"
	fi
}

boot_again() {
	unset "ended[$1]" "ready[$1]"
	start_guest "$1"
}

# server_ready SERVER
server_ready() {
	ready[$1]=1
	keep_pmem "$1" .start
	note_copied "$1"
	if [[ -n ${asked_by[$1]-} ]]; then
		tell "${asked_by[$1]}" "answer ${number[$1]}"
		unset "asked_by[$1]"
	fi
	let_clients_go
}

let_clients_go() {
	local client
	if [[ -z $gone_on ]] && have_all ready "${servers[@]}"; then
		gone_on=1
		for client in "${clients[@]}"; do
			tell "$client" go
		done
	fi
}

# crash-states wants what a server's persistent memory held before the client's first request,
# and what it holds at the end: server.pmem0.start and server.pmem0; of a group, under the name of each boot.
#
# In a group, clients do not wait for a server that boots again, and servers for no other one: requests may come before
# the first of these copies is made.  So .boot has what it held when the guest booted, and .copied how many bytes of
# the capture may be older than .start.
keep_pmem() {
	local spec file to=$run/${boot_of[$1]}.pmem0$2
	spec=$(first_pmem "$1")
	[[ -n $spec ]] || return 0
	file=$(pmem_path "$1" 0 "$spec")
	[[ ! -e $file || $file -ef $to ]] || cp --sparse=always --reflink=auto "$file" "$to" ||
		note "cannot keep $to: crash-states cannot look at this run"
}

note_copied() {
	local start=$run/${boot_of[$1]}.pmem0.start capture=$run/${boot_of[$1]}.pcap
	[[ $mode != group || ! -e $start || ! -e $capture ]] ||
		stat -c %s "$capture" >"${start%start}copied"
}

# recording_of SERVER: the folder that crash-states takes for a run; each boot of a group's server has one.
recording_of() {
	local boot=${boot_of[$1]} file
	if [[ $mode == pair ]]; then
		echo "$run"
		return
	fi
	mkdir -p "$run/$boot.recording"
	for file in pcap memory pmem0{.boot,.start,.copied,}; do
		[[ ! -e $run/$boot.$file ]] || ln -sf "../$boot.$file" "$run/$boot.recording/server.$file"
	done
	echo "$run/$boot.recording"
}

# QEMU's end has not lost what a power failure loses.  Each boot has a seed of its own, whatever the order in which they
# end.
lose_words() {
	local recording
	local -i seed=$((lose + max_guests * (boots[$1] - 1) + number[$1] - 1))
	[[ -n $lose && -n ${ready[$1]-} ]] || return 0
	recording=$(recording_of "$1")
	"$crash_states" --lose "$(pmem_path "$1" 0 "$(first_pmem "$1")")" --seed "$seed" "$recording" \
		>"$recording/lost" 2>&1 || conclude fail 1 "$(<"$recording/lost")"
	case $mode in
	pair) note "$(<"$recording/lost")" ;;
	*) note "$1: $(<"$recording/lost")" ;;
	esac
}

# What has still to end gets this long.
allow_grace() {
	local -i soon=$((SECONDS + 20 * scale))
	((soon > deadline)) || deadline=soon
}

# The first of these guests that is not STATE yet, of which the message tells.
first_not() {
	local -n state=$1
	local guest
	for guest in "${@:2}"; do
		[[ -n ${state[$guest]-} ]] || { echo "$guest"; return; }
	done
}

deadline_passed() {
	if have_all ended "${guests[@]}"; then
		verdict=	# whatever the command said
		conclude lost 3 "a guest did not power off"
	elif ((${#clients[@]})) && have_all ended "${clients[@]}"; then
		[[ $server_end != self ]] ||
			conclude fail 1 "$(command_of "$(first_not ended "${servers[@]}")") did not end after the client's (a daemon wants --stop-server)"
	elif ! have_all ready "${servers[@]}"; then
		local server
		server=$(first_not ready "${servers[@]}")
		conclude fail 1 "$([[ $mode == pair ]] && echo "the server" || echo "$server") was not ready within $((timeout * scale)) s: it neither ran rxe-ready nor listens"
	else
		conclude lost 3 "a guest did not end within the deadline of $((timeout * scale)) s$(silence "${guests[0]}")"
	fi
	kill_guests
}

# The network, or the guest that has it, is up, so the others may come.
segment_is_up() {
	local guest
	[[ -z $up ]] || return 0
	up=1
	for guest in "${guests[@]}"; do
		[[ -n ${boot_of[$guest]-} ]] || start_guest "$guest"
	done
	let_clients_go
}

# boot_gone BOOT: its QEMU has ended.
boot_gone() {
	local boot=$1 guest=${1%%.*}
	unset "running[$boot]"
	if [[ $boot == hub ]]; then
		hub=
		conclude lost 3 "the network of the group ended$(last_words hub)"
		up=1
		kill_guests
		return
	fi
	unset "pid[$guest]"
	if [[ ${side[$guest]} == server ]]; then
		keep_pmem "$guest" ""
		lose_words "$guest"
		tell_it_is_off "$guest"
	fi
	if [[ -z ${started[$boot]-}${ended[$guest]-} ]] && why_not_up "$boot"; then
		conclude fail 1 "$guest: ${never_up[$boot]}"
		kill_guests
	elif [[ -z ${ended[$guest]-} ]]; then
		conclude lost 3 "the guest '$guest' died$(last_words "$boot")"
		kill_guests
	elif [[ -n ${asked_by[$guest]-} && -z $verdict ]]; then
		boot_again "$guest"
	fi
}

# Has the last guest gone?
all_gone() {
	local boot
	[[ -n $up ]] || return 1
	for boot in "${!running[@]}"; do
		[[ $boot == hub ]] || return 1
	done
}

# One line of hear(), or of attend().
handle_event() {
	local boot event argument guest
	read -r boot event argument <<<"$1"
	guest=${boot%%.*}
	if [[ $event == gone ]]; then
		boot_gone "$boot"
		return
	fi
	# Ignore other messages that a guest sent before its power was cut.
	[[ $boot == "${boot_of[$guest]-}" && ${ended[$guest]-} != killed ]] || return 0
	case $event in
	taint)
		note_taint "$boot" "$argument" ;;
	started)
		[[ -n ${started[$boot]-} ]] || learn_tsc "$boot"
		started[$boot]=1
		stop_boot_display ;;
	ready)
		[[ -n ${ready[$guest]-} ]] || server_ready "$guest" ;;
	kill-server)
		local server
		server=$(server_of "$argument")
		cut_power "$server"
		cut_for[$server]+=" $guest:$argument"
		tell_it_is_off "$server" ;;
	start-server)
		start_again "$guest" "$argument" ;;
	shell-ended)
		shell_ended "$boot" ;;
	exit)
		[[ -z ${ended[$guest]-} ]] || return 0
		command_ended "$guest" "$argument"
		if have_all ended "${guests[@]}"; then
			for guest in "${!ended[@]}"; do
				tell "$guest" off
			done
			allow_grace
		fi ;;
	fail)
		conclude fail 1 "$guest: $argument"
		kill_guests ;;
	esac
}

watch_guests() {
	local -i deadline=$((SECONDS + timeout * scale)) left
	local line

	case $mode in
	group) start_hub ;;
	pair) start_guest "${guests[0]}" ;;
	*) segment_is_up ;;
	esac
	until all_gone; do
		left=$((deadline - SECONDS))
		# What was said before counts, however long this one was busy with something else.
		if ! IFS= read -r -t "$((left > 0 ? left : 0)).1" line <&"$events"; then
			deadline_passed
			up=1
			deadline=$((SECONDS + 60))
			continue
		fi
		case $line in
		# QMP's greeting, first that of the hub, or of the server's QEMU, which listens for the client's.
		'{"QMP"'*) segment_is_up ;;
		'{'*) ;;
		*) handle_event "$line" ;;
		esac
	done
	kill_all
	stop_boot_display
	conclude pass 0 ""
	wait "${followers[@]}" || true
}
