#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# kunit.sh [--smoke] [--kernel IMAGE]: the KUnit tests of rdma_rxe, which the kernel runs at boot when it is told
# to, and what became of them.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=selftests/ktap.sh
. "$here/../ktap.sh"

root=$(readlink -f "$here/../..")
# shellcheck source=qemu-scripts/kernel-variant.sh
. "$root/qemu-scripts/kernel-variant.sh"

[[ ${1-} != --smoke ]] || shift		# it takes seconds as it is
if (($# == 0)) && ! grep -q '^CONFIG_RDMA_RXE_KUNIT_TEST=' "$root/build/${BASE:-v6.1}$variant/obj/.config"; then
	echo "1..0 # SKIP rxe of this kernel has no KUnit tests"
	exit
fi
judged "$root/qemu-scripts/rxe-vm" run --name kunit --append kunit.enable=1 "$@" -- \
	cat /sys/kernel/debug/kunit/rxe/results
