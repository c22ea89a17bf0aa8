#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The cases of rxe_conformance (see there) in a guest.  A case that takes the guest down has failed, and a new
# guest runs those after it.  A kernel without the verbs is skipped.
#
#	--legacy-icrc, --flushes-refused, --ipv6, --vlan ID, --mtu BYTES
#			as for rxe_conformance
#	--once		the same; and the first case that takes the guest down is the last one

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

program=$root/build/selftests/rxe_conformance

smoke_cases=('verb.*.answered' 'verb.*.duplicate*' 'pmem.*' 'feth.plt_0.*' 'length.both_*'
	'posted.*' 'depth.of_2.*' 'bad_response.plain_ack.*')

vm_options=(--name conformance --pmem 64M)
program_options=()
once=
option() {
	case $1 in
	--legacy-icrc | --flushes-refused | --ipv6) program_options+=("$1") ;;
	--vlan | --mtu) program_options+=("$1" "${2:?$1 needs a value}") words=2 ;;
	--once) once=1 program_options+=("$1") ;;
	*) false ;;
	esac
}

prepare() { [[ -x $program ]] || wrong_usage "no $program: run \`make selftests\`"; }

list_cases() { prepare && "$program" --list | cut -f 1; }

# run_guest [--after CASE]: the cases, or those behind CASE.
run_guest() {
	"$root/qemu-scripts/rxe-vm" run --timeout 1200 "${vm_options[@]}" -- \
		"$program" "${program_options[@]}" "$@" "${patterns[@]}" 2>&1
}

# Reads what a guest says and prints its results, numbered over all guests.
# $running is then the case that has begun and has no result.
pass_on_results() {
	local line
	while IFS= read -r line; do
		case $line in
		'TAP version'*) ;;
		'1..0'*) echo "$line" ;;
		'1..'*) ((planned)) || { planned=${line#1..}; echo "$line"; } ;;
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

# All in one guest, by patterns: these, not the names, are what the program gets.
run_cases() {
	local status=0 arguments=()
	local -i number=0 planned=0 failed=0
	local running='' victim
	echo "KTAP version 1"
	while true; do
		pass_on_results < <(run_guest "${arguments[@]}")
		wait $! || status=$?
		victim=$running
		[[ -n $victim ]] || break
		report "not ok" " # took the guest down"
		arguments=(--after "$victim")
		status=0
		[[ -z $once ]] || break
		((number < planned)) || break
	done
	# 4: all was skipped, and the program has said why.
	((status != 4)) || return 0
	((status)) || status=$failed
	return "$status"
}

run_suite 1 "$@"
