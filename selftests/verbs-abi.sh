#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The rdma-core series leaves the ABI as it was: verbs-abi, built with the headers of the base or of the
# series, runs with the libraries of either.  Those without the series are Debian's.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(dirname "$here")
# shellcheck source=selftests/ktap.sh
. "$here/ktap.sh"

build=$root/build/rdma-core
tree=$build/src
debian=/usr/lib/$(uname -m)-linux-gnu

# make_program NAME: $work/NAME/verbs-abi, with the headers in $work/NAME/include
make_program() {
	"${CC:-cc}" -D_GNU_SOURCE -Wall -Werror -I "$work/$1/include" -o "$work/$1/verbs-abi" \
		"$here"/verbs-{abi,end}.c -L "$build/lib" -libverbs
}

make_programs() {
	local file
	mkdir "$work/base" "$work/series"
	cp -rL "$build/include" "$work/base"
	while read -r file; do
		[[ ! -e $work/base/include/infiniband/${file##*/} ]] ||
			git -C "$tree" show "base:$file" >"$work/base/include/infiniband/${file##*/}"
	done < <(git -C "$tree" diff --name-only base -- 'libibverbs/*.h')
	ln -s "$build/include" "$work/series/include"
	make_program base
	make_program series
}

structs_have_not_moved() {
	diff <("$work/base/verbs-abi" layout) <("$work/series/verbs-abi" layout)
}

exported_symbols_are_the_same() { git -C "$tree" diff --exit-code base -- '*.map'; }

# run_with LIBRARIES PROGRAM
run_with() {
	"$root/qemu-scripts/rxe-vm" run --name verbs-abi -- env "LD_LIBRARY_PATH=$1" sh -c \
		"ldd $work/$2/verbs-abi | grep libibverbs && $work/$2/verbs-abi run" | tee "$work/$2.said"
	grep -q "$1/libibverbs" "$work/$2.said" || fail "it ran with another library"
}

old_program_runs_with_the_series() { run_with "$build/lib" base; }

new_program_runs_without_the_series() {
	[[ -e $debian/libibverbs/librxe-rdmav34.so ]] || {
		echo "no package ibverbs-providers, whose libraries are without the series"
		exit 4
	}
	run_with "$debian" series
}

# shellcheck disable=SC2034 # for run_suite
cases=(
	structs_have_not_moved
	exported_symbols_are_the_same
	old_program_runs_with_the_series
	new_program_runs_without_the_series
)

work=$(mktemp -d -p "$RXE_OUT")
trap 'rm -r "$work"' EXIT
export LD_LIBRARY_PATH=$build/lib
[[ -e ${1-} ]] || make_programs
run_suite 2 "$@"
