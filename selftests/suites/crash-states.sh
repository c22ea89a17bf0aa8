#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # many words here are for the guests' shells, or for a checker's
#
# crash-states: its engine on captures made by hand, with breaks of the engine that must be noticed, and with
# damaged recordings; then runs of the remote log in two guests: the right one is consistent in 10,000 states,
# and each mistake of broken-log is found and named.
#
# SEED=N repeats the samples; with LONG=1 there are ten times as many damaged recordings.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/mutants.sh
. "$here/../mutants.sh"

kselftest=$root/build/${BASE:-v6.1}/src/tools/testing/selftests
records=60

# build FOLDER CFLAGS PROGRAM: of the sources in $work/tree, or here
build() {
	local tree=$root
	[[ ! -d $work/tree ]] || tree=$work/tree
	make -s -C "$tree/crash-states" OUTPUT="$1" CFLAGS="$2" KSELFTEST="$kselftest" "$1/$3"
}

##############################################################################
# The engine

# engine_passes PROGRAM ARG...
engine_passes() {
	ASAN_OPTIONS=detect_leaks=0 "$@" >"$work/out" 2>&1 || fail "$(<"$work/out")"
	echo "# $(grep '^# Totals' "$work/out")"
	grep -q "^# Totals: pass:[1-9].* fail:0 .*skip:0 error:0" "$work/out"
}

the_engine_follows_captures_made_by_hand() { engine_passes "$root/build/crash/crash-test" --short; }
# These take minutes.
the_engine_finds_mistakes_in_5000_records() { engine_passes "$root/build/crash/crash-test" '*_5000_records'; }

# The long rings would take ten times as many minutes, and run the same code.
so_it_does_with_sanitizers() {
	build "$work/sanitized" "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all" crash-test
	engine_passes "$work/sanitized/crash-test" --short
}

crash_test_runs_the_cases_that_are_named() {
	local test=$root/build/crash/crash-test cases
	"$test" 'run.psns_*' run.a_gap_is_an_error >"$work/out" || fail "$(<"$work/out")"
	cases=$(sed -n 's/^ok [0-9]* //p' "$work/out" | sort | tr '\n' ' ')
	[[ $cases == "run.a_gap_is_an_error run.psns_wrap " ]] || fail "it has run: $cases"
	"$test" run.no_such_case >"$work/out" 2>&1 && fail "a name of no case passes"
	"$test" --short '*_5000_records' >"$work/out" 2>&1 && fail "--short runs the long rings"
	grep -q "no case of crash-test has such a name" "$work/out"
}

