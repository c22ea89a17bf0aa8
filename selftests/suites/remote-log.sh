#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of the remote log.  Its checker, remote-log-check, accepts a sound log and notices each way in
# which one can be broken; these logs are files, made by remote-log-make, and remote-log.h describes
# their layout.  Then all of it runs in two guests.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/examples/log-guests.sh
. "$here/../examples/log-guests.sh"

# All lines have 10 bytes, so all records have the same size.
lines() { seq -f "line %04g" "$1"; }
records=100
record_size=32
tail_records=64
tail_bytes=68
record_0=4096

prepare() {
	lines $records >"$work/text"
	remote-log-make "$work/log" "$work/text" $records
}

# poke OFFSET BYTES: as printf writes them
poke() {
	# shellcheck disable=SC2059 # they are a format
	printf "$2" | dd of="$work/log" bs=1 seek="$1" conv=notrunc status=none
}

# copy_record FROM TO
copy_record() {
	dd if="$work/log" of="$work/log" bs=$record_size count=1 conv=notrunc status=none \
		skip=$((record_0 / record_size + $1)) seek=$((record_0 / record_size + $2))
}

# checker STATUS TEXT [ACKNOWLEDGED]: it ends with STATUS and says TEXT.
checker() {
	local status=0 said
	said=$(remote-log-check "$work/log" "$work/text" "${3:-$records}" 2>&1) || status=$?
	echo "$said"
	((status == $1)) || fail "status $status, not $1"
	[[ $said == *"$2"* ]] || fail "it does not say: $2"
}

a_sound_log_is_accepted() { checker 0 "100 records, 3200 bytes: whole, in order, equal to the text"; }

more_records_than_acknowledged_are_accepted() { checker 0 "99 acknowledged" 99; }

a_missing_record_is_noticed() { checker 1 "101 records were acknowledged, only 100 are there" 101; }

a_tail_that_was_cut_is_noticed() {
	poke $tail_records '\143\0\0\0\140\014\0\0' # 99 records, 3168 bytes
	checker 1 "100 records were acknowledged, only 99 are there"
}

a_tail_with_too_few_bytes_is_noticed() {
	poke $tail_bytes '\140\014\0\0'
	checker 1 "record 99, at 3168, goes beyond the tail"
}

a_tail_with_too_many_bytes_is_noticed() {
	poke $tail_bytes '\240\014\0\0'
	checker 1 "the tail is torn: 100 records end at 3200, it says at 3232"
}

a_tail_beyond_the_end_is_noticed() {
	poke $tail_bytes '\0\0\0\377'
	checker 1 "is beyond the end"
}

a_changed_byte_of_a_record_is_noticed() {
	poke $((record_0 + 50 * record_size + 20)) X
	checker 1 "record 50, at 1600, is broken"
}

a_changed_crc_is_noticed() {
	poke $((record_0 + 50 * record_size)) X
	checker 1 "record 50, at 1600, is broken"
}

a_wild_length_is_noticed() {
	poke $((record_0 + 50 * record_size + 4)) '\377\377\377\377'
	checker 1 "record 50, at 1600, goes beyond the tail"
}

a_record_that_was_not_written_is_noticed() {
	dd if=/dev/zero of="$work/log" bs=$record_size count=1 conv=notrunc status=none \
		seek=$((record_0 / record_size + 99))
	checker 1 "record 99, at 3168, is broken"
}

a_record_in_the_wrong_place_is_noticed() {
	copy_record 51 50
	checker 1 "record 50, at 1600, has number 51"
}

a_sound_record_of_another_text_is_noticed() {
	sed -i '51s/line/LINE/' "$work/text"
	checker 1 "record 50 is not line 51 of the text"
}

more_records_than_the_text_has_lines_are_noticed() {
	sed -i '$d' "$work/text"
	checker 1 "record 99: the text has fewer lines"
}

