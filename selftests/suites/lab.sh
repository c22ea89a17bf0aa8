#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # many words here are for the guest's shell
#
# Tests of the lab, of one guest and of pairs: rxe-vm's exit status, output and files say what happened in the guests,
# above all when something went wrong.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/lab-runs.sh
. "$here/../lab-runs.sh"

# The pid of the QEMU that a rxe-vm runs, by its parent.
qemu_of() { pgrep -P "$1" -f qemu-system; }

is_gone() { timeout 20 tail --pid="$1" -f /dev/null; }

exit_status_is_passed_through() {
	lab 7 run -- sh -c 'exit 7'
	verdict_is "fail: the command ended with status 7"
	lab 0 run -- true
	verdict_is pass
}

skip_is_told_from_failure() {
	lab 4 run -- sh -c 'echo no such hardware; exit 4'
	verdict_is skip
}

output_is_passed_through() {
	head -c 1000000 /dev/urandom >"$work/out"
	head -c 300000 /dev/urandom >"$work/err"
	lab 0 run -- sh -c 'cat "$1"; cat "$2" >/dev/stderr' sh "$work/out" "$work/err"
	cmp "$work/out" "$work/stdout"
	# On a busy host rxe-vm has told before that the guest boots.
	cmp "$work/err" <(sed '1{/^rxe-vm: booting guest: /d}' "$work/stderr")
	cmp "$work/out" "$run/guest.stdout"
	cmp "$work/err" "$run/guest.stderr"
}

words_and_folder_are_those_of_the_caller() {
	mkdir "$work/a  b"
	cd "$work/a  b"
	lab 0 run -- sh -c 'printf "%s|" "$PWD" "$@"' sh "it's" '' 'a  "b"' '$HOME'
	[[ $stdout == "$work/a  b|it's||a  \"b\"|\$HOME|" ]]
}

# As where /bin is /usr/bin by another name.
path_without_bin_is_enough() {
	local path
	hide
	PATH=$path lab 0 run -- sh -c 'echo "$PATH"'
	[[ $stdout == *"$path"* && :$stdout: != *:/bin:* ]] || fail "it is $stdout"
}

unknown_command_is_the_shells_127() {
	lab 127 run -- no-such-program
	says 'no-such-program: not found'
}

leftover_processes_do_not_hold_the_run() {
	lab 0 run --timeout 60 -- sh -c 'sleep 1000 & echo started'
	[[ $stdout == started ]]
}

# How long it takes to boot depends on what else the host does; so do 10,000 steps of a shell.
rxe0_is_active_and_gid_1_is_ipv4() {
	# shellcheck disable=SC2016 # for the guest's shell
	lab 0 run -- sh -c 'read up _ </proc/uptime
		rdma link show
		cat /sys/class/infiniband/rxe0/ports/1/gids/1
		read begin _ </proc/uptime
		i=0
		while [ $i -lt 10000 ]; do i=$((i + 1)); done
		read end _ </proc/uptime
		echo "$up $begin $end"'
	[[ $stdout == *"link rxe0/1 state ACTIVE"* ]] || fail "rxe0 is not ACTIVE"
	[[ $stdout == *"0000:0000:0000:0000:0000:ffff:c000:0201"* ]] || fail "GID 1 is not that of 192.0.2.1"
	[[ $(head -n 1 "$run/guest.console") == *"Linux version"* ]] || fail "no console"
	tail -n 1 <<<"$stdout" | awk -v limit=$((20 * scale)) '{
		printf "# from power-on to the command: %.1f s, %.1f times what 10,000 steps of a shell take\n", $1, $1 / ($3 - $2)
		exit $1 >= limit * ($3 - $2)
	}' || fail "that is too long"
}

# Sets pid and qemu, of a run whose command has begun and does not end by itself.
start_endless_run() {
	mkfifo "$work/pipe"
	"$root/qemu-scripts/rxe-vm" run --name "lab-$case_name" -- sh -c 'echo started; exec sleep 1000' >"$work/pipe" 2>"$work/stderr" &
	pid=$!
	read -r <"$work/pipe"
	qemu=$(qemu_of "$pid")
}

guest_killed_from_outside_is_lost() {
	local pid qemu status=0
	start_endless_run
	kill -KILL "$qemu"
	wait "$pid" || status=$?
	((status == 3)) || fail "exit status $status, not 3"
	run=$(newest_run)
	verdict_is lost
}

# The kernel says nothing of that, nor does QEMU by itself.
triple_fault_is_lost_and_named() {
	QEMU_ACCEL=tcg lab 3 run --append reboot=triple -- busybox reboot -f
	says "the guest 'guest' died: Triple fault"
}