each_break_of_the_engine_is_noticed() {
	local name pattern found
	mutant_files=("$root"/crash-states/mutants/*)
	for name in $(mutants_in "${mutant_files[@]}"); do
		rm -rf "$work/tree" "$work/mutant"
		mkdir -p "$work/tree/selftests" "$work/tree/qemu-scripts"
		cp -r "$root/crash-states" "$work/tree"
		cp "$root/qemu-scripts/page-head.html" "$work/tree/qemu-scripts"
		cp -r "$here"/../{rdma,verbs} "$work/tree/selftests"
		mutant "$name" | patch -s -p1 -d "$work/tree/crash-states" || fail "$name does not apply"
		build "$work/mutant" -O1 crash-test
		pattern=$(header Case "$name")
		"$work/mutant/crash-test" "$pattern*" >"$work/out" 2>&1 || true
		found=$(sed -n 's/^not ok [0-9]* //p' "$work/out" | first_of "${pattern:?"$name has no Case"}") ||
			fail "$name: $pattern does not notice: $(<"$work/out")"
		echo "# $name: $found"
	done
	[[ -n ${found-} ]] || fail "there are no mutants"
}

# fuzz RUN COUNT: damages the recordings of RUN
fuzz() {
	local said
	said=$("$root/build/crash/crash-fuzz" "$work/sanitized/crash-states" "$1" "$seed" "$2") || fail "$said"
	echo "# $said"
	[[ $said == *": "[1-9]*" were refused"* ]] || fail "none was refused"
	[[ $said == *", "[1-9]*" were inconsistent"* ]] || fail "no state was explained"
}

damaged_recordings_are_borne() {
	local -i count=$((${LONG:-0} ? 3000 : 300))
	append none
	echo "# SEED=$seed"
	build "$work/sanitized" "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all" crash-states
	fuzz "$run" $count
	make_ring other-qp-tail 20
	fuzz "$work/ring" $count
	make_ring daemon-no-fence 20
	fuzz "$work/ring" $count
}

##############################################################################
# The command

# crash_states STATUS ARG...: what it says is in $said.  It tries as many states each time, on any host.
crash_states() {
	local want=$1 status=0
	shift
	[[ " $*" == *" --"@(states|seconds|replay|lose)" "* ]] || set -- --states 1000 "$@"
	said=$("$root/qemu-scripts/crash-states" "$@" 2>&1) || status=$?
	echo "crash-states $*"
	echo "$said"
	((status == want)) || fail "status $status, not $want"
}

says() { [[ $said == *"$1"* ]] || fail "it does not say: $1"; }

# verdict TEXT: the first word of it all, and the last line
verdict() { [[ $said == "$1: "* && ${said##*$'\n'} == "$1: "* ]] || fail "it does not begin and end with $1"; }

# append MISTAKE: by broken-log; the folder of the run is in $run
append() {
	mkdir -p "$work/share"
	seq -f "line %g, for crash-states" $records >"$work/text"
	RXE_OUT=$work/out-$1 "$root/qemu-scripts/rxe-vm" pair --name "crash-$1" --kill-server --server-pmem 64M \
		--client-share "$work/share" --server 'exec remote-log-target $RXE_ADDR /dev/dax0.0' \
		--client "broken-log $1 \$RXE_PEER_ADDR $work/text $records $work/share/acknowledged" ||
		fail "the program has to end well: that is the point"
	run=$(readlink -f "$work/out-$1/latest")
}

the_right_program_is_consistent_in_10000_states() {
	local -i began=$SECONDS
	append none
	echo "# SEED=$seed"
	began=$SECONDS
	crash_states 0 --states 10000 --seed "$seed" "$run" -- remote-log-survives "$work/text"
	(($(sed -n 's/ states of .*//p' <<<"$said") >= 10000)) || fail "fewer states"
	says "coverage: complete: every prefix, every request and every pair of requests in flight"
	says "held at the end what these requests explain, and nothing else had changed"
	echo "# 10000 states in $((SECONDS - began)) s"
	crash_states 0 --states 2000 --seed "$seed" --model ordered "$run" -- remote-log-survives "$work/text"
	crash_states 0 --lint "$run"
}

# finds MISTAKE RULE WHY...: within 2000 states, and says each of these
finds() {
	local mistake=$1 rule=$2 id
	shift 2
	append "$mistake"
	echo "# SEED=$seed"
	crash_states 1 --states 2000 --seed "$seed" "$run" -- remote-log-survives "$work/text" "$rule"
	while (($#)); do
		# shellcheck disable=SC2053 # a pattern
		[[ $said == *$1* ]] || fail "it does not say: $1"
		shift
	done
	echo "# $(grep -m 1 ' states of ' <<<"$said")"
	echo "# $(grep -m 1 'Why:' <<<"$said")"
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p;' <<<"$said" | head -n 1)
	state_can_be_made_again "$id" "$rule"
	state_is_drawn "$id"
}

state_can_be_made_again() {
	local kept=$run/crash-states/$1
	mv "$kept/image" "$work/image"
	crash_states 1 --replay "$1" "$run" -- remote-log-survives "$work/text" "$2"
	cmp "$kept/image" "$work/image" || fail "another image"
}

state_is_drawn() {
	local kept=$run/crash-states/$1
	grep -q "GONE: lost with the power" "$kept/ladder.txt" || fail "the ladder does not show what is lost"
	grep -q "the power fails" "$kept/ladder.txt"
	grep -q "c01c28.*lost with the power" "$kept/ladder.svg" || fail "the picture does not show it in red"
}

no_flush_before_the_tail_is_found() {
	finds no-flush tail "WRITE psn * has lost * words*No persistent FLUSH that covers it stands between the two, and ATOMIC WRITE psn"
}
# One of 60 records, by as many states as are the default.
one_missing_flush_is_found() {
	append no-flush-once
	echo "# SEED=$seed"
	crash_states 1 --seed "$seed" "$run" -- remote-log-survives "$work/text"
	says "coverage: complete"
}

ring=$root/build/crash/crash-ring

# make_ring MODE RECORDS: a recording, without guests, in $work/ring
make_ring() {
	rm -rf "$work/ring"
	mkdir "$work/ring"
	"$ring" "$work/ring" "$@"
}

# A pass that was cut short is none.
a_limit_gives_no_pass() {
	make_ring right 60
	crash_states 4 --limit 20 "$work/ring" -- true
	says "20 states of 121 cuts: 0 fail"
	says "coverage: NOT COMPLETE"
	says "not tried: some of these, because --limit ended it"
	crash_states 1 --limit 20 "$work/ring" -- false
	says "because --limit ended it"
	crash_states 0 --states 0 "$work/ring" -- true
	says "coverage: complete"
}

# Neither a checker nor a pattern: only a program that makes nothing durable is wrong for sure.
no_checker_is_needed_where_nothing_is_durable() {
	make_ring read 60
	crash_states 1 --json "$work/json" "$work/ring"
	says "Nothing is durable: requests stored "
	[[ $(member status) == 1 && $(member flushes) == 0 && $(member stores_not_covered) != 0 ]] || fail "$(<"$work/json")"
	crash_states 4 --model adr-read "$work/ring"
	make_ring no-flush 60
	crash_states 4 --json "$work/json" "$work/ring"
	says "Nothing says what the program counts on.  Say it:"
	verdict "NOT JUDGED"
	[[ $(member flushes_answered) == 60 && $(member hints 0) == "frame 2, ATOMIC WRITE"* && $(member notes) == *"compared with it"* ]] ||
		fail "$(<"$work/json")"
}

a_promise_needs_no_checker() {
	make_ring daemon 60
	crash_states 0 --promise durable "$work/ring"
	verdict CONSISTENT
	says "60 lines match --promise: 0 came while what their initiator had stored before was not durable"
	make_ring daemon-no-clwb-once 60
	crash_states 1 --promise 'record .* durable' --json "$work/json" "$work/ring"
	verdict "NOT CONSISTENT"
	says "Why: STORE by the CPU"
	[[ $(member promises) == 60 && $(member broken 0 kind) == no-write-back ]] || fail "$(<"$work/json")"
	ktap 1 --promise durable "$work/ring"
	[[ $results == "not ok 1 line at frame "*$'\n'1..1 ]] || fail "$results"
	crash_states 2 --promise lasting "$work/ring"
	says "--promise lasting: none of the 60 lines that initiators printed matches it"
	# A checker and a promise.
	crash_states 1 --promise durable "$work/ring" -- true
	says "60 lines match"
	says "coverage: complete"
}

# What recovery finds in a ring: the tail, and the newest records up to that.
of_ring='od -A n -v -t u8 -w64 -N 2112 "$IMAGE"'
dump="$of_ring"' | awk "NR == 1 { tail = \$1; print tail; next } { slot[NR - 2] = \$0 }
	END { for (n = tail > 7 ? tail - 7 : 1; n <= tail; n++) print slot[n % 32] }"'

# oracle STATUS MODE [OPTION...]
oracle() {
	make_ring "$2" 20
	crash_states "$1" --oracle "$dump" "${@:3}" "$work/ring"
}

# It may not have waited for the answers, which were quicker than it.
a_pass_that_hangs_on_the_schedule_is_none() {
	make_ring slow 20
	crash_states 4 --promise durable "$work/ring"
	says "Each line came 300 ms or more after the answer to a FLUSH"
	says "rxe-vm pair --server-delay 600ms"
	crash_states 4 "$work/ring" -- sh -c 'od -A n -t u8 -N 128 "$IMAGE"'
	make_ring slow-tail 20
	crash_states 4 "$work/ring" -- sh -c 'od -A n -t u8 -N 8 "$IMAGE"'
	says "Each WRITE of a word came 300 ms or more after the answer to a FLUSH"
}

an_oracle_needs_no_checker() {
	local mode id
	for mode in right one-by-one loss; do
		oracle 0 $mode
	done
	for mode in no-flush no-flush-once short-once write-tail fetch-add-tail flush-first early-tail other-qp-tail global; do
		oracle 1 $mode --states 300
	done
	says "  Expected, or what was right earlier: "
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p' <<<"$said" | head -n 1)
	crash_states 1 --oracle "$dump" --replay "$id" "$work/ring"
	says "Expected, or what was right earlier: "
	oracle 0 daemon --promise durable
	[[ $said != *"at neither promise"* ]] || fail "a right daemon has no transaction: $said"
	# What the memory holds between two promises, it takes for right.
	crash_states 0 --promise durable --states 300 --oracle "$of_ring"' | awk "NR == 1 { n = \$1 + 1; next }
		{ slot[NR - 2] = \$1 } END { print slot[n % 32] == n ? \"torn\" : n }"' "$work/ring"
	says 'with nothing lost, recovery prints what it prints at neither promise around that, "torn": '
	oracle 1 daemon-no-fence --promise durable
	make_ring right 20
	crash_states 2 --oracle 'echo same' "$work/ring"
	says "it prints the same of the memory at the start and at the end"
	crash_states 2 --oracle 'date +%N; cat "$IMAGE"' "$work/ring"
	says "it prints something else each time of the same memory"
	crash_states 2 --oracle 'exit 7' "$work/ring"
	says "it fails on what the program has made"
	crash_states 2 --oracle "$dump" "$work/ring" -- true
	says "--oracle stands in place of a checker"
}

# recovery STATUS MODE [OPTION...]: of the ring
recovery() { crash_states "$1" --states 40 --recovery "$ring recover $2" "${@:3}" "$work/ring" -- "$work/judge"; }

the_power_fails_again_in_recovery() {
	local mode
	make_ring right 20
	printf '#!/bin/sh\n%s && exec %s recovered\n' "$ring" "$ring" >"$work/judge"
	chmod +x "$work/judge"
	for mode in right same-line msync; do
		recovery 0 $mode
		says "stores of recovery to "
		says ": 0 end wrong"
	done
	recovery 1 counts-again --json "$work/json" --html "$work/page.html"
	says "  there   0x8080  store 1 of 9 by recovery, 0x0000000000000"
	says ": ring-recovery.c:"
	says "Recovery begins anew on what it has left, and ends wrong"
	says "counted "
	[[ $(member recovery_findings 0 kind) == recovery-not-idempotent && $(member recovery wrong) != 0 ]] || fail "$(<"$work/json")"
	[[ -s $(member recovery_findings 0 folder)/image && $(<"$work/page.html") == *"ring-recovery.c:"* ]] || fail "nothing is kept"
	recovery 1 done-first
	says "  there   0x8040  store 1 of 9"
	recovery 1 no-fence
	says "is lost, although later ones are there"
	crash_states 1 --states 40 --serve --recovery "$ring recover done-first" "$work/ring" -- \
		sh -c "while read -r cut; do if [ \$($ring recovered | wc -w) = 3 ]; then echo 0; else echo 1 why; fi; done"
	says "The checker: why"
	# What is printed counts, and so do status and usage.
	crash_states 0 --states 40 --recovery "$ring recover right" --oracle "$dump" "$work/ring"
	crash_states 1 --states 40 --recovery "$ring recover counts-again" --oracle "$ring recover right; $dump; $ring recovered" "$work/ring"
	says "Recovery begins anew"
	recovery 4 right --states 0
	crash_states 4 --states 40 --recovery true "$work/ring" -- "$work/judge"
	says "--recovery true: it has stored nothing"
	crash_states 2 --recovery ./no-such-program "$work/ring" -- "$work/judge"
	says "the shell cannot run it (status 127)"
	crash_states 1 --states 40 --recovery 'kill -SEGV $$' "$work/ring" -- "$work/judge"
	says "recovery is killed by a signal"
	crash_states 1 --states 40 --recovery 'sh -c "kill -SEGV \$\$"; exit $?' "$work/ring" -- "$work/judge"
	says "recovery is killed by a signal"
	crash_states 2 --states 40 --recovery 'truncate -s +4096 "$IMAGE"' "$work/ring" -- "$work/judge"
	says "--recovery: it changes the size of \$IMAGE"
	crash_states 2 --states 40 --recovery 'cp "$IMAGE" "$IMAGE.new" && mv "$IMAGE.new" "$IMAGE"' "$work/ring" -- true
	says "let it store to \$IMAGE itself"
	# Only the one that is followed is slow.
	crash_states 4 --states 40 --timeout 1 --recovery 'grep -q "TracerPid:.0$" /proc/self/status || exec sleep 100' \
		"$work/ring" -- "$work/judge"
	says "states on which recovery is too slow when its stores are followed"
	crash_states 1 --states 1 --timeout 1 --recovery 'exec sleep 100' "$work/ring" -- "$work/judge"
	says "recovery and the checker do not end in time"
	crash_states 2 --recovery true "$work/ring"
	says "--recovery wants a judge"
}

# Without a number of states: until all were tried, or the time is over.
the_verdict_is_by_time() {
	local -i began=$SECONDS
	make_ring one-by-one 20
	crash_states 0 --seconds 60 "$work/ring" -- "$ring"
	says "coverage: these are all states of all cuts"
	make_ring right 60
	crash_states 0 --seconds 6 --serve "$work/ring" -- "$ring" --serve
	says "coverage: complete: every prefix"
	says "not tried: "
	crash_states 4 --seconds 2 --json "$work/json" "$work/ring" -- sh -c 'sleep 0.3'
	[[ $said =~ 'note: a state takes '[0-9]{2,}' ms, so the '[0-9]+' states that are always checked, at most, take up to '[0-9]+' '(s|min)', ' ]] || fail "$said"
	says "coverage: NOT COMPLETE"
	says "not tried: some of these, because the time was over (--seconds)"
	[[ $(member coverage out_of_time) == True ]] || fail "$(<"$work/json")"
	((SECONDS - began < 120)) || fail "it took $((SECONDS - began)) s"
	crash_states 2 --seconds 0 "$work/ring" -- true
}

# Such as one for --serve, which finds its stdin at its end.
a_checker_that_accepts_nothing_stored_is_noted() {
	local note="note: the checker accepts a memory to which nothing was stored, although everything was told and answered" id
	make_ring no-flush-once 60
	crash_states 1 "$work/ring" -- "$ring"
	[[ $said != *"$note"* ]] || fail "the checker judges"
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p' <<<"$said" | head -n 1)
	crash_states 0 "$work/ring" -- "$ring" --serve
	says "$note: does it judge at all?  A checker for --serve needs --serve"
	crash_states 0 --replay "$id" "$work/ring" -- "$ring" --serve
	says "$note"
	crash_states 1 --serve "$work/ring" -- "$ring" --serve
	[[ $said != *"$note"* ]] || fail "the checker that stays judges"
	crash_states 1 --serve --replay "$id" "$work/ring" -- "$ring" --serve
	make_ring copies 60
	crash_states 0 "$work/ring" -- "$ring"
	[[ $said != *"$note"* ]] || fail "the checker of the group judges"
	crash_states 0 "$work/ring" -- true
	says "$note"
}

lines_that_come_only_at_the_end_are_noted() {
	make_ring buffered 60
	crash_states 4 "$work/ring"
	says "note: all lines were printed after the last FLUSH had been answered: is the standard output buffered?"
	make_ring buffered 1
	crash_states 4 "$work/ring"
	[[ $said != *buffered* ]] || fail "a program may print one line at its end"
}

# The next run moves the link.
the_kept_folder_is_no_link() {
	make_ring no-flush-once 60
	ln -sfn ring "$work/latest"
	crash_states 1 "$work/latest" -- "$ring"
	says "Kept: $work/ring/crash-states/"
	says "; the checker says the same of them, but for numbers"
	[[ $said != *"$work/latest/crash-states"* ]] || fail "it names the link"
}

# Programs that failed early may have sent nothing that can be lost.
a_run_that_failed_is_noted() {
	local note="note: the run did not pass (fail: the client's command ended with status 1): only what was sent"
	make_ring right 60
	printf '%s\n' "fail: the client's command ended with status 1" "exit status 1" >"$work/ring/verdict"
	crash_states 0 "$work/ring" -- true
	says "$note"
	printf '%s\n' pass "exit status 0" >"$work/ring/verdict"
	crash_states 0 "$work/ring" -- true
	[[ $said != *"did not pass"* ]] || fail "$said"
}

# So many checkers run at a time, and the last of 1000 failures ends it: the numbers are the same.
the_result_does_not_depend_on_jobs() {
	local jobs
	local -a first=()
	make_ring no-flush 600
	for jobs in 1 3 7; do
		crash_states 1 --jobs $jobs --states 4000 --seed 1 "$work/ring" -- false
		first+=("$(grep ' states of ' <<<"$said")")
	done
	[[ ${first[0]} == "1000 states of "*": 1000 fail" ]] || fail "${first[0]}"
	[[ ${first[0]} == "${first[1]}" && ${first[0]} == "${first[2]}" ]] || fail "$(printf '%s\n' "${first[@]}")"
}

# The lines of a recorded run, each in the midst of the next append: that is late only if write() waited.
a_pass_that_hangs_on_late_lines_is_none() {
	tar -xzf "$root/selftests/examples/first-log-runs.tar.gz" -C "$work"
	crash_states 0 --promise 'record [4-7] is durable' "$work/with-flush"
	python3 -c '
import struct, sys
with open(sys.argv[1], "rb+") as file:
    data, frames, at = file.read(), [], 24
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at:end])
        at = end
    order = sorted(range(len(frames)), key=lambda n: n + 5.5 * (b"rxe-told" in frames[n]))
    file.seek(24)
    file.write(b"".join(frames[n] for n in order))' "$work/with-flush/server.pcap"
	crash_states 4 --promise 'record [4-7] is durable' "$work/with-flush"
	says "No line that matches --promise came while all that its initiator had stored was durable"
	crash_states 0 --promise 'is durable' "$work/with-flush"
	LC_ALL=C sed -i 's/rxe-told\x80/rxe-told\x00/g' "$work/with-flush/server.pcap"
	crash_states 0 --promise 'record [4-7] is durable' "$work/with-flush"
}

# An exception of Python ends with 1, whatever the state is.
a_checker_that_fails_alike_on_everything_is_an_error() {
	make_ring right 60
	crash_states 2 "$work/ring" -- python3 -c 'import os; os.environ["NO_SUCH_NAME"]'
	says "the checker cannot be used: it says the same of what the target held at the start, and of what it held at the end"
	says "KeyError"
}

# A recovery that crashes or hangs on a state fails, and its state is explained and kept.
a_checker_that_crashes_or_hangs_is_a_finding() {
	local id
	make_ring no-flush-once 60
	crash_states 1 "$work/ring" -- sh -c "$ring || kill -SEGV \$\$"
	says "The checker: the checker was killed by signal 11"
	says "times the checker crashed, 0 times it ran longer"
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p' <<<"$said" | head -n 1)
	[[ -s $work/ring/crash-states/$id/image ]] || fail "its image is not kept"
	crash_states 1 --replay "$id" "$work/ring" -- sh -c "$ring || kill -SEGV \$\$"
	crash_states 1 "$work/ring" -- sh -c "$ring || exit 7"
	says "the checker ended with status 7"
	crash_states 1 --timeout 1 "$work/ring" -- sh -c "$ring || sleep 1000"
	says "the checker ran longer than 1 s"
	says "note: these are enough: no more states were checked"
	says "not tried: some of these, because there were failures enough"
}

# It has the same states, and finds the same; and so it does if it dies or hangs on them.
a_checker_that_stays_finds_the_same() {
	local once id
	make_ring no-flush-once 60
	crash_states 1 --seed 1 "$work/ring" -- "$ring"
	once=$(grep -e ' states of ' -e '^State' -e Why: -e 'The checker' <<<"$said")
	crash_states 1 --seed 1 --serve "$work/ring" -- "$ring" --serve
	[[ $(grep -e ' states of ' -e '^State' -e Why: -e 'The checker' <<<"$said") == "$once" ]] || fail "not the same"
	says "coverage: the checker printed "
	crash_states 1 --seed 1 --serve "$work/ring" -- sh -c "while read -r cut; do $ring >&2 && echo 0 || kill -SEGV \$\$; done"
	says "The checker: the checker was killed by signal 11"
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p' <<<"$said" | head -n 1)
	[[ -s $work/ring/crash-states/$id/image ]] || fail "its image is not kept"
	crash_states 1 --replay "$id" --serve "$work/ring" -- "$ring" --serve
	crash_states 1 --timeout 1 --serve "$work/ring" -- sh -c "while read -r cut; do $ring >&2 && echo 0; done"
	says "the checker ran longer than 1 s"
	crash_states 2 --serve "$work/ring" -- "$ring"
	says "the checker cannot be used: it fails on what the target held at the start, and on what it held at the end"
	says "with --serve it answers each line of its stdin"
}

# member NAME...: of the JSON in $work/json
member() { python3 -c 'import functools, json, sys
print(functools.reduce(lambda at, name: at[int(name) if name.isdigit() else name], sys.argv[2:], json.load(open(sys.argv[1]))))' "$work/json" "$@"; }

# The result for other programs, of a failure, a pass, no pass, and an error.
the_result_is_written_as_json() {
	local id
	make_ring no-flush-once 60
	crash_states 1 --seed 1 --json "$work/json" "$work/ring" -- sh -c "$ring >/dev/null && exit; printf '\"\\\\\t\377'; exit 1"
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p' <<<"$said")
	[[ $(member status) == 1 && $(member findings 0 id) == "$id" && $(member findings 0 kind) == no-flush ]] ||
		fail "$(<"$work/json")"
	[[ $(member findings 0 folder) == "$work/ring/crash-states/$id" && $(member findings 0 checker) == $'"\\\t?' ]] ||
		fail "$(<"$work/json")"
	says "$(member states) states of $(member coverage cuts) cuts: $(member failed) fail"
	says "0x$(printf %x "$(member findings 0 words 0 offset)")  holds what it held at the start, $(member findings 0 words 0 holds)"
	make_ring right 60
	crash_states 0 --json "$work/json" "$work/ring" -- "$ring"
	[[ $(member status) == 0 && $(member findings) == "[]" && $(member coverage complete) == True ]] || fail "$(<"$work/json")"
	# Checkers that ran on when there were failures enough do not count, however many run at once.
	make_ring no-flush 600
	crash_states 1 --jobs 7 --states 4000 --json "$work/json" "$work/ring" -- false
	says "$(member states) states of $(member coverage cuts) cuts: $(member failed) fail"
	crash_states 4 --limit 20 --json "$work/json" "$work/ring" -- true
	[[ $(member status) == 4 && $(member coverage complete) == False ]] || fail "$(<"$work/json")"
	crash_states 2 --json "$work/json" "$work/ring" -- sh -c 'exit 7'
	[[ $(member status) == 2 && $(member error) == "the checker cannot be used: "* ]] || fail "$(<"$work/json")"
	crash_states 2 --json "$work/json" "$work"
	[[ $(member status) == 2 ]] || fail "$(<"$work/json")"
}

# on_a_full_disk COMMAND...: in a memory disk of its own, which has a copy of $work/ring, and no room left
on_a_full_disk() {
	mkdir -p "$work/full"
	unshare -rm bash -euc 'mount -t tmpfs -o size=256k none "$0/full"
		cp --sparse=always "$0"/ring/* "$0/full"
		! dd if=/dev/zero of="$0/full/rest" bs=1k status=none 2>/dev/null
		"$@"' "$work" "$@"
}

# A memory disk wants room even for a hole that is read.
a_full_disk_is_an_error_with_a_message() {
	local program=$root/build/crash/crash-states status=0
	make_ring right 60
	said=$(on_a_full_disk "$program" --json "$work/json" "$work/full" -- true 2>&1) || status=$?
	((status == 2)) || fail "status $status: $said"
	says "crash-states: error: a part of a file cannot be read or written: its disk is full"
	[[ $(member status) == 2 ]] || fail "$(<"$work/json")"
	status=0
	said=$(TMPDIR=$work/full on_a_full_disk "$program" "$work/ring" -- true 2>&1) || status=$?
	((status == 2)) || fail "status $status: $said"
	says "No space left on device"
}

# The files may have any names, and findings go into another folder.
what_was_recorded_elsewhere_is_followed() {
	make_ring no-flush-once 60
	mkdir -p "$work/found" "$work/elsewhere"
	mv "$work/ring/server.pcap" "$work/elsewhere/pcap"
	mv "$work/ring/server.memory" "$work/elsewhere/memory"
	mv "$work/ring/server.pmem0.start" "$work/elsewhere/start"
	crash_states 1 --seed 1 --capture "$work/elsewhere/pcap" --memory "$work/elsewhere/memory" \
		--start "$work/elsewhere/start" "$work/found" -- "$ring"
	says "No persistent FLUSH of its QP that covers it follows"
	says "the power fails X"
	[[ -s $(echo "$work"/found/crash-states/*/ladder.svg) ]] || fail "it is not drawn"
	crash_states 2 --capture "$work/elsewhere/pcap" "$work/found" -- "$ring"
	says "has no server.memory"
}

