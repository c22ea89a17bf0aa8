#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The target of a remote log loses its power while the initiator appends, again and again: nothing that was
# acknowledged is missing then, and what the tail covers is whole (remote-log-check).  The log goes on after
# each power cut, so that it also has to bear what the one before has left behind its tail.
#
# With LONG=1 there are 200 power cuts.  SEED=N replays texts, points of the power cuts and the seeds of what they take;
# how far the initiator gets until the power is really gone is up to the machine, and so what there is to be taken.
#
# Stopping QEMU does not lose what CPU caches hold; so each power cut takes, by chance, what the model of
# Documentation/crash-states-rules.rst lets a power failure take.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/examples/log-guests.sh
. "$here/../examples/log-guests.sh"

logs=$((${LONG:-0} ? 20 : 1))
cuts_per_log=$((${LONG:-0} ? 10 : 4))
# More than can be appended until the power is gone.
lines=50000
# Time passes between the packets of an append, and before it is acknowledged: that is where power cuts belong.
slow_packets="tc qdisc add dev eth0 root netem rate 8mbit"
late_answers="tc qdisc add dev eth0 root netem delay 2ms"

# text SEED: lines of some bytes up to some packets
text() {
	awk -v lines=$lines -v x="$1" '
		function below(n) {
			x = x * 16807 % 2147483647
			return x % n
		}
		BEGIN {
			x = x % 2147483646 + 1
			while (length(filler) < 4000)
				filler = filler below(10)
			for (line = 1; line <= lines; line++)
				print line, substr(filler, 1 + below(1000), below(below(4) ? 150 : 3000))
		}'
}

# cut_power_after RECORDS SEED CHECK: the target's guest boots, passes CHECK and serves; when so many records more are
# acknowledged, its power is cut; SEED decides what is lost.
cut_power_after() {
	local status=0 said
	said=$(log_pair power-cut "$2" "$3 && $late_answers && $serve_log" \
		"$slow_packets && $(until_power_fails "$(append_lines "$work/text" $lines "$1")")" 2>&1) || status=$?
	echo "$said" | show_checks
	# Else it was not on its way any more, or not yet.
	[[ $status == 1 && $said == *"transport retry counter exceeded"* ]] ||
		fail "the initiator did not lose its target"
	[[ $said == *"the power failure took"* ]] || fail "it took nothing, and does not say so"
}

# What remote-log-check says, and what was lost, as what is always shown.
show_checks() { sed 's/^\(server: \)\?\(.* records, .* acknowledged; \)/# \2/; s/^rxe-vm: \(the power failure took\)/# \1/'; }

# power_cuts SEED: of one log
power_cuts() {
	local check=true after n
	echo "# SEED=$1"
	RANDOM=$1
	rm -f "$work/nvdimm"
	text "$1" >"$work/text"
	for ((n = 0; n < cuts_per_log; n++)); do
		after=$((1 + RANDOM % 1000))
		cut_power_after "$after" "$RANDOM" "$check"
		check=$(check_log "$work/text" "$(acknowledged)")
	done
	log_recovery power-cut "$check" | show_checks
}

nothing_acknowledged_is_missing_after_power_cuts() {
	local n
	for ((n = 0; n < logs; n++)); do
		power_cuts $((seed + n))
	done
}

cases=(nothing_acknowledged_is_missing_after_power_cuts)

run_suite 1 "$@"