hang_meets_its_deadline_and_is_lost() {
	lab 3 run --timeout 10 -- sleep 1000
	says deadline
	verdict_is lost
}

# Nothing that rxe-vm attach would take for a guest.
an_interrupted_run_leaves_no_ways_in() {
	local pid qemu status=0
	start_endless_run
	run=$(newest_run)
	[[ -p $run/guest.control.in ]] || fail "there was no way in"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	((status == 143)) || fail "exit status $status"
	is_gone "$qemu" || fail "QEMU still runs"
	[[ -z $(find "$run" -type p) ]] || fail "left: $(find "$run" -type p)"
	"$root/qemu-scripts/rxe-vm" attach "$run/guest" 2>"$work/message" && fail "it attaches to nothing"
	grep "no guest runs in" "$work/message"
	verdict_is lost
}

qemu_dies_with_the_lab() {
	local pid qemu
	start_endless_run
	kill -KILL "$pid"
	is_gone "$qemu" || fail "QEMU still runs"
}

warning_of_the_kernel_is_a_splat() {
	lab 5 run -- sh -c 'echo WARNING >/sys/kernel/debug/provoke-crash/DIRECT; echo done'
	[[ $stdout == "done" ]] || fail "the command's output is lost"
	says lkdtm_WARNING
	says guest.console
	verdict_is splat
}

panic_of_the_kernel_is_a_splat() {
	lab 5 run -- sh -c 'echo PANIC >/sys/kernel/debug/provoke-crash/DIRECT'
	says 'Kernel panic'
	verdict_is splat
}

memory_error_is_a_splat() {
	lab 5 run -- sh -c 'echo WRITE_AFTER_FREE >/sys/kernel/debug/provoke-crash/DIRECT'
	says 'BUG: KASAN: use-after-free in lkdtm_WRITE_AFTER_FREE'
}

# All of the list's elements, which are not empty.
leak_of_the_kernel_is_a_splat() {
	local leaks
	kmemleak=on lab 5 run -- sh -c 'modprobe kmemleak-test && rmmod kmemleak-test'
	verdict_is splat
	leaks=$(grep -c 'unreferenced object .* (size 512)' "$run/guest.console") || true
	((leaks == 10)) || fail "$leaks of 10 elements were found"
}

# The kernel says it to its log, but not to its console.
warning_that_the_console_lacks_is_a_splat() {
	lab 5 run -- sh -c 'echo N >/sys/module/printk/parameters/ignore_loglevel; dmesg -n 1
		echo WARNING >/sys/kernel/debug/provoke-crash/DIRECT; dmesg | grep -c "cut here"'
	[[ $stdout == 1 ]] || fail "there was no warning"
	! grep -a "cut here" "$run/guest.console" || fail "the console has it"
	verdict_is "splat: the kernel of 'guest' is tainted (W, warning, while the command ran), though guest.console does not say why"
}

# Several CPUs write more than the console can take.
messages_that_were_dropped_are_no_pass() {
	lab 3 run --cpus 4 -- sh -c '
		line=$(head -c 900 /dev/zero | tr "\0" x)
		for i in 1 2 3 4 5 6; do
			(n=0; while [ $n -lt 400 ]; do echo "$line"; n=$((n + 1)); done >/dev/kmsg) &
		done
		wait'
	grep -aq "printk messages dropped" "$run/guest.console" || fail "none was dropped"
	verdict_is "lost: the kernel of 'guest' dropped messages"
}

taint_of_a_server_is_a_splat() {
	lab 5 pair --server 'echo 512 >/proc/sys/kernel/tainted; rxe-ready' --client true
	verdict_is "splat: the kernel of 'server' is tainted (W, warning, while the command ran)"
}

what_the_console_lacks_is_no_pass() {
	lab 3 run --append 8250.nr_uarts=0 -- true
	verdict_is "lost: the kernel's last line is not in guest.console"
}

# Its deadline is far away.
flood_ends_the_run() {
	local -i start=$SECONDS
	lab 3 pair --timeout 3000 --server 'rxe-ready; exec yes' --client 'exec sleep 3000'
	verdict_is "lost: server.stdout is cut at 64 MiB"
	(($(stat -c %s "$run/server.stdout") == 64 << 20)) || fail "server.stdout has $(stat -c %s "$run/server.stdout") bytes"
	((SECONDS - start < 60 * scale)) || fail "it took $((SECONDS - start)) s"
}

