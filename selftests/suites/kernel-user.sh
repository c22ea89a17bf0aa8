#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# FLUSH and ATOMIC WRITE from within the kernel, in a guest: the KUnit cases of a module (kernel_user.c).  Then the
# device, and after it the module, is removed while the module uses rxe0.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

prepare() {
	grep -q '^struct ib_flush_wr ' "$root/build/${BASE:-v6.1}/src/include/rdma/ib_verbs.h" ||
		skip_all "this kernel has no work request of its own for FLUSH"
}

# rdma names the module that a QP belongs to.
# shellcheck disable=SC2016 # for the guest
in_guest='
	in_use() { rdma resource show qp link rxe0 | grep -qF "[kernel_user]"; }
	insmod "$0" pmem=$(cat /sys/bus/dax/devices/dax0.0/resource)
	sed "s/^1\.\.1$/1..3/" /sys/kernel/debug/kunit/kernel_user/results
	in_use
	rdma link delete rxe0
	echo "ok 2 the device may go while the module has it in use"
	rdma link add rxe0 type rxe netdev eth0
	in_use
	rmmod kernel_user
	in_use && exit 1
	echo "ok 3 the module may go while it has the device in use"
'

a_module_uses_both_verbs() {
	local module
	module=$("$here/../modules/kernel-module" kernel_user)
	nested "$root/qemu-scripts/rxe-vm" run --name kernel-user --pmem 64M --append kunit.enable=1 -- \
		sh -euc "$in_guest" "$module"
}

cases=(a_module_uses_both_verbs)
run_suite 1 "$@"
