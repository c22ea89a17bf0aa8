#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # many words here are for jq, awk or the guests
#
# bench.sh [OPTION...]: measures what durable remote append costs, by each of the methods in bench-client.c, in
# a pair of guests, and what its single requests cost.
#
#	--kernel IMAGE	measure the same on this kernel, too, in both guests
#	--rounds N	rounds, each of a batch of every method and size (default 20)
#	--batch N	appends in a batch (default 10)
#	--sizes LIST	of the records, in bytes
#	--regions LIST	for FLUSH of a whole region, in MiB, up to 1024
#	--seed N	decides the order in a round
#
# Each kernel has two pairs of guests.  One has two CPUs in each guest, and gives the times.  The other
# measures CPU: each guest has one CPU, and the emulator takes 1 ns for each instruction, so that busy time
# is a number of instructions, which does not depend on other load.  (With KVM it is time.)
#
# Leaves bench.json, bench.txt and the plots in the run's folder.  A method that goes wrong on our kernel
# fails the benchmark; on another it is shown as failed.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
# shellcheck source=qemu-scripts/run-folder.sh
. "$root/qemu-scripts/run-folder.sh"
# shellcheck source=scripts/progress.sh
. "$root/scripts/progress.sh"
lab=$root/qemu-scripts
PATH=$root/build/selftests:$PATH

rounds=20
batch=10
sizes="64 256 1024 4096 16384 65536"
regions="2 8 32 128 512 1024"
seed=$((RANDOM * 32768 + RANDOM))
images=("$root/build/${BASE:-v6.1}/bzImage")

# CPU is counted by less: it varies little.
cpu_rounds() { echo $(((rounds + 4) / 5)); }

die() { echo "bench: error: $*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*" >&2; }

parse_command_line() {
	while (($#)); do
		(($# > 1)) || die "$1 wants a value, or is no option: --kernel, --rounds, --batch, --sizes, --regions, --seed"
		case $1 in
		--kernel) [[ -r $2 ]] || die "--kernel $2: no such file"; images[1]=$2 ;;
		--rounds) rounds=$2 ;;
		--batch) batch=$2 ;;
		--sizes) sizes=$2 ;;
		--regions) regions=$2 ;;
		--seed) seed=$2 ;;
		*) die "there is no option $1: --kernel, --rounds, --batch, --sizes, --regions, --seed" ;;
		esac
		[[ $1 == --kernel || $2 =~ ^[1-9][0-9]*(\ +[1-9][0-9]*)*$ ]] || die "$1 $2: not a number"
		shift 2
	done
}

check_input() {
	local program
	[[ -r ${images[0]} ]] || die "there is no ${images[0]}: run \`make kernel\`"
	for program in bench-client bench-target; do
		type -P "$program" >/dev/null || die "there is no $program: run \`make selftests\`"
	done
	for program in jq gnuplot tshark column; do
		type -P "$program" >/dev/null || die "there is no $program: run \`make deps\`"
	done
}

##############################################################################
# Measuring

# How far the client is, and whatever else rxe-vm has to say.
show_rounds() {
	local line
	rewrite "two guests boot"
	while IFS= read -r line; do
		case $line in
		'round '*) rewrite "$line" ;;
		*) rewrite ""; echo "$line" >&2 ;;
		esac
	done
	rewrite ""
}

# pair NAME IMAGE ROUNDS [OPTION...]: what bench-client says, in NAME.rows.  1 GiB, and what describes it.
pair() {
	local name=$1 image=$2 rounds=$3
	"$lab/rxe-vm" pair --name "$name" --kernel "$image" --timeout 3600 --stop-server --mem 2G \
		--server-pmem 1056M "${@:4}" --server 'exec bench-target $RXE_ADDR /dev/dax0.0 >/dev/null' \
		--client "uname -r | jq -R '{kernel: .}' && exec bench-client \$RXE_PEER_ADDR $rounds $batch $seed '$sizes' '$regions'" \
		2>&1 >"$folder/$name.rows" | show_rounds
}

# An emulated CPU counts.
count_cpu() {
	local icount=()
	[[ $accelerator != tcg ]] || icount=(--qemu "-icount shift=0")
	pair "$1" "$2" "$(cpu_rounds)" --cpus 1 "${icount[@]}"
}

