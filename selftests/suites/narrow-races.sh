#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Races that a few instructions of the kernel decide: a module holds one task there until the other one has acted.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

# The workers of rxe have CPUs 3 and 4: one to be held, with interrupts off, and one to act.  Spin locks are fair, as on
# real hardware: in a virtual machine a task that takes a lock again may be faster than one that has waited for it.  SLUB
# looks at what is freed, and notices what is freed twice.
the_other_task_acts_in_between() {
	local module
	module=$("$here/../modules/kernel-module" hold)
	# shellcheck disable=SC2016 # for the guest's shell
	nested "$root/qemu-scripts/rxe-vm" run --name narrow-races --timeout 600 --cpus 5 \
		--append 'slub_debug=FZP clearcpuid=hypervisor' -- \
		sh -ec 'echo 18 >/sys/devices/virtual/workqueue/cpumask; insmod "$0"; exec "$@"' \
		"$module" "$root/build/selftests/narrow-races" "$@"
}

cases=(the_other_task_acts_in_between)
run_suite 1 "$@"
