#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit tests of rdma_rxe, which the kernel runs at boot when it is told to, and what became of them.
#
#	--kernel IMAGE	another kernel

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

kernel=()
option() {
	[[ $1 == --kernel ]] || return
	kernel=(--kernel "${2:?--kernel needs an image}") words=2
}

prepare() {
	((${#kernel[@]})) || grep -q '^CONFIG_RDMA_RXE_KUNIT_TEST=' "$root/build/${BASE:-v6.1}$variant/obj/.config" ||
		skip_all "rxe of this kernel has no KUnit tests"
}

the_tests_of_rxe_pass() {
	nested "$root/qemu-scripts/rxe-vm" run --name kunit --append kunit.enable=1 "${kernel[@]}" -- \
		cat /sys/kernel/debug/kunit/rxe/results
}

cases=(the_tests_of_rxe_pass)
run_suite 1 "$@"
