#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Memory regions of dma-bufs: the cases of verbs/dma-buf-cases.c, and some of rxe_mpe_conformance.  The memory is that of
# an NVMe device, and with LONG=1 that of two more exporters.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

prepare() {
	grep -q reg_user_mr_dmabuf "$root/build/${BASE:-v6.1}/src/drivers/infiniband/sw/rxe/rxe_verbs.c" ||
		skip_all "rxe of this kernel takes no dma-bufs"
}

# At a page boundary, and at the ends of a region.  What the fixture odp does with a region on demand, it does here with
# one of a dma-buf.
served=('odp.across.written' 'odp.across.read' 'odp.across.sent' 'odp.across.filled' 'odp.across_by_a_packet.written'
	'odp.first.fetched_and_added' 'odp.last.flushed')
regions=('dma_buf.*' "${served[@]}")
# Only the lab's exporter takes memory away or moves it.
device_regions=("${regions[@]}" 'moved.*' 'revoked*' 'odp.across.received' 'odp.first.atomically_written')

# guest EXPORTER COMMAND [OPTION...]: with memory of this exporter, in a guest with these options
guest() {
	nested "$root/qemu-scripts/rxe-vm" run --name "dma-buf-$1" --timeout 1200 "${@:3}" -- \
		sh -c "export RXE_DMABUF=$1; $2"
}

# quoted PATTERN...: for the guest's shell
quoted() { printf " '%s'" "$@"; }

memory_of_a_memfd() { guest udmabuf "exec dma-buf $(quoted "${@:-${regions[@]}}")"; }
memory_of_a_heap() { guest heap "exec dma-buf $(quoted "${@:-${regions[@]}}")"; }
memory_of_a_device() {
	local module
	module=$("$here/../modules/kernel-module" bar_dmabuf)
	guest bar "insmod $module && exec dma-buf $(quoted "${@:-${device_regions[@]}}")" --nvme 16M --cmb 16M
}

cases=(memory_of_a_device)
long_cases=(memory_of_a_memfd memory_of_a_heap)
run_suite 1 "$@"
