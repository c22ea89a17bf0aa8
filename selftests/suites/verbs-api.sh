#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2317 # for the guest's shell; the functions are called by name
#
# verbs-api.sh [--smoke] [--kernel IMAGE]
# The API tests, verbs-api, in one guest and in two: KTAP, a line for each case.  On a kernel without
# FLUSH and ATOMIC WRITE they test that it is said so.  With LONG=1 once more with libraries that are built anew, with
# the compiler's sanitizers.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
# shellcheck source=qemu-scripts/rdma-core-folder.sh
. "$root/qemu-scripts/rdma-core-folder.sh"

places=(one_guest one_guest_without_persistent_memory two_guests by_rdma_cm valgrind_finds_nothing)
((!${LONG:-0})) || places+=(sanitizers_find_nothing)
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

# What is undefined, too; but memcpy() of nothing from NULL, as in the base, does no harm.  The programs free nothing
# before they end.
sanitizers_find_nothing() {
	local out=$root/build/sanitized/${rdma_core_folder##*/}
	local flags='-fsanitize=address,undefined -fno-sanitize=nonnull-attribute -fno-sanitize-recover=all'
	mkdir -p "$out"
	{
		cmake -DCMAKE_C_FLAGS="$flags" -S "$root/$rdma_core_folder/src" -B "$out" -G Ninja -DIN_PLACE=1 -DNO_PYVERBS=1 -DNO_MAN_PAGES=1 &&
			ninja -C "$out" ibverbs rdmacm "$(cd "$out" && ninja -t targets all | sed -n 's/^\(lib\/librxe-rdmav[0-9]*\.so\):.*/\1/p')" &&
			make -C "$root/selftests" CC="gcc $flags" OUTPUT="$out/selftests" RDMA_CORE="$out" \
				KSELFTEST="$root/build/${BASE:-v6.1}/src/tools/testing/selftests" \
				"$out/selftests/verbs-api" "$out/selftests/verbs-api-target"
	} >"$out/log" 2>&1 || { tail -n 25 "$out/log" >&2; return 1; }
	# In this guest the programs come first that are sanitized, too.
	vm run --pmem 64M --rdma-core "$out" -- bash -o pipefail -c "export ASAN_OPTIONS=detect_leaks=0 PATH=$out/selftests:\$PATH
		verbs-api-target \$RXE_ADDR /dev/dax0.0 | { read -r _ && verbs-api \$RXE_ADDR; }"
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