full_disk_is_lost_with_its_reason() {
	local RXE_OUT=$work/small
	((UID == 0)) || { echo "only root can mount a small file system"; exit 4; }
	mkdir "$RXE_OUT"
	mount -t tmpfs -o size=1M tmpfs "$RXE_OUT"
	# shellcheck disable=SC2064 # as it is now
	trap "umount -l '$RXE_OUT'; rm -rf '$work'" EXIT
	# The command's output, the capture, the console, and all from the beginning
	lab 3 run -- sh -c 'cat /dev/zero'
	verdict_is lost
	says "lost: cannot write guest.stdout: No space left on device"
	rm -r "$run"
	lab 3 pair --server 'rxe-ready; exec sleep 1000' --stop-server \
		--client 'busybox ping -c 40 -i 0.01 -s 60000 $RXE_PEER_ADDR >/dev/null'
	says "lost: "
	rm -r "$run"
	head -c 2000000 /dev/zero >"$RXE_OUT/all" 2>/dev/null || true
	lab 3 run -- true
	says "No space left on device"
}

result_is_told_to_programs() {
	lab 6 pair --json "$work/json" --server-pmem 32M --server 'rxe-ready; exec sleep 1000' --kill-server --client 'echo out; exit 6'
	[[ $stdout == out ]] || fail "more than the client's output"
	cmp "$work/json" "$run/result.json"
	jq -e '.verdict == "fail" and .reason == "the client'\''s command ended with status 6" and .status == 6 and .seconds > 0
		and (.guests | map([.name, .side, .status, .power_cut]) == [["server", "server", null, true], ["client", "client", 6, false]])
		and .guests[0].boots[0].dax == [{device: "dax0.0", offset: 2097152, size: 31457280}]
		and (.files | index("server.pmem0")) and .accelerator != ""' "$work/json" >/dev/null || fail "it is $(<"$work/json")"
}

value_of_the_server_reaches_the_client() {
	lab 0 pair --stop-server --server 'rxe-ready; sleep 1; rxe-tell "port 12  34; \$(false)"; exec sleep 1000' \
		--client '! rxe-tell it && ! rxe-hear 2 && rxe-hear && rxe-hear 1'
	[[ $stdout == $'port 12  34; $(false)\nport 12  34; $(false)' ]] || fail "it is '$stdout'"
	says "rxe-tell: this is not the server"
	says "rxe-hear: '2': say 1 to 1"
}

# A program that knows nothing of it
large_buffers_are_on_the_nvdimm() {
	lab 0 run --pmem 32M --pmem-malloc 1M -- python3 -c '
large = bytearray(b"this is kept, " * 100000)
small = bytearray(b"this is not, " * 1000)'
	(($(grep -aoF "this is kept, " "$run/guest.pmem0" | wc -l) >= 100000)) || fail "the large one is not there"
	! grep -aqF "this is not, " "$run/guest.pmem0" || fail "the small one is there"
	lab 2 run --pmem-malloc 1M -- true
	says "--pmem-malloc: guest has no NVDIMM: say --pmem SIZE, too"
	lab 2 run --pmem 32M --pmem-malloc 1X -- true
	says "'1X' is not a size: say for example 64K or 1M"
}

# By the terminal: typed while a guest boots, and while its command runs
ctrl_c_ends_a_run() {
	local said when
	type -P script >/dev/null || { echo "there is no script (util-linux)"; exit 4; }
	for when in booting running; do
		said=$(interrupt "$when")
		echo "$said"
		[[ $said == *"rxe-vm: lost: interrupted by SIGINT ("* ]] || fail "$when: it does not say so"
		run=$(newest_run)
		verdict_is "lost: interrupted by SIGINT"
		[[ -z $(find "$run" -type p) ]] || fail "left: $(find "$run" -type p)"
		! pgrep -f "$run" >/dev/null || fail "left: $(pgrep -af "$run")"
	done
	[[ $(interrupt booting) == *"booting guest: "*" of "*" s"* ]] || fail "no word on what it waits for"
	said=$(TERM=dumb interrupt booting)
	[[ $said != *booting* && $said != *$'\e'* ]] || fail "a dumb terminal gets $said"
}

# interrupt WHEN: what a terminal shows of a run that gets Ctrl-C then; it has two seconds left
interrupt() {
	local command='echo "run$((40 + 2))"; exec sleep 1000'
	mkfifo "$work/keys-$1"
	{
		exec 9>"$work/keys-$1"
		until case $1 in
			booting) pgrep -f "rxe.guest=.*$case_name" >/dev/null && sleep 1 ;;
			running) grep -q run42 "$work/shown" 2>/dev/null ;;
			esac do
			sleep 0.1
		done
		printf '\003' >&9
		sleep 2
		! pgrep -f "rxe.guest=.*$case_name" >/dev/null || echo "QEMU still runs" >>"$work/shown"
	} &
	timeout 300 script -qefc "$(printf '%q ' "$root/qemu-scripts/rxe-vm" run --name "lab-$case_name" -- sh -c "$command")" "$work/shown" \
		<"$work/keys-$1" >/dev/null || true
	wait
	rm "$work/keys-$1"
	tr -d '\r' <"$work/shown"
}

