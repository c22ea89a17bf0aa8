# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder: they share its variables
#
# Guests that run: their start, their output, a word to them, their end.

declare -A pid=()	# of each QEMU
declare -A control=()	# the way to each guest, a file descriptor
followers=()		# pids of what passes the output on
boot_display=		# pid of what shows how far the boot is

start_guest() {
	local role=$1 stdin=/dev/null fd
	local -a qemu
	compose_qemu "$role"
	write_env "$role" >"$run/$role.env"
	printf '#!/bin/sh\ncd %s\nexec %s\n' "$(sh_quote "$run")" "$(sh_quote "${qemu[@]}")" >"$run/$role.qemu"
	chmod +x "$run/$role.qemu"
	touch "$run/$role.stdout" "$run/$role.stderr" "$run/$role.console"
	mkfifo "$run/$role.control.in"
	ln -s events "$run/$role.control.out"
	exec {fd}<>"$run/$role.control.in"
	control[$role]=$fd

	[[ $mode != shell ]] || stdin=/dev/tty
	# The end of QEMU's stderr is the end of QEMU; and QEMU must not
	# outlive this script, however that ends.
	(cd "$run" && exec setpriv --pdeathsig KILL "${qemu[@]}") <"$stdin" \
		2> >(cat >"$run/$role.qemu.log"; echo "$role gone" >&"$events") &
	pid[$role]=$!
	disown	# its end is no news to the shell
	[[ $mode == shell ]] || follow "$role"
}

# Passes on what the guest's command prints, until its QEMU has ended.
follow() {
	local -a tail=(tail -c +1 -f -s 0.05 --pid "${pid[$1]}")
	if [[ $1 == server ]]; then
		"${tail[@]}" "$run/$1.stdout" | sed -u 's/^/server: /' >&2 &
		followers+=($!)
		"${tail[@]}" "$run/$1.stderr" | sed -u 's/^/server: /' >&2 &
	else
		"${tail[@]}" "$run/$1.stdout" &
		followers+=($!)
		"${tail[@]}" "$run/$1.stderr" >&2 &
	fi
	followers+=($!)
}

# A terminal shows how far the first guest has booted, until its command starts.
show_boot() {
	[[ -t 2 && $mode != shell ]] || return 0
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

tell() { echo "$2" >&"${control[$1]}"; }

kill_guest() { kill -KILL "${pid[$1]}" 2>/dev/null || true; }

kill_guests() {
	local role
	for role in "${!pid[@]}"; do
		kill_guest "$role"
	done
}
