#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # many words here are for the guest's shell
#
# Tests of the lab, of groups of guests: each is reached and told apart, loses its power and boots again.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/lab-runs.sh
. "$here/../lab-runs.sh"

group_knows_its_guests() {
	lab 0 group --server 'hostname; echo "$RXE_NAME $RXE_ADDR $RXE_PEER_ADDRS"; rxe-ready' \
		--server 'rping -s -C 2 && echo "$RXE_NAME $RXE_ADDR $RXE_PEER_ADDR"' \
		--client 'rping -c -C 2 -a $(getent hosts server2 | cut -d " " -f 1) >/dev/null && echo "$RXE_ROLE $RXE_PEER_ADDRS"' \
		--client 'hostname; echo "$RXE_NAME to stderr" >&2'
	grep -qx 'client1: client 192.0.2.1 192.0.2.2' "$work/stdout" || fail "client1's addresses"
	grep -qx 'client2: client2' "$work/stdout" || fail "client2's name"
	says "server1: server1"
	says "server1: server1 192.0.2.1 192.0.2.3 192.0.2.4"
	says "server2: server2 192.0.2.2 192.0.2.3"
	says "client2: client2 to stderr"
	local guest file
	for guest in server1 server2 client1 client2; do
		for file in console env qemu stdout stderr; do
			[[ -s $run/$guest.$file || $file == std* ]] || fail "no $guest.$file"
		done
	done
	tshark -r "$run/server2.pcap" -Y 'ip.src == 192.0.2.3 && udp.dstport == 4791' 2>/dev/null | grep -q . ||
		fail "no packet of client1 in server2.pcap"
}

each_guest_of_a_group_has_its_options() {
	lab 0 group --mem 512M --server-mem 600M --server2-mem 700M --server2-pmem 32M --client-share "$work" \
		--server 'rxe-ready' --server 'ls /dev/dax* && rxe-ready' --client "touch $work/shared && ! ls /dev/dax*"
	[[ -e $work/shared ]] || fail "no share"
	[[ $(grep -ho "'[0-9]*M," "$run"/{server1,server2,client1}.qemu) == $'\'600M,\n\'700M,\n\'512M,' ]] ||
		fail "the memory: $(grep -o "'[0-9]*M," "$run"/*.qemu)"
	[[ -e $run/server2.nvdimm0 && ! -e $run/server1.nvdimm0 ]] || fail "the NVDIMM of server2 is not there"
}

# Eight of them: what a busy machine of 2 CPUs takes is shown.
eight_guests_reach_each_other() {
	local -i start=$SECONDS
	local ping='for n in 1 2 3 4; do rping -c -C 2 -a $(getent hosts server$n | cut -d " " -f 1) || exit; done; echo reached'
	local all=() n
	for n in 1 2 3 4; do
		all+=(--server 'exec rping -s -P -C 2' --client "$ping")
	done
	lab 0 group --stop-server "${all[@]}"
	(($(grep -c 'reached$' "$work/stdout") == 4)) || fail "not all were reached"
	echo "# eight guests: $((SECONDS - start)) s"
}

taint_of_one_is_a_splat() {
	lab 5 group --client true --client 'echo 32 >/proc/sys/kernel/tainted'
	verdict_is "splat: the kernel of 'client2' is tainted (B, bad page, while the command ran)"
}

two_groups_run_at_once() {
	local first status=0
	"$root/qemu-scripts/rxe-vm" group --name "lab-$case_name-first" --server 'rping -s -C 2' --server rxe-ready \
		--client 'rping -c -C 2 -a $RXE_PEER_ADDR >/dev/null; echo $?' >"$work/first" 2>&1 &
	first=$!
	lab 0 group --server 'rping -s -C 2' --server rxe-ready --client 'rping -c -C 2 -a $RXE_PEER_ADDR'
	wait "$first" || status=$?
	((status == 0)) || fail "the other one: $status, $(<"$work/first")"
}

group_has_the_status_of_its_first_client_that_fails() {
	lab 6 group --server 'rxe-ready; sleep 1000' --client 'sleep 2' --client 'exit 6'
	verdict_is "fail: the command of client2 ended with status 6"
	lab 1 group --timeout 60 --server 'rxe-ready' --server 'exit 3' --client true
	verdict_is "fail: the command of server2 ended with status 3 before it was ready"
	lab 1 group --timeout 40 --server 'rxe-ready' --server 'exec sleep 1000' --client true
	says "server2 was not ready"
	lab 5 group --server 'rxe-ready' --server 'echo WARNING >/sys/kernel/debug/provoke-crash/DIRECT; rxe-ready' --client true
	says server2.console
}

