#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Links come and go under traffic between two guests (selftests/churn), which have slub_debug or KASAN.  With
# LONG=1 two hundred steps three times, in random order.  The seed is printed; SEED=N repeats the order.
#
#	churn.sh 'each_step_once/PATTERN'	only the steps that match

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

churn=$root/selftests/churn

# steps SEED COUNT [STEP...]
steps() {
	local module watch=(--append slub_debug=FZPU)
	# KASAN finds the same, and with both a step takes twice as long.
	[[ ${DEBUG:-0} != 1 ]] || watch=()
	# Without it, where none can be built for $KERNEL.
	module=$("$here/../modules/kernel-module" kernel_traffic) || (($? == 4)) || return
	nested "$root/qemu-scripts/rxe-vm" pair --name churn --timeout $((600 + 15 * $2)) --no-capture "${watch[@]}" \
		--server "exec $churn peer" --client "exec $churn steps '$module' $*"
}

# each_step_once [PATTERN...]: the steps that match one of these
each_step_once() {
	local step pattern wanted=()
	while read -r step; do
		for pattern; do
			# shellcheck disable=SC2053 # a pattern
			[[ $step != $pattern ]] || wanted+=("$step")
		done
	done < <("$churn" list)
	(($# == 0 || ${#wanted[@]})) || fail "no step matches $*"
	steps "$seed" 0 "${wanted[@]}"
}
eight_steps_at_random() { steps "$seed" 8; }
two_hundred_steps_at_random() { steps "$seed" 200; }
two_hundred_more_steps_at_random() { steps "$((seed + 1))" 200; }
another_two_hundred_steps_at_random() { steps "$((seed + 2))" 200; }

cases=(eight_steps_at_random)
long_cases=(each_step_once two_hundred_steps_at_random two_hundred_more_steps_at_random
	another_two_hundred_steps_at_random)
run_suite 1 "$@"
