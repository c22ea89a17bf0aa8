#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # for the guests' shells
#
# Our kernel and rdma-core with stock ones: Debian's 6.12, and the rdma-core that the series is based on.  Both
# know FLUSH and ATOMIC WRITE, and nobody here wrote them.
#
# No side is told what the other one is.
#
# STOCK_KERNEL=IMAGE: another kernel, its modules beside it as for rxe-vm --kernel.  STOCK_ICRC: how it computes the ICRC of
# FLUSH: legacy, as Linux 6.2 to 7.3 (default); conforming, as the standard says; or both: it sends the one of Linux, and
# takes either, as the module of `make dkms`.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

operations=$((${LONG:-0} ? 20000 : 2000))
# 2 s: the link loses nothing, and what Linux 6.2 to 7.3 sends again is wrong.
ack_timeout=19

# The ICRC of each side's FLUSHes once they are understood
case ${STOCK_ICRC:-legacy} in
legacy) theirs=legacy ours=legacy ;;
conforming) theirs=conforming ours=conforming ;;
both) theirs=legacy ours=conforming ;;
esac
declare -A rdma_core=([our]=$root/$rdma_core_folder [stock]=$root/build/stock/${rdma_core_folder#build/})

prepare() {
	[[ -n ${theirs-} ]] || wrong_usage "STOCK_ICRC=$STOCK_ICRC: say legacy, conforming or both"
}

# between CLIENT-KERNEL CLIENT-RDMA-CORE SERVER-KERNEL SERVER-RDMA-CORE, "our" or "stock" each: sets sides[],
# the options of rxe-vm.
between() {
	local kernel=${STOCK_KERNEL-}
	[[ $kernel ]] || stock_kernel 6.12
	sides=(--client-rdma-core "${rdma_core[$2]}" --server-rdma-core "${rdma_core[$4]}")
	[[ $1 == our ]] || sides+=(--client-kernel "$kernel")
	[[ $3 == our ]] || sides+=(--server-kernel "$kernel")
}

# pair ARG...: an rxe-vm pair of the sides, with their output in $work/client and $work/server.
pair() {
	local status=0
	"$root/qemu-scripts/rxe-vm" pair --name interop --timeout 600 "${sides[@]}" --server-pmem "$work/nvdimm:64M" \
		--client-share "$work" "$@" >"$work/client" 2>"$work/server" || status=$?
	cat "$work/client" "$work/server"
	return $status
}

# verbs_api OPTIONS [ARG...]: all placement types, selectivities and ranges by an MR and a window, ATOMIC
# WRITE, and both pipelined; the target's memory is looked at after each.
verbs_api() {
	local -i passed failed skipped
	pair --client "verbs-api --no-refusals $1 \$RXE_PEER_ADDR" --server '
		exec bash -o pipefail -c "verbs-api-target $RXE_ADDR /dev/dax0.0 | { read -r _ && rxe-ready; }"' "${@:2}"
	read -r passed failed skipped < <("$here/../ktap-count" <"$work/client")
	echo "# $passed of FLUSH and ATOMIC WRITE passed"
	((passed && !failed && !skipped))
}

# mixed_operations KINDS [ARG...]: many at once, compared with a model, and at last all of the target's memory.
mixed_operations() {
	pair --kill-server --server 'exec mixed-ops target $RXE_ADDR /dev/dax0.0' \
		--client "ACK_TIMEOUT=$ack_timeout mixed-ops initiator \$RXE_PEER_ADDR $operations $seed $work/model $1" "${@:2}"
	"$root/qemu-scripts/rxe-vm" run --name interop --pmem "$work/nvdimm" -- mixed-ops compare /dev/dax0.0 "$work/model"
}

##############################################################################
# Our initiator, a stock target

our_flush_and_atomic_write_at_a_stock_target() {
	between our our stock stock
	verbs_api ""
}

all_our_operations_mixed_at_a_stock_target() {
	between our our stock stock
	mixed_operations ""
}

# flushes PCAP: "SECONDS OPCODE ICRC" of each FLUSH in it and of the first answer to one, in order.
flushes() {
	paste -d ' ' <(tshark -r "$1" -Y "$2" -T fields -e frame.time_relative -e infiniband.bth.opcode 2>/dev/null) \
		<(tshark -r "$1" -Y "$2" -F pcap -w - 2>/dev/null >"$work/flush.pcap" && "$root/build/selftests/icrc" pcap "$work/flush.pcap" | awk '{ print $NF }')
}

# count_flushes PCAP: sets conforming and legacy, how many there are of each
count_flushes() {
	flushes "$1" 'infiniband.bth.opcode == 0x1c' >"$work/flushes"
	conforming=$(grep -c '28 conforming$' "$work/flushes") || true
	legacy=$(grep -c '28 legacy$' "$work/flushes") || true
	echo "# FLUSHes with the conforming ICRC: $conforming, with that of Linux 6.2 to 7.3: $legacy"
}

# A FLUSH with nothing after it: a time-out tells that the peer does not understand it, on 6.12 and 7.3 the second
# one.  Then the QP knows.
the_first_flush_takes_one_time_out_more() {
	local first answer
	local -i conforming legacy tries=2
	[[ ${BASE:-v6.1} != v6.1 ]] || tries=1
	between our our stock stock
	RXE_OUT=$work pair --server 'first-flush target $RXE_ADDR' --client 'first-flush initiator $RXE_PEER_ADDR'
	count_flushes "$work/latest/client.pcap"
	flushes "$work/latest/client.pcap" 'infiniband.bth.opcode == 0x1c || infiniband.bth.opcode == 0x10' >"$work/flushes"
	sed 's/^/# /' "$work/flushes"
	first=$(awk '$2 == 28 { print $1; exit }' "$work/flushes")
	answer=$(awk '$2 == 16 { print $1; exit }' "$work/flushes")
	echo "# the first FLUSH was answered after $(awk "BEGIN { print $answer - $first }") s"
	if [[ $ours == conforming ]]; then
		((conforming == 1 && !legacy)) || fail "the peer takes it conforming"
	else
		((conforming == tries && legacy >= 1)) || fail "the peer wants it as Linux 6.2 to 7.3 has it"
	fi
}

# With requests behind it, whose NAK says that it is missing, it takes no time-out: a time-out of 2 s and 2000
# operations would show.  Most FLUSHes go out right at once.
few_flushes_to_a_stock_target_are_sent_twice() {
	local -i conforming legacy
	between our our stock stock
	RXE_OUT=$work pair --kill-server --server 'exec mixed-ops target $RXE_ADDR /dev/dax0.0' \
		--client "ACK_TIMEOUT=$ack_timeout mixed-ops initiator \$RXE_PEER_ADDR $operations $seed $work/model"
	count_flushes "$work/latest/client.pcap"
	((conforming + legacy && ${!ours} >= (conforming + legacy) * 9 / 10))
}

##############################################################################
# A stock initiator, our target

stock_flush_and_atomic_write_at_our_target() {
	local -i conforming legacy
	between stock stock our our
	RXE_OUT=$work verbs_api --no-post-send
	count_flushes "$work/latest/server.pcap"
	((${!theirs} && ${!theirs} == conforming + legacy)) || fail "the peer does not send what STOCK_ICRC says"
}

all_stock_operations_mixed_at_our_target() {
	between stock stock our our
	mixed_operations ""
}

##############################################################################
# Half stock, at both ends

our_kernel_with_stock_rdma_core() {
	between our stock our stock
	verbs_api --no-post-send
	mixed_operations ""
}

a_stock_kernel_with_our_rdma_core() {
	between stock our stock our
	verbs_api ""
	mixed_operations ""
}

cases=(
	our_flush_and_atomic_write_at_a_stock_target
	all_our_operations_mixed_at_a_stock_target
	the_first_flush_takes_one_time_out_more
	few_flushes_to_a_stock_target_are_sent_twice
	stock_flush_and_atomic_write_at_our_target
	all_stock_operations_mixed_at_our_target
	our_kernel_with_stock_rdma_core
	a_stock_kernel_with_our_rdma_core
)

run_suite 1 "$@"
