#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A program without any rights does no harm to the kernel.  hostile-wqes writes what it likes to its send ring;
# hostile-qps modifies or destroys its QP while it is in use.  Each has a guest of its own.
#
#	--legacy-icrc	as for conformance.sh; hostile-wqes only
#	--flushes-refused	as for hostile-wqes
#
# With LONG=1 for ten times as long.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

times=$((${LONG:-0} ? 10 : 1))
wqes=(hostile-wqes --races $((times * 15)))
! sends_legacy_icrc || wqes+=(--legacy-icrc)
option() {
	[[ $1 == --legacy-icrc || $1 == --flushes-refused ]] || return
	wqes+=("$1")
}

# guest NAME PROGRAM ARG...
guest() {
	nested "$root/qemu-scripts/rxe-vm" run --name "$1" --timeout $((times * 600)) -- "$root/build/selftests/$2" "${@:3}"
}

wqes() { guest hostile-wqes "${wqes[@]}" "$@"; }
# For each of its races 600 ms, with LONG=1 six seconds.
qps() { guest hostile-qps hostile-qps --milliseconds $((times * 600)) "$@"; }
on_demand() { guest hostile-wqes-on-demand "${wqes[@]}" --on-demand "$@"; }

cases=(wqes qps on_demand)
run_suite 1 "$@"
