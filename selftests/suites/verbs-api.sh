#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2317 # for the guest's shell; the functions are called by name
#
# verbs-api.sh [--smoke] [--kernel IMAGE]
# The API tests, verbs-api, in one guest and in two: KTAP, a line for each case.  On a kernel without
# FLUSH and ATOMIC WRITE they test that it is said so.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")

places=(one_guest one_guest_without_persistent_memory two_guests by_rdma_cm valgrind_finds_nothing)
kernel=()
while (($#)); do
	case $1 in
	--smoke) places=(one_guest) ;;
	--kernel) kernel=(--kernel "${2:?--kernel needs an image}"); shift ;;
	*) echo "verbs-api.sh: error: unknown option $1" >&2; exit 2 ;;
	esac
	shift
done

vm() { "$root/qemu-scripts/rxe-vm" "$1" --name verbs-api "${kernel[@]}" "${@:2}"; }

# one MEMORY [WRAPPER]: both ends in one guest; the target's memory, what verbs-api runs under
one() {
	vm run --pmem 64M -- bash -o pipefail -c \
		"verbs-api-target \$RXE_ADDR $1 | { read -r _ && ${2-} \$(type -P verbs-api) \$RXE_ADDR; }"
}

one_guest() { one /dev/dax0.0; }

one_guest_without_persistent_memory() { one ''; }

two_guests() {
	vm pair --server-pmem 64M --client 'verbs-api $RXE_PEER_ADDR' \
		--server 'verbs-api-target $RXE_ADDR /dev/dax0.0 | { read -r _ && rxe-ready; }'
}

# How much depth a connection has.
by_rdma_cm() { vm run -- bash -c 'cm-depth $RXE_ADDR'; }

# Errors of memory on the paths of the libraries that the cases take.
valgrind_finds_nothing() {
	type -P valgrind >/dev/null || { echo "1..0 # SKIP no valgrind: install the package"; return; }
	one /dev/dax0.0 "valgrind -q --error-exitcode=99"
}

status=0
echo "KTAP version 1"
echo "1..${#places[@]}"
for ((n = 1; n <= ${#places[@]}; n++)); do
	title=${places[n - 1]//_/ }
	echo "    # Subtest: $title"
	if "${places[n - 1]}" 2> >(sed 's/^/# /') | sed 's/^/    /'; then
		echo "ok $n $title"
	else
		status=1
		echo "not ok $n $title"
	fi
done
exit $status
