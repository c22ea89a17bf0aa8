#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Random packets and WQEs (fuzz.c) in a guest.  With LONG=1 ten times as many.  And random commands of programs that are
# killed (killed-programs.c); with LONG=1 a million.  The seed is printed; SEED=N takes that one.  On a debug kernel also
# each verb with one allocation after the other failing (failing-allocations.c).

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

times=$((${LONG:-0} ? 10 : 1))

# fuzz WHAT COUNT [on-demand]
fuzz() {
	local status=0
	"$root/qemu-scripts/rxe-vm" run --name "fuzz-$1" --timeout 7200 -- \
		"$root/build/selftests/fuzz" "$1" $((times * $2)) "$seed" "${@:3}" || status=$?
	((status != 4)) || echo "the kernel's rxe has no on-demand paging"
	exit "$status"
}

random_packets() { fuzz packets 20000; }
random_wqes() { fuzz wqes 2000; }
random_packets_to_an_on_demand_region() { fuzz packets 20000 on-demand; }
random_wqes_with_an_on_demand_region() { fuzz wqes 2000 on-demand; }
killed_programs() {
	"$root/qemu-scripts/rxe-vm" run --name killed-programs --timeout 7200 --append slub_debug=FZPU -- \
		"$root/build/selftests/killed-programs" $((${LONG:-0} ? 1000000 : 20000)) "$seed"
}
# each_allocation_fails [PATTERN]: of the commands that match, one at a time
each_allocation_fails() {
	"$root/qemu-scripts/rxe-vm" run --name failing-allocations --timeout 7200 -- sh -euc \
		'ip link add x0 type dummy; ip link set x0 up; exec "$@"' sh "$root/build/selftests/failing-allocations" x0 "$@"
}

cases=(random_packets random_wqes random_packets_to_an_on_demand_region random_wqes_with_an_on_demand_region
	killed_programs)
[[ ${DEBUG:-0} != 1 ]] || cases+=(each_allocation_fails)
run_suite 2 "$@"
