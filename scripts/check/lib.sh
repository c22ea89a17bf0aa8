# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the rules share.  A rule is a program that says what is wrong with a patch and then ends with 1; 0 is
# right, 4 says in its last line why it cannot be judged here.  `run` starts it at the top of the project with
#   SERIES  the folder of the series
#   PATCH   the patch; for rules of a whole series its last one
#   TREE    a git tree with the tag `base`, checked out behind PATCH
#   OUT     where objects and what is known of the base are kept
. scripts/lib.sh
use_ccache
[[ -v OUT || ${0##*/} == run ]] || die "${0##*/} is a rule of \`make check\`, which starts it: run \`make check-fast CHECKED=kernel/v6.1\`"

tree() { git -C "$TREE" "$@"; }

# The C files that the series touches, and their folders.
c_files() { patches_of "$SERIES" | xargs sed -n 's|^+++ b/\(.*\.[ch]\)$|\1|p' | sort -u; }
c_folders() { c_files | sed -n 's|[^/]*\.c$||p' | sort -u; }

# kbuild ARCH ARG...: make in TREE, objects in OUT/ARCH
kbuild() {
	local arch=$1 cross=
	case $arch in
	arm64) cross=aarch64-linux-gnu- ;;
	s390x) cross=s390x-linux-gnu- ;;
	esac
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u DEBUG -u BASE make -s -C "$TREE" O="$PWD/$OUT/$arch" \
		ARCH="${arch/s390x/s390}" CROSS_COMPILE="$cross" CC="${ccache:+$ccache }${cross}gcc" -j "${JOBS:-$(nproc)}" "${@:2}" </dev/null
}

# Again for each patch, since it may bring options of its own; files that do not change stay as they are.
configure() {
	mkdir -p "$OUT/$1"
	kbuild "$1" KCONFIG_ALLCONFIG="$PWD/kernel/config/check.config" allnoconfig
}

# new_messages NAME CMD...: what CMD reports of TREE, but does not report of the base; fails if there is
# something, or if CMD fails.  The base's report is kept for next time.
new_messages() {
	local name=$1 log=$OUT/$1.log base head
	shift
	base=$OUT/$name-$({ tree rev-parse base; c_folders; cat "$0" kernel/config/check.config; } | hash_of -).base
	if [[ ! -e $base ]]; then
		head=$(tree rev-parse HEAD)
		tree checkout -q --detach base
		"$@" >"$base.new" 2>&1 || { tail -n 20 "$base.new"; die "the base itself fails"; }
		tree checkout -q --detach "$head"
		mv "$base.new" "$base"
	fi
	"$@" >"$log" 2>&1 || { grep ': error' "$log" || tail -n 20 "$log"; return 1; }
	sed -i "s|$(realpath "$TREE")/||g" "$base" "$log"
	# Lines move, so messages are compared without their numbers.  There may be as many of a kind as before; a
	# header's is said again for each file that includes it.
	! awk '
		function plain(line) { gsub(/:[0-9]+(-[0-9]+)?/, "", line); return line }
		# Coccinelle marks a range of columns, and not all of its scripts say what it is.
		!/: (warning|error|WARNING|ERROR)|:[0-9]+:[0-9]+-[0-9]+: / { next }
		seen[FILENAME, $0]++ { next }
		FILENAME == ARGV[1] { old[plain($0)]++; next }
		++new[plain($0)] > old[plain($0)]' "$base" "$log" | grep .
}
