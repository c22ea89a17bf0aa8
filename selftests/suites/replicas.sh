#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The replicated log survives what its rules say (remote-log-replicas.h): a minority of the targets dies at any
# moment, and comes back later or not; the initiator dies and is replaced, even in the middle of a recovery.  After
# each death, each majority that a new initiator might look at has all that was acknowledged, in order, byte for byte;
# and each initiator continues with all that the one before it had acknowledged.
#
# In one guest the targets are processes, each with an NVDIMM of its own, and what is sent to each is late by
# chance (broken-replicas).  In a group each target is a guest, whose power is cut; or crash-states makes all that a power
# failure of all targets may have left at any moment.
#
# With LONG=1 there are 200 rounds in place of 11.  SEED=N replays what is killed, after how many records, the texts and
# the seeds of what is lost; how far things got until then is up to the machine.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/examples/replicas/guests.sh
. "$here/../examples/replicas/guests.sh"

rounds_of_3=$((${LONG:-0} ? 100 : 5))
rounds_of_5=$((${LONG:-0} ? 70 : 3))
# Each with a log of its own: an NVDIMM holds that of some rounds, and captures grow, too.
groups=$((${LONG:-0} ? 10 : 1))
rounds_of_group=3
# More than are appended until something dies.
records=5000

##############################################################################
# Within the initiator's guest

# start_initiator: the next one.  Its texts tell it from all others.
start_initiator() {
	local blanks
	# It may find some that were not acknowledged.
	local -i lines=$(($(wc -l <"$work/acknowledged") + 100 + records))
	initiator+=1
	printf -v blanks '%*s' $((RANDOM % 200)) ''
	seq -f "initiator $initiator, line %.0f$blanks" $lines >"$work/text"
	exec {said}< <(exec "${program[@]}" "$work/text" "$records" "$work/appended" 1 "${addresses[@]}" 2>&1)
	running=$!
}

# await PATTERN: until the initiator says it
await() {
	local line
	while IFS= read -r line <&"$said"; do
		echo "$line" >>"$work/said"
		# shellcheck disable=SC2053 # it is a pattern
		[[ $line != $1 ]] || return 0
	done
	fail_round "the initiator has ended"
}

# await_records N: until so many more are acknowledged
await_records() {
	local -i n
	for ((n = 0; n < $1; n++)); do
		await "* records acknowledged"
	done
}

kill_initiator() {
	kill -KILL "$running" 2>/dev/null || true
	wait "$running" 2>/dev/null || true
	exec {said}<&-
	running=
	check
}

