#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The rdma-core series leaves the ABI as it was: verbs-abi, built with the headers of the base or of the
# series, runs with the libraries of either; and a program that asks a library without the series whether it
# can post FLUSH gets a clean no.  Those libraries are Debian's, and the base's, if built.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

build=$root/$rdma_core_folder
tree=$build/src
stock=$root/build/stock/${rdma_core_folder#build/}
debian=/usr/lib/$(uname -m)-linux-gnu

# make_program NAME: $work/NAME/verbs-abi, with the headers in $work/NAME/include
make_program() {
	"${CC:-cc}" -D_GNU_SOURCE -Wall -Werror -I "$work/$1/include" -o "$work/$1/verbs-abi" \
		"$here"/../verbs/verbs-{abi,end}.c -L "$build/lib" -libverbs
}

prepare() {
	local file
	export LD_LIBRARY_PATH=$build/lib
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

# run_with LIBRARIES PROGRAM POST_SEND: whether FLUSH by ibv_post_send() is there, "yes" or "no"
run_with() {
	local said=$work/$2.${1//\//-}
	"$root/qemu-scripts/rxe-vm" run --name verbs-abi -- env "LD_LIBRARY_PATH=$1" sh -c \
		"ldd $work/$2/verbs-abi | grep libibverbs && $work/$2/verbs-abi run" | tee "$said"
	grep -q "$1/libibverbs" "$said" || fail "it ran with another library"
	grep -qxF "FLUSH by ibv_post_send(): $3" "$said" || fail "asked for FLUSH, it does not say $3"
}

# An old program does not know the question.
old_program_runs_with_the_series() {
	run_with "$build/lib" base no
	grep -qxF "ibv_wr_flush(): yes" "$work"/base.* || fail "no FLUSH was posted"
}

new_program_runs_with_the_series() { run_with "$build/lib" series yes; }

new_program_runs_without_the_series() {
	[[ -e $debian/libibverbs/librxe-rdmav34.so ]] || {
		echo "no package ibverbs-providers, whose libraries are without the series"
		exit 4
	}
	run_with "$debian" series no
}

# The base of the series has ibv_wr_flush() already.
new_program_runs_with_the_base() {
	[[ -e $stock/built ]] || {
		echo "no ${stock#"$root/"}: run \`make stock-rdma-core\`"
		exit 4
	}
	run_with "$stock/lib" series no
	grep -qxF "ibv_wr_flush(): yes" "$work"/series.* || fail "no FLUSH was posted"
}

cases=(
	structs_have_not_moved
	exported_symbols_are_the_same
	old_program_runs_with_the_series
	new_program_runs_with_the_series
	new_program_runs_without_the_series
	new_program_runs_with_the_base
)

run_suite 2 "$@"
