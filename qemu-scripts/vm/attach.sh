# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# rxe-vm attach: a shell in a guest that another rxe-vm runs.  That rxe-vm has made FIFOs in the run's folder: input
# goes through BOOT.shell.in, output comes through BOOT.shell.out, and a line to BOOT.control.in tells the guest to
# begin.  BOOT.shell.end exists while someone is attached, and says when the shell has ended.

# newest_boot RUN GUEST
newest_boot() {
	find "$1" -maxdepth 1 -regex ".*/$2\\(\\.[0-9]+\\)?\\.control\\.in" -printf '%f\n' | sort -t . -k 2n | tail -n 1 | sed 's/\.control\.in$//'
}

# find_attachable [GUEST | RUN/GUEST]: sets $run and $boot
find_attachable() {
	local guest=${1-} there
	run=$out/latest
	case $guest in
	*/*) run=${guest%/*} guest=${guest##*/} ;;
	esac
	there=$(find "$run/" -maxdepth 1 -name '*.control.in' -printf '%f\n' 2>/dev/null | sed 's/\..*//' | sort -u | paste -sd ' ')
	[[ -n $there ]] || die "no guest runs in $run"
	if [[ -z $guest ]]; then
		[[ $there != *' '* ]] || die "which one? rxe-vm attach GUEST, one of: $there"
		guest=$there
	fi
	[[ " $there " == *" $guest "* ]] || die "no guest '$guest' runs in $run, but: $there"
	boot=$(newest_boot "$run/" "$guest")
	[[ -p $run/$boot.shell.in ]] || die "'$guest' has a terminal already: its shell runs there"
	# A rxe-vm that was killed may have left what is read no more.
	dd if=/dev/null of="$run/$boot.control.in" oflag=nonblock conv=nocreat,notrunc status=none 2>/dev/null ||
		die "'$guest' of $run runs no more: its rxe-vm was killed"
}

reader='' writer=''	# pids of what passes the guest's words on, and ours
attach() {
	local control end
	(($# < 2)) || die "'$2': rxe-vm attach takes one guest"
	find_attachable "$@"
	tty -s || die "rxe-vm attach wants a terminal"
	mkfifo "$run/$boot.shell.end" 2>/dev/null ||
		die "someone is attached to '$boot' already (if not: rm $run/$boot.shell.end)"
	terminal_was=$(stty -g)
	trap 'stty "$terminal_was"; rm -f "$run/$boot.shell.end"; kill "$reader" "$writer" 2>/dev/null' EXIT
	exec {end}<>"$run/$boot.shell.end" {control}<>"$run/$boot.control.in"
	note "a shell in '${boot%%.*}'; it ends by exit, or with the guest's command"
	cat "$run/$boot.shell.out" &
	reader=$!
	echo "shell $(stty size)" >&"$control"
	stty raw -echo
	# The shell's stdin, which background processes do not have otherwise.
	cat <&0 >"$run/$boot.shell.in" &
	writer=$!
	# rxe-vm takes the ways away when the run is over.
	until read -r -t 0.5 -u "$end"; do
		[[ -p $run/$boot.control.in ]] || break
	done
}
