# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154 # much is for jq or awk; bench.sh, which reads this file, has the variables
#
# From the samples in the run's folder to bench.json, tables and plots.

# waits TRACE: from the first program that is busy on, each time from when the daemon was woken to when it ran, in us
waits() {
	awk '
		/ busy-program-[0-9]/ { busy = 1 }
		!match($0, /[0-9]+\.[0-9]+: sched_/) { next }
		{ now = substr($0, RSTART) + 0 }
		busy && /sched_waking/ { woken = now }
		woken && /sched_switch:.*==> bench-target:/ { printf "%.0f\n", (now - woken) * 1e6; woken = 0 }' "$1"
}

# clocks KERNEL: what the clients took for the frequency of their clock.  On a busy machine an emulated guest may be
# far off; that is the same for all that it measures, but times of two boots compare only if they agree.
clocks() {
	local console
	for console in "$folder"/*-"$1".times.*/client.console; do
		sed -n 's/.*tsc: Detected \([0-9.]*\) MHz.*/\1/p' "$console" | tail -n 1 | grep . || echo null
	done | sort -n | jq -s '{least: .[0], most: .[-1]}'
}

# It has the configuration of this project, as all kernels that are built here.
is_configured_here() { [[ -e $(dirname "$1")/obj/wanted.config ]] && echo true || echo false; }

