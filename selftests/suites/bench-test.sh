#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of the benchmark: it runs, with few appends, and its figures are those that the methods must have; it says no
# more than its samples do.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
bench=$here/../bench
# Its name begins a kernel's release.
release=${BASE:-v6.1} release=${release%%-*}

# One run, before the cases, each of which looks at what it left.
prepare() {
	[[ -z ${BENCH_FOLDER-} ]] || return 0
	"$bench/bench.sh" --rounds 2 --batch 4 --sizes "64 4096" --regions "2 64" --delays "0 2500" --busy "0 2" \
		--clients "1 4" --seed 1 >"$work/output" 2>&1 || true
	BENCH_FOLDER=$(readlink -f "$RXE_OUT/latest")
	mv "$work/output" "$BENCH_FOLDER"
	export BENCH_FOLDER
}

# holds FILTER: what jq makes of bench.json is true.
holds() {
	jq -e "$1" "$BENCH_FOLDER/bench.json" >"$work/$BASHPID" || fail "not so: $1"
}

# gives FILTER JSON: with the statistics of the benchmark
gives() {
	local said
	said=$(jq -nc -L "$bench" "include \"statistics\"; $1")
	[[ $said == "$2" ]] || fail "$1 gives $said, not $2"
}

# method NAME FILTER: for each size of records
method() {
	holds "[.kernels[].cases[] | select(.set == \"append\" and .method == \"$1\" and .packets)] | length == 2 and all(.[]; $2)"
}

##############################################################################
# The run

it_runs() {
	cat "$BENCH_FOLDER/output"
	grep -q "^ *64 *a  *~*[0-9]" "$BENCH_FOLDER/bench.txt" || fail "no table"
}

the_run_is_described() {
	holds '.test_info | has("date", "revision", "rdma_core", "qemu", "accelerator", "host_cpus", "host_cpu",
		"rounds", "batch", "seed", "cpu_unit")'
	holds ".kernels | length == 1 and (.[0].kernel | startswith(\"${release#v}\")) and .[0].same_configuration"
	holds '.test_info | .accelerator != "tcg" or .note == "emulated: compare ratios only"'
}

every_figure_is_there() {
	holds '[.kernels[].cases[] | [.t_min, .t_max, .t_typical, .t_avg, .t_stdev, .per_second, .messages_per_second,
		.ratios.t_typical.value, .ratios.time.value][] | type == "number"] | all'
	holds '[.kernels[].cases[] | select(.delay == 0 and .busy == 0 and .clients == 1) |
		[.packets, .bytes, if .method == "b-5" then 0 else .round_trips end, .client_cpu, .target_cpu, .ratios.target_cpu.value][] | type == "number"] | all'
	holds '[.kernels[].cases[] | .t_min <= .t_typical and .t_typical <= .t_max and .t_avg <= .t_max] | all'
	holds '[.kernels[].cases[] | .failure] | all(. == null)'
}

# Five methods of append and four requests in each; of four clients four times the appends.
every_condition_is_measured() {
	holds '[.kernels[].cases[] | select(.delay != 0 or .busy != 0 or .clients != 1)] | group_by([.delay, .busy, .clients]) |
		map([.[0].delay, .[0].busy, .[0].clients, length]) == [[0, 0, 4, 9], [0, 2, 1, 9], [2500, 0, 1, 9]]'
	holds '[.kernels[].cases[] | .samples == if .set == "region" then 2 else 2 * 4 * .clients end] | all'
}

# Each round trip takes it twice, each way.
the_delay_delays() {
	holds '[.kernels[].cases[] | select(.delay == 2500) | .t_min >= 2 * 2500 * (.steps | split(" ") | length)] | all'
	holds '[.kernels[].cases[] | select(.delay == 0 and .set == "latency" and .busy == 0)] | min_by(.t_min).t_min < 5000'
}

# The programs are there, and the daemon has been woken beside them.
the_busy_programs_are_busy() {
	grep -q 'busy-program-[0-9].*sched_waking: *comm=bench-target' "$BENCH_FOLDER/trace.0" || fail "they are not in the trace"
	holds '.kernels[0].daemon_waits | .low != null and .value > 0'
	grep -q 'the daemon waits .*: [0-9]* \[' "$BENCH_FOLDER/bench.txt" || fail "the report does not have it"
}

