#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit tests of rdma_rxe, which the kernel runs at boot when it is told to, and what became of them.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

none="rxe of this kernel has no KUnit tests"

prepare() {
	[[ ${KERNEL-} ]] || grep -q '^CONFIG_RDMA_RXE_KUNIT_TEST=' "$root/build/${BASE:-v6.1}$variant/obj/.config" || skip_all "$none"
}

# shellcheck disable=SC2016 # for the guest
the_tests_of_rxe_pass() {
	nested "$root/qemu-scripts/rxe-vm" run --name kunit --append kunit.enable=1 -- sh -c '
		cd /sys/kernel/debug/kunit/rxe || { echo "1..0 # SKIP $0"; exit 4; }
		cat results' "$none"
}

cases=(the_tests_of_rxe_pass)
run_suite 1 "$@"
