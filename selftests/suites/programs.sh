#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # for the guests' shells
#
# Programs that Debian packages, as they are (with LONG=1).  Those of the table "Programs as they are" in
# Documentation/lab.rst run between two guests, by the commands that stand there.  And Open MPI has a window in persistent
# memory of the other guest, of which crash-states says what MPI_Win_flush() makes durable.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

# needs_programs: skips the case without them
needs_programs() { "$root/scripts/deps" check programs 2>&1 || exit 4; }

##############################################################################
# The table

# table: "SERVER<tab>CLIENT" of each row
table() {
	awk -F '``' '
		/^===*$/ { here = before == "Programs as they are" }
		{ before = $0 }
		here && /^``.*``  *``.*``$/ { print $2 "\t" $4 }' "$root/Documentation/lab.rst"
}

# Each row has a folder in $work/share.  A server is ready when it listens; one that does not end by itself is ended.
serve='
	listens() { cat /proc/net/tcp /proc/net/tcp6 | grep -q " 0A " || rdma resource show cm_id | grep -q LISTEN; }
	rxe-ready
	for row in "$RXE_ROWS"/*; do
		cd "$row"
		timeout 100 sh ./server >server.said 2>&1 &
		until listens || ! kill -0 $!; do sleep 0.1; done
		touch ready
		until [ -e done ]; do sleep 0.1; done
		for i in $(seq 30); do kill -0 $! || break; sleep 0.1; done
		kill $! && { wait $!; continue; }
		wait $! || echo "the server has ended with status $?" >failed
	done 2>/dev/null'
ask='
	packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }
	for row in "$RXE_ROWS"/*; do
		cd "$row"
		until [ -e ready ]; do sleep 0.1; done
		before=$(packets)
		timeout 60 sh ./client >client.said 2>&1
		echo "$? $(($(packets) - before))" >result
		touch done
	done'

# judge_rows: KTAP, a result for each row.  rdma_cm alone sends three packets.
judge_rows() {
	local row status packets n=0
	echo "KTAP version 1"
	set -- "$work"/share/*
	echo "1..$#"
	for row; do
		n=$((n + 1)) status='' packets=0
		read -r status packets <"$row/result" || true
		if [[ $status == 0 && ! -e $row/failed ]] && ((packets >= 10)); then
			echo "# $(<"$row/client"): $packets packets"
		else
			echo "# status $status, $packets packets of RoCE sent"
			tail -n 20 "$row"/{failed,*.said} 2>/dev/null | sed 's/^/# /'
			printf 'not '
		fi
		echo "ok $n $(cut -c -60 "$row/client" | tr '#' ' ')"
	done
}

the_page_has_commands_for_both_guests() {
	local server client n=0
	while IFS=$'\t' read -r server client; do
		n=$((n + 1))
		[[ $server && $client == *'$RXE_PEER_ADDR'* ]] || fail "row $n: '$server', '$client'"
	done < <(table)
	((n)) || fail "there is no table in the section \"Programs as they are\""
}

programs_run_by_the_commands_of_the_page() {
	local server client n=0 row
	needs_programs
	while IFS=$'\t' read -r server client; do
		row=$work/share/$((100 + n++))
		mkdir -p "$row"
		echo "$server" >"$row/server"
		echo "$client" >"$row/client"
	done < <(table)
	# The packages' own come before those of rdma-core's build.
	local places="PATH=/usr/bin:\$PATH RXE_ROWS=$work/share"
	"$root/qemu-scripts/rxe-vm" pair --name programs --timeout 900 --share "$work/share" \
		--server "$places; $serve" --client "$places; $ask" || fail "the guests"
	nested judge_rows
}

##############################################################################
# Open MPI

# No guest has an sshd: what mpirun wants to start in the other one comes there as a file.
agent='#!/bin/sh
shift
echo "$*" >"${0%/*}/wanted.new"
mv "${0%/*}/wanted.new" "${0%/*}/wanted"
exec sleep 1000'

an_mpi_window_in_persistent_memory_is_flushed_and_not_durable() {
	local share=$work/share status=0 run
	needs_programs
	mkdir "$share"
	mpicc -o "$share/window" "$here/../examples/mpi/mpi-window.c" || fail "it does not build"
	echo "$agent" >"$share/agent"
	chmod +x "$share/agent"
	RXE_OUT=$work/out "$root/qemu-scripts/rxe-vm" pair --name mpi --timeout 300 --server-pmem 64M --stop-server --share "$share" \
		--server "rxe-ready; until [ -e $share/wanted ]; do sleep 0.1; done; exec sh $share/wanted" \
		--client "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
			exec mpirun --host \$RXE_ADDR,\$RXE_PEER_ADDR --mca plm_rsh_agent $share/agent \
			--mca orte_leave_session_attached 1 --mca oob_tcp_if_include eth0 --mca pml ucx --mca osc ucx \
			-x UCX_TLS=rc_verbs,ud_verbs,self -x UCX_UD_VERBS_ETH_DGID_CHECK=n $share/window" || fail "mpirun"
	run=$(readlink -f "$work/out/latest")
	"$root/qemu-scripts/crash-states" --promise 'is flushed' "$run" >"$work/said" || status=$?
	cat "$work/said"
	((status == 1)) || fail "crash-states ended with $status, not with 1"
	grep -q '^20 lines match --promise: 20 came while' "$work/said" || fail "not all lines are too early"
	grep -q 'No persistent FLUSH of its QP that covers it follows' "$work/said" || fail "it does not say why"
}

cases=(the_page_has_commands_for_both_guests)
long_cases=(programs_run_by_the_commands_of_the_page an_mpi_window_in_persistent_memory_is_flushed_and_not_durable)
run_suite 1 "$@"