memory_without_a_log_is_noticed() {
	poke 0 '\0'
	checker 1 "holds no log"
}

##############################################################################
# In guests

append() { log_pair remote-log $RANDOM "$serve_log" "$1"; }
recover() { log_recovery remote-log "$1"; }

log_outlives_power_cuts_and_goes_on() {
	append "$(append_lines "$work/text" 60)"
	append "$(append_lines "$work/text" 40)"
	[[ $(acknowledged) == 100 ]] || fail "$(acknowledged) acknowledged, not 100"
	recover "$(check_log "$work/text" 100) && ! $(check_log "$work/text" 101)"
}

# On the way, everything that the initiator sends gets lost.
initiator_that_loses_its_target_keeps_what_was_acknowledged() {
	local status=0 said
	lines 9000 >"$work/text"
	said=$(append "bash -c '$(append_lines "$work/text" 9000) | while read -r line; do
			echo \$line
			[[ \$line != 900\ * ]] || tc qdisc add dev eth0 root netem loss 100%
		done; exit \${PIPESTATUS[0]}'" 2>&1) || status=$?
	echo "$said"
	((status == 1)) || fail "status $status, not 1"
	[[ $said == *"transport retry counter exceeded"* ]] || fail "it does not say why"
	(($(acknowledged) >= 900)) || fail "$(acknowledged) acknowledged"
	recover "$(check_log "$work/text" "$(acknowledged)")"
}

target_without_persistent_memory_is_refused() {
	local said
	truncate -s 1M "$work/dram"
	# shellcheck disable=SC2016 # for the guest
	said=$("$root/qemu-scripts/rxe-vm" run --name remote-log -- \
		sh -c "cp $work/dram /dev/shm && remote-log-target \$RXE_ADDR /dev/shm/dram" 2>&1) &&
		fail "it serves"
	[[ $said == *"refused: not persistent memory"* ]] || fail "$said"
}

demo_tells_what_happened() {
	local said
	said=$("$here/../examples/demo.sh" 50)
	echo "$said"
	grep -q "^ *[1-9][0-9]*  records found again: all that were promised" <<<"$said"
	grep -q "DATA LOST: record [0-9]* is lost or torn" <<<"$said"
	grep -q " states of [1-9][0-9]* cuts: 0 fail" <<<"$said"
	grep -q "Why: WRITE .* No persistent FLUSH" <<<"$said"
	grep -q "GONE: lost with the power" <<<"$said"
}

demo_wants_a_number_of_records() {
	local said
	said=$("$here/../examples/demo.sh" all 2>&1) && fail "it runs"
	[[ $said == "demo: error: 'all' is not a number"* ]] || fail "$said"
	said=$("$here/../examples/demo.sh" 99999999 2>&1) && fail "it runs"
	[[ $said == "demo: error: 99999999 records? "*" at most" ]] || fail "$said"
}

checker_cases=(
	a_sound_log_is_accepted
	more_records_than_acknowledged_are_accepted
	a_missing_record_is_noticed
	a_tail_that_was_cut_is_noticed
	a_tail_with_too_few_bytes_is_noticed
	a_tail_with_too_many_bytes_is_noticed
	a_tail_beyond_the_end_is_noticed
	a_changed_byte_of_a_record_is_noticed
	a_changed_crc_is_noticed
	a_wild_length_is_noticed
	a_record_that_was_not_written_is_noticed
	a_record_in_the_wrong_place_is_noticed
	a_sound_record_of_another_text_is_noticed
	more_records_than_the_text_has_lines_are_noticed
	memory_without_a_log_is_noticed
)
smoke_cases=("${checker_cases[@]}" log_outlives_power_cuts_and_goes_on)
cases=(
	"${smoke_cases[@]}"
	initiator_that_loses_its_target_keeps_what_was_acknowledged
	target_without_persistent_memory_is_refused
	demo_tells_what_happened
	demo_wants_a_number_of_records
)

run_suite 2 "$@"