# name_of KERNEL: its release, but for `make base-kernel`, whose release is that of the kernel with the fixes
name_of() {
	local release
	release=$(jq -rn 'first(inputs | select(.kernel)).kernel' "$folder/samples/$1".times.*)
	[[ ${images[$1]%/*} != *-base ]] || release=${release%-rxe-mpe}-base
	printf '%s' "$release"
}

analyse() {
	local -i kernel
	for kernel in "${!images[@]}"; do
		waits "$folder/trace.$kernel" >"$folder/samples/$kernel.daemon_waits"
		jq -n -L "$here" --slurpfile cpu "$folder/samples/$kernel.cpu.1" --slurpfile wire "$folder/samples/$kernel.wire" \
			--slurpfile waits "$folder/samples/$kernel.daemon_waits" \
			--slurpfile own_cpu "$folder/samples/$kernel.own_cpu.1" --argjson clock "$(clocks "$kernel")" \
			--arg name "$(name_of "$kernel")" --argjson configured "$(is_configured_here "${images[kernel]}")" 'include "bench";
			[inputs] | {kernel: $name, same_configuration: $configured, clock_mhz: $clock} +
				kernel(map(select(.kernel == null)); $cpu[1:]; $wire; $waits; $own_cpu[1:])' \
			"$folder/samples/$kernel".times.* >"$folder/kernel.$kernel"
	done
	jq -n -L "$here" --argjson info "$(test_info)" 'include "bench";
		[inputs] | result($info)' "$folder"/kernel.* >"$folder/bench.json"
	rm "$folder"/kernel.*
	jq -r -L "$here" 'include "bench";
		(.headlines[] | [.name, .shown, .wanted // "", if .holds == null then "" elif .holds then "yes" else "no" end]),
		(notes + ["", ""]) | @csv' "$folder/bench.json" >"$folder/headlines.csv"
	# More than three digits of a latency are noise, which makes the file twice as large.
	(cd "$folder/samples" && jq -c '
		def three_digits: (if . < 1000 then 1 elif . < 10000 then 10 else 100 end) as $unit | . / $unit | round * $unit;
		{part: input_filename} + . | if .latencies then .latencies |= map(three_digits) else . end
		' ./*.times.* ./*.cpu.* ./*.own_cpu.*) | xz -9e >"$folder/samples.json.xz"
}

# All that is needed to judge the figures, and to have them again.  The load afterwards is that of the first report.
test_info() {
	[[ -e $folder/load.after ]] || cut -d ' ' -f 1 /proc/loadavg >"$folder/load.after"
	jq -n --arg date "$(<"$folder/date")" --arg accelerator "$accelerator" \
		--arg load "$(<"$folder/load"), $(<"$folder/load.after")" \
		--arg revision "$(sed -n '/^declare /!p' "$folder/settings" | head -n 1)" \
		--arg rdma_core "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$root/build/rdma-core/src/CMakeLists.txt")" \
		--arg qemu "$("${QEMU:-qemu-system-x86_64}" --version | head -n 1)" \
		--arg cpu "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" --argjson cpus "$(nproc)" \
		--argjson rounds "${option[rounds]}" --argjson cpu_rounds "$cpu_rounds" --argjson batch "${option[batch]}" \
		--argjson seed "${option[seed]}" --argjson guest_cpus "${option[cpus]}" \
		--argjson seconds "$(awk '{ sum += $2 } END { print sum + 0 }' "$folder/seconds")" '
		{ date: $date, revision: $revision, rdma_core: $rdma_core, qemu: $qemu, accelerator: $accelerator,
		  note: (if $accelerator == "tcg" then "emulated: compare ratios only" else "" end),
		  host_cpu: $cpu, host_cpus: $cpus, host_load_before_and_after: $load,
		  guest_cpus: $guest_cpus, path_mtu: 1024,
		  time_unit: "us", cpu_unit: (if $accelerator == "tcg" then "instructions" else "ns" end),
		  rounds: $rounds, cpu_rounds: ([$rounds, $cpu_rounds] | min), batch: $batch, seed: $seed, seconds: $seconds }'
}

# rows FILTER: what the jq filter makes of the kernel $kernel, as lines of words between tabs.  It knows:
words='include "bench"; include "statistics";
	def whole: if . then round else "-" end;
	def cases($set): [.kernels[$kernel].cases[] | select(.set == $set)];
	def plain($set): cases($set) | map(select(is_plain));
	def columns: .t_min, .t_max, (.figures.t_typical | shown), (.t_avg, .t_stdev, .percentile_99, ."percentile_99.9" | whole);
	def smallest: map(.size) | min;
	# A daemon that polls takes all of a CPU, however few appends there are.
	def target_cpu(f): if .method == "p" then "all" else (f.target_cpu | shown) end;
	def knob: if .delay > 0 then "\(.delay / 1000) ms" elif .busy > 0 then "\(.busy) busy" elif .clients > 1 then
		"\(.clients) clients" else "plain" end;
'
rows() { jq -r -L "$here" --argjson kernel "$kernel" "$words $1 | @tsv" "$folder/bench.json"; }
table() { rows "$1" | column -t -s $'\t' | sed 's/^/  /; s/ *$//'; }

headlines() {
	echo "What the benchmark is for; counts are the same on any machine"
	kernel=0 table '["", "", "wanted", "so"], (.headlines[] | [.name, .shown, .wanted // "",
		if .holds == null then "" elif .holds then "yes" else "no" end])'
}

ratios() {
	echo "How many times what d takes (d: all four requests in one post, one append at a time)"
	table '["bytes", "method", "latency", "time/append", "client CPU", "target CPU"],
		(plain("append") | sort_by(.size)[] | [.size, .method] + if .failure then ["failed"] else
			[(.ratios | .t_typical, .time, .client_cpu | shown), target_cpu(.ratios)] end)'
}

further() {
	echo "The same for other methods, records of the smallest size; beside polling clients, d polls, too"
	table '["", "method", "", "round trips", "packets", "latency", "time/append"],
		((cases("further") + cases("polling"))[] | [.set, .method, .title] + if .failure then ["failed"] else
			[.round_trips // "-", .packets // "-"] + [.ratios | .t_typical, .time | shown] end),
		(.kernels[$kernel].own_cpu[] | select(.method == "p") | ["a CPU of its own", .method,
			if .set == "polling" then "the daemon and the client poll" else "the daemon polls" end, "", ""] +
			if .failure then ["failed"] else [.ratios | .t_typical, .time | shown] end)'
}

conditions() {
	echo "The same under other conditions: one-way delay, busy programs for each CPU of the target, clients"
	table '(cases("append") | smallest) as $small |
		["", "method", "latency, us", "times d", "times d, time/append", "times READ"],
		(.kernels[$kernel].cases[] | select((.set == "append" and .size == $small and .in_flight == 1) or .set == "latency") |
			[knob, .method] + if .failure then ["failed"] else
			[(.figures.t_typical | shown)] + if .set == "append" then [.ratios.t_typical, .ratios.time | shown] + [""] else
				["", "", (.ratios.t_typical | shown)] end end)'
}

model() {
	echo "The model: time = R x (a + 2 x delay) + N x b, for R round trips and N requests"
	table '.kernels[$kernel].model | if . == null then ["one delay only: no model"] else
		["a, us", (.trip | shown)], ["b, us", (.request | shown)], ["worst", "\(.worst * 100 | round) %"],
		["delay", "method", "time", "model"],
		(.points[] | ["\(.delay / 1000) ms", .method, (.time | whole), (.modelled | whole)]) end'
}

appends() {
	echo "Durable append: latency in us; packets, bytes, CPU in $(jq -r .test_info.cpu_unit "$folder/bench.json") and round trips per append"
	table '["bytes", "method", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%", "per s", "packets",
		"bytes", "client CPU", "target CPU", "round trips"],
		(plain("append") | sort_by(.size)[] | [.size, .method] + if .failure then ["failed"] else
			[columns, (.per_second | whole), .packets, .bytes, (.figures.client_cpu | shown),
			 target_cpu(.figures), .round_trips] end)'
}

requests() {
	echo "Single requests of 8 bytes: latency in us, also as times that of READ; and, many at once, messages per second"
	table '(plain("rate") | map({key: .method, value: .}) | from_entries) as $rate |
		["request", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%", "READ = 1", "client CPU",
		 "target CPU", "messages per s", "time, READ = 1"],
		(plain("latency")[] | [.title] + if .failure or $rate[.method].failure then ["failed"] else
			[columns, (.ratios.t_typical | shown), (.figures | .client_cpu, .target_cpu | shown),
			 ($rate[.method] | (.messages_per_second | whole), (.ratios.time | shown))] end)'
}

regions() {
	echo "FLUSH of a whole region: latency in us"
	table '["MiB", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%", "smallest = 1", "target CPU"],
		(cases("region")[] | [.region / 1048576] + if .failure then ["failed"] else
			[columns, (.ratios.t_typical | shown), (.figures.target_cpu | shown)] end)'
}

# What the scheduler did for the daemon, with one time of it.
daemon_waits() {
	echo "With $waits_busy busy programs for each CPU, the daemon waits from when it is woken to when it runs:" \
		"$(rows '.kernels[$kernel].daemon_waits | [if . then shown else "-" end]') us"
	awk '/ busy-program-[0-9].*sched_waking/ { woken = $0; next }
		woken && /sched_switch:.*==> bench-target:/ && ++n == 20 { print woken; print; exit }
		{ woken = "" }' "$folder/trace.$kernel"
}

failures() {
	rows '.kernels[$kernel].cases[] | select(.failure) |
		["failed: \(.set) \(.method), \(.size) bytes, region of \(.region / 1048576) MiB: \(.failure)"]'
}

beside() {
	echo "How many times what it takes on our kernel$(rows '[if .kernels[$kernel].same_configuration then
		", with the same configuration" else ", with a configuration of its own: this compares the two, too" end]')"
	table '(.kernels | [.[0, $kernel].clock_mhz | .least, .most] | all(. != null) and max / min < 1.01) as $one_clock |
		["", "method", "bytes", "region, MiB", "latency", "client CPU", "target CPU"],
		(.kernels[$kernel].cases[] | select(.set != "rate" and is_plain) | . as $it |
			[$it.set, $it.method, $it.size, $it.region / 1048576] + if $it.times_ours == null then ["failed"] else
			[("t_typical", "client_cpu", "target_cpu") as $what |
			 if $what == "t_typical" and ($one_clock | not) then "no clock"
			 else $it.times_ours[$what] | shown end] end)'
}

report() {
	local -i kernel
	jq -r '.test_info | "\(.date)  \(.revision)  rdma-core \(.rdma_core)  \(.qemu)\n" +
		"accelerator \(.accelerator) on \(.host_cpus) x \(.host_cpu)  load \(.host_load_before_and_after)\n" +
		"\(.rounds) rounds of \(.batch) appends, CPU \(.cpu_rounds); seed \(.seed); \(.seconds) s\n" +
		"intervals of 95 %: [low, high]; ~ without one; those of the first table hold all together\n\(.note)"' "$folder/bench.json"
	echo
	jq -r '[.kernels[0].cases[] | select(.set == "append") | "\(.method)  \(.title)"] | unique[]' "$folder/bench.json"
	echo
	headlines
	for ((kernel = 0; kernel < ${#images[@]}; kernel++)); do
		printf '\n== Linux %s\n\n' "$(jq -r ".kernels[$kernel].kernel" "$folder/bench.json")"
		ratios; echo
		further; echo
		conditions; echo
		daemon_waits; echo
		model; echo
		appends; echo
		requests; echo
		regions; echo
		failures
		((kernel == 0)) || beside
	done
}

# data FILE FILTER: lines for gnuplot, LABEL X VALUE LOW HIGH; each label is a block, "# LABEL"
data() {
	rows "$2" | awk -F "\t" '$1 != last { printf "\n\n# %s\n", last = $1 } 1' >"$folder/$1.dat"
}

# What gnuplot wants: one file for each kind of picture.
plot() {
	local -i kernel=0
	local figure='def figure_of(f): f // {} | .value, .low // .value, .high // .value | . // "-";
		def small: (cases("append") | smallest) as $small | cases("append") | map(select(.size == $small and .in_flight == 1));'
	local what
	for what in t_typical time; do
		data "append.$what" "$figure"' plain("append")[] | [.method, .size, figure_of(.ratios.'$what')]'
	done
	data append.cpu "$figure"' plain("append")[] | [.method, .size, figure_of(.ratios.cpu)]'
	data delay "$figure"' small[] | select(.busy == 0 and .clients == 1) | [.method, .delay / 1000, figure_of(.ratios.t_typical)]'
	data busy "$figure"' small[] | select(.delay == 0 and .clients == 1) | [.method, .busy, figure_of(.ratios.t_typical)]'
	data clients "$figure"' small[] | select(.delay == 0 and .busy == 0) | [.method, .clients, figure_of(.ratios.time)]'
	for ((kernel = 0; kernel < ${#images[@]}; kernel++)); do
		data "region.$kernel" "$figure"' cases("region")[] | ["-", .region / 1048576, figure_of(.ratios.t_typical)]'
		data "region-cpu.$kernel" "$figure"' cases("region")[] | ["-", .region / 1048576, figure_of(.figures.target_cpu)]'
		data "latency.$kernel" "$figure"' plain("latency") | to_entries[] | ["-", .key, figure_of(.value .ratios.t_typical)]'
		data "rate.$kernel" "$figure"' plain("rate") | to_entries[] | ["-", .key, figure_of(.value .ratios.time)]'
	done
	(cd "$folder" && gnuplot -e "kernels='$(jq -r '[.kernels[].kernel] | join(" ")' bench.json)'" \
		-e "note='$(jq -r .test_info.note bench.json)'" -e "cpu='$(jq -r .test_info.cpu_unit bench.json)'" \
		-e "a=$(jq '.kernels[0].model.trip.value // 0' bench.json)" \
		-e "b=$(jq '.kernels[0].model.request.value // 0' bench.json)" "$here/bench.gnuplot" &&
		perl -0pi -e '1 while s|<g [^>]*>\s*</g>\n?||g' ./*.svg)	# gnuplot's groups that have nothing in them
}

