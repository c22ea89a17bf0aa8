# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
#
# Where the tools find their files and where they write.  The files are in the same folders in the project's tree, in an
# unpacked release, and in lib/rxe-mpe of an installed prefix, which is written to by `make install` only.
#
# root is that folder, out is where the folders of runs are made, kept is for what is made once.
root=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/..")
case $root in
*/lib/rxe-mpe)
	out=${XDG_STATE_HOME:-${HOME-}/.local/state}/rxe-mpe
	kept=${XDG_CACHE_HOME:-${HOME-}/.cache}/rxe-mpe/lab ;;
*)
	out=$root/build/out
	kept=$root/build ;;
esac
out=${RXE_OUT:-$out}

# version PROGRAM: what --version prints
version() { echo "$1 (rxe-mpe) $(cat "$root/version" 2>/dev/null || git -C "$root" describe --tags --always --dirty)"; }

# The tree can build what is missing; a release and an installed prefix cannot.
is_tree() { [[ -e $root/Makefile ]]; }

# to_build TARGET: the cure for what `make TARGET` builds
to_build() {
	if is_tree; then
		echo "run \`make $1\`"
	else
		echo "this release is without it; $root/build has what there is"
	fi
}

# to_install PROGRAM...: the cure for programs that are missing
to_install() {
	local packages
	packages=$("$root/scripts/deps" packages "$@")
	if is_tree; then
		echo "install it by \`make deps\` ($packages)"
	else
		echo "install the packages ($packages)"
	fi
}
