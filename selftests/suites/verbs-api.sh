#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # for the guest's shell
#
# The API tests, verbs-api, in one guest and in two.  On a kernel without FLUSH and ATOMIC WRITE they test that it says
# so.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

vm() { nested "$root/qemu-scripts/rxe-vm" "$1" --name verbs-api "${@:2}"; }

# one MEMORY [WRAPPER]: both ends in one guest; the target's memory, what verbs-api runs under
one() {
	vm run --pmem 64M -- bash -o pipefail -c \
		"verbs-api-target \$RXE_ADDR $1 | { read -r _ && ${2-} \$(type -P verbs-api) \$RXE_ADDR; }"
}

one_guest() { one /dev/dax0.0; }

one_guest_without_persistent_memory() { one ''; }

two_guests() {
	vm pair --server-pmem 64M --client 'verbs-api $RXE_PEER_ADDR' \
		--server 'exec bash -o pipefail -c "verbs-api-target $RXE_ADDR /dev/dax0.0 | { read -r _ && rxe-ready; }"'
}

# How much depth a connection has.
by_rdma_cm() { vm run -- bash -c 'cm-depth $RXE_ADDR'; }

# Errors of memory on the paths of the libraries that the cases take.
valgrind_finds_nothing() {
	type -P valgrind >/dev/null || { echo "no valgrind: install the package"; exit 4; }
	one /dev/dax0.0 "valgrind -q --error-exitcode=99"
}

# On libraries that are built anew, with the compiler's sanitizers.  What is undefined counts, too; but memcpy() of
# nothing from NULL, as in the base, does no harm.  The programs free nothing before they end.
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
	} >"$out/log" 2>&1 || { tail -n 25 "$out/log"; return 1; }
	# In this guest the programs come first that are sanitized, too.
	vm run --pmem 64M --rdma-core "$out" -- bash -o pipefail -c "export ASAN_OPTIONS=detect_leaks=0 PATH=$out/selftests:\$PATH
		verbs-api-target \$RXE_ADDR /dev/dax0.0 | { read -r _ && verbs-api \$RXE_ADDR; }"
}

cases=(one_guest one_guest_without_persistent_memory two_guests by_rdma_cm valgrind_finds_nothing)
long_cases=(sanitizers_find_nothing)
smoke_cases=(one_guest)
run_suite 1 "$@"