# 4096: a module from elsewhere.
words_of_a_command_are_no_splat() {
	lab 0 run -- sh -c 'echo "WARNING: not one"; echo "BUG: nor this" >&2; echo 4096 >/proc/sys/kernel/tainted
		echo "program: ** 5 printk messages dropped **" >/dev/kmsg'
}

pair_runs_programs_that_know_nothing_of_it() {
	local side
	local -i packets
	lab 0 pair --server 'ib_write_lat -d rxe0 -x 1 -n 200' --client 'ib_write_lat -d rxe0 -x 1 -n 200 $RXE_PEER_ADDR'
	[[ $stdout == *"t_typical"* ]] || fail "no table of the client"
	says "server:                     RDMA_Write Latency Test"
	for side in server client; do
		packets=$(tshark -r "$run/$side.pcap" -Y 'udp.dstport == 4791' 2>/dev/null | wc -l)
		((packets >= 400)) || fail "$packets RoCE packets in $side.pcap"
		[[ -s $run/$side.console && -x $run/$side.qemu ]] || fail "no console or command line of the $side"
	done
	verdict_is pass
}

each_side_has_its_rdma_core() {
	mkdir "$work/core"
	ln -s "$root/build/rdma-core/lib" "$work/core/lib"
	lab 0 pair --server-rdma-core "$work/core" --server 'echo "$LD_LIBRARY_PATH, $PATH"; rxe-ready' \
		--client 'echo "$LD_LIBRARY_PATH, $PATH"'
	local core
	core=$(readlink -f "$root/build/rdma-core")
	[[ $stdout == "$core/lib"*" $core/bin:"* ]] || fail "the client's is not the default"
	says "server: $work/core/lib"
	says " $work/core/bin:"
}

pair_has_the_clients_status() {
	lab 6 pair --server 'rxe-ready; sleep 1000' --client 'exit 6'
	verdict_is "fail: the client's command ended with status 6"
}

pair_waits_for_rdma_listen() {
	lab 0 pair --server 'rping -s -C 3' --client 'rping -c -a $RXE_PEER_ADDR -C 3'
}

pair_fails_with_its_server() {
	lab 1 pair --server 'rxe-ready; exit 9' --client true
	says "the server's command ended with status 9"
}

server_that_never_gets_ready_fails() {
	lab 1 pair --timeout 15 --server 'exec sleep 1000' --client true
	says "the server was not ready"
}

server_that_ends_before_it_is_ready_fails() {
	lab 1 pair --server 'exit 0' --client true
	says "ended with status 0 before it was ready"
}

server_that_does_not_end_fails() {
	lab 1 pair --server 'rxe-ready; exec sleep 1000' --client true
	says "the server's command did not end"
}

daemon_is_stopped() {
	lab 0 pair --stop-server --client true \
		--server 'trap "echo terminated; exit 1" TERM; rxe-ready; sleep 1000 & wait'
	says "server: terminated"
}

# It is stored through the device, and read again after a power cut.
nvdimm_outlives_a_power_cut() {
	local poke="import mmap,os; m = mmap.mmap(os.open('/dev/dax0.0', os.O_RDWR), 2 << 20)"
	lab 0 pair --server-pmem "$work/nvdimm:32M" --kill-server --client true \
		--server "python3 -c \"$poke; m[4096:4100] = b'kept'\" && rxe-ready; sleep 1000"
	lab 0 run --pmem "$work/nvdimm" -- python3 -c "$poke; print(m[4096:4100])"
	[[ $stdout == "b'kept'" ]] || fail "'$stdout' was kept"
}

an_nvdimm_is_one_runs_at_a_time() {
	local pid
	mkfifo "$work/pipe"
	"$root/qemu-scripts/rxe-vm" run --name "lab-$case_name-first" --pmem "$work/nvdimm:32M" -- \
		sh -c 'echo started; exec sleep 1000' >"$work/pipe" 2>/dev/null &
	pid=$!
	read -r <"$work/pipe"
	lab 2 run --pmem "$work/nvdimm" -- true
	says "/nvdimm: another run uses it"
	kill -TERM "$pid"
	wait "$pid" || true
	lab 0 run --pmem "$work/nvdimm" -- true
}

