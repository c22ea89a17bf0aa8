# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# The result of the run: pass, fail, skip, lost or splat, and why.

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
	words=$(grep -s -v warning: "$run/$1.qemu.log" | tail -n 3) || true
	[[ -n $words ]] || words=$(grep -s 'Triple fault' "$run/$1.qemu.resets") || true
	[[ -z $words ]] || printf ': %s' "$words"
}

declare -A never_up=()	# boot -> why that guest did not come up, as far as its console tells

# why_not_up BOOT: sets that, of a guest that ended before its command began.  What is missing is no trouble of the
# kernel, though it may end in a panic.
why_not_up() {
	local console=$run/$1.console said
	said=$(LC_ALL=C sed -n 's/^\(\[[^]]*\] *\)*rxe-vm: //p' "$console" | tail -n 1 | tr -d '\r')
	if [[ -n $said ]]; then
		: # it knows best
	elif grep -aq 'Kernel panic .*Unable to mount root fs' "$console"; then
		said="the kernel finds no initramfs: has it CONFIG_BLK_DEV_INITRD?"
	elif grep -aq 'Kernel panic .*No working init found' "$console"; then
		said="the kernel cannot run the guest's first program, a script: has it CONFIG_BINFMT_SCRIPT and CONFIG_BINFMT_ELF?"
	else
		return 1
	fi
	never_up[$1]="$said (\`rxe-vm kconfig\` prints what a guest's kernel needs)"
	[[ -n ${modules[${1%%.*}]} ]] || never_up[$1]+="; no modules of it were found"
}

# silence BOOT: a word more on a guest that has not said anything.
silence() {
	[[ -s $run/$1.console ]] || echo " and said nothing: has its kernel CONFIG_SERIAL_8250_CONSOLE?"
}

# What bits of /proc/sys/kernel/tainted mean trouble; the others tell of modules and machines.
declare -A trouble=([16]="M, machine check" [32]="B, bad page" [128]="D, oops or BUG" [512]="W, warning" [16384]="L, soft lockup")
declare -A tainted=()	# boot -> those of them that its kernel has, in words

# note_taint BOOT BITS: as guest/session tells before the command and after it
note_taint() {
	local bit when="while the command ran"
	[[ -n ${started[$1]-} ]] || when="while it booted"
	for bit in "${!trouble[@]}"; do
		(($2 & bit)) && [[ ${tainted[$1]-} != *"${trouble[$bit]}"* ]] || continue
		tainted[$1]+="${tainted[$1]+; }${trouble[$bit]}, $when"
	done
}

# A kernel in trouble overrides whatever the commands made of it.  What its console lacks, its taint tells; if neither can be
# known, nothing passes.
find_splats() {
	local console boot guest
	for console in "$run"/*.console; do
		boot=${console##*/}
		boot=${boot%.console}
		guest=${boot%%.*}
		[[ -e $console && -z ${never_up[$boot]-} ]] || continue
		if "$here/find-splats" "$console" >&2; then
			verdict=splat status=5 why="the kernel of '$guest' is in trouble, see $boot.console"
		elif [[ -n ${tainted[$boot]-} ]]; then
			verdict=splat status=5 why="the kernel of '$guest' is tainted (${tainted[$boot]}), though $boot.console does not say why"
		elif [[ $verdict == pass || $verdict == skip ]] && lacks_messages "$console"; then
			verdict=lost status=3 why="the kernel of '$guest' dropped messages, so $boot.console may lack a warning"
		fi
	done
}

lacks_messages() { grep -aqE '^(\[ *[0-9.]+\])?(\[ *[TC][0-9]+\])? ?\*\* [0-9]+ printk messages dropped \*\*' "$1"; }

show_verdict() {
	printf '%s\n' "$verdict${why:+: $why}" "exit status $status" "accelerator $accel" >"$run/verdict"
	[[ $verdict != pass ]] || return 0
	if [[ $verdict == lost ]]; then
		tail -n 5 "$run"/*.console >&2
	fi
	note "$verdict: $why ($run)"
}
