# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the suites
#
# Every suite is a program of this form, which prints KTAP:
#
#	SUITE [--smoke] [--list] [OPTION...] [PATTERN...]
#
#	PATTERN		run only cases whose names match this pattern of the shell, and show all that they print.
#			CASE/PATTERN is for a case with results of its own: it runs only those that match, if it can choose
#	--smoke		run only the cases that tell most
#	--list		print the names of all cases, or of those that PATTERN or --smoke would run; run nothing
#	OPTION		what the head of the suite describes
#
#	SUITE --do FUNCTION [ARG...]	run a function of the suite, a case for example, and show what it prints as it comes
#
# Without PATTERN and --smoke, LONG=1 adds long_cases.  SEED=N repeats what is left to chance.  KERNEL=KERNEL is what the
# guests boot, as for rxe-vm.
#
# A suite sources this file, sets cases=(), and long_cases=() and smoke_cases=() if it has some, and ends with
# `run_suite JOBS "$@"`, which runs JOBS cases at a time.  A case is a function, which runs in a process of its own.  It
# passes with status 0, is skipped with 4 (its last line says why), and fails with any other.  A suite may define anew the
# functions that are marked "For a suite".
#
# root is the project, here the folder of the suites, work a folder that the process removes when it ends, case_name the
# case that runs.  The folders of guests are made in $RXE_OUT, which run-tests sets.

root=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/..")
here=$root/selftests/suites
# shellcheck source=qemu-scripts/run-folder.sh
. "$root/qemu-scripts/run-folder.sh"
# shellcheck source=qemu-scripts/choices.sh
. "$root/qemu-scripts/choices.sh"
PATH=$root/build/selftests:$PATH
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
[[ -z ${KERNEL-} ]] || KERNEL=$(realpath -m "$KERNEL")
export RXE_OUT=${RXE_OUT:-$root/build/out}
mkdir -p "$RXE_OUT"
work=$(mktemp -d -p "$RXE_OUT")
made=$work
chmod 755 "$work"
trap 'rm -rf "$made"' EXIT
cases=() long_cases=() smoke_cases=() patterns=() case_name=

# For a suite: option OPTION [WORD...] takes an option of its own, and sets words to 2 if the next word belongs to it.
option() { false; }

# For a suite: what each process does before its cases.  An exported variable tells the others what has been done once.
prepare() { :; }

# For a suite: prints the names of all cases.
list_cases() { printf '%s\n' "${cases[@]}" "${long_cases[@]}"; }

# stock_kernel VERSION: sets kernel to Debian's image.  The case is skipped only if the archive has dropped it.
stock_kernel() {
	kernel=$("$root/scripts/stock-kernel" "$1" 2>"$work/why") && return
	cat "$work/why"
	grep -q 'the Debian archive .* has no ' "$work/why" || fail "there is no stock kernel $1"
	exit 4
}

# in_driver WORD: does the source of the guests' driver have it?  That of an image is not known.
in_driver() {
	local source=${KERNEL:-$root/build/${BASE:-v6.1}/src}
	[[ ! -e $source/source ]] || source+=/source	# an O= build
	grep -qs "$1" "$source"/drivers/infiniband/sw/rxe/*.[ch]
}

# skip_all WHY: for prepare, where no case can run.
skip_all() {
	echo "1..0 # SKIP $*"
	exit
}

# fail WHY...: ends the case.
fail() {
	echo "$*"
	exit 1
}

wrong_usage() {
	echo "${0##*/}: error: $*" >&2
	exit 2
}

# judged CMD...: passes on its KTAP.  Fails as CMD does, and if a result of it failed or is missing.
judged() {
	local ktap failed status=0
	ktap=$(mktemp -p "$work")
	"$@" | tee "$ktap" || status=$?
	read -r _ failed _ < <("$root/selftests/ktap-count" <"$ktap")
	rm "$ktap"
	((!failed)) || return $((status ? status : 1))
	return "$status"
}

# nested CMD...: the same, with its results as results of the case.
nested() { judged "$@" | sed -u 's/^/    /'; }