# As with a kernel that lacks a driver.
missing_nvdimm_is_no_pass() {
	lab 1 run --pmem 64M --append initcall_blacklist=nfit_init -- true
	says "the kernel shows 0 of 1 NVDIMMs: has it CONFIG_ACPI_NFIT"
	verdict_is fail
}

client_cuts_the_servers_power() {
	lab 0 pair --server 'rxe-ready; exec sleep 1000' --client '
		busybox ping -c 1 -W 20 "$RXE_PEER_ADDR" && rxe-kill-server && ! busybox ping -c 1 -W 2 "$RXE_PEER_ADDR"'
	verdict_is pass
}

shell_is_one_side_of_a_pair() {
	local said
	type -P script >/dev/null || { echo "there is no script (util-linux)"; exit 4; }
	said=$(on_terminal $'echo "<$RXE_NAME $RXE_PEER_ADDR>"\nexit 7\n' pair --name "lab-$case_name" --server 'echo served; rxe-ready' --client bash)
	echo "$said"
	[[ $said == *"<client 192.0.2.1>"* && $said == *"server: served"* ]] || fail "no shell"
	run=$(newest_run)
	verdict_is "fail: the client's command ended with status 7"
}

ipv6_is_all_there_is() {
	lab 0 pair --ipv6 --server 'rping -s -a :: -C 2; [ "$RXE_ADDR" = 2001:db8::1 ]' --client '
		cat /sys/class/infiniband/rxe0/ports/1/gids/1
		rping -c -C 2 -a $RXE_PEER_ADDR >/dev/null && getent hosts server'
	[[ $stdout == "2001:0db8:0000:0000:0000:0000:0000:0002"*"2001:db8::1"* ]] || fail "GID 1 or the server's name: $stdout"
	tshark -r "$run/client.pcap" -Y 'ipv6 && udp.dstport == 4791' 2>/dev/null | grep -q . || fail "no RoCE over IPv6"
}

vlan_and_mtu_are_those_of_the_link() {
	local out
	lab 0 pair --vlan 5 --mtu 4300 --server 'rping -s -C 2 -S 4000' --client '
		ibv_devinfo -d rxe0 && cat /sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/1 &&
		rping -c -C 2 -S 4000 -a $RXE_PEER_ADDR >/dev/null'
	[[ $stdout == *"active_mtu:		4096"*"eth0.5" ]] || fail "the MTU or the device"
	out=$(tshark -r "$run/server.pcap" -Y 'vlan.id == 5 && udp.dstport == 4791 && udp.length > 3000' 2>/dev/null)
	[[ -n $out ]] || fail "no large RoCE packet in the VLAN"
}

link_is_late_and_loses() {
	# Ping until one is answered, first: ARP asks three times only, and 30 % of loss take all three once in 37 runs.
	lab 0 pair --delay 20ms --client-loss 30% --server 'tc qdisc show dev eth0; rxe-ready' --client '
		tc qdisc show dev eth0
		until busybox ping -q -c 1 -W 5 $RXE_PEER_ADDR >/dev/null; do :; done
		busybox ping -c 60 -i 0.05 $RXE_PEER_ADDR || true'
	says "delay 20ms"
	[[ $stdout == *"delay 20ms loss 30%"* ]] || fail "the client's link: $stdout"
	local -i least got
	least=$(sed -n 's/^round-trip min.* = \([0-9]*\).*/\1/p' "$work/stdout")
	got=$(sed -n 's/.* \([0-9]*\) packets received.*/\1/p' "$work/stdout")
	((least >= 40)) || fail "a round trip of $least ms"
	# 60 of 60 come once in two thousand million times, with 30 % of loss.
	((got > 0 && got < 60)) || fail "$got of 60 came"
}

words_for_qemu_may_be_quoted() {
	lab 0 run --qemu "-name 'two words' -fw_cfg" --qemu 'name=opt/rxe,string="a b"' -- cat /proc/uptime
	grep -qF "'two words'" "$run/guest.qemu" && grep -qF "'name=opt/rxe,string=a b'" "$run/guest.qemu"
}

share_is_written() {
	mkdir "$work/share"
	lab 0 run --share "$work/share" -- sh -c 'echo hello >"$1/file"; ! echo x 2>/dev/null >"$2"' sh "$work/share" "$work/share/../no/such"
	[[ $(<"$work/share/file") == hello ]]
}

the_hosts_files_stay_as_they_are() {
	echo before >"$work/file"
	lab 0 run -- sh -c 'echo after >"$1"; cat "$1"' sh "$work/file"
	[[ $stdout == after && $(<"$work/file") == before ]]
}

