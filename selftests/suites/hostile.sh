#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A program without any rights does no harm to the kernel: KTAP.  hostile-wqes writes what it likes to its send ring;
# hostile-qps modifies or destroys its QP while it is in use.  Each has a guest of its own.
#
#	hostile.sh [--legacy-icrc] [--only wqes | --only qps | --only on_demand | PATTERN...]
#
#	--legacy-icrc	as for conformance.sh; of hostile-wqes only
#	--only GUEST	only hostile-wqes, hostile-qps, or hostile-wqes with an on-demand region
#	PATTERN		only the cases of hostile-wqes whose names match
#
# With LONG=1 for ten times as long.

set -euo pipefail

root=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
times=$((${LONG:-0} ? 10 : 1))
wqes=(--races $((times * 15)))
patterns=()
guests=(wqes qps on_demand)
while (($#)); do
	case $1 in
	--only) guests=("${2:?--only needs a guest}"); shift ;;
	--legacy-icrc) wqes+=(--legacy-icrc) ;;
	-*) echo "hostile.sh: error: unknown option $1" >&2; exit 2 ;;
	*) guests=(wqes) patterns+=("$1") ;;
	esac
	shift
done

# guest NAME PROGRAM ARG...: its results, one level down.  Those that a dead guest owes are missed.
n=0 failed=0
guest() {
	local status=0
	echo "    # Subtest: $1"
	"$root/qemu-scripts/rxe-vm" run --name "$1" --timeout $((times * 600)) -- \
		"$root/build/selftests/$2" "${@:3}" | sed -u 's/^/    /' || status=$?
	n=$((n + 1))
	case $status in
	0) echo "ok $n $1" ;;
	4) echo "ok $n $1 # SKIP as it says" ;;
	*)
		echo "not ok $n $1 # status $status"
		((status < failed)) || failed=$status ;;
	esac
}

echo "KTAP version 1"
echo "1..${#guests[@]}"
for name in "${guests[@]}"; do
	case $name in
	wqes) guest hostile-wqes hostile-wqes "${wqes[@]}" "${patterns[@]}" ;;
	# For each of its races 600 ms, with LONG=1 six seconds.
	qps) guest hostile-qps hostile-qps $((times * 600)) ;;
	on_demand) guest hostile-wqes-on-demand hostile-wqes --on-demand "${wqes[@]}" ;;
	*) echo "hostile.sh: error: --only $name: say wqes, qps or on_demand" >&2; exit 2 ;;
	esac
done
exit $failed