# WRITE, SEND, its ACK, the answer, its ACK; 4096 bytes are four packets.  A WRITE with a request behind it that is
# answered asks for no ACK of its own: so all but c, which waits for each, save one or two.
a_has_one_round_trip() { method a '.round_trips == 1 and .packets == (if .size == 64 then 5 else 8 end)'; }
p_has_one_round_trip() { method p '.round_trips == 1 and .packets == (if .size == 64 then 5 else 8 end)'; }
b_has_two_round_trips() { method b '.round_trips == 2 and .packets == (if .size == 64 then 6 else 9 end)'; }
c_has_four_round_trips() { method c '.round_trips == 4 and .packets == (if .size == 64 then 8 else 11 end)'; }
d_has_one_round_trip() { method d '.round_trips == 1 and .packets == (if .size == 64 then 7 else 10 end)'; }

# further METHOD FILTER
further() {
	holds "[.kernels[].cases[] | select(.set == \"further\" and .method == \"$1\" and .packets)] | length == 1 and all(.[]; $2)"
}

# A request that brings the message, its ACK, the answer, its ACK
w_and_s_save_a_packet() {
	further w '.round_trips == 1 and .packets == 4'
	further s '.round_trips == 1 and .packets == 4'
}
r_and_k_have_one_round_trip() {
	further r '.round_trips == 1 and .packets == 3'
	further k '.round_trips == 1 and .packets == 3'
}
a_fence_saves_no_round_trip() { further b-fence '.round_trips == 2 and .packets == 6'; }

polling_clients_send_the_same() {
	holds '[.kernels[].cases[] | select((.set == "polling" or .set == "append" and .in_flight == 1) and .size == 64 and .packets)] |
		group_by(.method) | length == 5 and all(.[]; length == 2 and .[0].packets == .[1].packets)'
}

the_daemon_has_a_cpu_of_its_own() {
	holds '[.kernels[].own_cpu[] | select(.method == "p") | .ratios.t_typical.value > 0] == [true, true]'
	grep -qF "'-smp' '2'" "$BENCH_FOLDER"/*.own_cpu.*/server.qemu || fail "the target has no second CPU"
	grep -qF "'-smp' '1'" "$BENCH_FOLDER"/*.own_cpu.*/client.qemu || fail "the client has a second CPU"
}

# Ethernet 14, IP 20, UDP 8, BTH 12, ICRC 4; RETH 16, FETH 4, AETH 4: WRITE 138, ACK 62, FLUSH 78, ATOMIC WRITE 82
d_has_the_bytes_of_its_packets() {
	holds '.kernels[0].cases[] | select(.set == "append" and .method == "d" and .size == 64 and .packets) |
		.bytes - (138 + 78 + 82 + 78 + 3 * 62 + (.packets_mean - 7) * 62) | fabs < 0.01'
}

# What can be said of two rounds: what is counted, nothing of times.
the_headlines_are_there() {
	holds '[.headlines[] | select(.name | test("^(round trips|packets) of")) | .holds] | length == 7 and all'
	holds '.headlines | map(.name) | contains(["a/d, 64 bytes", "p/d, 64 bytes", "b/d, one-way delay of 2.5 ms",
		"a/d, target busy with 2 programs for each CPU", "FLUSH of the largest region, in times of the smallest"])'
	holds '[.headlines[] | select(.name | test("/")) | .shown | startswith("~")] | all'
	(($(wc -l <"$BENCH_FOLDER/headlines.csv") > $(jq '.headlines | length' "$BENCH_FOLDER/bench.json"))) || fail "headlines.csv"
	grep -xF "\"commit of the run\",\"$(jq -r .test_info.revision "$BENCH_FOLDER/bench.json")\",\"\",\"\"" "$BENCH_FOLDER/headlines.csv" ||
		fail "headlines.csv does not name its commit"
	grep '^"date of the run","20' "$BENCH_FOLDER/headlines.csv" || fail "nor its date"
	grep '^"e/d in time, 64 bytes",[0-9.]*,' "$BENCH_FOLDER/headlines.csv" || fail "nor what pages quote of it"
}

no_packets_are_captured_while_times_are_taken() {
	local part
	for part in times waits; do
		! ls "$BENCH_FOLDER"/*."$part".*/*.pcap 2>/dev/null || fail "a capture in the part $part"
	done
	ls "$BENCH_FOLDER"/*.cpu.*/client.pcap || fail "no capture to count packets in"
}

