#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of the benchmark: it runs, with few appends, its figures are those that the methods must have, and
# it notices a log that is not what was appended.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
# shellcheck source=selftests/ktap.sh
. "$here/../ktap.sh"
# Its name begins a kernel's release.
release=${BASE:-v6.1} release=${release%%-*}

# One run, before the cases, each of which looks at what it left.
run_bench() {
	"$here/../bench/bench.sh" --rounds 2 --batch 4 --sizes "64 4096" --regions "2 64" --seed 1 >"$work/output" 2>&1 || true
}

# holds FILTER: what jq makes of bench.json is true.
holds() {
	jq -e "$1" "$BENCH_FOLDER/bench.json" >"$work/$BASHPID" || fail "not so: $1"
}

# method NAME FILTER: for each size of records
method() {
	holds "[.kernels[].cases[] | select(.set == \"append\" and .method == \"$1\")] | length == 2 and all(.[]; $2)"
}

it_runs() {
	cat "$BENCH_FOLDER/output"
	grep -q "^ *64 *a  *[0-9]" "$BENCH_FOLDER/bench.txt" || fail "no table"
}

the_run_is_described() {
	holds '.test_info | has("date", "revision", "rdma_core", "qemu", "accelerator", "host_cpu", "host_cpus",
		"rounds", "batch", "seed", "cpu_unit")'
	holds ".kernels | length == 1 and (.[0].kernel | startswith(\"${release#v}\"))"
	holds '.test_info | .accelerator != "tcg" or .note == "emulated: compare ratios only"'
}

every_figure_is_there() {
	holds '[.kernels[].cases[] | [.t_min, .t_max, .t_typical, .t_avg, .t_stdev, .percentile_99, ."percentile_99.9",
		.per_second, .messages_per_second, .packets, .bytes, .round_trips, .client_cpu, .target_cpu][] | type == "number"] | all'
	holds '[.kernels[].cases[] | .t_min <= .t_typical and .t_typical <= .t_max and .t_avg <= .t_max] | all'
	holds '[.kernels[].cases[] | .failure] | all(. == null)'
}

# WRITE, SEND, its ACK, the answer, its ACK; 4096 bytes are four packets.  A WRITE with a request behind it that is
# answered asks for no ACK of its own: so all but c, which waits for each, save one or two.
a_has_one_round_trip() { method a '.round_trips == 1 and .packets == (if .size == 64 then 5 else 8 end)'; }
b_has_two_round_trips() { method b '.round_trips == 2 and .packets == (if .size == 64 then 6 else 9 end)'; }
c_has_four_round_trips() { method c '.round_trips == 4 and .packets == (if .size == 64 then 8 else 11 end)'; }
# Of its first append the WRITE asks for an ACK: the queue pair does not know yet how the peer takes a FLUSH.
d_has_one_round_trip() { method d '.round_trips == 1 and (.packets | floor) == (if .size == 64 then 7 else 10 end)'; }

# Ethernet 14, IP 20, UDP 8, BTH 12, ICRC 4; RETH 16, FETH 4, AETH 4: WRITE 138, ACK 62, FLUSH 78, ATOMIC WRITE 82
d_has_the_bytes_of_its_packets() {
	holds '.kernels[0].cases[] | select(.set == "append" and .method == "d" and .size == 64) |
		.bytes - (138 + 78 + 82 + 78 + 3 * 62 + (.packets - 7) * 62) | fabs < 0.01'
}

every_plot_is_there() {
	local plot
	for plot in append-{latency,throughput,cpu} requests-{latency,rate} flush-region{,-cpu}; do
		grep -q '</svg>' "$BENCH_FOLDER/$plot.svg" || fail "no $plot.svg"
		[[ $(head -c 4 "$BENCH_FOLDER/$plot.png") == $'\x89PNG' ]] || fail "no $plot.png"
	done
}

wrong_options_are_refused() {
	local said
	said=$("$here/../bench/bench.sh" --rounds none 2>&1) && fail "it runs"
	[[ $said == "bench: error: --rounds none: "* ]] || fail "$said"
	said=$("$here/../bench/bench.sh" --kernel /nowhere 2>&1) && fail "it runs"
	[[ $said == "bench: error: --kernel /nowhere: "* ]] || fail "$said"
}

# shellcheck disable=SC2034 # for run_suite
cases=(
	it_runs
	the_run_is_described
	every_figure_is_there
	a_has_one_round_trip
	b_has_two_round_trips
	c_has_four_round_trips
	d_has_one_round_trip
	d_has_the_bytes_of_its_packets
	every_plot_is_there
	wrong_options_are_refused
)

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
if [[ -z ${BENCH_FOLDER-} ]]; then
	run_bench
	BENCH_FOLDER=$(readlink -f "$RXE_OUT/latest")
	mv "$work/output" "$BENCH_FOLDER"
	export BENCH_FOLDER
fi
run_suite 2 "$@"
