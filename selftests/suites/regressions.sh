#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# What worked before still does, as fast: the kernel with the series beside the one without, which
# `make base-kernel` builds with the same configuration.
#
# perftest's figures are in the guest's time, which -icount makes a count of the CPU's instructions: the same
# on a busy machine and on an idle one, run by run.  So they show how much longer a path has become, not the
# effect of caches.
#
# With DEBUG=1 connections and links are tested on the debug kernel; the comparison is of the plain kernels.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

series=${BASE:-v6.1}
without=$series-base
base_kernel=$root/build/$without/bzImage
pairs=3		# runs of each kernel, in turn

# Of rdma-core's tests, those about what the series brings.
new_tests='\.test_flush\.|\.test_udmabuf\.|\.test_qp_ex_rc_(flush|flush_type_violate|atomic_write) '

rxe_vm() { "$root/qemu-scripts/rxe-vm" "$1" --name regressions "${@:2}"; }

##############################################################################
# rdma-core's tests

suite_results() { BASE=$1 DEBUG=0 "$here/rdma-core-suite.sh" --do results | sort; }

rdma_cores_tests_end_as_before() {
	local changed
	suite_results "$without" >"$work/without"
	suite_results "$series" >"$work/with"
	changed=$(diff "$work/without" "$work/with" | grep '^[<>]' | grep -vE "$new_tests" || true)
	echo "# $(wc -l <"$work/with") tests, passed $(grep -c ' ok$' "$work/without") without the series," \
		"$(grep -c ' ok$' "$work/with") with it"
	[[ -z $changed ]] || fail "$changed"
	grep -qE "($new_tests).*ok$" "$work/with" || fail "the new tests did not run"
}

##############################################################################
# perftest

# NAME, the column of perftest's table that counts, COMMAND.
#
# The column is 5 for *_lat (the typical latency); for *_bw 4 is MB/s and 5 messages/s.
#
# All run on one CPU, so a program that waits for a SEND has to sleep (-e).  The two ends of ib_write_lat wait for each
# other in a loop, so one WRITE after the other replaces it.  ib_send_lat -e believes that its SEND completes before the
# answer to it comes.  On one CPU that is not so from 6.12 on, and its completion queue overflows, so one SEND after the
# other replaces it.
# shellcheck disable=SC2016 # for the guest
perftest='
	port=18515
	measure() {
		name=$1 column=$2
		shift 2
		port=$((port + 1))
		"$@" -F -d rxe0 -x 1 -u 18 -p $port >/dev/null &
		until grep -qi "^ *[0-9]*: 0*:$(printf %x $port) 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; do :; done
		"$@" -F -d rxe0 -x 1 -u 18 -p $port $RXE_ADDR >/tmp/table && wait $! || exit
		awk -v name=$name -v column=$column "\$1 ~ /^[0-9]+$/ { print name, \$column }" /tmp/table
	}
	measure write_rate    5 ib_write_bw -n 3000 -s 8 -t 1 -Q 1
	measure write_bw      4 ib_write_bw -n 1000 -s 65536
	measure read_latency  5 ib_read_lat -n 1000 -s 8
	measure read_bw       4 ib_read_bw -n 1000 -s 65536
	measure send_rate     5 ib_send_bw -e -n 3000 -s 8 -t 1 -Q 1
	measure send_bw       4 ib_send_bw -e -n 1000 -s 65536
	measure atomic_latency 5 ib_atomic_lat -n 1000
	measure atomic_rate   5 ib_atomic_bw -n 3000
	[ -z "$1" ] || {
		measure atomic_write_latency 5 "$1/ib_atomic_lat" -A WRITE -n 1000
		measure flush_latency 5 "$1/ib_write_lat" --flush=global -n 1000 -s 8
	}
'

# perftest with its series, where the base has FLUSH and ATOMIC WRITE
own_perftest=$root/build/perftest/bin
figures=10
"$root/scripts/bases" fixes | grep -xF "$series" >/dev/null || own_perftest='' figures=8

# run_perftest KERNEL: lines "KERNEL NAME VALUE"
run_perftest() {
	BASE=$1 DEBUG=0 QEMU_ACCEL=tcg rxe_vm run --cpus 1 --qemu "-icount shift=1,sleep=off" -- \
		sh -c "$perftest" - "$own_perftest" |
		sed "s/^/$1 /"
}

