#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# siw, iWARP in software, has neither FLUSH nor ATOMIC WRITE.  Its provider has fixes in the rdma-core series, which siw-post
# tests.
#
# The lab's kernels have no siw.  It is built as a module, from the kernel's own source.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

# siw ARG... -- COMMAND: COMMAND, for the guest's shell, where siw0 has $RXE_ADDR
siw() {
	local module options=()
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	module=$("$here/../modules/kernel-module" siw)
	# rdma_cm would take rxe0, which has the address as well.
	"$root/qemu-scripts/rxe-vm" run --name siw "${options[@]}" -- \
		sh -c "rdma link delete rxe0 && insmod $module && rdma link add siw0 type siw netdev eth0 && $2"
}

# shellcheck disable=SC2016 # for the guest
the_provider_refuses_what_siw_has_not() {
	nested siw -- 'exec siw-post $RXE_ADDR'
}

# So the fixes are what makes it pass.
# shellcheck disable=SC2016 # for the guest
without_the_series_it_does_not() {
	local stock=$root/build/stock/${rdma_core_folder#build/} said
	[[ -e $stock/built ]] || { echo "no ${stock#"$root/"}: run \`make stock-rdma-core\`"; exit 4; }
	said=$(siw --rdma-core "$stock" -- 'exec siw-post $RXE_ADDR' 2>&1) && fail "all passes: $said"
	[[ $said == *'ok '*'connected.posts_what_it_has'* && $said == *'not ok '*'connected.returns_positive_errors'* ]] ||
		fail "$said"
	[[ $said == *'not ok '*'names_the_request_of_a_list_that_it_refuses'* ]] || fail "$said"
}

cases=(the_provider_refuses_what_siw_has_not)
long_cases=(without_the_series_it_does_not)
run_suite 1 "$@"