# At once.
what_is_suspicious_needs_no_checker() {
	make_ring no-flush 60
	crash_states 4 "$work/ring"
	says "hint: frame 2, ATOMIC WRITE psn 2 (0x0 to 0x8) of QP 17: no persistent FLUSH before it covers all of WRITE psn 1"
	says "hint: and 57 more like these"
	make_ring right 60
	crash_states 4 "$work/ring"
	[[ $said != *hint* ]] || fail "there is a hint for the right ring"
}

# tshark is missing, so the state cannot be drawn: its status is that of the checker.
what_cannot_be_drawn_still_fails() {
	make_ring no-flush-once 60
	crash_states 1 "$work/ring" -- "$ring"
	says "the power fails X"
	mkdir "$work/bin"
	printf '#!/bin/sh\nexit 1\n' >"$work/bin/tshark"
	chmod +x "$work/bin/tshark"
	PATH=$work/bin:$PATH crash_states 1 "$work/ring" -- "$ring"
	says "this state cannot be drawn"
}

# ktap STATUS ARG...: of crash-states; its results are in $results
ktap() {
	crash_states "$1" --ktap "${@:2}"
	[[ $said == "KTAP version 1"* ]] || fail "no KTAP"
	results=$(grep -e '^ok ' -e '^not ok ' -e '^1\.\.' -e '^Bail' <<<"$said" || true)
	! grep -v -e '^ok ' -e '^not ok ' -e '^1\.\.' -e '^# ' -e '^#$' -e '^KTAP' -e '^Bail' <<<"$said" || fail "this is no KTAP"
}

the_result_is_ktap_or_a_page() {
	local results page
	make_ring no-flush-once 60
	ktap 1 --seed 1 --html "$work/page.html" "$work/ring" -- "$ring"
	[[ $results == "not ok 1 state "*": "*$'\n'"ok 2 coverage is complete"$'\n'1..2 ]] || fail "$results"
	page=$(<"$work/page.html")
	[[ $page == *"1. Record 30 is torn"*"<svg"*"lost with the power"*"</html>" ]] || fail "$page"
	crash_states 1 --html "$work/page.html" "$work/ring" -- sh -c "$ring >/dev/null || { echo '<i>'; exit 1; }"
	[[ $(<"$work/page.html") == *"1. &lt;i&gt;"* ]] || fail "$(<"$work/page.html")"
	make_ring right 60
	ktap 0 --html "$work/page.html" "$work/ring" -- sh -c "$ring && echo '<b>&'"
	[[ $results == "ok 1 all states are consistent"$'\n'"ok 2 coverage is complete"$'\n'1..2 ]] || fail "$results"
	ktap 4 --limit 20 "$work/ring" -- true
	[[ $results == "ok 1 all states are consistent"$'\n'"not ok 2 coverage is complete"$'\n'1..2 ]] || fail "$results"
	# That states fail does not make the coverage complete.
	ktap 1 --limit 20 "$work/ring" -- false
	[[ $results == "not ok 1 state "*$'\n'"not ok 2 coverage is complete"$'\n'1..2 ]] || fail "$results"
	ktap 2 --html "$work/page.html" "$work/ring" -- sh -c 'echo "<b>"; exit 7'
	[[ $results == "Bail out! "*"the checker cannot be used"* ]] || fail "$results"
	[[ $(<"$work/page.html") == *"&lt;b&gt;"* ]] || fail "$(<"$work/page.html")"
	crash_states 4 --html "$work/page.html" "$work/ring"
	[[ $(<"$work/page.html") == *"<b>NOT JUDGED</b>"*"240 packets of requests"* ]] || fail "$(<"$work/page.html")"
}

