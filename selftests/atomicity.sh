#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# ATOMIC WRITE beside Atomics, READ and the CPU on the same words (atomicity.c), in a guest with four CPUs.
# With LONG=1 for sixteen times as long.
#
# With DEBUG=kcsan the kernel looks for data races of those who store to the words.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(dirname "$here")
# shellcheck source=selftests/ktap.sh
. "$here/ktap.sh"

# The Atomics are executed in rxe_responder().
# shellcheck disable=SC2016 # for the guest's shell
[[ ${DEBUG:-0} != kcsan ]] || watch_races='
	for word in "!rxe_responder" "!rxe_atomic_write" whitelist on; do
		echo "$word" >/sys/kernel/debug/kcsan || exit
	done'

# atomicity N ROUNDS [HOW]: N threads, and a reader
atomicity() {
	"$root/qemu-scripts/rxe-vm" run --name atomicity --cpus 4 --timeout 3600 -- sh -c "${before-}${watch_races-}"'
		"$@" || exit
		'"${behind-}" sh "$root/build/selftests/atomicity" "$@"
}

# notices HOW WORDS: if a saboteur spoils the words in this way, it is seen and told with these words
notices() {
	local said status=0
	said=$(atomicity 2 $rounds "$1" 2>&1) || status=$?
	echo "$said"
	((status == 1)) || fail "status $status, not 1"
	grep -q "$2" <<<"$said" || fail "it does not say: $2"
}

one_queue_pair_and_a_local_reader() { atomicity 1 $rounds; }
four_queue_pairs_and_a_local_reader() { atomicity 4 $rounds; }

# Without it, who does not take the lock that all have to take would hardly ever be caught.
# shellcheck disable=SC2016 # for the guest's shell
the_same_when_the_kernel_is_slow_on_the_words() {
	local before behind
	before="insmod $("$here/kernel-module" slow_words) || exit"
	behind='
		hits=$(cat /sys/module/slow_words/parameters/hits)
		echo "# slow $hits times"
		[ "$hits" -gt 0 ]'
	atomicity 4 $rounds slow
}

a_torn_value_is_noticed() { notices torn 'word 0 is torn'; }
a_lost_update_is_noticed() { notices lost 'word 0 goes back\|word 0: generation .* was stored\|word 0: an update was lost'; }
data_behind_their_word_are_noticed() { notices early 'word 0: .* sees generation .*, but data of 0'; }

rounds=$((${LONG:-0} ? 8000 : 500))
# shellcheck disable=SC2034 # for run_suite
cases=(
	one_queue_pair_and_a_local_reader
	four_queue_pairs_and_a_local_reader
	the_same_when_the_kernel_is_slow_on_the_words
	a_torn_value_is_noticed
	a_lost_update_is_noticed
	data_behind_their_word_are_noticed
)
run_suite 1 "$@"