run_suite() {
	local jobs=$1 words smoke='' list='' selected=()
	shift
	arguments=("$@")
	while (($#)); do
		words=1
		case $1 in
		-h | --help) "$root/scripts/head-of" "$0"; "$root/scripts/head-of" "${BASH_SOURCE[0]}" | sed -n '/SUITE/,/^guests/p'; exit ;;
		--smoke) smoke=1 ;;
		--list) list=1 ;;
		--do) do_one "${@:2}" ;;
		-*) option "$@" || wrong_usage "unknown option $1" ;;
		*) patterns+=("$1") ;;
		esac
		shift "$words"
	done
	show_all=${patterns[*]}
	[[ -z $smoke ]] || patterns+=("${smoke_cases[@]}")
	select_cases
	if [[ $list ]]; then
		printf '%s\n' "${selected[@]}"
		exit
	fi
	prepare
	run_cases "$jobs" "${selected[@]}"
}

# do_one FUNCTION [ARG...]: ends the process with its status.  A case gets the part of each PATTERN that is for it.
do_one() {
	local pattern wanted=()
	case_name=$1
	for pattern in "${patterns[@]}"; do
		# shellcheck disable=SC2053 # a pattern
		[[ $pattern != */* || $1 != ${pattern%%/*} ]] || wanted+=("${pattern#*/}")
	done
	prepare
	"$@" "${wanted[@]}"
	exit
}

# select_cases: sets selected, by patterns or to what runs without one
select_cases() {
	local name pattern match
	local -A used=()
	if ((!${#patterns[@]})) && [[ ! $list ]]; then
		selected=("${cases[@]}")
		[[ ${LONG:-0} == 0 ]] || selected+=("${long_cases[@]}")
		return
	fi
	while read -r name; do
		match=$((!${#patterns[@]}))
		for pattern in "${patterns[@]}"; do
			# shellcheck disable=SC2053 # a pattern
			[[ $name != ${pattern%%/*} ]] || match=1 used[$pattern]=1
		done
		((!match)) || selected+=("$name")
	done < <(list_cases)
	for pattern in "${patterns[@]}"; do
		[[ ${used[$pattern]-} ]] || wrong_usage "no case matches '$pattern': choose of ${0##*/} --list"
	done
}

# For a suite: run_cases JOBS NAME...  Each is a process, so that `set -e` holds in it.
run_cases() {
	local jobs=$1 dir name status seconds failed=0
	local -i n=0
	shift
	dir=$(mktemp -d -p "$work")
	echo "KTAP version 1"
	echo "1..$#"
	# shellcheck disable=SC2016 # for the inner shell
	while read -r status seconds name; do
		n+=1
		report_case || failed=$((status > failed ? status : failed))
	done < <(printf '%s\n' "$@" |
		xargs -P "$jobs" -I{} sh -c 'start=$(date +%s)
			"$@" --do {} >"$0/{}" 2>&1
			echo "$? $(($(date +%s) - start)) {}"' "$dir" "$0" "${arguments[@]}")
	return $failed
}

# why_skipped FILE: by the program's plan, wherever it stands, since messages of rxe-vm may come after it; or the last line
why_skipped() { awk '{ last = $0 } sub(/^ *1\.\.0 # SKIP /, "") { why = $0 } END { print why ? why : last }' "$1"; }

# report_case: shows everything that a case has printed if it failed or was asked for, and otherwise what starts with #.
# KTAP that stands four blanks to the right, results of the case's own, goes on as it is.
report_case() {
	local title=${name//_/ } own='^    \(KTAP\|TAP\|1\.\.\|ok\|not ok\|#\)'
	((seconds < 20)) || echo "# the next case took $seconds s"
	if ((status == 4)); then
		echo "ok $n $title # SKIP $(why_skipped "$dir/$name")"
	elif ((status)) || [[ $show_all ]]; then
		sed "/$own/!s/^\(# \)\?/# /" "$dir/$name"
	else
		grep "^#\|$own" "$dir/$name" || true
	fi
	case $status in
	0) echo "ok $n $title" ;;
	4) ;;
	*)
		echo "not ok $n $title # status $status"
		return "$status" ;;
	esac
}
