#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# mutants.sh [MUTANT...]: are the tests sharp?  Each patch in mutants/ breaks the kernel in one way.  Breaks it
# so, one at a time, in a tree of its own, and counts the cases that turn red.  A mutant that nobody notices
# fails, as does a suite that is red without one.
#
# A patch begins with a sentence, what it breaks.  Behind it may stand
#	Suite: NAME	the suite that has to notice (conformance)
#	Debug: 1|kcsan	the kernel to build (DEBUG of this run)

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
cd "$here/.."
# shellcheck source=qemu-scripts/run-folder.sh
. qemu-scripts/run-folder.sh
base=${BASE:-v6.1}
tree=build/$base-mutants/src

die() { echo "mutants: error: $*" >&2; exit 1; }

select_mutants() {
	local mutant
	mutants=("$@")
	(($#)) || mapfile -t mutants < <(cd "$here/mutants" && printf '%s\n' *.patch | sed 's/\.patch$//')
	for mutant in "${mutants[@]}"; do
		[[ -f $here/mutants/$mutant.patch ]] || die "there is no mutant '$mutant' in selftests/mutants"
	done
}

# The commits of the tree that people work in, but none of their unfinished work.
make_tree() {
	[[ -e build/$base/src/.git ]] || die "there is no build/$base/src: run \`make kernel\`"
	mkdir -p "$(dirname "$tree")"
	git -C "build/$base/src" worktree prune
	[[ -e $tree/.git ]] || git -C "build/$base/src" worktree add -q --detach "$PWD/$tree" HEAD
	git -C "$tree" reset -q --hard "$(git -C "build/$base/src" rev-parse HEAD)"
}

# header KEY MUTANT: what stands behind KEY in it
header() { sed -n "/^--- /q; s/^$1: //p" "$here/mutants/$2.patch"; }

# red NAME SUITE DEBUG: the cases of the suite that fail on the kernel of the tree as it is now.
red() {
	local ktap=$folder/$1.ktap status=0
	export BASE=$base-mutants DEBUG=$3
	# shellcheck source=qemu-scripts/variant.sh
	. qemu-scripts/variant.sh
	scripts/build-kernel "$tree" "build/$BASE$variant" kernel/config/kernel.config \
		${variant:+"kernel/config/${variant#-}.config"} >"$folder/$1.build" ||
		die "$1 does not build: $folder/$1.build"
	"$here/$2.sh" >"$ktap" || status=$?
	# A guest that dies of it has noticed, too.
	grep -q '^ *not ok ' "$ktap" || ((!status)) || echo "the whole suite (status $status)"
	sed -n 's/^ *not ok [0-9]* //p' "$ktap"
}

# must_be_green SUITE DEBUG: the suite, once, without a mutant.
declare -A green=()
must_be_green() {
	local cases
	[[ -z ${green[$*]-} ]] || return 0
	cases=$(red "none-$1-$2" "$1" "$2") || exit
	[[ -z $cases ]] || die "$1 is red without a mutant: $folder/none-$1-$2.ktap"
	green[$*]=1
}

folder=$(make_run_folder "${RXE_OUT:-build/out}" mutants)
export RXE_OUT=$folder
select_mutants "$@"
make_tree

echo "KTAP version 1"
echo "1..${#mutants[@]}"
n=0 survivors=0
for mutant in "${mutants[@]}"; do
	n=$((n + 1))
	suite=$(header Suite "$mutant") debug=$(header Debug "$mutant")
	suite=${suite:-conformance} debug=${debug:-${DEBUG:-0}}
	must_be_green "$suite" "$debug"
	git -C "$tree" apply "$here/mutants/$mutant.patch" ||
		die "$mutant does not apply to the series any more: adapt selftests/mutants/$mutant.patch"
	found=$(red "$mutant" "$suite" "$debug") || exit
	git -C "$tree" checkout -q .
	mapfile -t cases < <(printf %s "$found")
	echo "# $(head -n 1 "$here/mutants/$mutant.patch")"
	if ((${#cases[@]})); then
		echo "ok $n $mutant # $suite: ${#cases[@]} red, among them ${cases[0]}"
	else
		echo "not ok $n $mutant # survived"
		survivors=$((survivors + 1))
	fi
done
echo "$((n - survivors)) passed, $survivors failed, 0 skipped"
((!survivors))
