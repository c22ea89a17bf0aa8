# SPDX-License-Identifier: GPL-2.0
#
# From the samples of bench-client to bench.json: what each case took, with intervals, in units of the case that it is
# compared with; the model; and the figures that the benchmark is for.

include "statistics";

def is_plain: .delay == 0 and .busy == 0 and .clients == 1;
def per_append($case): . / ($case.batch * $case.clients);

# Lines of bench-client, of one boot or several: its cases, each with its batches in their order.
def cases: group_by(.case) | map(
	(map(select(.set)) | first) + {failure: (map(.failure // empty) | first), batches: map(select(.round))});

# What a case is measured in: of appends d of the same size, of requests READ, in the same condition; of regions the
# smallest.  Where the client polls it does so in d, too.
def base_of($case): (if $case.set == "further" then "append" else $case.set end) as $set |
	first(.[] | select(.set == $set and .delay == $case.delay and .busy == $case.busy and .clients == $case.clients and
	if $set == "append" or $set == "polling" then .method == "d" and .size == $case.size elif $set == "region" then true
	else .method == "read" end));

# In each round: the typical latency of the batch, the time of one append of it, what it took of both CPUs, beyond what
# a batch of nothing takes.
def per_round($nothing): . as $case | .rounds = {
	t_typical: (.batches | map(.latencies | median)),
	time: (.batches | map(.us | per_append($case)))
} | if $nothing then .rounds = ({
	client_cpu: (.batches | map(.client_cpu - $nothing.client_cpu | per_append($case))),
	target_cpu: (.batches | map(.target_cpu - $nothing.target_cpu | per_append($case)))} |
	.cpu = ([.client_cpu, .target_cpu] | transpose | map(add))) else . end;

# .figures: of what was taken in each round; .ratios: in times of the case it is compared with
def figures: map(if .failure then . else .figures = (.rounds | map_values(figure)) end) | . as $cases |
	map(. as $case | ($cases | base_of($case)) as $base |
		if .failure or $base.failure then . else
			.base = $base.method |
			.quotients = (.rounds | with_entries(.value = ([.value, $base.rounds[.key]] | quotients))) |
			.ratios = (.quotients | map_values(figure)) end);

# The columns of perftest.  The high percentiles are of all samples; null if these do not carry them.
def pooled: [.batches[].latencies[]] | sort | mean as $mean | {
	samples: length, t_min: first, t_max: last, t_avg: $mean,
	t_stdev: (map((. - $mean) * (. - $mean)) | mean | sqrt),
	percentile_99: quantile(0.99), "percentile_99.9": quantile(0.999) };

# The medians of the cases without a daemon, of one request or four; one fit for each round gives intervals.
def of_model: (.set == "append" and .daemon == false and .in_flight == 1 and .size == .least_size or .set == "latency")
	and .busy == 0 and .clients == 1 and .failure == null;
def point($time): {trips: (.steps | split(" ") | length), requests: (.steps | gsub(" "; "") | length), delay, time: $time};
def model: [.[] | select(of_model)] |
	if map(.delay) | unique | length < 2 then null else
		. as $cases |
		[range($cases | map(.rounds.t_typical | length) | min) as $round |
			[$cases[] | point(.rounds.t_typical[$round])] | fit] as $fits |
		{trip: ($fits | map(.trip) | figure), request: ($fits | map(.request) | figure)} |
		map_values(.value) as $model |
		.points = [$cases[] | .set as $set | .method as $method | .figures.t_typical as $time | point($time.value) |
			{set: $set, method: $method} + . + {modelled: modelled($model)}] |
		.worst = (.points | map(.time / .modelled - 1) | max_by(fabs)) end;

# Several appends in flight that take several steps each: a capture does not tell to which one a request belongs.
def is_mixed($case): $case.in_flight > 1 and ($case.steps | test(" "));

# One kernel: of $time and $cpu, lines of bench-client, of $wire, what the capture says of the cases of $cpu, and of
# $waits, for how long the daemon on a busy target was awake before it ran; of $own_cpu, lines of bench-client again, with
# a CPU of its own for the daemon.
def kernel($time; $cpu; $wire; $waits; $own_cpu):
	($cpu | cases) as $cpu | ($cpu | first(.[] | select(.set == "nothing")).batches |
		{client_cpu: (map(.client_cpu) | median), target_cpu: (map(.target_cpu) | median)}) as $nothing |
	($cpu | map(select(.set != "nothing") | per_round($nothing)) | figures) as $cpu |
	($time | cases | map(select(.set != "nothing") | per_round(null) | .daemon = (.steps | test("[SLIN]"))) |
		(map(select(.set == "append").size) | min) as $least | map(.least_size = $least) | figures) as $time |
	{ model: ($time | model),
	  daemon_waits: ($waits | if length == 0 then null else figure end),
	  own_cpu: ($own_cpu | cases | map(select(.set != "nothing") | per_round(null)) | figures |
		map({set, method, size, failure, quotients, ratios})),
	  cases: [$time[] | . as $case |
		(if is_plain then first($cpu[] | select(.set == $case.set and .method == $case.method and
			.size == $case.size and .region == $case.region)) else null end) as $cpu |
		(.failure // $cpu.failure) as $failure |
		{set, method, title, steps, in_flight, size, region, delay, busy, clients} +
		if $failure then {failure: $failure} else
			pooled + {t_typical: .figures.t_typical.value, per_second: (1e6 / .figures.time.value),
				messages_per_second: (1e6 / .figures.time.value * (.steps | gsub(" "; "") | length)),
				base, figures: (.figures + ($cpu.figures // {})), ratios: (.ratios + ($cpu.ratios // {})),
				quotients, rounds: (.rounds + ($cpu.rounds // {}))} +
			if $cpu then ($wire[$cpu.case] | if is_mixed($case) then del(.round_trips, .round_trips_most) else . end) + {client_cpu: $cpu.figures.client_cpu.value,
				target_cpu: $cpu.figures.target_cpu.value} else {} end
		end] };

# --- What the benchmark is for ---

def case($set; $method; $size): first(.cases[] | select(.set == $set and .method == $method and .size == $size and is_plain));
def at($method; condition): first(.cases[] | select(.set == "append" and .method == $method and condition)) // {};
def with_own_cpu($set; $method): first(.own_cpu[] | select(.set == $set and .method == $method)) // {};

# A figure: a count, the same on any machine, or samples; null if it was not measured.  And what is wanted of its value,
# in words, and as a condition; null where nothing is wanted.
def counted($name; $count; $words; holds): {name: $name, count: $count, wanted: $words, holds: ($count | values | holds)};
def sampled($name; $samples; $words; holds): {name: $name, $samples, wanted: $words,
	holds: ($samples | if length == 0 then null else median | holds end)};
def sampled($name; $samples): sampled($name; $samples; null; null);

# The interval of each sampled one is so wide that those of all hold together.
def shown_together:
	(map(select(.samples | length > 0) | {key: .name, value: .samples}) | from_entries | figures_together) as $figures |
	map({name} + (if has("count") then {value: .count, low: .count, high: .count}
		else $figures[.name] // {value: null, low: null, high: null} end) + {wanted, holds} | .shown = shown);

# Counts come first: they are the same on any machine.
def headlines: .kernels as $kernels | $kernels[0] as $ours |
	[$ours.cases[] | select(.set == "append").size] | min as $small | max as $large |
	def quotients_of($set; $method): $ours | case($set; $method; $small).quotients.t_typical;
	[ ("a", "b", "c", "d" | . as $method | {a: 1, b: 2, c: 4, d: 1}[$method] as $trips |
		counted("round trips of an append by \($method)"; $ours | case("append"; $method; $small).round_trips;
			"\($trips)"; . == $trips)),
	  ("r", "k" | . as $method | counted("round trips of an append by \($method)";
		$ours | case("further"; $method; $small).round_trips; "1"; . == 1)),
	  counted("packets of an append of \($small) bytes by d"; $ours | case("append"; "d"; $small).packets;
		"at most 7"; . <= 7),
	  ("a", "p", "b", "c" | sampled("\(.)/d, \($small) bytes"; quotients_of("append"; .))),
	  ("a", "p", "b" | sampled("\(.)/d, \($small) bytes, the client polls"; quotients_of("polling"; .))),
	  ("r", "k" | sampled("\(.)/d, \($small) bytes"; quotients_of("further"; .))),
	  sampled("b/d, one-way delay of 2.5 ms"; $ours | at("b"; .delay == 2500).quotients.t_typical; "above 1.9"; . > 1.9),
	  # The mean, since the typical latency does not show how long a few appends wait for a CPU.
	  sampled("a/d, target busy with 2 programs for each CPU"; $ours | at("a"; .busy == 2).quotients.time;
		"above 2.5, or the reason"; . > 2.5),
	  sampled("p/d, the same"; $ours | at("p"; .busy == 2).quotients.time),
	  sampled("p/d, the daemon has a CPU of its own"; $ours | with_own_cpu("append"; "p").quotients.t_typical),
	  sampled("FLUSH of the largest region, in times of the smallest";
		[$ours.cases[] | select(.set == "region")] | max_by(.region).quotients.t_typical; "at most 1.1"; . <= 1.1),
	  ($kernels[1:][] | . as $other | sampled("CPU of an append of \($large) bytes by d, in times of Linux \($other.kernel)";
		[$ours, $other | case("append"; "d"; $large).rounds.cpu] | quotients; "below 1"; . < 1)) ] | shown_together;

# What the table of headlines has besides, as [name, value]: the run, and figures that pages quote without an interval.
def notes: def hundredths: . * 100 | round / 100;
	.kernels as $kernels |
	["commit of the run", .test_info.revision], ["date of the run", .test_info.date[:10]],
	($kernels[0].cases[] | select(.set == "append" and .method == "e" and is_plain and .ratios.time.value) |
		["e/d in time, \(.size) bytes", (.ratios.time.value | hundredths)]),
	($kernels[1:][] | [.cases[] | select(.set == "region" and .t_typical)] as $regions | select($regions | length > 1) |
		["FLUSH of the largest region, in times of the smallest, Linux \(.kernel)",
			($regions | max_by(.region).t_typical / min_by(.region).t_typical | hundredths)]),
	($kernels[1:][] | .kernel as $name | [.cases[] | select(.set == "append" and .method == "d" and is_plain and .packets)] |
		min_by(.size) | values | ["packets of an append of \(.size) bytes by d, Linux \($name)", .packets]),
	["wait of the daemon at a busy target, us", $kernels[0].daemon_waits.value];

# The whole: of other kernels also what they take in times of ours.
def result($info):
	{test_info: $info, kernels: .} | .headlines = headlines | .kernels[0].cases as $ours |
	.kernels |= [.[0]] + (.[1:] | map(.cases |= ([., $ours] | transpose | map(. as [$it, $ours] |
		$it + if $it.failure or $ours.failure then {} else
			{times_ours: ($it.rounds | with_entries(.value = ([.value, $ours.rounds[.key]] | ratio)))} end)))) |
	del(.kernels[].cases[] | .rounds, .quotients) | del(.kernels[].own_cpu[].quotients);
