#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's own tests, in a guest, and what became of each of them.
#
# data/rdma-core-suite lists those that pass on a kernel and an rdma-core without any series, and those that fail there.
# Tests of the series that fail with it on that kernel, since the kernel is wrong, count only there:
#
#	BASE=v7.3 RDMA_CORE=v65 KERNEL=$(scripts/stock-kernel 7.3) selftests/suites/rdma-core-suite.sh
#
# To see where a run differs from the list (<):
#
#	make stock-rdma-core RDMA_CORE=v65
#	RDMA_CORE=v65 SUITE_RDMA_CORE=build/stock/rdma-core-v65 KERNEL=$(scripts/stock-kernel 6.1) \
#		selftests/suites/rdma-core-suite.sh --do compare_with_list

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

rdma_core=$(realpath "${SUITE_RDMA_CORE:-$root/$rdma_core_folder}")

# One guest runs the suite, before the cases, each of which looks at its results.
prepare() {
	[[ -z ${SUITE_FOLDER-} ]] || return 0
	SUITE_FOLDER=$(make_run_folder "$RXE_OUT" rdma-core-suite)
	export SUITE_FOLDER
	# Failed tests are for the cases to find.
	local devdax=(--devdax /dev/dax0.0)
	[[ -z ${SUITE_RDMA_CORE-} ]] || devdax=()	# an option of the series
	RXE_OUT=$SUITE_FOLDER "$root/qemu-scripts/rxe-vm" run --name guest --timeout 600 --pmem 64M --rdma-core "$rdma_core" -- \
		/usr/bin/python3 "$rdma_core/src/tests/run_tests.py" \
		--dev rxe0 --gid 1 "${devdax[@]}" -v >"$SUITE_FOLDER/stdout" 2>"$SUITE_FOLDER/stderr" || true
}

log() { cat "$SUITE_FOLDER/stderr"; }

# "TEST RESULT" of each test, from such lines, with a description or messages in between:
#	test_create_ah (tests.test_addr.AHTest.test_create_ah)
#	Test ibv_create_ah. ... ok
results() {
	log | awk '
		/^test_[^ ]+ \(/ { test = substr($2, 2, length($2) - 2) }
		test != "" && match($0, /(^|\.\.\. )(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$/) {
			result = substr($0, RSTART)
			sub(/^\.\.\. /, "", result)
			print test, result
			test = ""
		}'
}

passed_tests() { results | awk '$2 == "ok" { print $1 }' | sort; }

# Each test's result is known, and the guest came to no harm: no oops, no WARNING, no hang.
guest_runs_all_of_it_without_trouble() {
	local ran
	ran=$(log | sed -n 's/^Ran \([0-9]*\) tests in.*/\1/p')
	[[ -n $ran ]] || fail "the suite did not come to its end: $(log | tail -n 20)"
	[[ $(results | wc -l) == "$ran" ]] || fail "$ran tests ran, $(results | wc -l) results were found"
	[[ $(<"$SUITE_FOLDER/latest/verdict") == @(pass|fail)* ]] || fail "$(<"$SUITE_FOLDER/latest/verdict")"
	echo "# rdma-core's suite: $(passed_tests | wc -l) of $ran tests passed," \
		"$(results | grep -c ' skipped ') were skipped: $SUITE_FOLDER"
}

failed_tests() { results | awk '$2 != "ok" && $2 != "skipped" { print $1 }' | sort; }

# listed MARK: the tests that the list marks so for this rdma-core and this base, or without a mark
listed() {
	local base=${BASE:-v6.1} word words mark
	while read -ra words; do
		mark=none
		((${#words[@]} > 1)) || mark=''
		for word in "${words[@]:1}"; do
			# shellcheck disable=SC2053 # a pattern
			[[ ${RDMA_CORE:-v56}-${base%%-*} != ${word#[~!]} ]] || mark=${word%%[!~!]*}
		done
		[[ $mark != "${1-}" ]] || echo "${words[0]}"
	done < <(grep -v '^#' "$here/data/rdma-core-suite") | sort
}

compare_with_list() { diff <(listed; listed ! | sed 's/^/!/') <(passed_tests; failed_tests | sed 's/^/!/'); }

wrong_there() { [[ -z ${KERNEL-} ]] || listed '~'; }

# But for what fails without the series, too, and what a stock kernel does wrong.
nothing_fails() {
	local other right
	right=$(comm -23 <(wrong_there) <(failed_tests))
	[[ -z $right ]] || fail "listed with a ~, but does not fail: $right"
	other=$(comm -13 <({ listed !; wrong_there; } | sort) <(failed_tests))
	[[ -n $other ]] || return 0
	log | sed -n '/^======/,$p'
	fail "$other"
}

# A test that is skipped has not passed.
expect_ok() {
	[[ $(results) == *".$1 ok"* ]] || fail "$(results | grep -F ".$1 " || echo "it did not run")"
}

test_qp_ex_rc_flush() { expect_ok "${FUNCNAME[0]}"; }
test_qp_ex_rc_flush_type_violate() { expect_ok "${FUNCNAME[0]}"; }
test_qp_ex_rc_atomic_write() { expect_ok "${FUNCNAME[0]}"; }

tests_of_the_series() {
	local other
	[[ $(results) == *".PlacementTest."* ]] || fail "none of them ran"
	# This one is for a kernel without FLUSH and ATOMIC WRITE: verbs-api does the same there.
	other=$(results | grep -E '\.(Placement|Rxe)Test\.' | grep -v -e ' ok$' -e '\.RxeTest\.test_not_supported skipped ' |
		grep -vwFf <(wrong_there)) || return 0
	fail "$other"
}

# A kernel that takes no dma-bufs skips them, with this reason or since it has no udmabuf.
tests_of_dma_bufs() {
	local want=' skipped ' other
	! in_driver reg_user_mr_dmabuf || want=' ok$'
	[[ $(results) == *".Udmabuf"* ]] || fail "none of them ran"
	other=$(results | grep -F '.Udmabuf' | grep -v -- "$want") || return 0
	fail "$other"
}

what_passes_on_the_base_passes() {
	local lost
	lost=$(comm -23 <(listed) <(passed_tests))
	[[ -z $lost ]] || fail "passed on the base, but not now: $lost"
}

cases=(
	guest_runs_all_of_it_without_trouble
	nothing_fails
	test_qp_ex_rc_flush
	test_qp_ex_rc_flush_type_violate
	test_qp_ex_rc_atomic_write
	tests_of_the_series
	tests_of_dma_bufs
	what_passes_on_the_base_passes
)

run_suite 1 "$@"
