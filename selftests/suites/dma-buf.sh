#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Memory regions of dma-bufs: the cases of verbs/dma-buf-cases.c, and some of rxe_conformance.  The memory is that
# of an NVMe device.
#
# With LONG=1 there are two more exporters, random packets and WQEs (fuzz.c), and a device that goes away 100 times
# while its memory is in use.  A client places a block in the device's memory, and the device stores it, or data and a flag,
# which the target polls; it appends to a log there, and the power fails (verbs/device-memory.c).  SEED=N repeats what is random.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

prepare() {
	in_driver reg_user_mr_dmabuf || skip_all "rxe of this kernel takes no dma-bufs"
}

# At a page boundary, and at the ends of a region.  What the fixture odp does with a region on demand, it does here with
# one of a dma-buf.
served=('odp.across.written' 'odp.across.read' 'odp.across.sent' 'odp.across.filled' 'odp.across_by_a_packet.written'
	'odp.first.fetched_and_added' 'odp.last.flushed')
regions=('dma_buf.*' "${served[@]}")
# Only the lab's exporter takes memory away or moves it.
device_regions=("${regions[@]}" 'moved.*' 'revoked*' 'odp.across.received' 'odp.first.atomically_written')

# load_exporter: what a guest's shell does first, to export memory of a device
load_exporter() {
	local module
	module=$("$here/../modules/kernel-module" bar_dmabuf)
	echo "insmod $module"
}

# guest EXPORTER PROGRAM [ARG...]: runs it in a guest, with memory of this exporter
guest() {
	local load=: options=()
	if [[ $1 == bar ]]; then
		load=$(load_exporter)
		options=(--nvme 16M --cmb 16M)
	fi
	# shellcheck disable=SC2016 # for the guest
	"$root/qemu-scripts/rxe-vm" run --name "dma-buf-$1" --timeout 7200 "${options[@]}" -- \
		sh -c "$load"' && RXE_DMABUF=$0 exec "$@"' "$@"
}

memory_of_a_device() { nested guest bar dma-buf "${@:-${device_regions[@]}}"; }
memory_of_a_memfd() { nested guest udmabuf dma-buf "${@:-${regions[@]}}"; }
memory_of_a_heap() { nested guest heap dma-buf "${@:-${regions[@]}}"; }

random_packets_to_memory_of_a_heap() { guest heap dma-buf-fuzz packets 20000 "$seed"; }
random_packets_to_memory_of_a_device() { guest bar dma-buf-fuzz packets 20000 "$seed"; }
random_wqes_with_memory_of_a_device() { guest bar dma-buf-fuzz wqes 2000 "$seed"; }

a_device_goes_while_its_memory_is_in_use() { guest bar dma-buf-removal 100; }

##############################################################################
# A block for the device

# What QEMU's device tells: each command, and each place of its data.
trace='-trace pci_nvme_write -trace pci_nvme_read -trace pci_nvme_map_addr -trace pci_nvme_map_addr_cmb'

# pair SERVER CLIENT OPTION...: two guests; $run is then the run's folder
pair() {
	local status=0
	RXE_OUT=$(make_run_folder "$RXE_OUT" pair)
	"$root/qemu-scripts/rxe-vm" pair --timeout 600 --server-nvme 16M "${@:3}" \
		--server "$(load_exporter) && $1" --client "$2" || status=$?
	run=$(readlink -f "$RXE_OUT/latest")
	return $status
}

# The places of the data of all writes to the disk, as QEMU tells them: how many, and how many of these are in the
# controller memory buffer.
places() {
	awk '
		/pci_nvme_(read|write) / { write = /pci_nvme_write / }
		write && /pci_nvme_map_addr / { all++ }
		write && /pci_nvme_map_addr_cmb / { buffer++ }
		END { print all + 0, buffer + 0 }' "$run/server.qemu.resets"
}

# stored_from cmb|bounce: $all and $buffer are then those places, and the disk begins with the block
stored_from() {
	dd if=/dev/urandom of="$work/block" bs=4096 count=$((RANDOM % 32 + 1)) status=none
	pair "exec device-memory target \$RXE_ADDR $1" "exec device-memory store \$RXE_PEER_ADDR $work/block" \
		--server-cmb 16M --server-qemu "$trace"
	cmp "$work/block" <(head -c "$(stat -c %s "$work/block")" "$run/server.nvme") ||
		fail "the disk does not begin with the block"
	read -r all buffer < <(places)
	echo "# $(stat -c %s "$work/block") bytes, $all places of data, $buffer of them in the controller memory buffer"
	((all)) || fail "QEMU told of no write"
}