two_labs_run_at_once() {
	local first
	"$root/qemu-scripts/rxe-vm" run --name "lab-$case_name-first" -- sh -c 'exit 8' 2>/dev/null &
	first=$!
	lab 9 run -- sh -c 'exit 9'
	local status=0
	wait "$first" || status=$?
	((status == 8)) || fail "the other one ended with $status, not 8"
}

# hide [PROGRAM]: all programs are in the folder $path, without this one.  Fails if it is in a folder that rxe-vm looks
# into by itself.
hide() {
	local folder program=${1-nothing}
	[[ ! -e /usr/sbin/$program && ! -e /sbin/$program ]] || return 1
	path=$work/without-$program
	mkdir "$path"
	while read -rd : folder; do
		ln -s "$folder"/* "$path/" 2>/dev/null || true
	done <<<"$PATH:/usr/sbin:/sbin:"
	rm -f "$path/$program"
}

another_machine_is_named_at_once() {
	local command
	printf '#!/bin/sh\necho aarch64\n' >"$work/uname"
	chmod +x "$work/uname"
	for command in demo "run -- true"; do
		# shellcheck disable=SC2086 # words
		PATH=$work:$PATH lab 2 $command
		says "this machine is aarch64: guests are x86_64, and run its programs"
		[[ $(wc -l <"$work/stderr") == 1 ]] || fail "it says more"
	done
}

what_the_host_lacks_is_named() {
	local path program options
	local -i tried=0
	while read -r program options; do
		hide "$program" || continue
		# shellcheck disable=SC2086 # words
		PATH=$path lab 2 run $options -- true
		says "there is no $program: install it by \`make deps\` (on Debian: "
		tried+=1
	done <<-'END'
		cpio
		ndctl --pmem 64M
		tc --delay 1ms
	END
	((tried)) || { echo "here all of them are in /usr/sbin, too"; exit 4; }
	echo "# $tried programs were hidden"
}

# As `make` leaves a kernel tree, with one module more than ours has.
make_tree() {
	local module own built=$root/build/${BASE:-v6.1}$variant
	own=$(KERNEL='' "$here/../modules/kernel-module" slow_words)
	tree=$work/tree
	mkdir -p "$tree"/{arch/x86/boot,drivers/misc,include/config}
	cp "$built/bzImage" "$tree/arch/x86/boot/bzImage"
	cp "$built/obj/include/config/kernel.release" "$tree/include/config/"
	cp "$built"/obj/modules.builtin{,.modinfo} "$tree/"
	sed 's|\.o$|.ko|' "$built/obj/modules.order" | while read -r module; do
		install -D "$built/obj/$module" "$tree/$module"
	done
	cp "$own" "$tree/drivers/misc/slow_words.ko"
	{ cat "$built/obj/modules.order"; echo drivers/misc/slow_words.o; } >"$tree/modules.order"
}

kernel_tree_needs_no_installation() {
	local tree
	make_tree
	lab 0 run --kernel "$tree" -- sh -c 'modprobe slow_words && modinfo -F filename slow_words && rdma link show'
	[[ $stdout == *slow_words.ko*ACTIVE* ]] || fail "its module is not found"
	# Built again, it is another one.
	rm "$tree/drivers/misc/slow_words.ko"
	lab 2 run --kernel "$tree" -- true
	says "modules.order names drivers/misc/slow_words.ko, which is not there"
}

image_among_its_modules_finds_them() {
	local tree modules version module
	make_tree
	version=$(<"$tree/include/config/kernel.release")
	modules=$work/package/usr/lib/modules/$version
	mkdir -p "$modules/kernel"
	cp "$tree"/modules.builtin* "$modules/"
	sed 's|^|kernel/|; s|\.o$|.ko|' "$tree/modules.order" >"$modules/modules.order"
	while read -r module; do
		install -D "$tree/${module#kernel/}" "$modules/$module"
	done <"$modules/modules.order"
	mv "$tree/arch/x86/boot/bzImage" "$modules/vmlinuz"
	lab 0 run --kernel "$modules/vmlinuz" -- modprobe slow_words
	lab 0 run --kernel "$work/package" -- modprobe slow_words
	# The lists are in a package that was not unpacked.
	mkdir "$work/lists"
	mv "$modules"/modules.* "$work/lists/"
	lab 0 run --kernel "$work/package" -- modprobe slow_words
	mv "$work"/lists/* "$modules/"
	# As newer packages have it, and some that were unpacked by older scripts.
	install -D "$modules/vmlinuz" "$work/package/boot/vmlinuz-$version"
	lab 0 run --kernel "$work/package" -- modprobe slow_words
	echo "another" >>"$work/package/boot/vmlinuz-$version"
	lab 2 run --kernel "$work/package" -- true
	says "several kernels are there, name one"
}

# Any module does: this one has the name of one that a guest needs.
what_unpacks_modules_is_named() {
	local path tree modules said status=0
	make_tree
	modules=$work/package/usr/lib/modules/$(<"$tree/include/config/kernel.release")
	mkdir -p "$modules/kernel"
	mv "$tree/arch/x86/boot/bzImage" "$modules/vmlinuz"
	xz -c "$tree/drivers/misc/slow_words.ko" >"$modules/kernel/virtio_rng.ko.xz"
	hide xz || { echo "here xz is in /usr/sbin, too"; exit 4; }
	said=$(PATH=$path "$root/qemu-scripts/initramfs" "$modules/vmlinuz" 2>&1) || status=$?
	[[ $status == 2 && $said == *"there is no xz to unpack "*"/virtio_rng.ko.xz: install it by "* ]] ||
		fail "status $status: $said"
	its_module() { cpio -i --quiet --to-stdout 'modules/*' <"$("$root/qemu-scripts/initramfs" "$modules/vmlinuz" | sed -n 2p)"; }
	its_module | cmp - "$tree/drivers/misc/slow_words.ko"
	sleep 1	# the time of a file may be no finer
	echo another | xz >"$modules/kernel/virtio_rng.ko.xz"
	[[ $(its_module) == another ]] || fail "a module that was replaced is still there"
}

# As with a kernel that has not got them: what would bring them up is left out.
what_the_kernel_lacks_is_named() {
	local initcalls what
	while read -r initcalls what; do
		lab 1 run --append "initcall_blacklist=$initcalls" -- true
		says "$what"
		[[ $(head -n 1 "$run/verdict") == "fail: guest: "*"$what"* ]] || fail "verdict: $(<"$run/verdict")"
	done <<-'END'
		init_v9fs the kernel lacks CONFIG_9P_FS (
		p9_virtio_init,virtio_console_init,ovl_init the kernel lacks CONFIG_VIRTIO_CONSOLE CONFIG_NET_9P_VIRTIO CONFIG_OVERLAY_FS (
		virtio_net_driver_init the kernel lacks CONFIG_VIRTIO_NET (
		virtio_pci_driver_init the kernel lacks CONFIG_VIRTIO_PCI
		populate_rootfs has it CONFIG_BLK_DEV_INITRD?
		rxe_module_init the kernel lacks CONFIG_RDMA_RXE,
		ib_uverbs_init the kernel lacks CONFIG_INFINIBAND_USER_ACCESS
	END
	lab 1 run --vlan 5 --append initcall_blacklist=vlan_proto_init -- true
	says "cannot make eth0.5: has the kernel CONFIG_VLAN_8021Q?"
	lab 1 run --delay 1ms --append initcall_blacklist=netem_module_init -- true
	says "has the kernel CONFIG_NET_SCH_NETEM?"
	says "what a guest sends to itself is neither late nor lost"
	lab 3 run --timeout 10 --append 8250.nr_uarts=0 -- sleep 100
	says "has its kernel CONFIG_SERIAL_8250_CONSOLE?"
}

# What a kernel seems to lack may be in modules that are somewhere else.
modules_that_are_not_found_are_named() {
	local tree
	make_tree
	lab 1 run --kernel "$tree" --append initcall_blacklist=init_v9fs -- true
	[[ $stderr != *"no modules of it were found"* ]] || fail "there are some"
	cp "$tree/arch/x86/boot/bzImage" "$work/"
	lab 1 run --kernel "$work/bzImage" --append initcall_blacklist=init_v9fs -- true
	says "the kernel lacks CONFIG_9P_FS (\`rxe-vm kconfig\` prints what a guest's kernel needs); no modules of it were found"
}

# What guests miss by name, `rxe-vm kconfig` prints.
kconfig_has_what_guests_miss() {
	local option fragment
	fragment=$("$root/qemu-scripts/rxe-vm" kconfig)
	grep -oh 'CONFIG_[A-Z0-9_]*[A-Z0-9]' "$root"/qemu-scripts/{guest/{init,session},vm/verdict.py} | sort -u | while read -r option; do
		grep -q "^$option=[ym]$" <<<"$fragment" || [[ $option == CONFIG_KALLSYMS ]] || fail "$option is not in it"
	done
}

no_root_is_needed() {
	local as_nobody=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
	((UID == 0)) || exit 0	# then all the other cases show it
	"${as_nobody[@]}" test -r "$root/qemu-scripts/rxe-vm" ||
		{ echo "only root may read $root"; exit 4; }
	mkdir "$work/out"
	chown nobody "$work/out"
	# build/ is root's, and holds root's answer about KVM.
	RXE_OUT=$work/out QEMU_ACCEL=tcg "${as_nobody[@]}" \
		"$root/qemu-scripts/rxe-vm" run -- rdma link show >"$work/stdout"
	grep ACTIVE "$work/stdout"
}

# On a kernel with the series: one bug that it has fixed, and one that 6.1 has not.
judge_names_the_bug_that_the_kernel_has() {
	local got=0 status=0 bug="Fix UC QP that drops every message after a loss"
	[[ ${BASE:-v6.1} != v6.1 ]] || status=1
	RXE_OUT=$work "$root/qemu-scripts/rxe-vm" judge --kernel "$root/build/${BASE:-v6.1}$variant/bzImage" --json "$work/json" \
		"$bug" 'Fix panic on a packet*' >"$work/said" || got=$?
	cat "$work/said"
	((got == status)) || fail "status $got, not $status"
	[[ $(jq -r '[.records[].verdict] | join(",")' "$work/json") == "not shown,$( ((status)) && echo shown || echo not shown)" ]] ||
		fail "$(<"$work/json")"
	((!status)) || grep -q "^a peer: $bug$" "$work/said" || fail "the bug is not named"
	((!status)) || grep -q "^    fix: v6.1 is not fixed: .*; kernel/v[0-9.]*/.*UC-QP-that-drops.*\.patch$" "$work/said" || fail "nor its patch"
	((!status)) || grep -q '# SKIP one like it has failed' "$work"/*-judge/*-conformance/ktap || fail "one failure is not enough"
}

cases=(
	exit_status_is_passed_through
	skip_is_told_from_failure
	output_is_passed_through
	rxe0_is_active_and_gid_1_is_ipv4
	guest_killed_from_outside_is_lost
	hang_meets_its_deadline_and_is_lost
	qemu_dies_with_the_lab
	warning_of_the_kernel_is_a_splat
	panic_of_the_kernel_is_a_splat
	warning_that_the_console_lacks_is_a_splat
	messages_that_were_dropped_are_no_pass
	taint_of_a_server_is_a_splat
	what_the_console_lacks_is_no_pass
	result_is_told_to_programs
	value_of_the_server_reaches_the_client
	large_buffers_are_on_the_nvdimm
	pair_runs_programs_that_know_nothing_of_it
	pair_has_the_clients_status
	pair_waits_for_rdma_listen
	nvdimm_outlives_a_power_cut
	client_cuts_the_servers_power
	ipv6_is_all_there_is
	vlan_and_mtu_are_those_of_the_link
	link_is_late_and_loses
	share_is_written
	the_hosts_files_stay_as_they_are
	what_the_kernel_lacks_is_named
	another_machine_is_named_at_once
	no_root_is_needed
	judge_names_the_bug_that_the_kernel_has
)
long_cases=(
	what_the_host_lacks_is_named
	words_and_folder_are_those_of_the_caller
	path_without_bin_is_enough
	unknown_command_is_the_shells_127
	leftover_processes_do_not_hold_the_run
	triple_fault_is_lost_and_named
	an_interrupted_run_leaves_no_ways_in
	ctrl_c_ends_a_run
	flood_ends_the_run
	full_disk_is_lost_with_its_reason
	words_of_a_command_are_no_splat
	each_side_has_its_rdma_core
	pair_fails_with_its_server
	server_that_never_gets_ready_fails
	server_that_ends_before_it_is_ready_fails
	server_that_does_not_end_fails
	daemon_is_stopped
	an_nvdimm_is_one_runs_at_a_time
	missing_nvdimm_is_no_pass
	shell_is_one_side_of_a_pair
	words_for_qemu_may_be_quoted
	two_labs_run_at_once
	kernel_tree_needs_no_installation
	image_among_its_modules_finds_them
	what_unpacks_modules_is_named
	modules_that_are_not_found_are_named
	kconfig_has_what_guests_miss
)
# What the debug kernel alone can see.
[[ ${DEBUG:-0} != 1 ]] || cases+=(memory_error_is_a_splat leak_of_the_kernel_is_a_splat)
smoke_cases=(
	exit_status_is_passed_through
	rxe0_is_active_and_gid_1_is_ipv4
	warning_of_the_kernel_is_a_splat
	pair_runs_programs_that_know_nothing_of_it
)
run_suite 2 "$@"
