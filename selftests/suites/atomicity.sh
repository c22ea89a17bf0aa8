#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# ATOMIC WRITE beside Atomics, READ and the CPU on the same words (atomicity.c), and words within READs of all
# lengths (read-words.c), in a guest with four CPUs.  With LONG=1 for sixteen times as long.
#
# With DEBUG=kcsan the kernel looks for data races of those who store to the words.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

# The Atomics are executed in rxe_responder().
# shellcheck disable=SC2016 # for the guest's shell
[[ ${DEBUG:-0} != kcsan ]] || watch_races='
	for word in "!rxe_responder" "!rxe_atomic_write" whitelist on; do
		echo "$word" >/sys/kernel/debug/kcsan || exit
	done'

# in_guest PROGRAM ARG...
in_guest() {
	"$root/qemu-scripts/rxe-vm" run --name "${1//_/-}" --cpus 4 --timeout 3600 -- sh -c "${before-}${watch_races-}"'
		"$@" || exit
		'"${behind-}" sh "$root/build/selftests/$1" "${@:2}"
}

# atomicity N ROUNDS [HOW]: N threads, and a reader
atomicity() { in_guest atomicity "$@"; }

# slowly PROGRAM ARG...: the kernel is slow on its words.  Without the delay, a missing lock or a torn read would
# almost never show.
slowly() {
	local before behind
	before="insmod $("$here/../modules/kernel-module" slow_words) || exit" || exit
	# shellcheck disable=SC2016 # for the guest's shell
	behind='
		hits=$(cat /sys/module/slow_words/parameters/hits)
		echo "# slow $hits times"
		[ "$hits" -gt 0 ]'
	in_guest "$@"
}

# notices WORDS PROGRAM ARG...: what is wrong is seen, and told with these words
notices() {
	local said status=0
	said=$(in_guest "${@:2}" 2>&1) || status=$?
	echo "$said"
	((status == 1)) || fail "status $status, not 1"
	grep -q "$1" <<<"$said" || fail "it does not say: $1"
}

one_queue_pair_and_a_local_reader() { atomicity 1 $rounds; }
four_queue_pairs_and_a_local_reader() { atomicity 4 $rounds; }

the_same_when_the_kernel_is_slow_on_the_words() { slowly atomicity 4 $rounds slow; }

# The kernel locks the pages of such a region, too, but not against those who come by another one.
the_same_when_ATOMIC_WRITE_is_to_an_on_demand_region() {
	local status=0
	slowly atomicity 4 $rounds on-demand || status=$?
	((status != 4)) || echo "the kernel's rxe has no on-demand paging"
	return $status
}

a_torn_value_is_noticed() { notices 'word 0 is torn' atomicity 2 $rounds torn; }
a_lost_update_is_noticed() {
	notices 'word 0 goes back\|word 0: generation .* was stored\|word 0: an update was lost\|word 0: at the end' \
		atomicity 2 $rounds lost
}
data_behind_their_word_are_noticed() {
	notices 'word 0: .* sees generation .*, but data of 0' atomicity 2 $rounds early
}

##############################################################################
# Words within READs

words_in_READs_are_whole_under_ATOMIC_WRITE() { slowly read-words atomic-write $reads slow; }
words_in_READs_are_whole_under_FETCH_ADD() { slowly read-words fetch-add $reads slow; }
words_in_READs_are_whole_under_CMP_SWAP() { slowly read-words cmp-swap $reads slow; }
words_in_READs_are_whole_under_a_local_writer() { slowly read-words cpu $reads slow; }
words_in_two_packets_are_whole_under_ATOMIC_WRITE() { slowly read-words atomic-write $reads slow split; }
a_word_torn_in_a_READ_is_noticed() { notices 'looks found a torn word' read-words halves; }

rounds=$((${LONG:-0} ? 8000 : 500)) reads=$((${LONG:-0} ? 16 : 1))
cases=(
	four_queue_pairs_and_a_local_reader
	the_same_when_the_kernel_is_slow_on_the_words
	the_same_when_ATOMIC_WRITE_is_to_an_on_demand_region
	a_torn_value_is_noticed
	a_lost_update_is_noticed
	data_behind_their_word_are_noticed
	words_in_READs_are_whole_under_ATOMIC_WRITE
	words_in_READs_are_whole_under_a_local_writer
	words_in_two_packets_are_whole_under_ATOMIC_WRITE
	a_word_torn_in_a_READ_is_noticed
)
long_cases=(
	one_queue_pair_and_a_local_reader
	words_in_READs_are_whole_under_FETCH_ADD
	words_in_READs_are_whole_under_CMP_SWAP
)
run_suite 1 "$@"