# What the program prints, and its names, may be hostile.
the_page_shows_the_cause_and_loads_nothing() {
	local run=$work/without-flush page
	tar -xzf "$root/selftests/examples/first-log-runs.tar.gz" -C "$work"
	cc -O2 -o "$work/checker" "$root/selftests/examples/first-log-survives.c"
	LC_ALL=C sed -i 's|record 0 is durable|<script>0</script>d|' "$run/server.pcap"
	sed -i 's|append()|<b>append()|' "$run/client.lines"
	printf "%s\n" "RXE_COMMAND='./my-log <i> '\''%s'\'''" >"$run/client.env"
	crash_states 1 --serve --promise '^<?(script|record)' --html "$work/page.html" "$run" -- "$work/checker"
	says "Posted by: forgetful-log.c:162 <b>append()"
	page=$(<"$work/page.html")
	[[ $page == *"<b>NOT CONSISTENT</b>"*"20 lines match --promise: 20 came"*"./my-log &lt;i&gt; '%s'"$'\n'*"A <i>state</i> is"* ]] || fail "$page"
	[[ $page == *"1. Record 0 is lost or torn"*"is torn.  No persistent FLUSH"*"the power fails after frame 17"*"&lt;script&gt;0&lt;/script&gt;d"*"lost with the power"* ]] || fail "$page"
	[[ $page == *"<dd class=\"code\">forgetful-log.c:162 &lt;b&gt;append()"*"What was tried"*"not tried:"* ]] || fail "$page"
	[[ $page =~ "crash-states from the run of 20"[0-9-]+" "[0-9:]+" UTC, $run." ]] || fail "it has no date: $page"
	# The line and the state have one cause.
	[[ $(grep -c "<section" <<<"$page") == 1 && $(grep -c "<svg" <<<"$page") == 1 ]] || fail "$page"
	! grep -e "<script" -e " src=" -e "href=" -e "url(" -e "@import" <<<"$page" || fail "it loads something, or runs it"
}

# What the target's own CPU stored is in no state: a checker that counts on it cannot be judged.
what_the_target_stored_cannot_be_judged() {
	make_ring right 60
	crash_states 0 --cuts $((60 * 8)) "$work/ring" -- sh -c "cp \"\$IMAGE\" $work/end"	# all that came
	printf 'abcd' | dd of="$work/end" bs=1 seek=65528 conv=notrunc status=none
	cp "$work/end" "$work/ring/server.pmem0"
	crash_states 2 "$work/ring" -- sh -c 'grep -q abcd "$IMAGE"'
	says "this run cannot be judged: 1 words were changed by what no request explains"
	says "It accepts what the target held at the end, and refuses it without them"
	says "Let the initiator store them, or the target before rxe-ready or before it listens"
	# Only as long as less than all has come.
	crash_states 2 "$work/ring" -- sh -c "[ \$CUT = $((60 * 8)) ] || grep -q abcd \"\$IMAGE\""
	says "Each state that fails is consistent with what they held at the end, and not without it"
	# What fails for another reason is found.
	make_ring no-flush-once 60
	mv "$work/end" "$work/ring/server.pmem0"
	crash_states 1 "$work/ring" -- "$ring"
	says "1 words were changed by none of these requests"
	says "Why: WRITE psn"
}

# No request names where that is stored, and there is no server.pmem0 to compare with.
what_the_target_pulled_cannot_be_judged() {
	make_ring pulled 60
	crash_states 0 "$work/ring" -- "$ring"
	says "note: 1 packets were pulled by the target's own READs or Atomics"
	crash_states 2 "$work/ring" -- sh -c '[ $CUT -lt 100 ] || grep -q 12345678 "$IMAGE"'
	says "this run cannot be judged: the target has got 1 packets by its own READs or Atomics"
	# A loss is a finding all the same.
	crash_states 1 "$work/ring" -- sh -c '[ $CUT -lt 250 ] || [ $(od -A n -t u8 -N 8 "$IMAGE") -ge 33 ]'
	says "ATOMIC WRITE psn"
}

# The NVDIMM's file has no page at all, and yet the requests stored to it.
what_requests_stored_is_missed_in_a_hole() {
	make_ring right 60
	truncate -s 65536 "$work/ring/server.pmem0"
	crash_states 4 "$work/ring"
	says "words that requests stored held something else at the end; has the target's own CPU changed them? 0x0-0x7"
	crash_states 2 --strict "$work/ring"
	says "--strict: the requests do not explain "
	rm "$work/ring/server.pmem0"
	crash_states 2 --strict "$work/ring"
	says "--strict: there is no "
}

# ring_culprit MODE RECORDS WHY
ring_culprit() {
	make_ring "$1" "$2"
	crash_states 1 --states 200 --seed "$seed" "$work/ring" -- "$ring"
	# shellcheck disable=SC2053 # a pattern
	[[ $said == *$3* ]] || fail "$1, $2 records: it does not say: $3"
}

# Not every shape was looked at.
nothing_is_passed_by_a_few_cuts() {
	rm -rf "$work/ring"
	mkdir "$work/ring"
	"$root/build/crash/crash-load" "$work/ring" shapes 300
	crash_states 4 "$work/ring" -- true
	says "coverage: weak: run fewer records, let fewer FLUSHes wait for their answers, or raise --states"
	ktap 4 "$work/ring" -- true
	[[ $results == *"not ok 2 coverage is complete, at a few cuts only"* ]] || fail "$results"
}

# As other tools write it, cut off or not; but not what has no end.
a_capture_of_another_format_is_read() {
	make_ring no-flush-once 60
	tshark -r "$work/ring/server.pcap" -F pcapng -w "$work/ng" 2>/dev/null
	mv "$work/ng" "$work/ring/server.pcap"
	crash_states 1 "$work/ring" -- "$ring"
	truncate -s -10 "$work/ring/server.pcap"
	crash_states 1 "$work/ring" -- "$ring"
	rm "$work/ring/server.pmem0.start"
	mkfifo "$work/ring/server.pmem0.start"
	crash_states 2 "$work/ring" -- "$ring"
	says "server.pmem0.start is no regular file"
}

# A checker that says nothing leaves only what is lost to tell them apart.
two_mistakes_are_both_reported() {
	make_ring two-mistakes 60
	crash_states 1 --seed "$seed" "$work/ring" -- sh -c "$ring >/dev/null || { echo no; exit 1; }"
	says "No persistent FLUSH of its QP that covers it follows"
	says "ATOMIC WRITE psn 60 (0x0 to 0x8) is lost"
}

# crash-test tries shorter runs, too.
the_length_of_a_run_hides_no_mistake() {
	echo "# SEED=$seed"
	ring_culprit write-tail 5000 "a WRITE may pass a FLUSH"
	ring_culprit other-qp-tail 5000 "of QP 18 is there: a QP does not wait for a FLUSH of another QP"
}
nor_any_other_mistake() {
	echo "# SEED=$seed"
	ring_culprit no-flush-once 5000 "has lost * words*FLUSH*ATOMIC WRITE psn * is there"
	ring_culprit short-once 5000 "FLUSH psn * does not hold all that was stored"
	ring_culprit fetch-add-tail 5000 "a FETCH ADD may pass a FLUSH"
	ring_culprit early-tail 5000 "No persistent FLUSH that covers it stands between the two, and ATOMIC WRITE psn * is there; FLUSH psn *, which covers it, was sent later"
	ring_culprit flush-first 5000 "FLUSH psn * names it, but was sent before it"
	ring_culprit global 5000 "asks for global visibility only"
}

# A program that flushes by READ is right on today's servers without DDIO, if it waits.
each_model_has_its_rules() {
	local id
	make_ring read 60
	crash_states 0 --model adr-read --seed "$seed" "$work/ring" -- "$ring"
	says "120 persistent FLUSHes and READs of persistent memory, 120 of them answered"
	crash_states 1 --model strict --seed "$seed" "$work/ring" -- "$ring"
	says "but a READ makes nothing durable"
	make_ring read-unwaited 60
	crash_states 1 --model adr-read --seed "$seed" "$work/ring" -- "$ring"
	says "a WRITE may pass a READ.  Wait until the READ has completed"
	# The state says by which rules it was made.
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p' <<<"$said" | head -n 1)
	crash_states 1 --replay "$id" "$work/ring" -- "$ring"
	make_ring global 60
	crash_states 0 --model eadr --seed "$seed" "$work/ring" -- "$ring"
	make_ring write-tail 60
	crash_states 0 --model ordered --seed "$seed" "$work/ring" -- "$ring"
}

# A record counts when two of three targets have answered; then each two of them have it.
joint_states_of_a_group_are_judged() {
	local id
	make_ring copies 60
	crash_states 0 --seed "$seed" "$work/ring" -- "$ring"
	says "coverage: complete: every prefix, every request and every pair of requests in flight, all those of each set of targets, and each word of one request of each size, lost and left"
	# A program that counts it after one answer loses it.
	crash_states 1 --states 0 "$work/ring" -- "$ring" 1
	says "The checker: targets 1 and 3: the tail is 0, and 1 records are acknowledged"
	says "to target 3 (0x0 to 0x8), which covers it, was answered only later"
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p' <<<"$said" | head -n 1)
	[[ $(stat -c %s "$work/ring/crash-states/$id/image3") == 65536 ]] || fail "the images of the targets are not kept"
	crash_states 1 --replay "$id" "$work/ring" -- "$ring" 1
	crash_states 0 --replay "$id" "$work/ring" -- "$ring"
	# One target, once, got no FLUSH.
	make_ring flawed-copies 60
	crash_states 1 --states 0 "$work/ring" -- "$ring"
	says "WRITE psn 120 to target 1"
	says "targets 1 and 2: record 30 is torn"
	crash_states 2 --lose x "$work/ring"
	says "--lose wants one target: name a folder *.recording"
}

