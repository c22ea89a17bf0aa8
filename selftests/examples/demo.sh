#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh [RECORDS]: a log in a remote guest's persistent memory, and what is left of it after a power cut; then the same
# log without one of its FLUSHes.
#
#	initiator                            target
#	first-log       ---- Soft-RoCE ---->  /dev/dax0.0 on an NVDIMM
#	forgetful-log
#
# When the initiator has called RECORDS durable, the target's guest is powered off hard, in the midst of appends, and what
# was not durable is lost by chance.  Then a guest boots with the NVDIMMs of both logs, where first-log-survives, the checker,
# looks at what is left.  At last crash-states says which request is to blame.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
# shellcheck source=selftests/examples/demo-steps.sh
. "$here/demo-steps.sh"
# shellcheck source=qemu-scripts/colours.sh
. "$root/qemu-scripts/colours.sh"
records=${1:-500}
room=32767	# in first-log's memory

check_input() {
	want_number "$records" "demo.sh [RECORDS]"
	((records <= room / 2)) || die "$records records? The power fails in the midst of appends: half of the $room that have room, at most"
	want_programs first-log forgetful-log first-log-survives
	type -P tshark >/dev/null || die "there is no tshark: $(to_install tshark)"
}

# append PROGRAM: until the power fails
append() {
	local status=0
	# shellcheck disable=SC2016 # the guests expand their commands
	"$root/qemu-scripts/rxe-vm" pair --name "$1" --kill-server=lose --server-pmem "$work/$1:16M" \
		--server "exec $1 target "'$RXE_ADDR /dev/dax0.0' \
		--client "bash -c '$1 initiator \$RXE_PEER_ADDR $room | { head -n $records; rxe-kill-server; cat; }; exit \${PIPESTATUS[0]}'" \
		>"$work/$1.told" 2>"$work/$1.log" || status=$?
	if ((status != 1)) || ! grep -q "the power failure took" "$work/$1.log"; then
		cat "$work/$1.log" >&2
		die "$1 did not lose its target"
	fi
	(($(promised "$1") >= records)) || { cat "$work/$1.log" >&2; die "$1 ended before $records records were durable"; }
	row "$(promised "$1")" "records are durable, says the initiator, when the target's power is cut"
}

# promised PROGRAM: how many records its initiator has called durable
promised() { grep -c 'is durable' "$work/$1.told"; }

# recover: after the cut; a line for each log: "0 N records", or "1 WHY"
recover() {
	# shellcheck disable=SC2016
	"$root/qemu-scripts/rxe-vm" run --name recovery --pmem "$work/first-log" --pmem "$work/forgetful-log" -- sh -ec '
		echo | IMAGE=/dev/dax0.0 TOLD=$0/first-log.told first-log-survives
		echo | IMAGE=/dev/dax1.0 TOLD=$0/forgetful-log.told first-log-survives' "$work" >"$work/recovered" 2>"$work/recovery.log" ||
		{ cat "$work/recovery.log" >&2; die "the guest that looks at what is left fails"; }
}

# say_recovered LINE: what the checker found in a log
say_recovered() {
	case $1 in
	'0 '*' records') row "$(cut -d ' ' -f 2 <<<"$1")" "records found again: ${green}all that were promised${plain}" ;;
	'1 '*) row "" "${red}DATA LOST: ${1#1 }${plain}" ;;
	*) die "the checker says '$1'" ;;
	esac
}

# judge PROGRAM EXPECTED: crash-states of its run; the exit status has to be EXPECTED.
judge() {
	local status=0 run
	run=$(echo "$folder"/*-"$1")
	"$root/qemu-scripts/crash-states" --states 1000 --serve "$run" -- "$root/build/selftests/first-log-survives" >"$work/$1.report" || status=$?
	((status == $2)) || { cat "$work/$1.report" >&2; die "crash-states ends with status $status, not $2"; }
	# A ladder line may say "lost", too; only the reason is red.
	sed "s/^ *Why: .*/$red&$plain/" "$work/$1.report"
}

check_input
start_folder

echo "A log in the persistent memory of another machine.  An append is one post of four requests:"
echo "WRITE the record, FLUSH it, ATOMIC WRITE the tail, FLUSH that.  Then the initiator prints that the record is durable."

step "1. Two guests: the log"
append first-log
step "2. Two guests: the same log without the first FLUSH"
append forgetful-log
step "3. A guest boots with what the power cuts have left"
recover
mapfile -t recovered <"$work/recovered"
((${#recovered[@]} == 2)) || die "the checker does not tell of two logs: $(<"$work/recovered")"
say_recovered "${recovered[0]}"
say_recovered "${recovered[1]}"
[[ ${recovered[0]} == '0 '* ]] || die "the log has lost what it promised"
step "4. That was one power cut each.  crash-states tries a thousand: the log"
judge first-log 0
step "5. crash-states: without the first FLUSH"
judge forgetful-log 1
echo
echo "The guests ran on QEMU's accelerator $(accelerator first-log); an emulator's time is not real time."
echo "All that was recorded is in $folder"
printf 'Draw the packets:  %q %q\n' "$root/qemu-scripts/ladder" "$(echo "$folder"/*-first-log)"
printf 'Now yours:         %q new my-log && cd my-log && make\n' "$root/qemu-scripts/rxe-vm"
