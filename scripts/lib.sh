# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by the scripts of this folder.  They run from the top of the project, as the Makefile does.

. scripts/progress.sh

# A script's head is its help.
case ${1-} in
-h | --help)
	exec scripts/head-of "$(cd "$OLDPWD" && readlink -f "$0")" ;;
esac

say() { printf '%s\n' "$*"; }
die() { printf 'rxe-mpe: error: %s\n' "$*" >&2; exit 1; }

# project_version: the tag, or what git says of the commit; places.sh has the rule.
project_version() {
	local said
	said=$(qemu-scripts/rxe-vm --version)
	say "${said##* }"
}

# need_space DIR MIB: a build that dies of a full disk leaves half-written files; say so before.
need_space() {
	local free
	mkdir -p "$1"
	free=$(($(df --output=avail -k "$1" | tail -n 1) / 1024))
	((free >= $2)) || die "$1 has $free MiB free, $2 MiB are needed: free some space or move it to a larger disk"
}

# logged LOG CMD...: the output of CMD goes to the end of LOG; of a failure, its tail is shown.  V=1: all is shown.
logged() {
	local log=$1
	shift
	if ! "$@" 2>&1 | tee -a "$log" | if [[ ${V-} == 1 ]]; then cat; else show_newest_line; fi; then
		tail -n 25 "$log" >&2
		die "\`$*\` failed; the whole log is $log"
	fi
}

# What is fetched or compiled, for all clones
# shellcheck disable=SC2034 # fetch uses it, too
CACHE=${RXE_MPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rxe-mpe}

# use_ccache: sets $ccache to what stands before a compiler; empty without ccache.  The same source is then compiled once
# in all folders and clones: rdma-core with and without the series, a patch that an earlier check has built.
# shellcheck disable=SC2034 # the caller uses it
use_ccache() {
	ccache=
	type -P ccache >/dev/null || return 0
	ccache=$PWD/scripts/compile-cached
	export CCACHE_DIR=$CACHE/ccache
	export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_MAXSIZE=2G
}

# hash_of FILE...: a word for their contents
hash_of() { cat "$@" | sha256sum | cut -c 1-16; }

# digest_of PATH...: a word for what results of tests depend on in these files and folders.  A letter is written when the
# results are known; a mutant is no part of what is tested.
digest_of() { find "$@" -name mutants -prune -o -type f ! -name '0000-*' -print0 | sort -z | xargs -0 sha256sum | hash_of -; }

# tests_digest: that of all tests, the lab and the configurations that kernels are built with
tests_digest() { digest_of selftests qemu-scripts crash-states kernel/config; }

# series_digest DIR: that of a series, and of all that its folder has besides
series_digest() {
	local patches
	mapfile -t patches < <(patches_of "$1")
	digest_of "$1" "${patches[@]}"
}

# The author of what is made here
AUTHOR_NAME=rxe-mpe AUTHOR_MAIL=rxe-mpe@localhost

# build_deb FOLDER TO NAME FIELD...: a Debian package of what FOLDER has, at TO; a FIELD without a value is left out.
build_deb() {
	mkdir -p "$1/DEBIAN"
	printf '%s\n' "Package: $3" "Maintainer: $AUTHOR_NAME <$AUTHOR_MAIL>" "Priority: optional" \
		"Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$1" | cut -f 1)" "${@:4}" |
		sed '/^[A-Z][a-z]*: $/d' >"$1/DEBIAN/control"
	chmod -R u=rwX,go=rX "$1"
	dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$1" "$2" >/dev/null
}

# write_sums FOLDER: SHA256SUMS of all that users download from there; `make release` and `make image` come in any order.
write_sums() { (cd "$1" && shopt -s nullglob && sha256sum -- *.tar.zst *.deb *.oci.tar >SHA256SUMS); }

# The user's own git settings must change neither what applies nor how it is exported.
plain_git() {
	export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 LC_ALL=C
	# shellcheck disable=SC2046 # a list of words
	unset $(git rev-parse --local-env-vars)
	export GIT_AUTHOR_NAME=$AUTHOR_NAME GIT_AUTHOR_EMAIL=$AUTHOR_MAIL
	export GIT_COMMITTER_NAME=$AUTHOR_NAME GIT_COMMITTER_EMAIL=$AUTHOR_MAIL
}

# So many patches of a topic are mailed: the kernel asks for no more at a time (submitting-patches.rst).
# shellcheck disable=SC2034	# of the scripts that read this file
AT_A_TIME=15

# topics_of DIR: "TOPIC/" of each topic of a series, in order; one empty line if it has none.
topics_of() {
	local lists=("$1"/[0-9]*/series)
	if [[ -e ${lists[0]} ]]; then
		lists=("${lists[@]#"$1"/}")
		printf '%s\n' "${lists[@]%series}"
	else
		say ''
	fi
}

# needs_of DIR TOPIC: the topics before it that its letter names, by their subjects in quotes; all before it, if it has no
# letter, because it is not offered upstream
needs_of() {
	local topic title letter path=$1/$2/0000-cover-letter.patch
	[[ ! -e $path ]] || letter=$(tr -s ' \n' ' ' <"$path")
	while read -r topic && [[ $topic != "$2/" ]]; do
		title=
		[[ ! -e $1/${topic}0000-cover-letter.patch ]] ||
			title=$(sed -n 's/^Subject: \[[^]]*\] //p' "$1/${topic}0000-cover-letter.patch")
		[[ -e $path && ( -z $title || $letter != *"\"$title\""* ) ]] || say "${topic%/}"
	done < <(topics_of "$1")
}

# is_offered TOPIC-FOLDER: is it for others to take?  A series that only this project has may have a letter, too.
is_offered() { grep -qs '^Subject: \[' "$1/0000-cover-letter.patch" && ! grep -q '^Subject: \[DOWNSTREAM' "$1/0000-cover-letter.patch"; }

# patches_of DIR: the paths of its patches, in order, those of all topics if it has some.  A line of `series` may be the path
# of another base's patch, from the folder of `series`: kernel/v6.12/03-first/../../v7.3/03-first/0001-x.patch
patches_of() {
	local topic
	while read -r topic; do
		sed "s|^|${1%/}/$topic|" "$1/${topic}series"
	done < <(topics_of "$1")
}

# shared_by DIR: the patches of other bases among those, each by its shortest path from here
shared_by() {
	local topic
	while read -r topic; do
		sed -n "\|/|s|^|${1%/}/$topic|p" "$1/${topic}series"
	done < <(topics_of "$1") | xargs -r realpath -m --relative-to=.
}

# newest_of DIR: of the bases in it, as kernel/v7.3
newest_of() { find "$1" -maxdepth 1 -name 'v*' | sort -V | tail -n 1; }

# subjects PATCH...: of each, in a line
subjects() {
	awk '
		FNR == 1 { state = 0 }
		state == 1 && !/^ / { print subject; state = 2 }
		state == 1 { subject = subject $0 }
		!state && sub(/^Subject: (\[[^]]*\] )?/, "") { subject = $0; state = 1 }' "$@"
}

# remembered FILE CMD...: what CMD said when it succeeded; it runs only if FILE does not have that yet.  The name of FILE
# has to stand for all that the result depends on (hash_of, digest_of).  A failure is not kept.
remembered() {
	local file=$1 status=0
	shift
	if [[ ! -e $file ]]; then
		mkdir -p "${file%/*}"
		"$@" >"$file.new" || status=$?
		if ((status)); then
			cat "$file.new"
			return $status
		fi
		mv "$file.new" "$file"
	fi
	cat "$file"
}
