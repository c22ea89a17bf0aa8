#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016,SC2317 # many words here are for jq or the guests; a trap runs stopped()
#
# bench.sh [OPTION...]: measures what durable remote append costs, by each of the methods in bench-client.c, in
# a pair of guests, and what its single requests cost.
#
#	--kernel IMAGE	measure the same on this kernel, too, in both guests; may be given several times
#	--rounds N	rounds, each of a batch of every case (default 200)
#	--batch N	appends in a batch (default 10)
#	--sizes LIST	of the records, in bytes
#	--regions LIST	for FLUSH of a whole region, in MiB, up to 1024
#	--delays LIST	of the link, one way, in us
#	--busy LIST	programs for each CPU of the target
#	--clients LIST	that append at the same time
#	--cpus N	of each guest, while times are taken (default half of the host's)
#	--seed N	decides the order in a round
#	--continue DIR	go on with a run that was stopped; or only report again
#
# It comes in parts.  Each is a pair of guests, which leaves raw samples in the run's folder: samples/K.KIND.N, of
# kernel K (0 is ours).  Kinds of parts:
#
#	times	some rounds.  The kernels take turns, so that what changes slowly affects all alike.  There is no
#		capture.  By default the guests have no more CPUs than the host, together.
#	cpu	CPU, packets and round trips.  Each guest has one CPU, and the emulator takes 1 ns for each
#		instruction, so that busy time is a number of instructions, which does not depend on other load.
#		(With KVM it is time.)
#	waits	for how long the daemon on a busy target is awake before it runs, with a trace of the scheduler
#	own_cpu	methods p and d, with a second CPU at the target, which the daemon has for itself
#
# Leaves bench.json, bench.txt, headlines.csv, samples.json.xz and the plots.  A method that goes wrong on our kernel
# fails the benchmark; on another it is shown as failed.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
# shellcheck source=qemu-scripts/run-folder.sh
. "$root/qemu-scripts/run-folder.sh"
# shellcheck source=scripts/progress.sh
. "$root/scripts/progress.sh"
# shellcheck source=selftests/bench/report.sh
. "$here/report.sh"
lab=$root/qemu-scripts
PATH=$root/build/selftests:$PATH

images=("$root/build/${BASE:-v6.1}/bzImage")
declare -A option=(
	[rounds]=200
	[batch]=10
	[sizes]="64 256 1024 4096 16384 65536"
	[regions]="2 8 32 128 512 1024"
	[delays]="0 500 1000 2500 5000"
	[busy]="0 1 2 4"
	[clients]="1 4 16"
	[cpus]=$(($(nproc) > 1 ? $(nproc) / 2 : 1))
	[seed]=$((RANDOM * 32768 + RANDOM))
)
folder=

# Of one boot; those for CPU, which varies little; those of own_cpu
boot_rounds=10
cpu_rounds=10
own_cpu_rounds=20
# The daemon's waits are measured with so many busy programs for each CPU.
waits_busy=2

die() { echo "bench: error: $*" >&2; exit 1; }
usage="--kernel, --rounds, --batch, --sizes, --regions, --delays, --busy, --clients, --cpus, --seed, --continue"

