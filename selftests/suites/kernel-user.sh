#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# rxe as users in the kernel use it: the KUnit cases of a module (kernel_user.c), in a guest, about fast-registered MRs,
# FLUSH and ATOMIC WRITE.  Then the device, and after it the module, is removed while the module uses rxe0.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

# rdma names the module that a QP belongs to.  KUnit puts its cases one level below its suite.  Here they are on the
# level of what is done after them, so that ktap.sh shows them as results of the case.
# shellcheck disable=SC2016 # for the guest
in_guest='
	in_use() { rdma resource show qp link rxe0 | grep -qF "[kernel_user]"; }
	insmod "$0" pmem=$(cat /sys/bus/dax/devices/dax0.0/resource) "$@"
	results=/sys/kernel/debug/kunit/kernel_user/results
	n=$(sed -n "s/^    1\.\.//p" $results)
	sed -n "s/^    1\.\..*/    1..$((n + 2))/; s/^    //p" $results
	in_use
	rdma link delete rxe0
	echo "ok $((n + 1)) the device may go while the module has it in use"
	rdma link add rxe0 type rxe netdev eth0
	in_use
	rmmod kernel_user
	in_use && exit 1
	echo "ok $((n + 2)) the module may go while it has the device in use"
'

# a_module_uses_rxe [PATTERN...]: the KUnit cases that match one of these
a_module_uses_rxe() {
	local module only
	module=$("$here/../modules/kernel-module" kernel_user)
	only=$(IFS=,; echo "$*")
	nested "$root/qemu-scripts/rxe-vm" run --name kernel-user --pmem 64M --append kunit.enable=1 -- \
		sh -euc "$in_guest" "$module" ${only:+"only=$only"}
}

cases=(a_module_uses_rxe)
run_suite 1 "$@"