a_right_ring_of_5000_records_is_consistent() {
	local mode
	for mode in right one-by-one loss; do
		make_ring $mode 5000
		crash_states 0 --seed "$seed" "$work/ring" -- "$ring"
		says "coverage: complete"
		echo "# $mode: $(grep -m 1 ' states of ' <<<"$said"), $(grep -m 1 '^coverage' <<<"$said")"
	done
}

a_flush_of_the_tail_only_is_found() {
	finds tail-only tail "WRITE psn *lost*No persistent FLUSH of its QP that covers it follows"
}
a_range_one_byte_short_is_found() {
	finds short-range tail "WRITE psn *lost*FLUSH psn * does not hold all that was stored"
}
a_tail_by_write_is_found() {
	finds write-tail tail "FLUSH psn *had not been executed, and WRITE psn * is there: a WRITE may pass a FLUSH"
}
a_tail_in_two_halves_is_found() {
	finds half-tails tail "has stored the other part of the same word"
}
global_for_persistent_is_found() {
	finds global tail "WRITE psn *lost*asks for global visibility only" "FLUSHes ask for global visibility only"
}
an_early_acknowledgement_is_found() {
	finds early record "ATOMIC WRITE psn * is lost*FLUSH psn *which covers it*: until that FLUSH has completed"
}
a_flush_of_another_qp_is_found() {
	finds other-qp tail "WRITE psn *lost*was sent on QP *a FLUSH speaks for its own QP only"
}
a_checksum_left_out_is_found() {
	finds no-checksum no-checksum "WRITE psn * has lost * words: it is torn"
}
a_read_in_place_of_flush_is_found() {
	finds read tail "READ psn * a READ makes nothing durable" "note: * READs of persistent memory: a READ makes nothing durable"
}

# Which also cuts off what is torn: the checker writes to its image, and that must not stay.
a_checksum_makes_up_for_a_flush() {
	append checksum
	crash_states 0 --states 2000 --seed "$seed" "$run" -- remote-log-survives "$work/text" checksum
}

# Many QPs, regions and windows, refused requests, both ends that know nothing of this.
an_unmodified_program_is_followed() {
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-any --server-pmem 64M \
		--server 'exec bash -o pipefail -c "verbs-api-target $RXE_ADDR /dev/dax0.0 | { read -r _ && rxe-ready; }"' \
		--client 'verbs-api --no-refusals $RXE_PEER_ADDR' >"$work/log" || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	grep -c '^window' "$run/server.memory" || fail "no window was seen"
	crash_states 0 --states 200 "$run" -- test -s "$work/log"
	says "held at the end what these requests explain, and nothing else had changed"
}

# The lab sees where the target's kernel stores it.
a_send_is_followed_to_its_buffer() {
	sed -e 's/rdma_post_recvv(id, NULL, NULL, 0)/rdma_post_recv(id, NULL, (char *)memory + (1 << 20), RECORD, mr)/' \
		-e 's/rdma_post_sendv(id, NULL, NULL, 0,/rdma_post_send(id, NULL, record, sizeof(record), words,/' \
		"$here/../examples/first-log.c" >"$work/log.c"
	cc -I"$root/build/rdma-core/include" -L"$root/build/rdma-core/lib" -o "$work/send-log" "$work/log.c" -lrdmacm -libverbs
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-send --server-pmem 64M \
		--server "$work/send-log target \$RXE_ADDR /dev/dax0.0" \
		--client "$work/send-log initiator \$RXE_PEER_ADDR 20" >"$work/log" || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	crash_states 4 "$run"
	says "which stored 188 times"
	says "held at the end what these requests explain, and nothing else had changed"
	sed -i '/^sent /d' "$run/server.memory"
	crash_states 4 "$run"
	says "8 words were changed by none of these requests, but by the target's own CPU, or by a SEND: 0x100000-0x10003f"
}

# visible_log COMMAND_OF_SED...: a run of first-log with these changes, whose target lends its memory for all that it does
visible_log() {
	sed -e 's/IBV_ACCESS_FLUSH_PERSISTENT)/IBV_ACCESS_FLUSH_PERSISTENT | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_REMOTE_ATOMIC)/' \
		-e 's/IBV_QP_EX_WITH_ATOMIC_WRITE/& | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM/' \
		-e 's|record\[RECORD / 8\]|record[RECORD / 8 + 1]|' "$@" "$here/../examples/first-log.c" >"$work/log.c"
	cc -I"$root/build/rdma-core/include" -L"$root/build/rdma-core/lib" -o "$work/visible-log" "$work/log.c" -lrdmacm -libverbs
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-visible --server-pmem 64M --server-delay "${delay-20ms}" \
		--server "$work/visible-log target \$RXE_ADDR /dev/dax0.0" \
		--client "$work/visible-log initiator \$RXE_PEER_ADDR 20" >"$work/log" 2>&1 || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
}

# The place of the tail in the registered words, after the record.
beside='ibv_wr_set_sge(qp, words->lkey, (uintptr_t)(word + RECORD / 8), 8)'
no_flush_of_records='/RECORD, IBV_FLUSH_PERSISTENT/d'

# Its target looks when it has the SEND at the end.  One that polled the tail would be wrong, as would one that trusts the lines.
a_consumer_is_wrong_by_its_signal() {
	local id tail='[ $(od -A n -t u8 -N 8 "$IMAGE") -lt 3 ] || [ $(od -A n -t u8 -j 128 -N 8 "$IMAGE") = 2 ]'
	visible_log
	crash_states 4 --visible "$run"
	says "1 signals: 0 came while what their initiator had stored before was not visible"
	says "ATOMIC WRITEs went to 0x0.  If the consumer polls that, say so: --signal 0x0."
	crash_states 0 --visible --signal messages "$run"
	crash_states 1 --visible --signal 0 --json "$work/json" "$run"
	verdict "NOT CONSISTENT"
	says "20 signals: 20 came while"
	says "asks for persistence only, which makes nothing visible, and ATOMIC WRITE psn "
	[[ $(member broken 0 kind) == persistent-only && $(member model) == spec/visible ]] || fail "$(<"$work/json")"
	crash_states 0 --visible --model ordered --signal 0 "$run"
	crash_states 1 --visible --promise 'is durable' "$run"
	says "20 lines match --promise: 20 came while what their initiator had stored before was not visible"
	# The same by a checker, which reads the second record when the tail is there.
	crash_states 4 --visible "$run" -- sh -c "$tail"
	crash_states 0 --visible --signal messages "$run" -- sh -c "$tail"
	crash_states 1 --visible --signal 0 "$run" -- sh -c "$tail"
	says ": the consumer has the signal of frame "
	id=$(sed -n 's/^State \(.*\): the consumer.*/\1/p' <<<"$said" | head -n 1)
	crash_states 1 --replay "$id" "$run" -- sh -c "$tail"
	crash_states 0 "$run" -- sh -c "$tail"
}
a_flush_for_both_is_right_for_all() {
	visible_log -e 's/IBV_FLUSH_PERSISTENT,/IBV_FLUSH_PERSISTENT | IBV_FLUSH_GLOBAL,/'
	crash_states 0 --visible --signal 0 "$run"
	says "20 signals: 0 came while"
	crash_states 0 --visible --promise 'is durable' "$run"
	crash_states 0 --promise 'is durable' "$run"
}
an_atomic_is_a_right_signal() {
	visible_log -e "$no_flush_of_records" -e "s|ibv_wr_atomic_write(qp.*|ibv_wr_atomic_fetch_add(qp, log->rkey, log->addr, 1); $beside;|"
	crash_states 0 --visible --signal 0 "$run"
	says "20 signals: 0 came while"
	crash_states 1 --promise 'is durable' "$run"
}
an_immediate_is_a_right_signal() {
	visible_log -e "$no_flush_of_records" \
		-e "s|ibv_wr_atomic_write(qp.*|word[RECORD / 8] = tail; ibv_wr_rdma_write_imm(qp, log->rkey, log->addr, 0); $beside;|" \
		-e 's/max_recv_wr = 1,/max_recv_wr = 32,/' \
		-e 's/if (rdma_post_recvv(id, NULL, NULL, 0) || /for (int i = 0; i < 32; i++)\n\t\trdma_post_recvv(id, NULL, NULL, 0);\n\tif (/' \
		-e 's/if (rdma_get_recv_comp/do if (rdma_get_recv_comp/' \
		-e 's/errx(1, "the initiator is gone");/&\n\twhile (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);/'
	crash_states 0 --visible "$run"
	says "21 signals: 0 came while"
	# Who polls the tail has not waited for the completion.
	crash_states 1 --visible --signal 0 "$run"
}
a_flag_by_write_is_a_wrong_signal() {
	visible_log -e 's/IBV_FLUSH_PERSISTENT,/IBV_FLUSH_GLOBAL,/' \
		-e "s|ibv_wr_atomic_write(qp.*|word[RECORD / 8] = tail; ibv_wr_rdma_write(qp, log->rkey, log->addr); $beside;|"
	crash_states 1 --visible --signal 0 "$run"
	says "had not been executed, and WRITE psn "
	says ": a WRITE may pass a FLUSH.  Wait until the FLUSH has completed"
}
a_flush_that_is_too_short_is_a_wrong_signal() {
	visible_log -e 's/RECORD, IBV_FLUSH_PERSISTENT,/RECORD - 8, IBV_FLUSH_GLOBAL,/'
	crash_states 1 --visible --signal 0 "$run"
	says "ends 8 bytes too early"
	says "has to cover what is to be visible"
}

# cost: of the run, as the ladder has it; packets of FLUSH and their answers, and how often a request came after an answer
cost() {
	"$root/qemu-scripts/ladder" "$run" | awk '/FLUSH/ { packets++ } /\|--/ { trips += back; back = 0 } /\|<-/ { back = 1 }
		END { print packets, trips }'
}

# saves KIND LINE COMMAND_OF_SED...: the lint says LINE of first-log with these changes, and what it says to be saved is what the
# right log has less, in the ladder
saves() {
	local kind=$1 line=$2 packets trips was_packets was_trips
	visible_log "${@:3}"
	crash_states 1 --lint "$run"
	says "$line"
	[[ $(grep -c "  That saves " <<<"$said") == 1 ]] || fail "it says more than that"
	read -r packets trips < <(sed -n 's/.*That saves \([0-9]*\) packets and \([0-9]*\) round trips.*/\1 \2/p' <<<"$said")
	read -r was_packets was_trips < <(cost)
	echo "# $kind: $packets packets and $trips round trips, of $was_packets and $was_trips; the right log has $right_packets and $right_trips"
	((was_packets - packets == right_packets && was_trips - trips == right_trips)) || fail "the ladder has another saving"
}