parse_command_line() {
	local key all=$#
	while (($#)); do
		key=${1#--}
		(($# > 1)) || die "$1 wants a value, or is no option: $usage"
		case $key in
		kernel) [[ -r $2 ]] || die "--kernel $2: no such file"; images+=("$(readlink -f "$2")") ;;
		continue)
			((all == 2)) || die "--continue takes the options of the run that it continues: give no others"
			[[ -r $2/settings ]] || die "--continue $2: no run of the benchmark, it has no file \`settings\`"
			folder=$(readlink -f "$2") ;;
		*)
			[[ $1 == --* && -n ${option[$key]-} ]] || die "there is no option $1: $usage"
			[[ $2 =~ ^[0-9]+(\ +[0-9]+)*$ ]] || die "$1 $2: not a number"
			[[ $key =~ ^(sizes|regions|delays|busy|clients)$ || $2 != *' '* ]] || die "$1 $2: say one number"
			option[$key]=$2 ;;
		esac
		shift 2
	done
	((option[rounds] > 0 && option[batch] > 0 && option[cpus] > 0)) ||
		die "--rounds ${option[rounds]} --batch ${option[batch]} --cpus ${option[cpus]}: at least one of each"
}

check_input() {
	local program image
	for image in "${images[@]}"; do
		[[ -r $image ]] || die "there is no $image: run \`make kernel\`"
	done
	for program in bench-client bench-target; do
		type -P "$program" >/dev/null || die "there is no $program: run \`make selftests\`"
	done
	for program in jq gnuplot tshark column trace-cmd xz; do
		type -P "$program" >/dev/null || die "there is no $program: run \`make deps\`"
	done
}

# What a run measures.  It may continue only as long as this is the same.
settings() {
	declare -p option images
	git -C "$root" describe --always --dirty 2>/dev/null || true
	cksum "${images[@]}" "$root"/build/selftests/bench-{client,target}
}

# A new folder, or that of a run that was stopped.
find_folder() {
	if [[ -z $folder ]]; then
		folder=$(make_run_folder "${RXE_OUT:-$root/build/out}" bench)
		mkdir "$folder/samples"
		settings >"$folder/settings"
		cut -d ' ' -f 1 /proc/loadavg >"$folder/load"
		date -u +%FT%TZ >"$folder/date"
	else
		# Its own words: option and images.
		eval "$(grep '^declare ' "$folder/settings" | sed 's/^declare -/declare -g/')"
		[[ $(settings) == "$(<"$folder/settings")" ]] || (($(parts_left | wc -l) == 0)) ||
			die "--continue $folder: the project, a kernel or a program is not what it was: start again"
	fi
	export RXE_OUT=$folder
}

##############################################################################
# Parts: KIND KERNEL N

# All of them, in the order in which they are measured.
parts() {
	local -i kernel boot
	for kernel in "${!images[@]}"; do
		echo "cpu $kernel 1"
		echo "waits $kernel 1"
		echo "own_cpu $kernel 1"
	done
	for ((boot = 1; (boot - 1) * boot_rounds < option[rounds]; boot++)); do
		for kernel in "${!images[@]}"; do
			echo "times $kernel $boot"
		done
	done
}

samples_of() { echo "$folder/samples/$2.$1.$3"; }

parts_left() {
	local kind kernel boot
	while read -r kind kernel boot; do
		[[ -e $(samples_of "$kind" "$kernel" "$boot") ]] || echo "$kind $kernel $boot"
	done < <(parts)
}

# For how long, in s, this kind of part runs: as those so far, or a guess.
expected() {
	awk -v kind="$1" -v guess="cpu 60 waits 15 own_cpu 20 times 110" '
		BEGIN { split(guess, list); for (i = 1; i in list; i += 2) if (list[i] == kind) seconds = list[i + 1] }
		$1 == kind { sum += $2; n++ }
		END { printf "%d", n ? sum / n : seconds }' "$folder/seconds"
}

# left: of all parts that are left, in s
left() {
	local kind
	local -i sum=0
	for kind in cpu waits own_cpu times; do
		sum+=$(($(parts_left | grep -c "^$kind " || true) * $(expected $kind)))
	done
	echo $sum
}

# As one says it
minutes() {
	local -i minutes=$((($1 + 59) / 60))
	if ((minutes < 60)); then
		echo "$minutes min"
	else
		printf "%d h %02d min\n" $((minutes / 60)) $((minutes % 60))
	fi
}

# How far the client is in this part, which began at SECONDS=$begin, and whatever else rxe-vm has to say.
show_rounds() {
	local line said="the guests boot"
	local -i all
	all=$(left)
	while true; do
		rewrite "$title: $said; $(minutes $((all > SECONDS - begin ? all - SECONDS + begin : 0))) left"
		IFS= read -r -t 5 line || { (($? > 128)) && continue; break; }
		case $line in
		'round '*) said=$line ;;
		'server: cpus='* | 'server: '*': sched_'*) ;; # the trace
		*) rewrite ""; echo "$line" >&2 ;;
		esac
	done
	rewrite ""
}

# pair KIND KERNEL N RXE-VM-OPTION... -- SERVER CLIENT: the samples of this part, in samples/new
pair() {
	local -a options
	options=(--name "$2.$1.$3" --kernel "${images[$2]}" --timeout 3600)
	shift 3
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	"$lab/rxe-vm" pair "${options[@]}" --server "$2" --client "uname -r | jq -R '{kernel: .}' && exec $3" \
		2>&1 >"$folder/samples/new" | show_rounds
}

measure_times() {
	local -i rounds=$((option[rounds] - ($2 - 1) * boot_rounds))
	pair times "$1" "$2" --no-capture --stop-server --cpus "${option[cpus]}" --mem 2G --server-pmem 1056M -- \
		'exec bench-target $RXE_ADDR /dev/dax0.0 >/dev/null' \
		"bench-client --rounds $((rounds < boot_rounds ? rounds : boot_rounds)) --batch ${option[batch]} \
			--seed $((option[seed] + $2)) --sizes '${option[sizes]}' --regions '${option[regions]}' \
			--delays '${option[delays]}' --busy '${option[busy]}' --clients '${option[clients]}' \$RXE_PEER_ADDR"
}

