# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder: they share its variables
#
# What became of the run: pass, fail, skip, lost or splat, and why.

verdict=		# pass, fail, skip, lost, splat
why=
status=

# The first verdict stands, except that a kernel in trouble overrides it.
conclude() {
	[[ -z $verdict ]] || return 0
	verdict=$1 status=$2 why=$3
}

conclude_status() {
	case $2 in
	0) conclude pass 0 "" ;;
	4) conclude skip 4 "$1 ended with status 4" ;;
	*) conclude fail "$2" "$1 ended with status $2" ;;
	esac
}

# What QEMU itself had to say, if anything.
last_words() {
	local words
	words=$(grep -v warning: "$run/$1.qemu.log" | tail -n 3) || true
	[[ -z $words ]] || printf ': %s' "$words"
}

# A kernel in trouble overrides whatever the commands made of it.
find_splats() {
	local role
	for role in "${!pid[@]}"; do
		if "$here/find-splats" "$run/$role.console" >&2; then
			verdict=splat status=5 why="the kernel of '$role' is in trouble, see $role.console"
		fi
	done
}

show_verdict() {
	printf '%s\n' "$verdict${why:+: $why}" "exit status $status" "accelerator $accel" >"$run/verdict"
	[[ $verdict != pass ]] || return 0
	if [[ $verdict == lost ]]; then
		tail -n 5 "$run"/*.console >&2
	fi
	note "$verdict: $why ($run)"
}
