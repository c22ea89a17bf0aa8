# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For shell suites: each case is a function, which passes with status 0, is
# skipped with 4 (and says why in its last line), and fails with any other.
# The suite sets cases=(), smoke_cases=() and long_cases=() and ends with `run_suite JOBS "$@"`.
#
#	SUITE			runs cases, and with LONG=1 long_cases, JOBS at a time, and prints KTAP
#	SUITE --smoke		runs smoke_cases
#	SUITE --only CASE...	runs these
#	SUITE CASE		runs one case and shows what it prints
#
# The folders of guests are made in $RXE_OUT, which run-tests sets.

export RXE_OUT=${RXE_OUT:-$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../build/out}
mkdir -p "$RXE_OUT"
long_cases=()

# judged CMD...: passes on its KTAP.  Fails as CMD does, and if a result of it failed or is missing.
judged() {
	local ktap failed status=0
	ktap=$(mktemp -p "$RXE_OUT")
	"$@" | tee "$ktap" || status=$?
	read -r _ failed _ < <("$(dirname "${BASH_SOURCE[0]}")/ktap-count" <"$ktap")
	rm "$ktap"
	((!failed)) || return $((status ? status : 1))
	return "$status"
}

# shellcheck disable=SC2154 # the suite's cases
run_suite() {
	local jobs=$1
	shift
	case ${1-} in
	'')
		[[ ${LONG:-0} == 0 ]] || cases+=("${long_cases[@]}")
		run_cases "$jobs" "${cases[@]}" ;;
	--smoke) run_cases "$jobs" "${smoke_cases[@]}" ;;
	--only) run_cases "$jobs" "${@:2}" ;;
	*) "$1" ;;
	esac
}

# Each case is a process of its own, so that `set -e` holds in it.
run_cases() {
	local jobs=$1 dir name status seconds failed=0
	local -i n=0
	shift
	dir=$(mktemp -d -p "$RXE_OUT")
	echo "KTAP version 1"
	echo "1..$#"
	# shellcheck disable=SC2016 # for the inner shell
	while read -r status seconds name; do
		n+=1
		report_case || failed=$((status > failed ? status : failed))
	done < <(printf '%s\n' "$@" |
		xargs -P "$jobs" -I{} sh -c 'start=$(date +%s)
			"$0" {} >"$1/{}" 2>&1
			echo "$? $(($(date +%s) - start)) {}"' "$0" "$dir")
	rm -r "$dir"
	return $failed
}

# Of a case that did not pass everything it printed is shown, else what starts with #.  KTAP that stands four blanks
# to the right, results of the case's own, goes on as it is.
report_case() {
	local title=${name//_/ } own='^    \(KTAP\|TAP\|1\.\.\|ok\|not ok\|#\)'
	((seconds < 20)) || echo "# the next case took $seconds s"
	case $status in
	0)
		grep "^#\|$own" "$dir/$name" || true
		echo "ok $n $title" ;;
	4)
		echo "ok $n $title # SKIP $(tail -n 1 "$dir/$name")" ;;
	*)
		sed "/$own/!s/^\(# \)\?/# /" "$dir/$name"
		echo "not ok $n $title # status $status"
		return "$status" ;;
	esac
}

# fail WHY...: ends the case.
fail() {
	echo "$*"
	exit 1
}
