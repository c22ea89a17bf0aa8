#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# ATOMIC WRITE beside Atomics, READ and the CPU on the same words (atomicity.c), in a guest with four CPUs.
# With LONG=1 for sixteen times as long.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(dirname "$here")
# shellcheck source=selftests/ktap.sh
. "$here/ktap.sh"

# threads N [HOW]: N threads, and a reader
threads() {
	"$root/qemu-scripts/rxe-vm" run --name atomicity --cpus 4 --timeout 3600 -- \
		"$root/build/selftests/atomicity" "$1" $((${LONG:-0} ? 8000 : 500)) "${@:2}"
}

# notices HOW WORDS: if a saboteur spoils the words in this way, it is seen and told with these words
notices() {
	local said status=0
	said=$(threads 2 "$1" 2>&1) || status=$?
	echo "$said"
	((status == 1)) || fail "status $status, not 1"
	grep -q "$2" <<<"$said" || fail "it does not say: $2"
}

one_queue_pair_and_a_local_reader() { threads 1; }
four_queue_pairs_and_a_local_reader() { threads 4; }

a_torn_value_is_noticed() { notices torn 'word 0 is torn'; }
a_lost_update_is_noticed() { notices lost 'word 0 goes back\|word 0: generation .* was stored\|word 0: an update was lost'; }
data_behind_their_word_are_noticed() { notices early 'word 0: .* sees generation .*, but data of 0'; }

# shellcheck disable=SC2034 # for run_suite
cases=(
	one_queue_pair_and_a_local_reader
	four_queue_pairs_and_a_local_reader
	a_torn_value_is_noticed
	a_lost_update_is_noticed
	data_behind_their_word_are_noticed
)
run_suite 1 "$@"
