#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Has everything that a persistent FLUSH acknowledged left the caches?  QEMU has no caches: cut its power,
# and nothing is lost that a real machine would lose.  So the target's guest loads an oracle,
# write_back_oracle.c.  It keeps a copy of the persistent memory as it would be without caches, and
# compares the two at each acknowledgement:
#
#  - of stores of every shape by every path into the memory, one at a time, in one guest (store-paths.c);
#  - under all operations mixed (mixed-ops.c), by IPv4 and IPv6, of one initiator and of several at once.
#
# The oracle also makes crash images of the remote log, at random moments: some of what is in caches has been
# written back by then, and some has not.  The log's checker has to accept each image.
#
# With LONG=1 there are 20,000 mixed operations and 1000 images in place of 100.  SEED=N replays operations, and what
# is left to chance in an image; the moments are up to the machine.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/examples/log-guests.sh
. "$here/../examples/log-guests.sh"

operations=$((${LONG:-0} ? 20000 : 1500))
initiators=4
# Images in a run, and runs.
images=100
runs=$((${LONG:-0} ? 10 : 1))

prepare() {
	[[ -z ${KERNEL-} ]] || skip_all "the oracle reads the objects of a kernel of this project"
	in_driver pmem_wmb ||
		skip_all "the oracle follows stores through the cache, which this driver does not make"
	drains >"$work/drains"
}

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

# What a guest makes of them: addresses.  (The arithmetic of sh ends at 2^63.)  What a module does not export has a
# small letter.
# shellcheck disable=SC2016 # for its bash
addresses='while read -r symbol behind; do
		at=$(sed -n "s/ \(T $symbol\|t $symbol[[:blank:]]\[rdma_rxe\]\)$//p" /proc/kallsyms)
		printf "0x%x\n" $((0x${at:?of $symbol is not in /proc/kallsyms} + behind))
	done | paste -sd ,'
dax=/sys/bus/dax/devices/dax0.0
results=/sys/kernel/debug/write_back_oracle

# load_oracle [PARAMETER...]: the command for a guest
load_oracle() {
	echo "insmod $("$here/../modules/kernel-module" write_back_oracle) start=\$(cat $dax/resource) size=\$(cat $dax/size)" \
		"drains=\$(bash -euc '$addresses' <$work/drains) $*"
}

# pair TARGET INITIATOR [PARAMETER...]: the oracle, with these parameters, sees all that TARGET gets; its results are
# left in $work.  The shell, told to stop, does not wait for TARGET to end: cut off from the network, that takes it
# half a minute.
pair() {
	local oracle
	oracle=$(load_oracle "${@:3}")
	"$root/qemu-scripts/rxe-vm" pair --name write-back --timeout 1800 --stop-server \
		--server-pmem 32M --server-share "$work" --client-share "$work" --server "
			trap : TERM
			$oracle || exit
			$1 &
			wait
			cd $results && cp report images moments answered $work" --client "$2"
}

reported() { sed -n "s/^$1 //p" "$work/report"; }

##############################################################################
# One store at a time

# store-paths.c has the tables.
stores_of_every_shape_by_every_path_leave_the_caches() {
	local oracle target offset size
	oracle=$(load_oracle)
	target=$("$here/../modules/kernel-module" kernel_target)
	read -r offset size < <(store-paths --region)
	nested "$root/qemu-scripts/rxe-vm" run --name store-paths --pmem 32M -- sh -c "
		$oracle || exit
		insmod $target start=\$((\$(cat $dax/resource) + $offset)) size=$size || exit
		exec store-paths /dev/dax0.0"
}

##############################################################################
# All operations mixed

# mixed_operations [BESIDE]: of one initiator, beside what the target does, too
mixed_operations() {
	initiate "${1-} mixed-ops target \$RXE_ADDR /dev/dax0.0" \
		"mixed-ops initiator \$RXE_PEER_ADDR $operations $seed $work/model"
}

