#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Two guests on a bad link.  An nftables rule drops one response.  netem drops, duplicates and reorders
# packets, both ways, under all operations mixed (mixed-ops.c).  Everything has to complete with success,
# and after a power cut the target's memory has to be right.
#
# With LONG=1 there are 50,000 mixed operations.  SEED=N replays them, but not what happens to their packets: netem has
# other numbers each time.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

operations=$((${LONG:-0} ? 50000 : 2000))

# BTH opcodes; UDP 8, BTH 12, AETH 4, ICRC 4: the answer to FLUSH and ATOMIC WRITE
response=16 flush=28 atomic_write=29
response_length=28

# pair SERVER CLIENT: the server's power is cut when the client has ended.
pair() {
	"$root/qemu-scripts/rxe-vm" pair --name loss --timeout 1800 --kill-server \
		--server-pmem "$work/nvdimm:64M" --client-share "$work" --server "$1" --client "$2"
}

# after_power_cut COMMAND: in the server's guest
after_power_cut() {
	"$root/qemu-scripts/rxe-vm" run --name loss --pmem "$work/nvdimm" -- sh -c "$1"
}

##############################################################################
# One lost response

# The requests with OPCODE of the last pair, one line of all their bytes each, but for the ICRC: that
# covers the identification of the IP packet, too.
requests() {
	tshark -r "$RXE_OUT/latest/client.pcap" -Y "infiniband.bth.opcode == $1" -T fields -e udp.payload \
		2>"$work/tshark.log" | sed 's/.\{8\}$//' || fail "tshark: $(<"$work/tshark.log")"
}

# lose_response N OPCODE: the N-th answer (from 0) to FLUSH or ATOMIC WRITE never reaches the initiator,
# whose request was OPCODE.  A log is made and three records appended: WRITE, FLUSH, ATOMIC WRITE, FLUSH
# each.  The request is sent again, byte by byte the same, and all goes well.
lose_response() {
	local rule="udp dport 4791 udp length $response_length @th,64,8 $response numgen inc mod 1000000 $1 counter drop"
	local said
	seq 3 >"$work/text"
	RXE_OUT=$(make_run_folder "$RXE_OUT" lost-response)
	# shellcheck disable=SC2016 # for the guests
	said=$(pair 'exec remote-log-target $RXE_ADDR /dev/dax0.0' "
		nft add table netdev lossy &&
		nft add chain netdev lossy in '{ type filter hook ingress device eth0 priority 0; }' &&
		nft add rule netdev lossy in $rule &&
		remote-log-append \$RXE_PEER_ADDR $work/text 3 $work/acknowledged &&
		nft list chain netdev lossy in")
	echo "$said"
	[[ $said == *"counter packets 1 "* ]] || fail "not one packet was dropped"
	[[ $(<"$work/acknowledged") == 3 ]] || fail "$(<"$work/acknowledged") records acknowledged, not 3"
	[[ -n $(requests "$2" | sort | uniq -d) ]] || fail "no request was sent again as it was"
	after_power_cut "remote-log-check /dev/dax0.0 $work/text 3"
}

a_lost_response_to_flush_is_healed() { lose_response 0 $flush; }
a_lost_response_to_atomic_write_is_healed() { lose_response 1 $atomic_write; }

##############################################################################
# Chance

the_comparison_notices_a_changed_byte() {
	head -c 524288 /dev/urandom >"$work/model"
	# What it compares begins there.
	{ head -c 2040 /dev/zero && cat "$work/model"; } >"$work/memory"
	mixed-ops compare "$work/memory" "$work/model"
	printf 'x%.0s' {1..9} | dd of="$work/memory" bs=1 seek=526319 conv=notrunc status=none
	mixed-ops compare "$work/memory" "$work/model" && fail "it does not"
	true
}

mixed_operations_outlive_loss_duplication_and_reordering() {
	local netem="tc qdisc add dev eth0 root netem delay 1ms loss 2% duplicate 2% reorder 5%" said
	local -i dropped again
	said=$(pair "$netem && exec mixed-ops target \$RXE_ADDR /dev/dax0.0" "
		$netem &&
		mixed-ops initiator \$RXE_PEER_ADDR $operations $seed $work/model &&
		tc -s qdisc show dev eth0 &&
		sed 's/^/again /' /sys/class/infiniband/rxe0/ports/1/hw_counters/completer_retry_err")
	echo "$said"
	# Else nothing was shown.
	dropped=$(sed -n 's/.*(dropped \([0-9]*\),.*/\1/p' <<<"$said")
	again=$(sed -n 's/^again //p' <<<"$said")
	echo "# of what the initiator sent, $dropped packets were lost; it began again $again times"
	((dropped >= operations / 100 && again)) || fail "the link was too good"
	after_power_cut "mixed-ops compare /dev/dax0.0 $work/model"
}

cases=(
	the_comparison_notices_a_changed_byte
	a_lost_response_to_flush_is_healed
	a_lost_response_to_atomic_write_is_healed
	mixed_operations_outlive_loss_duplication_and_reordering
)

run_suite 1 "$@"
