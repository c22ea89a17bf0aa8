#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Memory regions of dma-bufs: the cases of rxe_mpe_conformance and fuzz with memory of three exporters, and those of
# verbs/dma-buf-cases.c.  Then an NVMe device that goes away while its memory is in use, and a block that a client puts
# into that memory and the device stores (verbs/device-memory.c).
#
# With LONG=1 the device goes 100 times, and ten times as many packets are sent.  SEED=N repeats these.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

times=$((${LONG:-0} ? 10 : 1))
nvme=(--nvme 16M --cmb 16M)

prepare() {
	grep -q reg_user_mr_dmabuf "$root/build/${BASE:-v6.1}/src/drivers/infiniband/sw/rxe/rxe_verbs.c" ||
		skip_all "rxe of this kernel takes no dma-bufs"
}

# What memory windows, another region of the program, or MRs on demand are for has nothing to do with dma-bufs.
conformance=('verb.*' 'told.*' 'length.*' 'flush.*' 'feth.*' 'atomic_write.*' 'atomic_write_at.*' 'flush_range.*'
	'region_fields.*' 'write_right.*' 'empty_read.*' 'empty_write.*' 'shared_receives.*' 'bad_key.*' 'odp.*'
	'odp_region.long_write' 'posted.*' 'fetched.*' 'region_wire.*')

module() { "$here/../modules/kernel-module" bar_dmabuf; }

# guest EXPORTER OPTION... -- PROGRAM ARG...: runs it with memory of this exporter
guest() {
	local exporter=$1 options=() load=
	shift
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	shift
	if [[ $exporter == bar ]]; then
		options+=("${nvme[@]}")
		load="insmod $(module);"
	fi
	# shellcheck disable=SC2016 # for the guest
	"$root/qemu-scripts/rxe-vm" run --name "dma-buf-$exporter" --timeout $((times * 1200)) "${options[@]}" -- \
		sh -c "$load"' RXE_DMABUF=$0 exec "$@"' "$exporter" "$@"
}

memory_of_a_memfd() { nested guest udmabuf -- dma-buf "${@:-${conformance[@]}}"; }
memory_of_a_heap() { nested guest heap -- dma-buf "${@:-${conformance[@]}}"; }
memory_of_a_device() { nested guest bar -- dma-buf "${@:-${conformance[@]}}"; }
regions_of_a_memfd() { nested guest udmabuf -- dma-buf "${@:-dma_buf.*}"; }
regions_of_a_heap() { nested guest heap -- dma-buf "${@:-dma_buf.*}"; }
regions_of_a_device() {
	(($#)) || set -- 'dma_buf.*' 'moved.*' 'revoked*'
	nested guest bar -- dma-buf "$@"
}

# By path MTUs other than 1024: whole packets across page boundaries.
with_mtu() {
	local mtu
	for mtu in 256 4096; do
		nested guest "$1" -- dma-buf --mtu "$mtu" 'odp.*' odp_region.long_write 'length.*'
	done
}
mtus_with_memory_of_a_memfd() { with_mtu udmabuf; }
mtus_with_memory_of_a_device() { with_mtu bar; }

fuzz() { guest "$1" -- dma-buf-fuzz packets $((times * 5000)) "$seed"; }
random_packets_to_memory_of_a_heap() { fuzz heap; }
random_packets_to_memory_of_a_device() { fuzz bar; }

the_device_goes_while_its_memory_is_in_use() { guest bar -- dma-buf-removal $((times * 10)); }

##############################################################################
# A block for the device

# What QEMU's device tells: each command, and each place of its data.
trace='-trace pci_nvme_write -trace pci_nvme_read -trace pci_nvme_map_addr -trace pci_nvme_map_addr_cmb'

# store WHERE OPTION...: two guests; the block is $work/block, and the run's folder $run
store() {
	local where=$1 blocks=$((RANDOM % 32 + 1)) load
	shift
	dd if=/dev/urandom of="$work/block" bs=4096 count="$blocks" status=none
	load="insmod $(module)"
	RXE_OUT=$(make_run_folder "$RXE_OUT" store)
	# shellcheck disable=SC2016 # for the guests
	"$root/qemu-scripts/rxe-vm" pair --name "store-$where" --timeout 600 "$@" \
		--server "$load && exec device-memory target \$RXE_ADDR $where" \
		--client "exec device-memory initiator \$RXE_PEER_ADDR $work/block"
	run=$(readlink -f "$RXE_OUT/latest")
}

# The places of the data of all writes to the disk, as QEMU tells them: how many, and how many of these in the
# controller memory buffer.
places() {
	awk '
		/pci_nvme_(read|write) / { write = /pci_nvme_write / }
		write && /pci_nvme_map_addr / { all++ }
		write && /pci_nvme_map_addr_cmb / { buffer++ }
		END { print all + 0, buffer + 0 }' "$run/server.qemu.resets"
}

# stored_from WHERE: $all and $buffer are then those places, and the disk begins with the block
stored_from() {
	store "$1" --server-nvme 16M --server-cmb 16M --server-qemu "$trace"
	cmp "$work/block" <(head -c "$(stat -c %s "$work/block")" "$run/server.nvme") ||
		fail "the disk does not begin with the block"
	read -r all buffer < <(places)
	echo "# $(stat -c %s "$work/block") bytes, $all places of data, $buffer of them in the controller memory buffer"
	((all)) || fail "QEMU told of no write"
}

# Not counted are the packets: those of a NIC would not be in the target's memory, either.
a_block_is_stored_without_a_copy_in_the_targets_memory() {
	stored_from cmb
	((all == buffer)) || fail "the device took $((all - buffer)) of $all places from the target's memory"
}

a_copy_in_the_targets_memory_is_noticed() {
	stored_from bounce
	((all > 0 && !buffer)) || fail "the block came from the target's memory, and that was not noticed"
}

# The server loses its power as soon as the client has the answer.
a_block_in_the_persistent_memory_region_survives_a_power_cut() {
	store pmr --server-nvme 16M --server-pmr "$work/pmr:1M" --kill-server
	truncate -s 1M "$work/block"
	cmp "$work/block" "$work/pmr" || fail "the region does not have the block, and zeroes after it"
}

cases=(memory_of_a_memfd memory_of_a_heap memory_of_a_device regions_of_a_memfd regions_of_a_heap regions_of_a_device
	mtus_with_memory_of_a_memfd mtus_with_memory_of_a_device random_packets_to_memory_of_a_heap
	random_packets_to_memory_of_a_device the_device_goes_while_its_memory_is_in_use
	a_block_is_stored_without_a_copy_in_the_targets_memory a_copy_in_the_targets_memory_is_noticed
	a_block_in_the_persistent_memory_region_survives_a_power_cut)
run_suite 1 "$@"
