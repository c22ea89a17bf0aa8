#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rxe_conformance.sh [ARG...]
# FLUSH and ATOMIC WRITE of rdma_rxe on the wire: runs rxe_conformance (see there) with these
# arguments, or skips and says what is missing.

KSFT_SKIP=4
program=$(dirname "$0")/rxe_conformance
packages="libibverbs-dev or rdma-core-devel"

skip()
{
	echo "TAP version 13"
	echo "1..0 # SKIP $*"
	exit $KSFT_SKIP
}

((UID == 0)) || skip "only root may make network links"
for tool in ip rdma tc; do
	type -P $tool >/dev/null || skip "no program '$tool': install iproute2"
done
# Both may be built in, where there may be no modules at all.
modprobe -q -a rdma_rxe ib_uverbs || grep -qw rxe_newlink /proc/kallsyms ||
	skip "no rdma_rxe: set CONFIG_RDMA_RXE"
[[ -x $program ]] ||
	skip "rxe_conformance was not built: install $packages, build again"

exec "$program" "$@"
