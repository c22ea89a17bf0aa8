# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the scripts of this folder share.  They run from the top of the project, as the Makefile does.

say() { printf '%s\n' "$*"; }
die() { printf 'rxe-mpe: error: %s\n' "$*" >&2; exit 1; }

# need_space DIR MIB: a build that dies of a full disk leaves half-written files; say so before.
need_space() {
	local free
	mkdir -p "$1"
	free=$(($(df --output=avail -k "$1" | tail -n 1) / 1024))
	((free >= $2)) || die "$1 has $free MiB free, $2 MiB are needed: free some space or move it to a larger disk"
}

# On a terminal, the newest line of stdin, rewritten in place; in a log, nothing.
show_newest_line() {
	local line width
	if [[ -t 1 ]]; then
		width=$(tput cols 2>/dev/null || echo 80)
		while IFS= read -r line; do
			printf '\r\033[K%.*s' "$((width - 1))" "${line//[^[:print:]]/ }"
		done
		printf '\r\033[K'
	else
		cat >/dev/null
	fi
}

# logged LOG CMD...: the output of CMD goes to the end of LOG; of a failure, its tail is shown.
logged() {
	local log=$1
	shift
	if ! "$@" 2>&1 | tee -a "$log" | show_newest_line; then
		tail -n 25 "$log" >&2
		die "\`$*\` failed; the whole log is $log"
	fi
}