# Not counted are the packets: those of a NIC would not be in the target's memory, either.
a_block_is_stored_without_a_copy_in_the_targets_memory() {
	local round
	for round in 1 2; do
		stored_from cmb
		((all == buffer)) || fail "round $round: the device took $((all - buffer)) of $all places from the target's memory"
	done
}

a_copy_in_the_targets_memory_is_noticed() {
	stored_from bounce
	((!buffer)) || fail "the block came from the target's memory, and $buffer of $all places are told to be elsewhere"
}

##############################################################################
# Data and a flag in the device, which the target polls

produce() {
	# shellcheck disable=SC2016 # for the guest
	pair 'exec device-memory target $RXE_ADDR flag' "exec device-memory produce \$RXE_PEER_ADDR $*" --server-cmb 16M
}

# Of each packet of a QP, if it was not there before: its direction, opcode and length.  Left out is how the target answers:
# its SEND, and the client's acknowledgement of that.
packets() {
	tshark -r "$run/server.pcap" -Y 'infiniband.bth.destqp > 1' -T fields -e ip.src -e infiniband.bth.opcode \
		-e infiniband.bth.psn -e frame.len 2>/dev/null |
		awk '{ to = $1 == "192.0.2.1" ? "client" : "target" }
			$2 != 4 && (to == "client" || $2 != 17) && !seen[to, $2, $3]++ { print to, $2, $4 }'
}

# counted NAME OPCODE...: the client has sent these requests, 50 times
counted() {
	packets >"$work/packets"
	diff <(for _ in {1..50}; do printf '%s\n' "${@:2}"; done) <(awk '$1 == "target" { print $2 }' "$work/packets") ||
		fail "$1: these are not the requests"
	awk -v name="$1" '{ bytes += $3 } END { print "# " name ": " NR / 50 " packets, " bytes / 50 " bytes" }' "$work/packets"
}

# WRITE in four packets, FLUSH, ATOMIC WRITE; and WRITE, READ, another WRITE
data_is_there_when_the_flag_is() {
	produce
	counted 'by FLUSH' 6 7 7 8 28 29
	produce read
	counted 'by READ, in two round trips' 6 7 7 8 12 10
}

a_flag_before_its_data_is_noticed() {
	produce early >"$work/said" 2>&1 && fail "it passes"
	grep "flag .* came before word" "$work/said" || fail "$(<"$work/said")"
}

##############################################################################
# A log in the device

records=40

# append [unflushed]: the server's power fails amid appends, after $records of them; $work/pmr is then what it leaves
append() {
	local size=$((1 << 20))
	truncate -s $size "$work/pmr"
	# shellcheck disable=SC2016 # for the guests
	pair 'echo "link $(cat /sys/class/net/eth0/address)"; echo "device pmr 0 '$size'"
		exec device-memory target $RXE_ADDR pmr' \
		"device-memory append \$RXE_PEER_ADDR $* | { head -n $records; rxe-kill-server; }" \
		--server-pmr "$work/pmr" >"$work/said" 2>&1 || fail "$(<"$work/said")"
	mkdir "$work/recorded"
	ln -s "$run/server.pcap" "$work/recorded/"
	grep -E '^(link|device|region|piece) ' "$run/server.stdout" >"$work/recorded/server.memory"
	truncate -s $size "$work/recorded/server.pmem0.start"
	cp "$work/pmr" "$work/recorded/server.pmem0"
}

# The device keeps what has arrived there, as a platform of the model eadr keeps what is visible.
judge() { "$root/qemu-scripts/crash-states" --states 1000 --model eadr "$work/recorded" -- "$root/build/crash/crash-ring"; }

a_log_in_the_persistent_memory_region_survives_a_power_cut() {
	append
	(($(wc -l <"$run/client.stdout") == records)) || fail "the client has told of other records than $records"
	seq -f '1 %g 0 8' $records >"$work/answered"
	IMAGE=$work/pmr ANSWERED=$work/answered "$root/build/crash/crash-ring" || fail "the region has not all records"
	judge
}

a_missing_flush_of_a_record_is_noticed() {
	local status=0
	append unflushed
	judge || status=$?
	((status == 1)) || fail "crash-states ended with $status, not with 1"
}

cases=(memory_of_a_device)
long_cases=(memory_of_a_memfd memory_of_a_heap random_packets_to_memory_of_a_heap random_packets_to_memory_of_a_device
	random_wqes_with_memory_of_a_device a_device_goes_while_its_memory_is_in_use
	a_block_is_stored_without_a_copy_in_the_targets_memory a_copy_in_the_targets_memory_is_noticed
	data_is_there_when_the_flag_is a_flag_before_its_data_is_noticed
	a_log_in_the_persistent_memory_region_survives_a_power_cut a_missing_flush_of_a_record_is_noticed)
run_suite 1 "$@"