measure_cpu() {
	local -a icount=()
	local -i rounds=$((option[rounds] < cpu_rounds ? option[rounds] : cpu_rounds))
	[[ $accelerator != tcg ]] || icount=(--qemu "-icount shift=0")
	pair cpu "$1" "$2" --stop-server --cpus 1 --mem 2G --server-pmem 1056M "${icount[@]}" -- \
		'exec bench-target --count-cpu $RXE_ADDR /dev/dax0.0 >/dev/null' \
		"bench-client --count-cpu --rounds $rounds --batch ${option[batch]} --seed ${option[seed]} \
			--sizes '${option[sizes]}' --regions '${option[regions]}' \$RXE_PEER_ADDR"
	packets >"$folder/samples/$1.wire"
}

# What the capture says of the cases in samples/new
packets() {
	local qps=$folder/samples/qps packets=$folder/samples/packets
	jq -r 'select(.set) | "\(.client_qpn) \(.target_qpn) \(.steps | gsub(" "; "") | length) \(.batch)"' "$folder/samples/new" >"$qps"
	tshark -r "$folder/latest/client.pcap" -Y infiniband -T fields -E separator=' ' -e ip.src -e infiniband.bth.destqp \
		-e infiniband.bth.opcode -e infiniband.bth.psn -e frame.len 2>"$packets.log" >"$packets" ||
		die "tshark: $(<"$packets.log")"
	awk -f "$here/packets.awk" "$qps" "$packets"
	rm "$qps" "$packets" "$packets.log"
}

# What the scheduler says, in trace.KERNEL.
measure_waits() {
	local is='comm == "bench-target"' events
	events="-e sched:sched_waking -f '$is' -e sched:sched_switch -f 'prev_$is || next_$is'"
	pair waits "$1" "$2" --no-capture --cpus 1 --server-pmem 64M -- \
		"trace-cmd record -q -o /tmp/trace.dat $events bench-target \$RXE_ADDR /dev/dax0.0 >/dev/null
			trace-cmd report -i /tmp/trace.dat" \
		"bench-client --rounds 1 --batch 100 --methods a --busy $waits_busy \$RXE_PEER_ADDR"
	grep -v '^cpus=' "$folder/latest/server.stdout" >"$folder/trace.$1"
}

measure_own_cpu() {
	local -i rounds=$((option[rounds] < own_cpu_rounds ? option[rounds] : own_cpu_rounds))
	pair own_cpu "$1" "$2" --no-capture --stop-server --cpus 1 --server-cpus 2 --server-pmem 64M -- \
		'exec bench-target --last-cpu $RXE_ADDR /dev/dax0.0 >/dev/null' \
		"bench-client --rounds $rounds --batch ${option[batch]} --seed ${option[seed]} --methods 'p d' \$RXE_PEER_ADDR"
}

measure_all() {
	local kind kernel boot title
	local -i begin nth=0 count
	count=$(parts | wc -l)
	touch "$folder/seconds"
	trap 'stopped' EXIT
	while read -r kind kernel boot; do
		nth=$((count - $(parts_left | wc -l) + 1))
		title="part $nth of $count, $kind, kernel $kernel"
		[[ -t 2 ]] || echo "$title; $(minutes "$(left)") left" >&2
		begin=$SECONDS
		case $kind in
		cpu) measure_cpu "$kernel" "$boot" ;;
		waits) measure_waits "$kernel" "$boot" ;;
		own_cpu) measure_own_cpu "$kernel" "$boot" ;;
		times) measure_times "$kernel" "$boot" ;;
		esac </dev/null
		# Only now it counts.
		mv "$folder/samples/new" "$(samples_of "$kind" "$kernel" "$boot")"
		echo "$kind $((SECONDS - begin))" >>"$folder/seconds"
	done < <(parts_left)
	trap - EXIT
}

# On EXIT, before all is measured
stopped() {
	rewrite ""
	echo "bench: stopped; what was measured is kept.  To go on: make bench CONTINUE=$folder" >&2
}

# One function, so that bash has read all of this file before a long run.
main() {
	parse_command_line "$@"
	find_folder
	check_input
	accelerator=$("$lab/accelerator" "${images[0]}")
	measure_all
	analyse
	report | tee "$folder/bench.txt"
	echo "All that was recorded: $folder"
	jq -e '[.kernels[0].cases[].failure] | all(. == null)' "$folder/bench.json" >/dev/null ||
		die "a method fails on our kernel, see above"
	plot
	exit
}

main "$@"