what_is_superfluous_is_named_with_its_cost() {
	local right_packets right_trips flush_of_record='ibv_wr_flush(qp, log->rkey, to, RECORD,'
	local wait='ret = ibv_wr_complete(qp); completed(id, IBV_WC_FLUSH); ibv_wr_start(qp); qp->wr_flags = 0;'
	local beat='struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp); ibv_wr_start(qp); qp->wr_flags = 0;'
	beat+=' ibv_wr_rdma_write(qp, log.rkey, log.addr + 8); ibv_wr_set_sge(qp, words->lkey, (uintptr_t)record, 8);'
	beat+=' ibv_wr_flush(qp, log.rkey, log.addr + 8, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE); ibv_wr_complete(qp);'
	visible_log
	crash_states 0 --lint "$run"
	says "no FLUSH and no wait is superfluous"
	read -r right_packets right_trips < <(cost)
	saves two ", follows before anything else" \
		-e "s|$flush_of_record \(.*\)|ibv_wr_flush(qp, log->rkey, to, 8, \\1 ibv_wr_flush(qp, log->rkey, to + 8, RECORD - 8, \\1|" -e 's/_wr = 4/_wr = 8/' \
		-e 's/\(depth\|resources\) = 3/\1 = 4/'
	saves wide "63 of its cache lines have nothing new" -e "s|$flush_of_record|ibv_wr_flush(qp, log->rkey, to, 4096,|"
	saves wait ", waited for its answer" -e "s|$flush_of_record|qp->wr_flags = IBV_SEND_SIGNALED; &|" \
		-e "s|ibv_wr_atomic_write(qp.*|$wait word[RECORD / 8] = tail; ibv_wr_rdma_write(qp, log->rkey, log->addr); $beside;|"
	saves nothing "nothing of it was new" -e "s|$flush_of_record.*|& ibv_wr_flush(qp, log->rkey, to, RECORD, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);|" \
		-e 's/_wr = 4/_wr = 8/' -e 's/\(depth\|resources\) = 3/\1 = 4/'
	delay=300ms saves left "its initiator had left before the answer" -e '1i #include <unistd.h>' \
		-e "s|if (rdma_post_sendv|$beat &|" \
		-e 's/completed(id, IBV_WC_SEND);/usleep(100000); rdma_disconnect(id);/'
}

# Without guests: the tail of a ring is the signal.
a_signal_is_named() {
	make_ring global 60
	crash_states 2 --visible "$work/ring"
	says "no SEND and no WRITE with immediate came, so say what the consumer polls: --signal ADDRESS, such as --signal 0x0"
	crash_states 2 --visible --signal 0xff00 "$work/ring"
	says "--signal: no request has stored to these bytes: name those that the consumer polls, such as --signal 0x0, where ATOMIC WRITEs went"
	crash_states 2 --visible --signal messages "$work/ring"
	says "no SEND and no WRITE with immediate came"
	crash_states 0 --visible --signal 0 "$work/ring" -- sh -c "ANSWERED=/dev/null $ring"
	says "60 states of 60 cuts"
	crash_states 0 --visible --signal 0/8 --cuts 1-20 "$work/ring" -- sh -c "ANSWERED=/dev/null $ring"
	crash_states 2 --visible --signal 0 --cuts 1 "$work/ring" -- sh -c "ANSWERED=/dev/null $ring"
	says "--cuts 1: none of these frames is a signal"
	make_ring right 60
	crash_states 1 --visible --signal 0 "$work/ring" -- sh -c "ANSWERED=/dev/null $ring"
	ktap 1 --visible --signal 0 "$work/ring"
	make_ring copies 60
	crash_states 2 --visible "$work/ring"
	says "--visible wants one target: name a folder *.recording"
}

# Nor in a wrong one that stores in the right order.
nothing_is_superfluous_in_a_right_ring() {
	local mode
	for mode in right one-by-one loss few-slots read write-tail; do
		make_ring $mode 60
		crash_states 0 --lint "$work/ring"
		says "no FLUSH and no wait is superfluous, as far as the packets tell"
	done
	make_ring copies 60
	crash_states 0 --lint "$work/ring"
	make_ring flush-first 60
	crash_states 1 --lint "$work/ring"
	says "nothing of it was new"
}

# All methods of the benchmark side by side, each on QPs of its own: FLUSH, a daemon, and READ, which gives no floor.
the_benchmark_is_followed() {
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-bench --server-pmem 64M \
		--server 'exec bench-target $RXE_ADDR /dev/dax0.0 >/dev/null' \
		--client "bench-client --rounds 1 --batch 2 \$RXE_PEER_ADDR" >"$work/log" || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	# shellcheck disable=SC2016
	crash_states 0 --states 300 --seed "$seed" "$run" -- bash -c '(($(wc -l <"$ANSWERED") <= CUT))'
	says "READs of persistent memory: a READ makes nothing durable"
	says "held at the end what these requests explain"
}

# Today's appliances flush by READ, method b: right where a READ flushes, and wrong by the specification.
an_append_by_read_is_right_on_servers_of_today() {
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-bench --server-pmem 64M \
		--server 'exec bench-target $RXE_ADDR /dev/dax0.0 >/dev/null' \
		--client "bench-client --methods b --rounds 2 --batch 4 --sizes 64 \$RXE_PEER_ADDR" >"$work/log" || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	# The record that the pointer names is whole: it has the words of bench_word().
	cat >"$work/checker" <<-'END'
		#!/usr/bin/env python3
		import os, struct, sys
		image = open(os.environ["IMAGE"], "rb").read(4096 + 4 * 64)
		pointer, = struct.unpack_from("<Q", image, 0)
		records = [struct.unpack_from("<8Q", image, 4096 + 64 * slot) for slot in range(4)]
		want = tuple(pointer + 1 << 32 | word for word in range(8))
		if pointer and want not in records:
		    sys.exit("record %d is not there" % pointer)
	END
	chmod +x "$work/checker"
	crash_states 0 --model adr-read --states 300 --seed "$seed" "$run" -- "$work/checker"
	crash_states 1 --states 300 --seed "$seed" "$run" -- "$work/checker"
	says "is not there"
}

# Some of it behind the target's card: its capture has these packets, and the driver has not.
a_lossy_link_is_followed() {
	local netem="tc qdisc add dev eth0 root netem delay 1ms loss 3% duplicate 3% reorder 10%"
	mkdir "$work/share"
	seq -f "line %g, for crash-states" $records >"$work/text"
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-lossy --kill-server --server-pmem 64M \
		--client-share "$work/share" --server "$netem
			nft add table netdev lossy
			nft add chain netdev lossy in '{ type filter hook ingress device eth0 priority 0; }'
			nft add rule netdev lossy in udp dport 4791 numgen inc mod 23 7 counter drop
			exec remote-log-target \$RXE_ADDR /dev/dax0.0" \
		--client "$netem && remote-log-append \$RXE_PEER_ADDR $work/text $records $work/share/acknowledged" ||
		fail "the log is not appended to"
	run=$(readlink -f "$work/out/latest")
	echo "# SEED=$seed"
	crash_states 0 --states 2000 --seed "$seed" "$run" -- remote-log-survives "$work/text"
	says "held at the end what these requests explain, and nothing else had changed"
	echo "# $(grep -m 1 ' frames, ' <<<"$said")"
}

the_targets_own_stores_are_told_apart() {
	append none
	printf 'own data' | dd of="$run/server.pmem0" bs=1 seek=$((2 << 20 | 0x8000)) conv=notrunc status=none
	printf 'X' | dd of="$run/server.pmem0" bs=1 seek=$((2 << 20 | 0x1003)) conv=notrunc status=none
	crash_states 4 "$run"
	says "1 words were changed by none of these requests, but by the target's own CPU: 0x8000-0x8007"
	says "1 words that requests stored held something else at the end; has the target's own CPU changed them? 0x1000-0x1007"
}