# packets NAME: what the client's capture of this pair says of each case, in their order, as JSON.  What
# was sent again counts only as that.  An append has one round trip, and one more for each request that
# left only after the one before it was answered; of all appends the fewest, for chance only adds to them.
packets() {
	jq -r 'select(.set) | "\(.client_qpn) \(.target_qpn) \(.steps | gsub(" "; "") | length)"' "$folder/$1.rows" >"$folder/qps"
	tshark -r "$(echo "$folder"/*-"$1"/client.pcap)" -Y infiniband -T fields -E separator=' ' -e ip.src \
		-e infiniband.bth.destqp -e infiniband.bth.opcode -e infiniband.bth.psn -e frame.len \
		2>"$folder/tshark.log" >"$folder/packets" || die "tshark: $(<"$folder/tshark.log")"
	awk -v requests="0 4 6 10 12 28 29" -v answers="13 14 15 16 17" '
		BEGIN {
			split(requests, list); for (i in list) is_request[list[i]]
			split(answers, list); for (i in list) is_answer[list[i]]
		}
		NR == FNR {
			case_of["192.0.2.1", $1] = case_of["192.0.2.2", $2] = cases = FNR
			of_append[FNR] = $3
			fewest[FNR] = $3
			next
		}
		!(($1, $2) in case_of) { next }
		{ it = case_of[$1, $2] }
		($1, it, $3, $4) in seen { again[it]++; next }
		{ seen[$1, it, $3, $4]; packets[it]++; bytes[it] += $5 }
		$1 == "192.0.2.1" && $3 in is_answer { answered[it, $4] }
		$1 == "192.0.2.2" && $3 in is_request {
			nth = nr_requests[it]++ % of_append[it]
			trips[it] = nth ? trips[it] + ((it, $4 - 1) in answered) : 1
			if (nth == of_append[it] - 1 && trips[it] < fewest[it])
				fewest[it] = trips[it]
		}
		END {
			for (it = 1; it <= cases; it++)
				printf "{\"packets\": %d, \"bytes\": %d, \"again\": %d, \"round_trips\": %d}\n", packets[it],
					bytes[it], again[it], fewest[it]
		}' "$folder/qps" "$folder/packets"
}

# clock NAME: what the client of this pair took for the frequency of its clock.  On a busy machine an emulated
# guest may be far off; that is the same for all that it measures, but times of two guests compare only if
# they agree.
clock() {
	sed -n 's/.*tsc: Detected \([0-9.]*\) MHz.*/\1/p' "$(echo "$folder"/*-"$1"/client.console)" | tail -n 1 | grep . || echo null
}

# measure NAME IMAGE: NAME.json
measure() {
	local name=$1
	step "$name: times; $rounds rounds of $batch appends by each method, of each size"
	pair "$name" "$2" "$rounds"
	step "$name: CPU; $(cpu_rounds) rounds"
	count_cpu "$name-cpu" "$2"
	packets "$name" >"$folder/wire.rows"
	jq -n --slurpfile time "$folder/$name.rows" --slurpfile cpu "$folder/$name-cpu.rows" \
		--slurpfile wire "$folder/wire.rows" --argjson clock "$(clock "$name")" '
		{ kernel: $time[0].kernel, clock_mhz: $clock, cases: [range($wire | length) as $i | $wire[$i] as $wire | $cpu[$i + 1] as $cpu |
			$time[$i + 1] | .appends as $n | del(.client_qpn, .target_qpn) +
			if .failure // $cpu.failure then { failure: (.failure // $cpu.failure) } else {
				packets: ($wire.packets / $n), bytes: ($wire.bytes / $n), round_trips: $wire.round_trips,
				sent_again: $wire.again, client_cpu: $cpu.client_cpu, target_cpu: $cpu.target_cpu
			} end] }' >"$folder/$name.json"
}