# Of all pairs, in order: how many times as good the series is (more for rates, less for latencies).
ratios() {
	awk -v without="$without" '
		$1 == without { before[$2] = before[$2] " " $3 }
		$1 != without { n[$2]++; after[$2, n[$2]] = $3 }
		END {
			for (name in before) {
				split(before[name], b, " ")
				for (i in b)
					print name, name ~ /latency/ ? b[i] / after[name, i] : after[name, i] / b[i]
			}
		}' "$1" | sort -k 1,1 -k 2,2n
}

perftest_is_as_good_as_before() {
	local i slower
	for ((i = 0; i < pairs; i++)); do
		run_perftest "$without"
		run_perftest "$series"
	done >"$work/figures"
	ratios "$work/figures" | awk '
		{ n[$1]++; value[$1, n[$1]] = $2 }
		END {
			for (name in n) {
				printf "# %-15s %.4f  (%.4f to %.4f in %d pairs)\n", name,
					value[name, int((n[name] + 1) / 2)], value[name, 1], value[name, n[name]], n[name]
			}
		}' | sort >"$work/table"
	echo "# how many times as good as before: median, spread"
	cat "$work/table"
	(($(wc -l <"$work/table") == figures)) || fail "not all has been measured"
	slower=$(awk '$3 < 0.995' "$work/table")
	[[ -z $slower ]] || fail "below 0.995: $slower"
}

##############################################################################
# Connections and links

# connect SERVER CLIENT
connect() { rxe_vm pair --server "$1" --client "$2"; }

# shellcheck disable=SC2016 # for the guests
rdma_cm_connects() {
	connect 'rping -s -C 1000' 'rping -c -C 1000 -a $RXE_PEER_ADDR'
	connect 'ucmatose -c 50 -C 20' 'ucmatose -c 50 -C 20 -s $RXE_PEER_ADDR'
	connect 'udaddy -c 20 -C 20' 'udaddy -c 20 -C 20 -s $RXE_PEER_ADDR'
	connect 'cmtime -c 100' 'cmtime -c 100 -s $RXE_PEER_ADDR'
}

# A link goes while rping talks over it, 100 times, and where rdma_rxe is a module, as in debug kernels, it goes
# too; a debug kernel then looks for what was not given back.
links_come_and_go_with_traffic() {
	local reload=:
	if grep -qx CONFIG_RDMA_RXE=m "$root/build/$series$variant/.config"; then
		reload="modprobe -r rdma_rxe; modprobe rdma_rxe"
	fi
	# shellcheck disable=SC2016 # for the guest
	rxe_vm run --timeout 1200 -- bash -euc '
		# What comes first is that the server does not listen yet.
		talk() {
			local line=
			until [[ -n $line ]]; do
				exec 3< <(exec rping -c -v -a $RXE_ADDR 2>/dev/null)
				client=$!
				read -r -u 3 line || true
			done
		}
		for ((i = 0; i < 100; i++)); do
			rping -s -a $RXE_ADDR 2>/dev/null &
			server=$!
			talk
			rdma link delete rxe0 &
			deletion=$!
			kill $client $server 2>/dev/null || true
			wait $deletion
			[[ ! -e /sys/class/infiniband/rxe0 ]]
			# What is not closed yet uses the module.
			wait $client $server || true
			eval "$1"
			rdma link add rxe0 type rxe netdev eth0
		done
		rping -s -a $RXE_ADDR -C 100 &
		server=$!
		until rping -c -C 100 -a $RXE_ADDR 2>/dev/null; do :; done
		wait $server
		echo "# $i times"' - "$reload"
}

##############################################################################
# What the base cannot do

the_base_says_that_it_has_neither_verb() {
	KERNEL=$base_kernel judged "$here/verbs-api.sh" --smoke >"$work/said" || fail "$(<"$work/said")"
	grep -q ' ok [0-9]* not supported: ' "$work/said" || fail "$(<"$work/said")"
	KERNEL=$base_kernel "$here/conformance.sh" >"$work/said" || fail "$(<"$work/said")"
	grep -q '^1\.\.0 # SKIP .* neither FLUSH nor ATOMIC WRITE' "$work/said" || fail "$(<"$work/said")"
}

cases=(
	rdma_cores_tests_end_as_before
	perftest_is_as_good_as_before
	rdma_cm_connects
	links_come_and_go_with_traffic
)
! "$root/scripts/bases" adds | grep -xF "$series" >/dev/null || cases+=(the_base_says_that_it_has_neither_verb)

run_suite 1 "$@"
