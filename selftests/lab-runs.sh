# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # for the suites, which source ktap.sh
#
# For suites that test rxe-vm: run it, and look at what it says.

# lab STATUS ARG...: runs rxe-vm and wants this exit status.  (The search for
# leaks would take a debug kernel ten seconds each time, and is not at issue, if not $kmemleak is `on`.)
# Its output is in $stdout and $stderr, the folder of the run in $run.
lab() {
	local want=$1 got=0
	shift
	"$root/qemu-scripts/rxe-vm" "$1" --name "lab-$case_name" --append "kmemleak=${kmemleak:-off}" "${@:2}" >"$work/stdout" 2>"$work/stderr" || got=$?
	stdout=$(tr -d '\0' <"$work/stdout")
	stderr=$(tr -d '\0' <"$work/stderr")
	run=$(newest_run)
	{ echo "rxe-vm $*"; echo "$stdout"; echo "$stderr"; } | cat -v | sed 's/^/| /'
	((got == want)) || fail "exit status $got, not $want"
}

newest_run() {
	# .N: another one in the same second
	find "$RXE_OUT" -maxdepth 1 '(' -name "*-lab-$case_name" -o -name "*-lab-$case_name.[0-9]*" ')' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-
}

# says TEXT: rxe-vm's messages hold it.
says() { [[ $stderr == *"$1"* ]] || fail "no '$1' in the messages"; }

verdict_is() { [[ $(head -n 1 "$run/verdict") == "$1"* ]] || fail "verdict: $(<"$run/verdict"), not $1"; }

# on_terminal TEXT ARG...: rxe-vm on a terminal of its own, where TEXT is typed; what is shown.
on_terminal() {
	local typed=$1
	shift
	printf %s "$typed" >"$work/typed"
	# It does not end, as nobody goes away.
	timeout 600 script -qec "$(printf '%q ' "$root/qemu-scripts/rxe-vm" "$@")" /dev/null \
		< <(exec tail -c +1 -f "$work/typed") | tr -d '\r' || true
}

# act STATUS [NAME=VALUE...]: the action rxe-pair, or without SERVER rxe-run, as a runner calls it, with these inputs.  What it says is in $work/said,
# and its outputs are in $work/output.
act() {
	local want=$1 status=0
	shift
	mkdir -p "$work/runner"
	: >"$work/output"
	env -u RXE_OUT RUNNER_TEMP="$work/runner" GITHUB_OUTPUT="$work/output" GITHUB_ACTION=here STATES=200 KERNEL='' CHECKER='' \
		PAIR_OPTIONS='' SERVER=serve CLIENT='' "$@" "$root/.github/actions/rxe-pair/run-pair" >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	((status == want)) || fail "status $status, not $want"
}

# acts: the commands in $work/said that the runner obeys.  It takes a CR for the end of a line, too.
acts() {
	tr '\r' '\n' <"$work/said" | awk '
		stopped != "" { if ($0 == stopped) stopped = ""; next }
		sub(/^ *::stop-commands::/, "") { stopped = "::" $0 "::"; next }
		/^ *::|##\[/'
}

# annotated TITLE TEXT: once, in one line
annotated() {
	[[ $(acts | wc -l) == 1 ]] || fail "not one annotation: $(acts)"
	acts | grep "^::error title=$1::" | grep -qF -e "$2" || fail "no annotation '$1' with '$2'"
}