the_raw_samples_are_kept() {
	local -i all
	all=$(jq '[.kernels[].cases[].samples] | add' "$BENCH_FOLDER/bench.json")
	[[ $(xzcat "$BENCH_FOLDER/samples.json.xz" | jq -s '[.[] | select(.part | test("times")).latencies // [] | .[]] | length') == "$all" ]] ||
		fail "samples.json.xz has not all $all samples"
}

every_plot_is_there() {
	local plot
	for plot in append-{latency,throughput,cpu} delay busy clients requests-{latency,rate} flush-region{,-cpu}; do
		grep -q '</svg>' "$BENCH_FOLDER/$plot.svg" || fail "no $plot.svg"
		[[ $(head -c 4 "$BENCH_FOLDER/$plot.png") == $'\x89PNG' ]] || fail "no $plot.png"
	done
}

# continue_run FOLDER: nothing is left to measure, so it only reports again.
continue_run() { "$bench/bench.sh" --continue "$1" >"$work/said" 2>&1 || fail "$(<"$work/said")"; }

# Of what is there it reports the same again.
a_run_can_be_continued() {
	cp -r "$BENCH_FOLDER" "$work/again"
	continue_run "$work/again"
	diff <(jq 'del(.test_info)' "$BENCH_FOLDER/bench.json") <(jq 'del(.test_info)' "$work/again/bench.json") || fail "another result"
}

# The CPU of a FLUSH is what exceeds that of nothing: in few rounds noise may make it negative for each region.
a_run_of_noise_is_plotted() {
	cp -r "$BENCH_FOLDER" "$work/noise"
	rm "$work/noise/flush-region-cpu.svg"
	jq -cs 'map(select(.set == "region").case) as $regions |
		.[] | if .round and IN(.case; $regions[]) then .target_cpu = 0 else . end' \
		"$BENCH_FOLDER/samples/0.cpu.1" >"$work/noise/samples/0.cpu.1"
	continue_run "$work/noise"
	jq -e '[.kernels[].cases[] | select(.set == "region").target_cpu] | length == 2 and all(. < 0)' \
		"$work/noise/bench.json" >"$work/$BASHPID" || fail "the figures are not negative"
	grep -q '</svg>' "$work/noise/flush-region-cpu.svg" || fail "no flush-region-cpu.svg"
}

a_run_of_other_programs_is_not_continued() {
	local said
	cp -r "$BENCH_FOLDER" "$work/other"
	rm "$work/other/samples/0.times.1"
	sed -i '$s/^[0-9]*/1/' "$work/other/settings"
	said=$("$bench/bench.sh" --continue "$work/other" 2>&1) && fail "it runs"
	[[ $said == "bench: error: --continue $work/other: the project, a kernel or a program is not what it was"* ]] || fail "$said"
}

wrong_options_are_refused() {
	local said
	said=$("$bench/bench.sh" --rounds none 2>&1) && fail "it runs"
	[[ $said == "bench: error: --rounds none: "* ]] || fail "$said"
	said=$("$bench/bench.sh" --rounds "2 3" 2>&1) && fail "it runs"
	[[ $said == "bench: error: --rounds 2 3: "* ]] || fail "$said"
	said=$("$bench/bench.sh" --kernel /nowhere 2>&1) && fail "it runs"
	[[ $said == "bench: error: --kernel /nowhere: "* ]] || fail "$said"
	said=$("$bench/bench.sh" --continue /nowhere 2>&1) && fail "it runs"
	[[ $said == "bench: error: --continue /nowhere: "* ]] || fail "$said"
	said=$("$bench/bench.sh" --delay 5 2>&1) && fail "it runs"
	[[ $said == "bench: error: there is no option --delay: "* ]] || fail "$said"
}

##############################################################################
# Statistics, on samples whose result is known

# As tables of the sign test have them: the sixth to the fifteenth of 20, the 40th to the 61st of 100.
the_median_has_its_interval() {
	gives '[3, 1, 2] | median' 2
	gives '[4, 1, 2, 3] | median' 2.5
	gives '[range(20; 0; -1)] | figure' '{"value":10.5,"low":6,"high":15}'
	gives 'ranks(100; 0.5)' '[40,61]'
	gives 'ranks(6; 0.5)' '[1,6]'
}

