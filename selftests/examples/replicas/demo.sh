#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh [RECORDS]: a log with copies at three targets survives the loss of any one.
#
#	initiator                                      three targets, each a guest with an NVDIMM
#	remote-log-replicate  ---- Soft-RoCE ---->  remote-log-target
#	lines of MAINTAINERS                        an append counts when two have answered
#
# On the way the power of one target fails, and when that is back, the power of another.  At the end the power of
# all three fails.  Then remote-log-check-replicas looks at what is left.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../../..")
# shellcheck source=selftests/examples/demo-steps.sh
. "$here/../demo-steps.sh"
# shellcheck source=selftests/examples/replicas/guests.sh
. "$here/guests.sh"
targets=3
measured=500

check_input() {
	local lines
	lines=$(lines_of_text)
	records=${1:-$lines}
	want_number "$records" "demo.sh [RECORDS]"
	((records >= 10000 && records <= lines)) ||
		die "$records records? 10000 at least, for guests have to boot meanwhile; and $text has $lines lines"
	want_programs remote-log-target remote-log-replicate remote-log-check-replicas
}

##############################################################################
# In the initiator's guest

# If a guest takes longer to boot than the rest takes to append, the initiator has to stand still.
wait_for_boot() {
	[[ -n $booting ]] || return 0
	kill -STOP "$initiator"
	wait "$booting"
	kill -CONT "$initiator"
	booting=
}

cut_power() {
	echo "the power of target $1 is cut"
	down=$1
	rxe-kill-server "$1"
}

# Boot target N again, in the background.  What was sent to it again and again has ended; crash-states, which takes
# what a power failure may take, would wonder about that.
start_again() {
	rxe-start-server "$1" &
	booting=$! down=
}

# Say what it says, and cut the power of target 2, then, when that is back, of target 3.
append_and_cut() {
	local line said initiator booting='' down='' n cuts=0 back=
	# About 1000 appends in a second: something shall be left to append when a guest has booted.
	tc qdisc add dev eth0 root netem rate 8mbit
	exec {said}< <(exec remote-log-replicate "$text" "$records" "$work/acknowledged" 50 "$@" 2>&1)
	initiator=$!
	while IFS= read -r line <&"$said"; do
		n=${line%% of * records acknowledged}
		case $line in
		*" records acknowledged")
			((n % (records / 10 / 50 * 50 + 50))) || echo "$line"
			if ((cuts == 0 && n >= records / 4)); then
				cuts=1
				cut_power 2
			elif ((cuts == 1 && n >= records / 2)); then
				wait_for_boot
				[[ -z $back ]] || { cuts=2; cut_power 3; }
			elif ((cuts == 2 && n >= records * 7 / 8)); then
				wait_for_boot
			fi ;;
		"target "[23]": lost "*)
			echo "$line"
			[[ -z $down || $line != "target $down:"* ]] || start_again "$down" ;;
		"target 2: in line"*)
			((cuts == 0)) || back=1
			echo "$line" ;;
		*) echo "$line" ;;
		esac
	done
	wait "$initiator"
	((cuts == 2)) || { echo "target 2 was not back in time" >&2; return 1; }
}

# cost ADDRESS...: milliseconds
cost() {
	remote-log-replicate "$text" $measured "$work/measured" $measured "$@" >"$work/cost"
	sed -n 's/.* were appended in \([0-9]*\) ms/\1/p' "$work/cost"
}

# To all targets and to one, in turns.
measure() {
	local all=0 one=0 i ms
	for ((i = 0; i < 3; i++)); do
		ms=$(cost "$@")
		all=$((all + ms))
		ms=$(cost "$1")
		one=$((one + ms))
	done
	echo "$all $one" >"$work/costs"
}

##############################################################################
# On the host

# in_guest FUNCTION: of this file, the initiator's command
in_guest() { printf '%q in-guest %q %q %q %q' "$here/demo.sh" "$1" "$work" "$records" "$text"; }

report() {
	local all one holds what n=0
	read -r all one <"$work/costs"
	echo "   target  holds"
	while IFS=: read -r _ holds; do
		n=$((n + 1))
		row $n "${holds# }"
	done < <(grep ^/dev "$folder/check")
	echo
	row "$(wc -l <"$work/acknowledged")" "records acknowledged, and found again, byte for byte, in each majority"
	row "$(wc -c <"$work/acknowledged")" "bytes of text in them"
	row "$(grep -c 'the power failure took' "$folder/append")" "power failures, in which were lost"
	row "$(sed -n 's/.*the power failure took \([0-9]*\) words.*/\1/p' "$folder/append" | awk '{ n += $1 } END { print n + 0 }')" \
		"words that were not durable yet"
	what="times what it takes to append to one target ($measured records, three times each, in turns)"
	row "$(awk -v all="$all" -v one="$one" 'BEGIN { printf "%.2f", all / one }')" "$what"
	echo
	echo "The guests ran on QEMU's accelerator $(accelerator append)."
	echo "They share this machine's CPUs, which machines of their own would not; and an emulator's time is not real"
	echo "time.  Do not take anything here for a speed."
	echo "Why nothing is missing: selftests/examples/replicas/remote-log-replicas.h"
	echo "All that was recorded: $folder"
}

main() {
	local status=0
	check_input "$@"
	start_folder
	echo "A crash-safe log with copies in the persistent memory of $targets machines."
	echo "Each append goes to all of them at once; it counts when two have answered."

	step "Four guests boot, and the initiator appends $records lines of MAINTAINERS; two targets lose their power on the way"
	replicas_group append $targets $RANDOM "$serve_replica" "$(in_guest append_and_cut)" 2>&1 |
		tee "$folder/append" | sed -u '/^server[0-9]: /d; /^rxe-vm: pass/d' || status=$?
	((status == 0)) || die "the initiator failed: $folder/append"

	step "The power of all of them is cut; what is left is compared with the text"
	cmp <(head -n "$records" "$text") "$work/acknowledged" || die "not all of the text was acknowledged"
	replicas_check check $targets >"$folder/check" 2>&1 || die "$(<"$folder/check")"
	tail -n 1 "$folder/check"
	step "What does an append to $targets targets cost, against one to one?  Four guests boot once more"
	rm "$work"/nvdimm?
	replicas_group cost $targets 1 "$serve_replica" "$(in_guest measure)" >"$folder/cost" 2>&1 ||
		die "the costs cannot be measured: $(<"$folder/cost")"
	step "Result"
	report
}

case ${1-} in
in-guest)
	work=$3 records=$4 text=$5
	read -ra addresses <<<"$RXE_PEER_ADDRS"
	"$2" "${addresses[@]}" ;;
*) main "$@" ;;
esac