# All that is needed to judge the figures, and to have them again.
test_info() {
	jq -n --arg date "$(date -u +%FT%TZ)" --arg accelerator "$accelerator" --arg load "$load" \
		--arg revision "$(git -C "$root" describe --always --dirty 2>/dev/null || true)" \
		--arg rdma_core "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$root/build/rdma-core/src/CMakeLists.txt")" \
		--arg qemu "$("${QEMU:-qemu-system-x86_64}" --version | head -n 1)" \
		--arg cpu "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" --argjson cpus "$(nproc)" \
		--argjson rounds "$rounds" --argjson cpu_rounds "$(cpu_rounds)" --argjson batch "$batch" \
		--argjson seed "$seed" --argjson seconds "$SECONDS" '
		{ date: $date, revision: $revision, rdma_core: $rdma_core, qemu: $qemu, accelerator: $accelerator,
		  note: (if $accelerator == "tcg" then "emulated: compare ratios only" else "" end),
		  host_cpu: $cpu, host_cpus: $cpus, host_load_before_and_after: $load, guest_cpus: 2, path_mtu: 1024,
		  time_unit: "us", cpu_unit: (if $accelerator == "tcg" then "instructions" else "ns" end),
		  rounds: $rounds, cpu_rounds: $cpu_rounds, batch: $batch, seed: $seed, seconds: $seconds }'
}

##############################################################################
# Reporting

# rows FILTER: what the jq filter makes of the kernel $kernel, as lines of words between tabs.  It knows:
words='
	def fixed: (. * 100 | round) as $n | "\($n / 100 | floor).\($n % 100 + 100 | tostring | .[1:])";
	def over($d): if . and $d then . / $d | fixed else "failed" end;
	def whole: if . then round else "failed" end;
	def cases($set): [.kernels[$kernel].cases[] | select(.set == $set)];
	def columns: .t_min, .t_max, .t_typical, .t_avg, .t_stdev, .percentile_99, ."percentile_99.9" | whole;
'
rows() { jq -r --argjson kernel "$kernel" "$words $1 | @tsv" "$folder/bench.json"; }
table() { rows "$1" | column -t -s $'\t' | sed 's/^/  /; s/ *$//'; }

ratios() {
	echo "How many times what d takes (d: all four requests in one post, one append at a time)"
	table '["bytes", "method", "latency", "time/append", "packets", "bytes", "client CPU", "target CPU", "round trips"],
		(cases("append") | group_by(.size)[] | (.[] | select(.method == "d")) as $d | .[] | . as $it |
			[.size, .method, (.t_typical | over($d.t_typical)), ($d.per_second | over($it.per_second)),
			 (.packets | over($d.packets)), (.bytes | over($d.bytes)), (.client_cpu | over($d.client_cpu)),
			 (.target_cpu | over($d.target_cpu)), (.round_trips | over($d.round_trips))])'
}

appends() {
	echo "Durable append: latency in us; packets, bytes, CPU in $(jq -r .test_info.cpu_unit "$folder/bench.json") and round trips per append"
	table '["bytes", "method", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%", "per s", "packets",
		"bytes", "client CPU", "target CPU", "round trips"],
		(cases("append") | sort_by(.size)[] | [.size, .method] + if .failure then ["failed"] else
			[columns, (.per_second | whole), (.packets | fixed), (.bytes | fixed), .client_cpu, .target_cpu,
			 .round_trips] end)'
}

requests() {
	echo "Single requests of 8 bytes: latency in us, also as times that of READ; and, many at once, messages per second"
	table '(cases("rate") | map({key: .method, value: .messages_per_second}) | from_entries) as $rate |
		(cases("latency") | map({key: .method, value: .t_typical}) | from_entries) as $latency |
		["request", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%", "READ = 1", "client CPU",
		 "target CPU", "messages per s", "READ = 1"],
		(cases("latency")[] | [.title] + if .failure then ["failed"] else
			[columns, (.t_typical | over($latency.read)), .client_cpu, .target_cpu, ($rate[.method] | whole),
			 ($rate[.method] | over($rate.read))] end)'
}

regions() {
	echo "FLUSH of a whole region: latency in us"
	table '["MiB", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%", "target CPU"],
		(cases("region")[] | [.region / 1048576] + if .failure then ["failed"] else
			[columns, .target_cpu] end)'
}

failures() {
	rows '.kernels[$kernel].cases[] | select(.failure) |
		["failed: \(.set) \(.method), \(.size) bytes, region of \(.region / 1048576) MiB: \(.failure)"]'
}