# Of ten figures each end is missed with a chance of 0.25 %: of 20 samples the fourth to the 17th, 0.13 % each.
intervals_that_hold_together_are_wider() {
	gives '[range(10)] | map({key: tostring, value: [range(1; 21)]}) | from_entries | figures_together | map([.low, .high]) | unique' \
		'[[4,17]]'
	gives '{one: [range(1; 21)]} | figures_together | .one | [.low, .high]' '[6,15]'
	gives '{one: [range(6)], other: [range(6)]} | figures_together | .one.low' null
}

# Half of what five samples may be of lies outside of them with a chance of 6 %.
few_samples_have_no_interval() {
	gives '[1, 2, 3, 4, 5] | figure' '{"value":3,"low":null,"high":null}'
	gives '[1, 2, 3, 4, 5] | figure | shown' '"~3.0"'
}

few_samples_have_no_high_percentile() {
	gives '[range(200)] | quantile(0.99), quantile(0.999)' $'null\nnull'
	gives '[range(368)] | quantile(0.99), quantile(0.999)' $'364\nnull'
	gives '[range(3687)] | quantile(0.999)' null
	gives '[range(4000)] | quantile(0.999)' 3995
}

# A round that is slow as a whole changes no ratio.
a_ratio_is_of_pairs() {
	gives '[[2, 4, 6, 8, 10, 1200], [1, 2, 3, 4, 5, 600]] | ratio' '{"value":2,"low":2,"high":2}'
}

no_digit_is_finer_than_the_interval() {
	gives '{value: 1.4612, low: 1.4049, high: 1.5231} | shown' '"1.5 [1.40, 1.53]"'
	gives '{value: 1.4612, low: 1.4549, high: 1.4731} | shown' '"1.46 [1.454, 1.474]"'
	gives '{value: 1019, low: 941, high: 1263} | shown' '"1000 [940, 1270]"'
	gives '{value: 1019, low: 981, high: 1063} | shown' '"1020 [981, 1063]"'
	gives '{value: 2900, low: 1000, high: 12000} | shown' '"3000 [1000, 12000]"'
	gives '{value: 7, low: 7, high: 7} | shown' '"7 [7, 7]"'
}

the_model_is_found_again() {
	gives '[({trips: (1, 2, 4), requests: 4, delay: (0, 500, 2500)}, {trips: 1, requests: 1, delay: (0, 500, 2500)}) |
		.time = modelled({trip: 387, request: 78})] | fit | map_values(round)' '{"trip":387,"request":78}'
	gives '{trips: 2, requests: 4, delay: 500} | modelled({trip: 387, request: 78})' 3086
}

# run NAME VALUE LOW HIGH: with this one headline
run() { printf '{"headlines": [{"name": "b/d", "value": %s, "low": %s, "high": %s}]}' "${@:2}" >"$work/$1"; }

runs_agree_within_their_intervals() {
	run one 1.6 1.5 1.7
	run near 1.8 1.69 1.9
	run far 1.8 1.71 1.9
	run short 1.6 null null
	"$bench/agree.sh" "$work/one" "$work/near" || fail "these agree"
	! "$bench/agree.sh" "$work/one" "$work/far" || fail "these differ"
	! "$bench/agree.sh" "$work/short" "$work/one" || fail "one has no interval"
}

cases=(
	it_runs
	the_run_is_described
	every_figure_is_there
	every_condition_is_measured
	the_delay_delays
	the_busy_programs_are_busy
	a_has_one_round_trip
	p_has_one_round_trip
	b_has_two_round_trips
	c_has_four_round_trips
	d_has_one_round_trip
	d_has_the_bytes_of_its_packets
	w_and_s_save_a_packet
	r_and_k_have_one_round_trip
	a_fence_saves_no_round_trip
	polling_clients_send_the_same
	the_daemon_has_a_cpu_of_its_own
	the_headlines_are_there
	no_packets_are_captured_while_times_are_taken
	the_raw_samples_are_kept
	every_plot_is_there
	a_run_can_be_continued
	a_run_of_noise_is_plotted
	a_run_of_other_programs_is_not_continued
	wrong_options_are_refused
	the_median_has_its_interval
	intervals_that_hold_together_are_wider
	few_samples_have_no_interval
	few_samples_have_no_high_percentile
	a_ratio_is_of_pairs
	no_digit_is_finer_than_the_interval
	the_model_is_found_again
	runs_agree_within_their_intervals
)

run_suite 2 "$@"
