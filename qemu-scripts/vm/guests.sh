# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# Running guests: starts them, passes on their output, sends them messages, and kills them.

declare -A boot_of=()	# guest -> the name of its newest boot, which its files begin with: server2, then server2.2 ...
declare -A boots=()	# guest -> how many it had
declare -A pid=()	# guest -> its QEMU
declare -A running=()	# boot -> its QEMU has not ended
hub=			# pid of the QEMU that is the group's network
followers=()		# pids of what passes the output on
boot_display=		# pid of what shows how far the boot is

# start_qemu BOOT: qemu[], in the background, as $!.  The end of QEMU's stderr is the end of QEMU; and QEMU must
# not outlive this script, however that ends.
start_qemu() {
	local stdin=/dev/null said
	[[ $1 != "$terminal" ]] || stdin=/dev/tty
	printf '#!/bin/sh\ncd %s\nexec %s\n' "$(sh_quote "$run")" "$(sh_quote "${qemu[@]}")" >"$run/$1.qemu"
	chmod +x "$run/$1.qemu"
	# Here, not in the new process, which may be killed before it gets to it.
	exec {said}> >(attend "$1")
	(cd "$run" && exec setpriv --pdeathsig KILL "${qemu[@]}") <"$stdin" 2>&"$said" {said}>&- &
	disown	# its end is no news to the shell
	exec {said}>&-
	running[$1]=1
}

start_hub() {
	local -a qemu
	compose_segment
	start_qemu hub
	hub=$!
}

start_guest() {
	local guest=$1 boot=$1 control
	local -a qemu
	local -i n=$((${boots[$1]-0} + 1))
	((n == 1)) || boot=$guest.$n
	boots[$guest]=$n boot_of[$guest]=$boot
	compose_qemu "$guest" "$boot"
	[[ $mode.${side[$guest]} != group.server ]] || keep_pmem "$guest" .boot
	write_env "$guest" >"$run/$boot.env"
	touch "$run/$boot.stdout" "$run/$boot.stderr" "$run/$boot.console"
	mkfifo "$run/$boot".{control,shell}.{in,out}
	# It keeps what the guest is told before its QEMU reads it.
	exec {control}<>"$run/$boot.control.in"
	start_qemu "$boot"
	pid[$guest]=$!
	[[ $guest == "$terminal" ]] || follow "$guest"
	[[ $boot != "${guests[0]}" ]] || show_boot "$guest"
}

# The shell that rxe-vm attach opened in this boot has ended.
shell_ended() {
	local fd
	[[ -p $run/$1.shell.end ]] || return 0
	exec {fd}<>"$run/$1.shell.end"
	echo >&"$fd"
	exec {fd}>&-
}

# follow_file FILE PREFIX: what it holds and what comes, until the QEMU of $guest has ended
follow_file() {
	local -a tail=(tail -c +1 -f -s 0.05 --pid "${pid[$guest]}" "$run/$1")
	if [[ -n $2 ]]; then
		"${tail[@]}" | sed -u "s/^/$2: /" &
	else
		"${tail[@]}" &
	fi
	followers+=($!)
}

# Passes on what the guest's command prints, until its QEMU has ended.  A server is no part of the output.
follow() {
	local guest=$1 boot=${boot_of[$1]} prefix=
	((${#clients[@]} < 2)) || prefix=$guest
	if [[ ${side[$guest]} == server ]]; then
		follow_file "$boot.stdout" "$guest" >&2
		follow_file "$boot.stderr" "$guest" >&2
	else
		follow_file "$boot.stdout" "$prefix"
		follow_file "$boot.stderr" "$prefix" >&2
	fi
}

# A terminal shows how far the first guest has booted, until its command starts.
show_boot() {
	[[ -t 2 && -z $terminal ]] || return 0
	show_newest_line < <(exec tail -n +1 -f -s 0.05 --pid "${pid[$1]}" "$run/$1.console") &
	boot_display=$!
	disown
}

stop_boot_display() {
	[[ -n $boot_display ]] || return 0
	kill "$boot_display" 2>/dev/null || true
	rewrite ""
	boot_display=
}

# A guest that does not read what it is told shall not hold this one.
tell() {
	echo "$2" | dd of="$run/${boot_of[$1]}.control.in" oflag=nonblock conv=nocreat,notrunc status=none 2>/dev/null || true
}

# Its QEMU may have ended by itself; boot_gone() then takes its pid away, which may soon be another's.
kill_guest() { [[ -z ${pid[$1]-} ]] || kill -KILL "${pid[$1]}" 2>/dev/null || true; }

kill_guests() {
	local guest
	for guest in "${!pid[@]}"; do
		kill_guest "$guest"
	done
}

kill_all() {
	kill_guests
	[[ -z $hub ]] || kill -KILL "$hub" 2>/dev/null || true
	hub=
}

# Also if the run is interrupted: rxe-vm attach takes these FIFOs for a guest that runs.
leave() {
	kill_all
	rm -f "$run"/{events,link,link.*} "$run"/*.{control,shell}.*
}