beside() {
	echo "How many times what it takes on our kernel"
	table '(.kernels | (.[$kernel].clock_mhz // 0) / (.[0].clock_mhz // 1) - 1 | fabs < 0.01) as $one_clock |
		["", "method", "bytes", "region, MiB", "latency", "client CPU", "target CPU"],
		([.kernels[0].cases, .kernels[$kernel].cases] | transpose[] | select(.[0].set != "rate") | . as [$ours, $it] |
			[$it.set, $it.method, $it.size, $it.region / 1048576,
			 (if $one_clock then $it.t_typical | over($ours.t_typical) else "no clock" end),
			 ($it.client_cpu | over($ours.client_cpu)), ($it.target_cpu | over($ours.target_cpu))])'
}

report() {
	local -i kernel
	jq -r '.test_info | "\(.date)  \(.revision)  rdma-core \(.rdma_core)  \(.qemu)\n" +
		"accelerator \(.accelerator) on \(.host_cpus) x \(.host_cpu)  load \(.host_load_before_and_after)\n" +
		"\(.rounds) rounds of \(.batch) appends, CPU \(.cpu_rounds); seed \(.seed); \(.seconds) s\n" +
		"\(.note)"' "$folder/bench.json"
	echo
	jq -r '[.kernels[0].cases[] | select(.set == "append") | "\(.method)  \(.title)"] | unique[]' "$folder/bench.json"
	for ((kernel = 0; kernel < ${#images[@]}; kernel++)); do
		printf '\n== Linux %s\n\n' "$(jq -r ".kernels[$kernel].kernel" "$folder/bench.json")"
		ratios; echo
		appends; echo
		requests; echo
		regions; echo
		failures
		((kernel == 0)) || beside
	done
}

# What gnuplot wants: one file for each kind of picture; the methods side by side, or the kernels.  Single
# requests relative to READ, regions to the first.
plot() {
	local kernel=0
	rows '(cases("append") | group_by(.size)[] | [.[0].size] +
		[.[] | .t_typical, .per_second, .client_cpu, .target_cpu | . // 0])' >"$folder/append.dat"
	side_by_side latency 'select(.method == "read")' .title .t_typical
	side_by_side rate 'select(.method == "read")' .title .messages_per_second
	side_by_side region . '(.region / 1048576)' .t_typical
	rows '[.kernels[].cases | map(select(.set == "region"))] | transpose[] |
		[.[0].region / 1048576, (.[] | .target_cpu // 0)]' >"$folder/region-cpu.dat"
	(cd "$folder" && gnuplot -e "kernels='$(jq -r '[.kernels[].kernel] | join(" ")' bench.json)'" \
		-e "note='$(jq -r .test_info.note bench.json)'" -e "cpu='$(jq -r .test_info.cpu_unit bench.json)'" "$here/bench.gnuplot")
}

# side_by_side SET UNIT LABEL VALUE: SET.dat; VALUE in units of the first case that is UNIT
side_by_side() {
	rows "[.kernels[] | [.cases[] | select(.set == \"$1\")] | (map($2 | $4)[0]) as \$unit |
			map({label: $3, value: (if $4 and \$unit then $4 / \$unit else 0 end)})] |
		transpose[] | [.[0].label, .[].value]" >"$folder/$1.dat"
}

# One function, so that bash has read all of this file before a long run.
main() {
	local name
	local -a measured=()
	parse_command_line "$@"
	check_input
	folder=$(make_run_folder "${RXE_OUT:-$root/build/out}" bench)
	export RXE_OUT=$folder
	accelerator=$("$lab/accelerator" "${images[0]}")
	load=$(cut -d ' ' -f 1 /proc/loadavg)
	for name in ours ${images[1]:+other}; do
		measure "$name" "${images[${#measured[@]}]}"
		measured+=("$folder/$name.json")
	done
	load+=", $(cut -d ' ' -f 1 /proc/loadavg)"
	jq -n --argjson info "$(test_info)" '{test_info: $info, kernels: [inputs]}' "${measured[@]}" >"$folder/bench.json"
	report | tee "$folder/bench.txt"
	echo "All that was recorded: $folder"
	jq -e '[.kernels[0].cases[].failure] | all(. == null)' "$folder/bench.json" >/dev/null ||
		die "a method fails on our kernel, see above"
	plot
	exit
}

main "$@"