# It boots on the same NVDIMM, runs its command again, and is ready when rxe-start-server ends.
server_of_a_group_boots_again() {
	local poke="import mmap,os; m = mmap.mmap(os.open('/dev/dax0.0', os.O_RDWR), 2 << 20)"
	lab 0 group --kill-server --server-pmem 32M --server 'rxe-ready; exec sleep 1000' \
		--server "python3 -c \"$poke; print('boot', m[4096]); m[4096] += 1\" && rxe-ready; exec sleep 1000" --client '
		set -e
		for round in 1 2; do
			rxe-kill-server 2
			rxe-start-server 2
			busybox ping -c 1 -W 20 server2 >/dev/null
		done
		rxe-kill-server 2
		busybox ping -c 1 -W 20 server1 >/dev/null'
	[[ $(grep -o 'server2: boot .*' <<<"$stderr") == $'server2: boot 0\nserver2: boot 1\nserver2: boot 2' ]] ||
		fail "not three boots on one NVDIMM"
	[[ -s $run/server2.console && -s $run/server2.2.console && -s $run/server2.3.pcap ]] ||
		fail "not each boot has its files"
}

# A command that ends by itself leaves its guest on.
server_that_has_ended_loses_its_power_too() {
	lab 0 group --server rxe-ready --client '
		busybox ping -c 1 -W 20 server1 && rxe-kill-server 1 && ! busybox ping -c 1 -W 2 server1 &&
		rxe-start-server 1 && busybox ping -c 1 -W 20 server1'
	verdict_is pass
	[[ -s $run/server1.2.console ]] || fail "no second boot"
}

server_that_fails_when_it_boots_again_fails() {
	lab 1 group --server-share "$work" --server "mkdir $work/first && rxe-ready && exec sleep 1000" \
		--client 'rxe-kill-server 1 && rxe-start-server 1'
	verdict_is "fail: the command of server1 ended with status 1 before it was ready"
	[[ -s $run/server1.2.console ]] || fail "no second boot"
}

# The client asks for the server as rxe-start-server does, and does not wait.
server_that_boots_again_for_nobody_goes() {
	lab 0 group --timeout 60 --server 'rxe-ready; exec sleep 1000' --client 'rxe-kill-server 1
		echo "start-server 1" >/run/rxe-vm/events'
	lab 0 group --timeout 60 --stop-server --server 'rxe-ready; exec sleep 1000' --client 'rxe-kill-server 1
		echo "start-server 1" >/run/rxe-vm/events'
}

# Of each boot, what a power failure takes.
powers_of_a_group_fail() {
	local append='remote-log-append $(getent hosts server2 | cut -d " " -f 1)'
	lab 0 group --kill-server=lose:5 --server-pmem 32M --client-share "$work" \
		--server 'exec remote-log-target "$RXE_ADDR" /dev/dax0.0' --server 'exec remote-log-target "$RXE_ADDR" /dev/dax0.0' \
		--client "$append /etc/services 20 $work/acknowledged && rxe-kill-server 2 && rxe-start-server 2 &&
			$append /etc/services 20 $work/acknowledged"
	[[ $stdout == *"the log holds 20 records"* ]] || fail "server2's log is gone"
	(($(grep -c 'server2: the power failure took .* words' <<<"$stderr") == 2)) || fail "not two power failures of server2"
	# The seeds are those of the boots, whichever ends first.
	[[ $(grep -o 'server[12]: the power failure took\|(seed [0-9]*)' <<<"$stderr" | paste -d ' ' - - | sort -V) == \
		$'server1: the power failure took (seed 5)\nserver2: the power failure took (seed 6)\nserver2: the power failure took (seed 14)' ]] ||
		fail "the seeds of the power failures"
}

# A client that does not wait for rxe-start-server comes before the NVDIMM has been copied: here for sure, as the copy
# waits for it.
what_comes_before_the_copy_is_not_there_at_the_start() {
	local append='remote-log-append "$RXE_PEER_ADDR" /etc/services 20'
	mkdir "$work/bin"
	cat >"$work/bin/cp" <<-END
		#!/bin/sh
		case \$* in
		*.2.pmem0.start) timeout $((60 * scale)) sh -c 'until [ -e "$work/appended" ]; do sleep 0.1; done' ;;
		esac
		exec $(type -P cp) "\$@"
	END
	chmod +x "$work/bin/cp"
	PATH=$work/bin:$PATH lab 0 group --kill-server=lose:5 --server-pmem 32M --client-share "$work" \
		--server 'exec remote-log-target "$RXE_ADDR" /dev/dax0.0' \
		--client "$append $work/acknowledged && rxe-kill-server 1 || exit
			rxe-start-server 1 &
			until $append $work/acknowledged; do sleep 0.2; done
			touch $work/appended
			wait \$!"
	[[ -e $work/appended ]] || fail "the copy came first"
	cmp "$run/server1.2.pmem0.boot" "$run/server1.2.pmem0.start" >"$work/differ" && fail "nothing came before the copy"
	cat "$work/differ"
	# The image is of the device, which begins behind 2 MiB; nothing but requests changes it.
	"$root/qemu-scripts/crash-states" --cuts 0 "$run/server1.2.recording" -- \
		sh -c 'cmp -i 0:2097152 "$IMAGE" "$1"' sh "$run/server1.2.pmem0.boot"
}

