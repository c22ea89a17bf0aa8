#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A program without any rights does no harm to the kernel.  hostile-wqes writes what it likes to its send ring;
# hostile-qps modifies or destroys its QP while it is in use, and its peer floods it.  Each has a guest of its own, and so
# has a device whose host has IPv6 disabled.  In two guests, QPs enter the error state while WRITEs arrive (flooded-qp).
#
#	--legacy-icrc	as for conformance.sh; hostile-wqes only
#	--flushes-refused	as for hostile-wqes
#	--once		as for rxe_conformance
#
# With LONG=1 for ten times as long.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

times=$((${LONG:-0} ? 10 : 1))
wqes=(hostile-wqes --races $((times * 15)))
vm_options=() program_options=()
option() {
	case $1 in
	--legacy-icrc | --flushes-refused) wqes+=("$1") ;;
	--once) program_options+=("$1") ;;
	*) false ;;
	esac
}

# guest NAME PROGRAM ARG...
guest() {
	nested "$root/qemu-scripts/rxe-vm" run --name "$1" --timeout $((times * 600)) "${vm_options[@]}" -- \
		"$root/build/selftests/$2" "${program_options[@]}" "${@:3}"
}

wqes() { guest hostile-wqes "${wqes[@]}" "$@"; }
# For each of its races 600 ms, with LONG=1 six seconds.
qps() { guest hostile-qps hostile-qps --milliseconds $((times * 600)) "$@"; }
on_demand() { guest hostile-wqes-on-demand "${wqes[@]}" --on-demand "$@"; }
no_ipv6() {
	vm_options+=(--append ipv6.disable=1)
	guest hostile-no-ipv6 hostile-qps "${@:-failing.datagrams_from_the_link_local_gid}"
}
# The tasks of the target's QPs are on the CPU that receives.
flooded() {
	"$root/qemu-scripts/rxe-vm" pair --name flooded --timeout $((times * 600)) --no-capture "${vm_options[@]}" \
		--server "echo 1 >/sys/devices/virtual/workqueue/cpumask; exec flooded-qp target \$RXE_ADDR $((times * 10))" \
		--client "flooded-qp initiator \$RXE_PEER_ADDR $((times * 10)) || sleep 1000000"
}

cases=(wqes qps on_demand no_ipv6 flooded)
run_suite 1 "$@"
