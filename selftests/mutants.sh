# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Breaks of a program, made on purpose: what the tests must notice.  A file of them has the name of the source file that
# it breaks.  Each begins like this, and its patch follows (git diff -U1: what a mutant does not change need not stay):
#
#	From NAME
#	what it breaks, in a sentence
#	Case: PATTERN	the case that has to notice, a pattern as for its suite (see ktap.sh); each of several has to
#
# run-mutants and the suite crash-states set mutant_files, and say which other keys they know.

# mutants_in FILE...: their names
mutants_in() { sed -n 's/^From //p' "$@"; }

# mutant NAME: all of it; nothing if there is none
# shellcheck disable=SC2154 # the caller's
mutant() { awk -v name="$1" '/^From / { on = $2 == name } on' "${mutant_files[@]}"; }

# header KEY NAME: what the mutant says of it, on a line for each
header() { mutant "$2" | sed -n "/^--- /,\$d; s/^$1: //p"; }

# sentence NAME: what it breaks
sentence() { mutant "$1" | sed -n 2p; }

# first_of PATTERN: the first of the names on stdin that begins so.  It reads all of them, so that their writer can finish.
first_of() {
	local name first=
	while read -r name; do
		# shellcheck disable=SC2053 # a pattern
		[[ -n $first || $name != $1* ]] || first=$name
	done
	[[ -n $first ]] && echo "$first"
}
