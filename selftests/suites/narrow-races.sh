#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Races that a few instructions of the kernel decide: a module holds one task there until the other one has acted.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

# A CPU for the task that is held, for one that may spin on its lock, and for the case.
# SLUB looks at what is freed, and notices what is freed twice.
the_other_task_acts_in_between() {
	local module
	module=$("$here/../modules/kernel-module" hold)
	# shellcheck disable=SC2016 # for the guest's shell
	nested "$root/qemu-scripts/rxe-vm" run --name narrow-races --timeout 600 --cpus 3 --append slub_debug=FZP -- \
		sh -c 'insmod "$0" && exec "$@"' "$module" "$root/build/selftests/narrow-races" "$@"
}

cases=(the_other_task_acts_in_between)
run_suite 1 "$@"
