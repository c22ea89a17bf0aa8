#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # for jq
#
# agree.sh A B: do two runs of the benchmark, each a folder or its bench.json, agree?  Shows each headline figure of
# both, and fails if the intervals of one have nothing in common, or if one run has a figure without an interval.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
die() { echo "agree: error: $*" >&2; exit 2; }

runs=()
for run; do
	[[ ! -d $run ]] || run=$run/bench.json
	jq -e .headlines "$run" >/dev/null 2>&1 || die "$run: no result of \`make bench\`"
	runs+=("$run")
done
((${#runs[@]} == 2)) || die "two runs are compared: agree.sh A B"

jq -rs -L "$here" 'include "statistics";
	map(.headlines | map({key: .name, value: .}) | from_entries) as [$a, $b] |
	($a + $b | keys_unsorted[]) as $name | [$a[$name], $b[$name]] |
	(if any(. == null or .low == null) then "no interval"
	elif .[0].low <= .[1].high and .[1].low <= .[0].high then "agree"
	else "differ" end) as $verdict |
	[$verdict, $name, (.[] | . // {} | shown)] | @tsv' "${runs[@]}" | column -t -s $'\t' |
	awk '{ print } !/^agree / { bad++ } END { exit bad > 0 }'
