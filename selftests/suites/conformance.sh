#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# conformance.sh [--smoke] [--kernel IMAGE] [OPTION...] [PATTERN...]
# Runs rxe_mpe_conformance (see there) in a guest: KTAP, a line for each case.  A case that
# takes the guest down has failed, and a new guest runs those behind it.
#
#	--smoke		the cases that tell most
#	--kernel IMAGE	another kernel; one that has not got the verbs is skipped
#	OPTION		of rxe_mpe_conformance: --legacy-icrc, --ipv6, --vlan ID, --mtu BYTES
#	PATTERN		only cases whose names match (`rxe_mpe_conformance --list` has them)

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
program=$root/build/selftests/rxe_mpe_conformance

smoke_patterns=('verb.*.answered' 'verb.*.duplicate*' 'pmem.*' 'feth.plt_0.*' 'length.both_*'
	'posted.*' 'depth.of_2.*' 'bad_response.plain_ack.*')

parse_arguments() {
	vm_options=(--name conformance --pmem 64M)
	options=()
	patterns=()
	while (($#)); do
		case $1 in
		--smoke) patterns+=("${smoke_patterns[@]}") ;;
		--kernel) vm_options+=(--kernel "${2:?--kernel needs an image}"); shift ;;
		--legacy-icrc | --ipv6) options+=("$1") ;;
		--vlan | --mtu) options+=("$1" "${2:?$1 needs a value}"); shift ;;
		-*) echo "conformance.sh: error: unknown option $1" >&2; exit 2 ;;
		*) patterns+=("$1") ;;
		esac
		shift
	done
}

# run_guest [--after CASE]: the cases, or those behind CASE.
run_guest() {
	"$root/qemu-scripts/rxe-vm" run --timeout 1200 "${vm_options[@]}" -- \
		"$program" "${options[@]}" "$@" "${patterns[@]}" 2>&1
}

# Reads what a guest says and prints its results, numbered over all guests.
# $running is then the case that has begun and has no result.
pass_on_results() {
	local line
	while IFS= read -r line; do
		case $line in
		'TAP version'*) ;;
		'1..0'*) echo "$line" ;;
		'1..'*) ((planned++)) || echo "$line" ;;
		'#  RUN '*) read -r _ _ running _ <<<"$line" ;;
		'#   '*' OK  '* | '#   '*' FAIL  '* | '#      SKIP '*) ;;
		'ok '*'# SKIP '*) report "ok" " # SKIP ${line#*# SKIP }" ;;
		'ok '*) report "ok" ;;
		'not ok '*) report "not ok" ;;
		'#'*) echo "$line" ;;
		*) echo "# $line" ;;
		esac
	done
}

# report RESULT [WORDS]
report() {
	((++number))
	echo "$1 $number $running${2-}"
	[[ $1 == ok ]] || failed=1
	running=
}

run_all() {
	local status=0 arguments=()
	local -i number=0 planned=0 failed=0
	local running='' victim
	while true; do
		pass_on_results < <(run_guest "${arguments[@]}")
		wait $! || status=$?
		victim=$running
		[[ -n $victim ]] || break
		report "not ok" " # took the guest down"
		arguments=(--after "$victim")
		status=0
	done
	# 4: all was skipped, and the program has said why.
	((status != 4)) || return 0
	((status)) || status=$failed
	return "$status"
}

parse_arguments "$@"
[[ -x $program ]] || {
	echo "conformance.sh: error: no $program: run \`make selftests\`" >&2
	exit 1
}
echo "KTAP version 1"
run_all