# Byte for byte, and a checker knows which lines.  One that was printed too early is found.
what_was_printed_is_told() {
	local checker='tail=$(od -A n -t u8 -N 8 "$IMAGE"); promised=$(grep -c "$1" "$TOLD")
		[ $tail -ge $promised ] || { echo $promised records were promised, the tail is $tail; exit 1; }'
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-told --server-pmem 64M \
		--server 'first-log target $RXE_ADDR /dev/dax0.0' --client 'echo "this is durable, I say"
			first-log initiator $RXE_PEER_ADDR 10; head -c 3000 /dev/zero | tr "\0" x; echo; printf "no end"' \
		>"$work/log" 2>&1 || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	[[ $(<"$run/client.stdout") == *"durable, I say"$'\n'"record 0"*"record 9 is durable"$'\n'xxx*$'\n'"no end" ]] ||
		fail "the output is: $(<"$run/client.stdout")"
	(($(sed -n 's/^\(x*\)$/\1/p' "$run/client.stdout" | wc -c) == 3001)) || fail "not all of the long line"
	crash_states 0 "$run" -- sh -c "$checker" sh '^record [0-9]* is durable$'
	says "13 lines that initiators printed"
	[[ $said != *"is the standard output buffered"* ]] || fail "it is not"
	crash_states 1 "$run" -- sh -c "$checker" sh durable
	says "records were promised, the tail is"
	says "Kept:"
	grep -qx "this is durable, I say" "$run"/crash-states/*/told || fail "what was told is not kept"
}

# So a line stands before what the program posts next, though CPUs are busy, the program is as one that is linked statically,
# and tell-lines gets no CPU for a while: then a record is there once the line of the one before it is.
no_line_is_late() {
	local checker='stored=$(od -A n -v -t u8 -w64 -j 64 -N 4096 "$IMAGE" | grep -vc "^ *0 "); promised=$(grep -c durable "$TOLD")
		[ $stored -le $((promised + 1)) ] || { echo $promised records were promised, $stored are stored; exit 1; }'
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-lines --server-pmem 64M \
		--server 'first-log target $RXE_ADDR /dev/dax0.0' --client '
			for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done
			while sleep 0.05; do pkill -STOP tell-lines; sleep 0.05; pkill -CONT tell-lines; done &
			env -u LD_PRELOAD first-log initiator $RXE_PEER_ADDR 40 && kill $! && pkill -CONT tell-lines' \
		>"$work/log" 2>&1 || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	crash_states 0 "$run" -- sh -c "$checker"
	says $'\n40 lines that initiators printed\n'
	crash_states 0 --promise 'is durable' "$run"
	says "note: a line that is printed just before its answer came may have passed"
}

##############################################################################
# The target's CPU

version_of() { "$1" --version | sed -n 's/^QEMU emulator version \([0-9]*\.[0-9]*\).*/\1/p'; }

# use_recording_qemu: the host's, if it tells a plugin what it wants, or Debian's newer one, if that was unpacked.  Without
# either the case is skipped.
use_recording_qemu() {
	local version stock=("$root"/build/stock/qemu-system-x86_*/qemu-system-x86_64)
	version=$(version_of "${QEMU:-qemu-system-x86_64}")
	if [[ $(printf '%s\n' 9.2 "$version" | sort -V | head -n 1) != 9.2 ]]; then
		[[ -x ${stock[0]} ]] || { echo "QEMU $version does not record the CPU: scripts/stock-qemu makes one that does"; exit 4; }
		export QEMU=${stock[0]}
	fi
	export QEMU_ACCEL=tcg
}

# Each instruction, by each kind of address, of a program that says itself what was to be recorded.
what_the_cpu_does_is_recorded() {
	local place
	use_recording_qemu
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-cpu --record-cpu --server-pmem 64M \
		--server 'busybox nc -l -p 7000 >/dev/null; exec cpu-instructions /dev/dax0.0' \
		--client 'echo | busybox nc $RXE_PEER_ADDR 7000' >"$work/log" 2>&1 || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	read -r _ _ place _ < <(grep ^device "$run/server.memory")
	awk -v place="$place" 'NR > 1 { print $2, $3 (NF > 3 ? " " $4 - place : "") (NF > 4 ? " " $5 : "") }' "$run/server.cpu" |
		diff "$run/server.stdout" - || fail "it is not what the program has done"
	crash_states 4 "$run"
	says "the target's CPU: 21 stores, 15 lines written back"
	says "held at the end what these requests explain, and nothing else had changed"
}

# No guest runs: the ring has a daemon, too.
the_power_fails_between_two_instructions() {
	local id
	make_ring daemon 60
	crash_states 0 "$work/ring" -- "$ring"
	says "60 lines that initiators printed"
	make_ring daemon-no-fence 60
	crash_states 1 --seed 1 --json "$work/json" "$work/ring" -- "$ring"
	says "the power fails after frame 1+7"
	says "the power fails X"
	id=$(sed -n 's/^State \(.*\): the power.*/\1/p' <<<"$said" | head -n 1)
	[[ $(member findings 0 id) == "$id" && $(member findings 0 cut) == 1 && $(member findings 0 kind) == no-fence ]] ||
		fail "$(<"$work/json")"
	crash_states 1 --replay "$id" "$work/ring" -- "$ring"
	crash_states 1 --cuts 1+7 "$work/ring" -- "$ring"
	says "of 1 cuts:"
	crash_states 0 --cuts 1+4 "$work/ring" -- "$ring"
	crash_states 2 --cuts 1+99 "$work/ring" -- "$ring"
	says "--cuts 1+99: the CPU did not do so much after frame 1"
	printf 'cpu 1\n99999999 1 sfence\n' >"$work/ring/server.cpu"
	crash_states 2 "$work/ring" -- "$ring"
	says "server.cpu, line 2: the capture cannot have had 99999999 bytes then: the two files are not of one run"
}

# serve_log MISTAKE: 20 records by daemon-log, which its target makes durable
serve_log() {
	use_recording_qemu
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name "crash-daemon-$1" --record-cpu --server-pmem 64M \
		--server "exec daemon-log target \$RXE_ADDR /dev/dax0.0 20 $1" \
		--client 'daemon-log initiator $RXE_PEER_ADDR 20' >"$work/log" 2>&1 || fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	cat >"$work/checker" <<-'END'
		import os, struct, sys
		for cut in sys.stdin:
		    with open(os.environ["IMAGE"], "rb") as image, open(os.environ["TOLD"]) as told:
		        words = struct.unpack("<256Q", image.read(2048))
		        promised = sum("is durable" in line for line in told)
		    torn = [i for i in range(words[0]) if set(words[8 * (i + 1):8 * (i + 2)]) != {i + 1}]
		    if words[0] < promised:
		        print("1 the tail is", words[0], "and", promised, "records were promised", flush=True)
		    else:
		        print(f"1 record {torn[0]} is torn" if torn else f"0 {words[0]}", flush=True)
	END
}

# judge STATUS
judge() {
	crash_states "$1" --serve --seed "$seed" "$run" -- python3 "$work/checker"
	says "20 lines that initiators printed"
	says "held at the end what these requests explain, and nothing else had changed"
	echo "# $(grep -m 1 ' states of ' <<<"$said")"
}

a_daemon_that_writes_back_and_waits_is_consistent() {
	serve_log none
	judge 0
	says "coverage: complete"
	says "the target's CPU: 60 stores, 40 lines written back, 40 fences that made something durable"
	# The same without what was recorded of the CPU: it cannot be judged.
	rm "$run/server.cpu"
	crash_states 2 --serve --seed "$seed" "$run" -- python3 "$work/checker"
	says "this run cannot be judged: "
}

# The answer is posted under a lock.
a_locked_instruction_is_a_fence() {
	serve_log late-fence
	grep -q ' lock$' "$run/server.cpu"
	judge 0
}

a_daemon_that_forgets_clwb_is_found() {
	serve_log no-clwb
	judge 1
	says "Why: WRITE psn "
	says "Nor did the target's CPU make it durable, by a write-back of its line when it was visible, and a fence after that"
	says "No CLWB, CLFLUSHOPT or CLFLUSH of its line had been executed"
}

a_daemon_that_forgets_the_fence_is_found() {
	serve_log no-fence
	judge 1
	says "CLWB by the CPU (0x40 to 0x80) writes it back, at frame "
	says "but no fence of that thread had been executed, and STORE by the CPU (0x0 to 0x8) is there"
}

# Then all is as without the option.
a_qemu_that_cannot_record_the_cpu_says_so() {
	local said
	printf '#!/bin/sh\n[ "$*" != --version ] || exec echo "QEMU emulator version 7.2.22"\nexec %s "$@"\n' \
		"${QEMU:-qemu-system-x86_64}" >"$work/qemu"
	chmod +x "$work/qemu"
	said=$(QEMU=$work/qemu QEMU_ACCEL=tcg RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --record-cpu --server-pmem 64M \
		--server rxe-ready --client true 2>&1) || fail "$said"
	[[ $said == *"--record-cpu: QEMU 7.2 cannot record the CPU: QEMU 9.2 or newer"* ]] || fail "$said"
	[[ ! -e $work/out/latest/server.cpu ]] || fail "something is recorded"
	said=$("$root/qemu-scripts/rxe-vm" run --record-cpu -- true 2>&1) && fail "it runs"
	[[ $said == *"--record-cpu: only rxe-vm pair records the CPU of its server"* ]] || fail "$said"
	said=$("$root/qemu-scripts/rxe-vm" pair --record-cpu --server true --client true 2>&1) && fail "it runs"
	[[ $said == *"--record-cpu wants an NVDIMM"* ]] || fail "$said"
	said=$("$root/qemu-scripts/rxe-vm" pair --record-cpu --no-capture --server-pmem 64M --server true --client true 2>&1) &&
		fail "it runs"
	[[ $said == *"--record-cpu wants the capture"* ]] || fail "$said"
}

##############################################################################

# Without the lab: the target registers with a preloaded library, its host captures, the initiator's lines are told.
# Then $recorded has what the page "Recorded elsewhere" asks for, of first-log with ten records.

# What the target's guest runs.  $1: what the target's programs run under, or nothing; $2: its NIC; $3: its address;
# $4: where the recording goes; $5: the top of the tree.
record_target='
	target=$1 interface=$2 address=$3
	$target dumpcap -q -P -i $interface -w /tmp/pcap 2>/tmp/said &
	until grep -q ^File: /tmp/said; do sleep 0.1; done
	$target env RECORD_TO=$4 RECORD_PMEM=/dev/dax0.0 LD_PRELOAD=$5/build/crash/record-memory.so first-log target $address /dev/dax0.0
	sleep 1
	kill $!
	wait
	cp /tmp/pcap $4/server.pcap'

# record_on_two_hosts [OPTION...]: of rxe-vm pair
record_on_two_hosts() {
	recorded=$work/recorded
	mkdir "$recorded"
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-elsewhere --server-pmem 64M --server-share "$recorded" "$@" \
		--server "set -- '' eth0 \$RXE_ADDR $recorded $root; $record_target" \
		--client 'first-log initiator $RXE_PEER_ADDR 10' >"$work/log" 2>&1 || fail "$(<"$work/log")"
}

# Each acknowledged record is found, and one that asks for less is found wrong.
judge_what_was_recorded() {
	local lines='tail=$(od -A n -t u8 -N 8 "$IMAGE"); [ $tail -ge $(grep -c durable "$TOLD") ]'
	crash_states 0 "$recorded" -- sh -c "$lines"
	says "10 lines that initiators printed"
	says "20 persistent FLUSHes, 20 of them answered"
	crash_states 1 "$recorded" -- sh -c "$lines && [ \$tail -le 5 ]"
	says "the power fails X"
}

what_two_hosts_recorded_is_followed() {
	local place
	record_on_two_hosts
	run=$(readlink -f "$work/out/latest")
	# In the lab the device has a place in its NVDIMM.
	read -r _ _ place _ < <(grep ^device "$run/server.memory")
	diff <(sed "/^sent/d; s/^\(device .*\) $place /\1 0 /" "$run/server.memory") "$recorded/server.memory" ||
		fail "the library records something else"
	cmp <(tail -c +$((place + 1)) "$run/server.pmem0.start") "$recorded/server.pmem0.start" || fail "another start"
	judge_what_was_recorded
}

so_is_what_two_hosts_with_stock_kernels_recorded() {
	local library=$root/build/stock/rdma-core kernel
	[[ -e $library/built ]] || { echo "no build/stock/rdma-core: run \`make stock-rdma-core\`"; exit 4; }
	stock_kernel 6.12
	record_on_two_hosts --kernel "$kernel" --rdma-core "$library"
	judge_what_was_recorded
}

# commands_of HEADING: of the page, in its first block of code
commands_of() {
	awk -v heading="$1" '
		$0 == heading { found = 1 }
		!found { next }
		/^\.\. code-block:: sh/ { block = 1; next }
		block && /^[^ ]/ { exit }
		block && !/^   :/ { print substr($0, 4) }
	' "$root/Documentation/crash-states-reference.rst"
}

so_is_what_two_namespaces_recorded() {
	local kernel commands
	recorded=$work/recorded
	mkdir "$recorded"
	commands=$(commands_of "In two network namespaces")
	[[ $commands == *"rdma link add"* ]] || fail "the page has no commands: $commands"
	stock_kernel 7.3
	"$root/qemu-scripts/rxe-vm" run --name crash-namespaces --pmem 64M --share "$recorded" --kernel "$kernel" -- sh -ec "
		rdma link delete rxe0
		$commands
		{
			until ip netns exec target rdma resource show cm_id | grep -q LISTEN; do sleep 0.1; done
			ip netns exec initiator $root/build/crash/tell-lines i0 first-log initiator 192.0.2.1 10
		} &
		set -- 'ip netns exec target' t0 192.0.2.1 $recorded $root; $record_target" >"$work/log" 2>&1 || fail "$(<"$work/log")"
	judge_what_was_recorded
}

# What a checker does to its image is gone for the next; and it finds what it is promised.
a_checker_may_do_what_it_likes() {
	append none
	# shellcheck disable=SC2016
	crash_states 0 --states 300 --seed "$seed" "$run" -- bash -c '
		[[ $(tail -c +$((1 << 20)) "$IMAGE" | tr -d "\0" | wc -c) == 0 ]] || exit 1
		[[ $(stat -c %s "$IMAGE") == 65011712 ]] || exit 1
		(($(wc -l <"$ANSWERED") <= CUT)) || exit 1
		echo garbage | dd of="$IMAGE" bs=1 seek=$((2 << 20 | RANDOM)) conv=notrunc status=none
		truncate -s +4096 "$IMAGE"'
	# shellcheck disable=SC2016
	crash_states 0 --states 300 --jobs 1 --cuts 12,40-41 "$run" -- sh -c 'case $CUT in 12|40|41) ;; *) exit 1 ;; esac'
	grep -q '^[1-9][0-9]* states of 3 cuts' <<<"$said" || fail "nothing was checked"
	crash_states 2 --cuts 41-40 "$run" -- true
	says "--cuts 41-40: say for example"
	crash_states 2 --states 10 "$run" -- sh -c 'echo so what; exit 7'
	says "the checker cannot be used: it fails on what the target held at the start, and on what it held at the end"
	says "the checker ended with status 7"
	says "so what"
	crash_states 2 --states 10 "$run" -- sh -c 'kill -SEGV $$'
	says "the checker was killed by signal 11"
	crash_states 2 --states 10 --timeout 1 "$run" -- sleep 1000
	says "the checker ran longer than 1 s"
	crash_states 2 "$run" -- /no/such
	says "cannot run the checker /no/such"
	said=$(cd "$work" && touch my-checker && chmod +x my-checker &&
		"$root/qemu-scripts/crash-states" "$run" -- my-checker 2>&1) && fail "it runs"
	says "cannot run the checker my-checker, which is not in PATH; for that of this folder say ./ before it"
	[[ -z $(find /dev/shm -name 'crash-states.*' -newer "$work/text") ]] || fail "images are left in memory"
}

wrong_usage_is_explained() {
	local arguments message
	mkdir -p "$work/empty" "$work/no-memory" "$work/test/one"
	touch "$work/no-memory/server.pcap" "$work/test/one/server.pcap"
	while IFS='|' read -r arguments message; do
		# shellcheck disable=SC2086 # words
		crash_states 2 $arguments
		[[ $said == "crash-states: error: $message"* ]] || fail "it does not say: $message"
	done <<-END
		|name the folder of a run
		--frob $work|--frob: no such option
		--states many $work|--states many: not a number
		--limit 0 $work|--limit, --jobs, --seconds and --timeout are not 0
		--model kind $work|--model kind: there are spec, strict, ordered, adr-read and eadr
		$work/empty|$work/empty is not the folder of a run
		$work/test|$work/test is not the folder of a run of \`rxe-vm pair\`: it has no server.pcap; it has runs inside, such as $work/test/one
		$work/no-memory|$work/no-memory has no server.memory: only a run with --server-pmem
		$work/empty checker|'checker': the checker stands behind --
		$work/empty --|no checker behind --
		--lose x --replay y $work|--lose takes neither
		--ktap $work/empty|--ktap wants a checker
		--html x --replay y $work/empty|--ktap and --html take neither
		--signal 0 $work/empty|--signal goes with --visible
		--signal messages $work/empty|--signal goes with --visible
		--visible --signal 0 --signal messages $work/empty|--signal messages goes with no other --signal
		--visible --signal x $work/empty|--signal x: say where it is in IMAGE
		--visible --oracle x $work/empty|--visible takes neither --oracle nor --lose
		--visible --promise x $work/empty -- y|--visible with --promise takes neither a checker nor --signal
		--lint $work/empty -- y|--lint judges nothing, and takes no checker
		--html $work/no/page $work/empty|--html $work/no/page: No such file
	END
}

##############################################################################
# A power cut that loses

a_power_cut_loses() {
	local nvdimm=$work/nvdimm
	mkdir -p "$work/share"
	seq -f "line %g, for crash-states" 50000 >"$work/text"
	# The record's FLUSH is missing, and the power fails in the midst of it.
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name crash-lose "--kill-server=lose:$seed" \
		--server-pmem "$nvdimm:64M" --client-share "$work/share" \
		--server 'exec remote-log-target $RXE_ADDR /dev/dax0.0' \
		--client "broken-log tail-only \$RXE_PEER_ADDR $work/text 50 $work/share/acknowledged" >"$work/log" 2>&1 ||
		fail "$(<"$work/log")"
	run=$(readlink -f "$work/out/latest")
	echo "# $(<"$run/lost")"
	grep -q "^the power failure took [1-9][0-9]* words of [1-9]" "$run/lost" || fail "nothing was taken"
	dd if="$nvdimm" of="$work/image" bs=2M skip=1 status=none
	said=$(remote-log-check "$work/image" "$work/text" 50 2>&1) && fail "the log is whole: $said"
	echo "# $said"
	# The same seed takes the same.
	cp "$run/server.pmem0" "$work/again"
	"$root/build/crash/crash-states" --lose "$work/again" --seed "$seed" "$run"
	cmp "$work/again" "$nvdimm" || fail "not the same again"
}

# All of a run that has come to its end.
a_power_cut_that_finds_all_durable_says_so() {
	make_ring right 60
	cp "$work/ring/server.pmem0.start" "$work/nvdimm"
	crash_states 0 --lose "$work/nvdimm" "$work/ring"
	says "the power failure took 0 words of 0 that were not durable yet, of 257 stored: all was durable just then"
	make_ring no-flush-once 60
	crash_states 0 --lose "$work/nvdimm" "$work/ring"
	says " words of 8 that were not durable yet, of 257 stored (seed 1)"
}

a_lossy_power_cut_wants_an_nvdimm_that_stays() {
	local said
	said=$("$root/qemu-scripts/rxe-vm" pair --kill-server=lose --server-pmem 64M --server true --client true 2>&1) &&
		fail "it runs"
	[[ $said == *"--kill-server=lose wants the NVDIMM to outlive the run"* ]] || fail "$said"
	said=$("$root/qemu-scripts/rxe-vm" pair --kill-server=much --server true --client true 2>&1) && fail "it runs"
	[[ $said == *"say --kill-server=lose or --kill-server=lose:SEED"* ]] || fail "$said"
}

cases=(
	the_engine_follows_captures_made_by_hand
	crash_test_runs_the_cases_that_are_named
	the_length_of_a_run_hides_no_mistake
	nothing_is_passed_by_a_few_cuts
	a_capture_of_another_format_is_read
	two_mistakes_are_both_reported
	a_limit_gives_no_pass
	the_verdict_is_by_time
	no_checker_is_needed_where_nothing_is_durable
	a_promise_needs_no_checker
	an_oracle_needs_no_checker
	a_pass_that_hangs_on_the_schedule_is_none
	a_pass_that_hangs_on_late_lines_is_none
	a_checker_that_fails_alike_on_everything_is_an_error
	a_run_that_failed_is_noted
	a_checker_that_accepts_nothing_stored_is_noted
	lines_that_come_only_at_the_end_are_noted
	the_kept_folder_is_no_link
	what_is_suspicious_needs_no_checker
	each_model_has_its_rules
	joint_states_of_a_group_are_judged
	the_result_does_not_depend_on_jobs
	the_power_fails_again_in_recovery
	a_checker_that_stays_finds_the_same
	the_result_is_written_as_json
	a_full_disk_is_an_error_with_a_message
	the_result_is_ktap_or_a_page
	the_page_shows_the_cause_and_loads_nothing
	what_was_recorded_elsewhere_is_followed
	what_cannot_be_drawn_still_fails
	what_the_target_stored_cannot_be_judged
	what_requests_stored_is_missed_in_a_hole
	what_the_target_pulled_cannot_be_judged
	wrong_usage_is_explained
	a_signal_is_named
	nothing_is_superfluous_in_a_right_ring
	a_consumer_is_wrong_by_its_signal
	no_flush_before_the_tail_is_found
	one_missing_flush_is_found
	global_for_persistent_is_found
	a_read_in_place_of_flush_is_found
	what_was_printed_is_told
	no_line_is_late
	a_send_is_followed_to_its_buffer
	the_power_fails_between_two_instructions
	what_the_cpu_does_is_recorded
	a_daemon_that_forgets_the_fence_is_found
	a_qemu_that_cannot_record_the_cpu_says_so
	what_two_hosts_recorded_is_followed
	a_lossy_link_is_followed
	a_power_cut_loses
	a_power_cut_that_finds_all_durable_says_so
)
# Recordings of each mistake, and what takes minutes.
long_cases=(
	the_engine_finds_mistakes_in_5000_records
	so_it_does_with_sanitizers
	each_break_of_the_engine_is_noticed
	damaged_recordings_are_borne
	nor_any_other_mistake
	a_right_ring_of_5000_records_is_consistent
	a_checker_that_crashes_or_hangs_is_a_finding
	the_right_program_is_consistent_in_10000_states
	a_flush_of_the_tail_only_is_found
	a_range_one_byte_short_is_found
	a_tail_by_write_is_found
	a_tail_in_two_halves_is_found
	an_early_acknowledgement_is_found
	a_flush_of_another_qp_is_found
	a_checksum_left_out_is_found
	a_checksum_makes_up_for_a_flush
	what_is_superfluous_is_named_with_its_cost
	a_flush_for_both_is_right_for_all
	an_atomic_is_a_right_signal
	an_immediate_is_a_right_signal
	a_flag_by_write_is_a_wrong_signal
	a_flush_that_is_too_short_is_a_wrong_signal
	an_unmodified_program_is_followed
	the_benchmark_is_followed
	an_append_by_read_is_right_on_servers_of_today
	the_targets_own_stores_are_told_apart
	a_daemon_that_writes_back_and_waits_is_consistent
	a_daemon_that_forgets_clwb_is_found
	a_locked_instruction_is_a_fence
	a_checker_may_do_what_it_likes
	so_is_what_two_hosts_with_stock_kernels_recorded
	so_is_what_two_namespaces_recorded
	a_lossy_power_cut_wants_an_nvdimm_that_stays
)

run_suite 1 "$@"