what_cannot_be_started_again_is_told() {
	lab 0 group --server 'rxe-ready' --client '
		rxe-start-server 1; echo "$?"
		rxe-start-server 2; echo "$?"
		rxe-kill-server x; echo "$?"
		rxe-kill-server 1; rxe-kill-server 1; echo "$?"
		rxe-start-server 1 & rxe-start-server 1; wait'
	[[ $stdout == $'2\n2\n2\n0' ]] || fail "statuses: $stdout"
	says "rxe-start-server: server1 has its power: rxe-kill-server 1 comes first"
	says "rxe-start-server: '2': say 1 to 1"
	says "rxe-kill-server: 'x': say 1 to 1"
	# The one or the other.
	says "rxe-start-server: another one waits for server 1"
	lab 0 pair --server rxe-ready --client '! rxe-start-server 1'
	says "this is not a client of a group"
}

# Without its network a group is lost, not hanging.
group_without_its_network_is_lost() {
	local pid status=0
	mkfifo "$work/pipe"
	"$root/qemu-scripts/rxe-vm" group --name "lab-$case_name" --server rxe-ready --client 'echo started; exec sleep 1000' >"$work/pipe" 2>"$work/stderr" &
	pid=$!
	read -r <"$work/pipe"
	kill -KILL "$(pgrep -P "$pid" -f rxe-segment)"
	wait "$pid" || status=$?
	((status == 3)) || fail "exit status $status, not 3"
	run=$(newest_run)
	verdict_is "lost: the network of the group ended"
}

shell_is_attached_to_a_guest_that_runs() {
	local pid said status=0
	type -P script >/dev/null || { echo "there is no script (util-linux)"; exit 4; }
	mkfifo "$work/pipe"
	"$root/qemu-scripts/rxe-vm" group --name "lab-$case_name" --server rxe-ready --client 'echo started; until [ -e /tmp/attached ]; do sleep 0.1; done' \
		--client 'sleep 1' >"$work/pipe" 2>"$work/stderr" &
	pid=$!
	read -r <"$work/pipe"
	run=$(newest_run)
	"$root/qemu-scripts/rxe-vm" attach "$run/" </dev/null 2>"$work/message" && fail "it attaches to none of three"
	grep "which one? rxe-vm attach GUEST, one of: client1" "$work/message"
	"$root/qemu-scripts/rxe-vm" attach "$run/client9" </dev/null 2>"$work/message" && fail "it attaches to none"
	grep "no guest 'client9' runs in" "$work/message"
	"$root/qemu-scripts/rxe-vm" attach "$run/client1" </dev/null 2>"$work/message" && fail "it attaches to no terminal"
	grep "wants a terminal" "$work/message"
	mkfifo "$run/client1.shell.end"
	said=$(on_terminal '' attach "$run/client1")
	rm "$run/client1.shell.end"
	[[ $said == *"someone is attached to 'client1' already"* ]] || fail "it attaches twice: $said"
	said=$(on_terminal $'echo "<$RXE_NAME $RXE_ROLE>"; touch /tmp/attached\nexit\n' attach "$run/client1")
	echo "$said"
	[[ $said == *"<client1 client>"* ]] || fail "no shell of client1"
	wait "$pid" || status=$?
	((status == 0)) || fail "the group ended with $status: $(<"$work/stderr")"
	"$root/qemu-scripts/rxe-vm" attach "$run/client1" 2>"$work/message" && fail "it attaches to a run that is over"
	grep "no guest runs in" "$work/message"
	mkfifo "$run/client1."{control,shell}.in
	"$root/qemu-scripts/rxe-vm" attach "$run/client1" 2>"$work/message" && fail "it attaches to a run that was killed"
	grep "'client1' of .* runs no more: its rxe-vm was killed" "$work/message"
}

cases=(
	group_knows_its_guests
	server_of_a_group_boots_again
	powers_of_a_group_fail
)
long_cases=(
	taint_of_one_is_a_splat
	each_guest_of_a_group_has_its_options
	eight_guests_reach_each_other
	two_groups_run_at_once
	group_has_the_status_of_its_first_client_that_fails
	server_that_has_ended_loses_its_power_too
	server_that_fails_when_it_boots_again_fails
	server_that_boots_again_for_nobody_goes
	what_comes_before_the_copy_is_not_there_at_the_start
	what_cannot_be_started_again_is_told
	group_without_its_network_is_lost
	shell_is_attached_to_a_guest_that_runs
)
run_suite 2 "$@"
