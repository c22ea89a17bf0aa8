#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Is what a persistent FLUSH acknowledged out of all caches?  QEMU has none: cut its power, and nothing is
# lost that a real machine would lose.  So the target's guest loads an oracle, write_back_oracle.c, that
# keeps a copy of the persistent memory as it would be without caches, and compares them at each
# acknowledgement, under all operations mixed (mixed-ops.c); and the remote log recovers from this copy.
#
# With LONG=1 there are 20,000 mixed operations and 30 power cuts.  SEED=N replays them.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
# shellcheck source=selftests/ktap.sh
. "$here/../ktap.sh"
# shellcheck source=selftests/examples/log-guests.sh
. "$here/../examples/log-guests.sh"
# shellcheck source=qemu-scripts/variant.sh
. "$root/qemu-scripts/variant.sh"
PATH=$root/build/selftests:$PATH

operations=$((${LONG:-0} ? 20000 : 1500))
power_cuts=$((${LONG:-0} ? 30 : 2))
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}

# The SFENCE instructions that the driver executes: a symbol of the same object that no other has, and how far behind
# it.  (Names of static functions may be others', too: printk has a copy_data().)
drains() {
	local object at symbol drain
	for object in "$root/build/${BASE:-v6.1}$variant"/obj/drivers/infiniband/sw/rxe/rxe_*.o; do
		read -r at symbol < <(objdump -t "$object" |
			awk '$2 == "g" && $4 == ".text" && !seen { print $1, $6; seen = 1 }') || continue
		objdump -d -j .text --no-show-raw-insn "$object" | sed -n 's/^ *\([0-9a-f]*\):[[:blank:]]*sfence.*/\1/p' |
			while read -r drain; do
				echo "$symbol $((0x$drain - 0x$at))"
			done
	done
}

# What a guest makes of them: addresses.  (The arithmetic of sh ends at 2^63.  Of a module all symbols may be local.)
# shellcheck disable=SC2016 # for its bash
addresses='while read -r symbol behind; do
		at=$(sed -n "s/ \(T $symbol\|[Tt] $symbol[[:blank:]]\[rdma_rxe\]\)$//p" /proc/kallsyms)
		[ "$at" ]
		printf "0x%x\n" $((0x$at + behind))
	done | paste -sd ,'

# pair TARGET INITIATOR [PARAMETER]: the oracle, with this parameter, sees all that TARGET gets; its report
# and the media are left in $work.  The shell, told to stop, does not wait for TARGET to end: cut off from
# the network, that takes it half a minute.
pair() {
	local dax=/sys/bus/dax/devices/dax0.0 oracle=/sys/kernel/debug/write_back_oracle
	"$root/qemu-scripts/rxe-vm" pair --name write-back --timeout 1800 --stop-server \
		--server-pmem "$work/nvdimm:32M" --server-share "$work" --client-share "$work" --server "
			trap : TERM
			insmod $module start=\$(cat $dax/resource) size=\$(cat $dax/size) drains=\$(bash -euc '$addresses' <$work/drains) ${3-} || exit
			$1 &
			wait
			cp $oracle/report $oracle/media $work" --client "$2"
}

# mixed_operations [BESIDE]: what the initiator did is in $said.
mixed_operations() {
	said=$(pair "${1-} mixed-ops target \$RXE_ADDR /dev/dax0.0" \
		"mixed-ops initiator \$RXE_PEER_ADDR $operations $seed $work/model")
	echo "$said"
	cat "$work/report"
}

reported() { sed -n "s/^$1 //p" "$work/report"; }

# The oracle has seen all, and each FLUSH for which the initiator was told that its data are persistent.
all_was_checked() {
	local persistent
	persistent=$(sed -n 's/.*(\([0-9]*\) persistent).*/\1/p' <<<"$said")
	[[ $(reported missed) == 0 ]] || fail "the oracle missed something"
	((persistent)) || fail "nothing was to be checked"
	[[ $(reported checked) == "$persistent" ]] || fail "$(reported checked) of $persistent FLUSHes were checked"
}

nothing_was_lost() {
	all_was_checked
	[[ $(reported lost) == 0 ]] ||
		fail "$(reported lost) FLUSHes were acknowledged too early, the first lacks byte $(reported first_lost)"
}

no_acknowledged_store_is_left_in_a_cache() {
	mixed_operations
	nothing_was_lost
}

# Another CPU takes the next packet, again and again.
nor_in_that_of_another_cpu() {
	local rps=/sys/class/net/eth0/queues/rx-0/rps_cpus
	mixed_operations "while echo 1 >$rps && echo 2 >$rps; do :; done &"
	nothing_was_lost
}

# When it starts, the target clears its memory with plain stores.  On an NVDIMM that was used before this
# changes something, but nobody writes it back.
a_store_that_is_not_written_back_is_noticed() {
	mixed_operations
	seed=$((seed + 1)) mixed_operations
	all_was_checked
	(($(reported lost))) || fail "it is not"
}

# cut_power N: when the target has got N packets.
cut_power() {
	local status=0 found
	rm -f "$work/nvdimm"
	pair "$serve_log" "$(append_lines "$work/text" 2000)" "cut_at=$1" || status=$?
	[[ $status == 1 && $(reported power) == off && $(reported missed) == 0 ]] ||
		fail "the power was not cut as it should (status $status): $(<"$work/report")"
	found=$(remote-log-check "$work/media" "$work/text" "$(acknowledged)" 2>&1) || fail "$found"
	echo "# the power went with packet $1, SEED=$seed: $found"
	(($(acknowledged))) || fail "no record was acknowledged"
}

the_log_outlives_the_loss_of_all_caches() {
	local -i i
	seq -f "line %06g" 2000 >"$work/text"
	RANDOM=$seed
	for ((i = 0; i < power_cuts; i++)); do
		cut_power $((100 + RANDOM % 7000))
	done
}

# shellcheck disable=SC2034 # for run_suite
cases=(
	no_acknowledged_store_is_left_in_a_cache
	nor_in_that_of_another_cpu
	a_store_that_is_not_written_back_is_noticed
	the_log_outlives_the_loss_of_all_caches
)

module=$("$here/../modules/kernel-module" write_back_oracle)
work=$(mktemp -d -p "$RXE_OUT")
trap 'rm -r "$work"' EXIT
drains >"$work/drains"
run_suite 1 "$@"
