#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# selftests/rdma, which is mailed, as the kernel's own test harness builds and runs it: in a copy of the parts of a kernel
# tree that it needs, with each libibverbs that may be there, and with none.  Only a few of its cases run here; the
# suite conformance runs all.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

source=$root/build/${BASE:-v6.1}/src
rdma_core=$root/$rdma_core_folder
stock=$root/build/stock/${rdma_core_folder#build/}
few='feth.plt_0.*'

# A tree as the base has it,
make_plain_tree() {
	mkdir "$work/linux"
	git -C "$source" archive base scripts/subarch.include tools/testing/selftests | tar -x -C "$work/linux"
}

# and with our tests.
make_tree() {
	make_plain_tree
	"$root/scripts/place-selftests" "$work/linux"
}

# set_make INCLUDE LIBS: make kselftest, in the tree
set_make() {
	make=(make -s -C "$work/linux/tools/testing/selftests" TARGETS=rdma USERCFLAGS=-Werror VERBS_CFLAGS="$1" VERBS_LIBS="$2")
}

# For the rdma-core without the series
make_tree_for_stock() {
	[[ -e $stock/built ]] || { echo "no ${stock#"$root/"}: run \`make stock-rdma-core\`"; exit 4; }
	make_tree
	set_make "-I$stock/include" "-L$stock/lib -libverbs"
}

# run_in_guest [OPTION...]: what was built here is run there; what that says is in $work/said.  The tests make links of
# their own, by the names that they like.
run_in_guest() {
	local status=0
	"$root/qemu-scripts/rxe-vm" run --name kselftest --timeout 900 "$@" -- bash -c 'rdma link delete rxe0 && exec "$@"' - \
		env KSELFTEST_RXE_CONFORMANCE_SH_ARGS="$few" "${make[@]}" run_tests >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	((!status)) || fail "it ends with status $status"
}

# expect_line LINE
expect_line() { grep -q -e "$1" "$work/said" || fail "not said: $1"; }

built=linux/tools/testing/selftests/rdma/rxe_conformance
# cases_of PROGRAM
cases_of() { "$1" --list | cut -f 1 | sort; }

it_runs_with_our_rdma_core() {
	make_tree
	set_make "-I$rdma_core/include" "-L$rdma_core/lib -libverbs"
	"${make[@]}"
	run_in_guest
	expect_line '^ok [0-9]* selftests: rdma: rxe_conformance.sh$'
	expect_line '^# ok 2 feth.plt_0.refused_of_nothing'
}

it_builds_with_a_stock_rdma_core() {
	make_tree_for_stock
	"${make[@]}"
	cases_of "$work/$built" >"$work/stock"
	cases_of "$root/build/selftests/rxe_conformance" | diff - "$work/stock"
}

# As of rdma-core 44: no FLUSH at all.
without_flush_the_responder_is_tested() {
	make_tree
	mkdir "$work/include"
	cp -rL "$rdma_core/include/infiniband" "$work/include"
	sed -i -E 's/ibv_wr_flush|IBV_(ACCESS|QP_EX_WITH|WR|WC)_FLUSH/not_there_&/g' "$work/include/infiniband/verbs.h"
	set_make "-I$work/include" "-L$rdma_core/lib -libverbs"
	"${make[@]}"
	cases_of "$work/$built" >"$work/cases"
	grep -q '^feth\.' "$work/cases"
	grep '^posted\.' "$work/cases" && fail "the requester is tested"
	run_in_guest
	expect_line '^# ok 3 .*SKIP requester: built with a libibverbs without ibv_wr_flush()'
	expect_line '^ok [0-9]* selftests: rdma: rxe_conformance.sh$'
}

without_libibverbs_it_skips() {
	make_tree
	set_make '' ''
	"${make[@]}" 2>"$work/warning"
	grep -q 'no libibverbs: .* will skip; install' "$work/warning" || fail "make does not say so: $(<"$work/warning")"
	[[ ! -e $work/$built ]] || fail "it was built"
	run_in_guest
	expect_line '1..0 # SKIP rxe_conformance was not built: install'
	expect_line '^ok [0-9]* selftests: rdma: rxe_conformance.sh # SKIP'
}

# As linux 7.3 has it, in short.
a_folder_that_is_there_keeps_what_it_has() {
	local to=$work/linux/tools/testing/selftests
	make_plain_tree
	rm -rf "$to/rdma"
	mkdir "$to/rdma"
	cat >"$to/rdma/Makefile" <<-'END'
		# SPDX-License-Identifier: GPL-2.0
		TEST_PROGS := rxe_a.sh \
				rxe_b.sh

		include ../lib.mk
	END
	printf '%s\n' CONFIG_TUN CONFIG_VETH >"$to/rdma/config"
	grep -qx 'TARGETS += rdma' "$to/Makefile" || sed -i 's/^TARGETS += rlimits/TARGETS += rdma\n&/' "$to/Makefile"
	"$root/scripts/place-selftests" "$work/linux"
	grep -cx 'TARGETS += rdma' "$to/Makefile" | grep -qx 1 || fail "it is not once in TARGETS"
	make -s -C "$to/rdma" OUTPUT="$to/rdma" COLLECTION=rdma emit_tests >"$work/tests"
	printf 'rdma:%s\n' rxe_a.sh rxe_b.sh rxe_conformance.sh | diff - "$work/tests"
	sort -u "$to/rdma/config" | diff - <(sed -n 's/=.*//; /^CONFIG/p' "$here/../rdma/config" | sort -u - <(echo CONFIG_TUN))
	[[ $(grep -c VETH "$to/rdma/config") == 1 ]] || fail "VETH is there twice"
	"$root/scripts/place-selftests" "$work/linux" 2>"$work/again" && fail "it goes twice"
	grep -q 'has our selftests already' "$work/again"
}

# Those that Linux has in this folder, and ours, where most people would run them.
all_run_on_a_distributions_kernel() {
	local kernel test
	stock_kernel 7.3
	make_tree_for_stock
	"${make[@]}"
	few='--legacy-icrc verb.*.answered'
	run_in_guest --kernel "$kernel" --rdma-core "$stock"
	for test in "$work"/linux/tools/testing/selftests/rdma/rxe_*.sh; do
		expect_line "^ok [0-9]* selftests: rdma: ${test##*/}$"
	done
	expect_line '^# ok 3 verb.atomic_write.answered'
}

# As kernel developers run them: virtme-ng boots a kernel on the host's own files, as root.  It wants a terminal.
they_run_with_virtme_ng() {
	local -a options=(--user root --run "$root/build/${BASE:-v6.1}/bzImage")
	type -P vng >/dev/null || { echo "no vng: install virtme-ng, which Debian 13 has"; exit 4; }
	[[ $("$root/qemu-scripts/accelerator" "$root/build/${BASE:-v6.1}/bzImage") == kvm ]] || options+=(--disable-kvm)
	make_tree
	set_make "-I$rdma_core/include" "-L$rdma_core/lib -libverbs"
	"${make[@]}"
	echo "exec env LD_LIBRARY_PATH=$rdma_core/lib KSELFTEST_RXE_CONFORMANCE_SH_ARGS='$few'" \
		"${make[*]@Q} TEST_PROGS=rxe_conformance.sh run_tests" >"$work/command"
	script -qec "vng ${options[*]} -- sh $work/command" "$work/typescript" </dev/null >"$work/said" 2>&1 ||
		fail "$(<"$work/said")"
	tr -d '\r' <"$work/typescript" >"$work/said"
	cat "$work/said"
	expect_line '^# ok 2 feth.plt_0.refused_of_nothing'
	expect_line '^ok [0-9]* selftests: rdma: rxe_conformance.sh$'
}

cases=(
	it_runs_with_our_rdma_core
	it_builds_with_a_stock_rdma_core
	without_flush_the_responder_is_tested
	without_libibverbs_it_skips
	a_folder_that_is_there_keeps_what_it_has
	they_run_with_virtme_ng
)
[[ ! -e $source/tools/testing/selftests/rdma/rxe_ipv6.sh ]] || cases+=(all_run_on_a_distributions_kernel)

run_suite 1 "$@"
