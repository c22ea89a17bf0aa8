#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A program without any rights does no harm to the kernel: KTAP.  hostile-wqes writes what it likes to its send ring;
# hostile-qps modifies or destroys its QP while it is in use.  Each has a guest of its own.
#
#	hostile.sh [--kernel IMAGE] [--legacy-icrc] [PATTERN...]
#
#	--kernel IMAGE	another kernel
#	--legacy-icrc	as for conformance.sh; of hostile-wqes only
#	PATTERN		only the cases of hostile-wqes whose names match
#
# With LONG=1 for ten times as long.

set -euo pipefail

root=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
times=$((${LONG:-0} ? 10 : 1))
vm_options=()
wqes=(--races $((times * 15)))
patterns=()
while (($#)); do
	case $1 in
	--kernel) vm_options+=(--kernel "${2:?--kernel needs an image}"); shift ;;
	--legacy-icrc) wqes+=(--legacy-icrc) ;;
	-*) echo "hostile.sh: error: unknown option $1" >&2; exit 2 ;;
	*) patterns+=("$1") ;;
	esac
	shift
done

# guest PROGRAM ARG...: its results, one level down.  Those that a dead guest owes are missed.
n=0 failed=0
guest() {
	local status=0
	echo "    # Subtest: $1"
	"$root/qemu-scripts/rxe-vm" run --name "$1" --timeout 3600 "${vm_options[@]}" -- \
		"$root/build/selftests/$1" "${@:2}" | sed -u 's/^/    /' || status=$?
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
if ((${#patterns[@]})); then
	echo "1..1"
	guest hostile-wqes "${wqes[@]}" "${patterns[@]}"
	exit $failed
fi
echo "1..2"
guest hostile-wqes "${wqes[@]}"
# Ten cases: six seconds, LONG=1 a minute.
guest hostile-qps $((times * 600))
exit $failed