# initiate TARGET INITIATORS: nothing is lost of what the initiators do.
initiate() {
	local said persistent
	said=$(pair "$1" "$2")
	echo "$said"
	cat "$work/report"
	persistent=$(sed -n 's/.*(\([0-9]*\) persistent).*/\1/p' <<<"$said" | paste -sd +)
	[[ $(reported missed) == 0 ]] || fail "the oracle missed something"
	((persistent)) || fail "nothing was to be checked"
	# Each FLUSH for which an initiator was told that its data are persistent.
	(($(reported checked) == persistent)) || fail "$(reported checked) of $((persistent)) FLUSHes were checked"
	[[ $(reported lost) == 0 ]] ||
		fail "$(reported lost) FLUSHes were acknowledged too early, the first lacks byte $(reported first_lost)"
}

no_acknowledged_store_is_left_in_a_cache() { mixed_operations; }

# Another CPU takes the next packet, again and again.
nor_in_that_of_another_cpu() {
	local rps=/sys/class/net/eth0/queues/rx-0/rps_cpus
	mixed_operations "while echo 1 >$rps && echo 2 >$rps; do :; done &"
}

# The addresses are there when the device knows them as GIDs.
nor_over_ipv6() {
	local gids='until grep -qs ^fd00: /sys/class/infiniband/rxe0/ports/1/gids/*; do :; done'
	initiate "ip address add fd00::1/64 dev eth0 && $gids && mixed-ops target fd00::1 /dev/dax0.0" \
		"ip address add fd00::2/64 dev eth0 && $gids &&
			mixed-ops initiator fd00::1 $operations $seed $work/model"
}

# Their packets are handled by the CPUs at the same time: the hash of a connection's addresses says by which.
nor_of_several_connections() {
	local -i i
	local all=
	for ((i = 0; i < initiators; i++)); do
		all+="mixed-ops initiator \$RXE_PEER_ADDR $((operations / initiators)) $((seed + i)) $work/model$i & pids=\"\$pids \$!\"
			"
	done
	initiate "echo 3 >/sys/class/net/eth0/queues/rx-0/rps_cpus; mixed-ops target \$RXE_ADDR /dev/dax0.0 $initiators" "
		$all
		for pid in \$pids; do wait \$pid || exit; done"
}

##############################################################################
# Crash images

# Lines of some bytes up to some packets.
text() { awk 'BEGIN { for (n = 1; n <= 300; n++) printf "line %d%*s\n", n, n * 7919 % (n % 8 ? 300 : 3000), "." }'; }

# crash_images SEED: one run of the log, and all images of it
crash_images() {
	local -i i image_size=$((256 << 10))
	local image=$work/image answered found
	pair "$serve_log" "$(append_lines "$work/text" 300)" \
		images=$images image_size=$image_size period=6 "seed=$1" >"$work/said" || fail "$(<"$work/said")"
	[[ $(reported missed) == 0 && $(reported lost) == 0 ]] || fail "$(<"$work/report")"
	[[ $(reported images) == "$images" ]] || fail "only $(reported images) images were made"
	for ((i = 0; i < images; i++)); do
		answered=$(sed -n "$((i + 1))p" "$work/moments")
		head -n "$answered" "$work/answered" >"$work/before"
		dd if="$work/images" of="$image" bs=$image_size skip=$i count=1 status=none
		found=$(IMAGE=$image ANSWERED=$work/before remote-log-survives "$work/text" 2>&1) ||
			fail "SEED=$1, image $i, after $answered answers: $found"
	done
	echo "# SEED=$1: $images images, the last after $answered FLUSHes: $found"
}

the_log_bears_every_crash() {
	local -i i
	text >"$work/text"
	for ((i = 0; i < runs; i++)); do
		crash_images $((seed + i))
	done
}

cases=(
	stores_of_every_shape_by_every_path_leave_the_caches
	no_acknowledged_store_is_left_in_a_cache
	nor_of_several_connections
	the_log_bears_every_crash
)
long_cases=(
	nor_in_that_of_another_cpu
	nor_over_ipv6
)

run_suite 1 "$@"