# What was acknowledged is where it has to be.
check() {
	# It may have been killed while it handed out what it had found.
	local -i old new
	old=$(stat -c %s "$work/acknowledged") new=$(stat -c %s "$work/appended")
	cmp -n $((old < new ? old : new)) "$work/acknowledged" "$work/appended" ||
		fail_round "initiator $initiator does not go on with what was acknowledged"
	((new < old)) || cp "$work/appended" "$work/acknowledged"
	: >"$work/appended"
	! grep "has lost" "$work/said" || fail_round "a target has lost something"
	[[ ! -s $work/acknowledged || ${#devices[@]} == 0 ]] ||
		remote-log-check-replicas "$targets" "$work/acknowledged" "${devices[@]}" >"$work/checked" 2>&1 ||
		fail_round "not all that was acknowledged is there: $(<"$work/checked")"
}

# in_line_since LINE N: waits until target N is in line, by what the initiator has said behind that LINE
in_line_since() {
	tail -n "+$(($1 + 1))" "$work/said" | grep "^target $2: in line" >/dev/null || await "target $2: in line *"
}

said_so_far() { wc -l <"$work/said"; }

fail_round() {
	tail -n 40 "$work/said"
	[[ ${#devices[@]} == 0 ]] || cat "$work"/target?
	# Last, for a long report is read from its end.
	echo "round $round: $*"
	exit 1
}

# start_target N: returns when it listens.  An initiator that is refused goes on without that target.
start_target() {
	local line fd=${ears[$1]-}
	if [[ -z $fd ]]; then
		mkfifo "$work/says$1"
		exec {fd}<>"$work/says$1"
		ears[$1]=$fd
	fi
	remote-log-target "${addresses[$1]}" "${devices[$1]}" 1>&"$fd" 2>"$work/target$1" &
	target[$1]=$!
	while IFS= read -r -t $((60 * KSFT_TIMEOUT_SCALE)) line <&"$fd"; do
		[[ $line != *" registered: "* ]] || return 0
	done
	fail_round "target $(($1 + 1)) does not listen"
}

start_targets() {
	local -i i
	for ((i = 0; i < targets; i++)); do
		addresses+=("$RXE_ADDR:$((7471 + i))")
		devices+=("/dev/dax$i.0")
		start_target $i
	done
}

kill_targets() {
	local i
	for i; do
		kill -KILL "${target[i]}"
		wait "${target[i]}" 2>/dev/null || true
	done
}

start_those_down() {
	local i
	for i in "${down[@]}"; do
		start_target "$i"
	done
	down=()
}

# kill_minority [PID]: at random, at most as many as may be; and at the same moment that process
kill_minority() {
	local -i n i
	local -a pids=()
	n=$((1 + RANDOM % ((targets - 1) / 2)))
	while ((${#down[@]} < n)); do
		i=$((RANDOM % targets))
		[[ " ${down[*]} " != *" $i "* ]] || continue
		down+=("$i")
		pids+=("${target[i]}")
	done
	kill -KILL "$@" "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null || true
}

# The initiator loses a minority, and goes on; or it dies with them, and the next one begins without them.
round() {
	start_initiator
	await_records $((1 + RANDOM % 30))
	start_those_down
	await_records $((RANDOM % 30))
	if ((RANDOM % 2)); then
		kill_minority "$running"
		kill_initiator
		((RANDOM % 2)) || die_young
		return
	fi
	kill_minority
	await_records $((RANDOM % 30))
	if ((RANDOM % 2)); then
		start_those_down
		((RANDOM % 2)) || await "target * in line *"
		await_records $((RANDOM % 30))
	fi
	kill_initiator
	((RANDOM % 2)) || start_those_down
	((RANDOM % 2)) || cut_recovery_short
}

# What those who are down may have, and nobody else, is longer than what this one appends.
die_young() {
	start_initiator
	await_records 1
	kill_initiator
	start_those_down
}

cut_recovery_short() {
	local -i i
	start_initiator
	for ((i = RANDOM % 5; i > 0; i--)); do
		await '*'
	done
	kill_initiator
}

# set_up SEED [PROGRAM...]: what the rounds work on; $work is a folder of their own
set_up() {
	RANDOM=$1
	program=("${@:2}")
	: >"$work/acknowledged"
	: >"$work/appended"
	: >"$work/said"
}

tell_rounds() {
	echo "# SEED=$1: $((round - 1)) rounds, $initiator initiators, $(wc -l <"$work/acknowledged") records" \
		"acknowledged; $(grep -c 'are not those of the log' "$work/said") times what did not count was cut off"
}

# rounds TARGETS ROUNDS SEED MISTAKE: in one guest
rounds() {
	local -i targets=$1 initiator=0 round
	local -a addresses=() devices=() target=() ears=() down=() program
	local running='' said
	set_up "$3" broken-replicas "$4" "$3"
	start_targets
	for ((round = 1; round <= $2; round++)); do
		round
	done
	tell_rounds "$3"
}

# An initiator may be killed when half a line is handed out.
half_a_line() {
	local -i targets=3 initiator=0 round=0
	local -a addresses=() devices=() target=() ears=() down=() program
	local running='' said
	set_up 1 remote-log-replicate
	start_targets
	records=20 start_initiator
	await "20 records are acknowledged; *"
	kill_initiator
	printf 'half a li' >>"$work/acknowledged"
	check
	printf 'ne\n' >>"$work/acknowledged"
	! remote-log-check-replicas 3 "$work/acknowledged" "${devices[@]}" ||
		fail_round "a line was handed out that is no record, and nothing was noticed"
}

# One target alone has records that nobody acknowledged; without it another record is.
longer_copy() {
	local -i targets=3 initiator=0 round=0
	local -a addresses=() devices=() target=() ears=() down=() program
	local running='' said
	set_up 1 broken-replicas "$1" 0
	start_targets
	start_initiator
	await_records 20
	kill_targets 1 2
	await "no majority is left: *"
	kill_initiator
	kill_targets 0
	start_target 1
	start_target 2
	records=1 start_initiator
	await "* records are acknowledged; *"
	kill_initiator
	start_target 0
	start_initiator
	# Who makes no mistake says that target 1 is cut before it is in line; who does not cut it goes on.
	await_records 10
	[[ $1 != none ]] || in_line_since 0 1
	kill_initiator
	grep "^target 1: records from .* are not those of the log" "$work/said" || fail_round "target 1 had nothing more"
}

# Nothing is acknowledged without a majority; it goes on with the next one, and ends if there is none for long.
minority() {
	local -i targets=3 initiator=0 round=0 late=0
	local -a addresses=() devices=() target=() ears=() down=() program
	local running='' said line
	set_up 1 broken-replicas none 0
	start_targets
	start_initiator
	await_records 20
	kill_targets 1 2
	await "no majority is left: 1 of 3 targets; nothing is acknowledged"
	start_target 2
	while IFS= read -r line <&"$said" && [[ $line != "target 3: in line"* ]]; do
		says_nothing_new "$line"
	done
	late=0
	await_records 20
	kill_targets 0 2
	await "no majority is left: *"
	while IFS= read -r line <&"$said" && [[ $line != "broken-replicas: "* ]]; do
		says_nothing_new "$line"
	done
	[[ $line == *": no majority for $((20 * KSFT_TIMEOUT_SCALE)) s: 0 of 3 targets; "*" records are acknowledged" ]] ||
		fail_round "it says: $line"
	kill_initiator
}

# says_nothing_new LINE: without a majority only those are acknowledged that a target had which is lost since.
says_nothing_new() {
	echo "$1" >>"$work/said"
	[[ $1 != *" records acknowledged" ]] || late+=1
	# MAX_APPENDS of remote-log-connection.h
	((late <= 5)) || fail_round "acknowledged without a majority: $1"
}

# In a group, where the others are guests.  What is left of them is looked at when all have lost their power.
group_round() {
	local n booting since
	since=$(said_so_far)
	start_initiator
	await_records $((1 + RANDOM % 50))
	n=$((1 + RANDOM % targets))
	# It would say nothing of the loss of a target that it has not reached.
	in_line_since "$since" "$n"
	rxe-kill-server "$n"
	# What is sent again and again to a guest that is gone shall not come to its next boot: crash-states would take
	# it for a gap.
	if ((RANDOM % 2)); then
		kill_initiator
		start_initiator
	else
		await "target $n: lost *"
	fi
	await_records $((1 + RANDOM % 30))
	since=$(said_so_far)
	rxe-start-server "$n" &
	booting=$!
	await_records $((RANDOM % 30))
	wait "$booting"
	((RANDOM % 2)) || in_line_since "$since" "$n"
	kill_initiator
}

# group_rounds TARGETS ROUNDS SEED FOLDER: in the client's guest; what was acknowledged goes to FOLDER
group_rounds() {
	local -i targets=$1 initiator=0 round
	local -a addresses devices=() program
	local running='' said
	work=$4
	read -ra addresses <<<"$RXE_PEER_ADDRS"
	set_up "$3" remote-log-replicate
	# Most of the time an append is on its way, a packet here and the next one not: there power cuts belong.
	tc qdisc add dev eth0 root netem rate 1mbit
	for ((round = 1; round <= $2; round++)); do
		group_round
	done
	tell_rounds "$3"
}

##############################################################################
# Joint states

# three_initiators MISTAKE FOLDER: in the client's guest.  The first one leaves with all targets in line, the second one
# cannot reach target 1, and dies, the third one recovers; their text is in FOLDER.
three_initiators() {
	local -a lines=() addresses
	read -ra addresses <<<"$RXE_PEER_ADDRS"
	append() { exec broken-replicas "$1" 0 "$2/text" "$3" "$2/acknowledged" 1 "${addresses[@]}"; }
	(append "$@" 5)
	ip neigh replace "${addresses[0]}" lladdr 02:00:00:00:00:01 dev eth0 nud permanent
	append "$@" 400 &
	until ((${#lines[@]} >= 25)); do
		sleep 0.01
		mapfile -t lines <"$2/acknowledged"
	done
	kill -KILL $!
	wait
	ip neigh del "${addresses[0]}" dev eth0
	(append "$@" 5)
}

# joint_states STATUS MISTAKE: what crash-states says of three such initiators is in $said.  Target 2 answers late, so
# that it matters which answers are waited for.
joint_states() {
	local status=0
	local late="tc qdisc add dev eth0 root netem delay 30ms"
	seq -f "line %.0f, for crash-states" 500 >"$work/text"
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" group --name replicas-joint --stop-server --mem 512M \
		--client-share "$work" --server "$serve_replica" --server1-pmem 16M \
		--server "$late; $serve_replica" --server2-pmem 16M --server "$serve_replica" --server3-pmem 16M \
		--client "$(printf '%q --do three_initiators %q %q' "$0" "$2" "$work")" >"$work/log" 2>&1 || fail "$(<"$work/log")"
	echo "# SEED=$seed"
	said=$("$root/qemu-scripts/crash-states" --states 1000 --seed "$seed" --serve "$work/out/latest" -- \
		replicas-survive "$work/text" --serve 2>&1) || status=$?
	echo "$said"
	((status == $1)) || fail "status $status, not $1"
	echo "# $2: $(grep -m 1 ' states of ' <<<"$said")"
}

says() { [[ $said == *"$1"* ]] || fail "it does not say: $1"; }

# Of a power failure of all targets at any moment: whichever two of three come back.
each_majority_of_all_joint_states_has_what_was_acknowledged() {
	local said
	joint_states 0 none
	says "coverage: complete"
	says "held at the end what these requests explain, and nothing else had changed"
	grep -q "^recovered [1-9][0-9][0-9]* records, as initiator 3" "$work/log" ||
		fail "the third initiator has not recovered"
}

a_joint_state_shows_that_one_answer_is_no_majority() {
	local said
	joint_states 1 one-answer
	says "records are acknowledged, and they have only "
}
# Either the copy says how long the log is, by an ATOMIC WRITE that the report names, or only the initiator has said so.
a_joint_state_shows_a_missing_flush() {
	local said
	joint_states 1 no-flush
	[[ $said =~ " WRITE psn "[0-9]+" to target "[123]" "[^.]*(" is lost"|": it is torn")".  No persistent FLUSH of its QP that covers it follows" ]] ||
		fail "it does not say which WRITE is lost, and that no FLUSH follows it"
	says "a record is broken, but its copy has counted since epoch 1"
}
a_joint_state_shows_a_recovery_from_one_target() {
	local said
	joint_states 1 one-target
	says "records are acknowledged, and they have only "
}

##############################################################################
# Cases

# in_guest TARGETS TIMEOUT FUNCTION [ARGUMENT...]
in_guest() {
	local i
	local -a nvdimms=()
	for ((i = 0; i < $1; i++)); do
		nvdimms+=(--pmem 16M)
	done
	"$root/qemu-scripts/rxe-vm" run --name replicas --timeout "$2" "${nvdimms[@]}" -- "$0" --do "${@:3}"
}

# guest_rounds TARGETS ROUNDS SEED MISTAKE
guest_rounds() { in_guest "$1" $((60 + 20 * $2)) rounds "$@"; }

nothing_acknowledged_is_missing_with_3_targets() { guest_rounds 3 "$rounds_of_3" "$seed" none; }
nothing_acknowledged_is_missing_with_5_targets() { guest_rounds 5 "$rounds_of_5" "$seed" none; }

half_a_line_was_not_handed_out() { in_guest 3 120 half_a_line; }
nothing_is_acknowledged_without_a_majority() { in_guest 3 120 minority; }

# power_cuts SEED: of a new log in a group
power_cuts() {
	local said
	rm -f "$work"/nvdimm?
	said=$(replicas_group replicas 3 "$1" "$serve_replica" \
		"$(printf '%q --do group_rounds 3 %q %q %q' "$0" "$rounds_of_group" "$1" "$work")" 2>&1) || fail "$said"
	sed -n 's/^rxe-vm: \(server.*the power failure took\)/# \1/; /^# /p' <<<"$said"
	said=$(replicas_check replicas 3 2>&1) || fail "$said"
	sed -n 's/^\(.*acknowledged records: \)/# \1/p' <<<"$said"
}

nothing_acknowledged_is_missing_after_power_cuts() {
	local n
	for ((n = 0; n < groups; n++)); do
		power_cuts $((seed + n))
	done
}

# caught MISTAKE
caught() {
	local said status=0
	said=$(guest_rounds 3 40 "${SEED:-1}" "$1" 2>&1) || status=$?
	echo "$said"
	((status == 1)) || fail "status $status, not 1"
	grep -q "^round [0-9]*: " <<<"$said" || fail "nothing was noticed"
}

who_counts_one_answer_is_caught() { caught one-answer; }
who_recovers_from_one_target_is_caught() { caught one-target; }
who_does_not_repair_is_caught() { caught no-repair; }

a_longer_copy_of_an_older_epoch_is_cut() { in_guest 3 120 longer_copy none; }

who_takes_the_longest_copy_is_caught() {
	local said
	said=$(in_guest 3 120 longer_copy longest 2>&1) && fail "nothing was noticed"
	[[ $said == *"does not go on with what was acknowledged"* ]] || fail "$said"
}

# `make demo TARGETS=3`, with as few records as it takes.
demo_goes_through_two_power_cuts() {
	local said
	said=$("$here/../examples/replicas/demo.sh" 10000) || fail "$said"
	echo "$said"
	grep -q "^ *10000  records acknowledged, and found again" <<<"$said" || fail "not all records were found"
	grep -q "^ *5  power failures" <<<"$said" || fail "not the power of two targets, and then of all three, was cut"
}

cases=(
	nothing_acknowledged_is_missing_with_3_targets
	nothing_acknowledged_is_missing_with_5_targets
	half_a_line_was_not_handed_out
	nothing_is_acknowledged_without_a_majority
	nothing_acknowledged_is_missing_after_power_cuts
	who_counts_one_answer_is_caught
	who_recovers_from_one_target_is_caught
	who_does_not_repair_is_caught
	a_longer_copy_of_an_older_epoch_is_cut
	who_takes_the_longest_copy_is_caught
	each_majority_of_all_joint_states_has_what_was_acknowledged
)
long_cases=(
	demo_goes_through_two_power_cuts
	a_joint_state_shows_that_one_answer_is_no_majority
	a_joint_state_shows_a_missing_flush
	a_joint_state_shows_a_recovery_from_one_target
)

run_suite 1 "$@"
