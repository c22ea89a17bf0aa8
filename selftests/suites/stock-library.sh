#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The examples need nothing of the rdma-core series.  They compile without a warning with the headers of Debian 13 and
# of unstable; with those of Debian 12 the compiler says what is too old.  And they run with a library that is without
# the series, on our kernel and on a stock one.
#
# STOCK_KERNEL=IMAGE: that one, of Linux 6.2 or newer, in place of Debian's 6.12; its modules are beside it as for
# rxe-vm --kernel.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
stock=$root/build/stock/${rdma_core_folder#build/}

want_stock_library() {
	[[ -e $stock/built ]] || { echo "no ${stock#"$root/"}: run \`make stock-rdma-core\`"; exit 4; }
}

# unpack SUITE PACKAGE FOLDER: of Debian's package, FOLDER in usr/include goes to $work/rdma-core/include
unpack() {
	local deb
	deb=$("$root/scripts/fetch" "rdma-core-$2-$1" deb "$1" "$2" "$2_*.deb" 2>"$work/said") || {
		cat "$work/said"
		echo "the headers of $1 cannot be had: see to the network and the mirror of the Debian archive"
		exit 4
	}
	dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/rdma-core" --strip-components 2 "./usr/include/$3"
}

# headers_of SUITE [LINUX]: $work/rdma-core has the headers of a release of Debian, and a library to link with; those
# that the kernel gives come from LINUX.
headers_of() {
	want_stock_library
	mkdir "$work/rdma-core"
	unpack "${2:-$1}" linux-libc-dev rdma
	unpack "$1" libibverbs-dev infiniband
	unpack "$1" librdmacm-dev rdma
	ln -s "$stock/lib" "$work/rdma-core/lib"
}

# build RDMA_CORE [ARG...]: the examples, in $work/bin
build() {
	make -k -C "$here/.." OUTPUT="$work/bin" RDMA_CORE="$1" \
		KSELFTEST="$root/build/${BASE:-v6.1}/src/tools/testing/selftests" "${@:2}" examples 2>&1
}

compile_without_a_warning() {
	headers_of "$1"
	build "$work/rdma-core"
}

# first_error PROGRAM: the compiler's, with the line that it shows
first_error() {
	local said
	said=$(build "$work/rdma-core" examples="$1") && fail "$1 compiles"
	grep -A 1 -m 1 'error: ' <<<"$said"
}

debian_13_compiles_them_without_a_warning() { compile_without_a_warning trixie; }

debian_unstable_compiles_them_without_a_warning() { compile_without_a_warning sid; }

on_debian_12_the_compiler_asks_for_a_newer_library() {
	local program said
	headers_of bookworm
	for program in first-flush first-log remote-log-{append,replicate,target}; do
		said=$(first_error "$program")
		[[ $said == *"no ibv_wr_flush(): install rdma-core 45 or newer"* ]] || fail "$program: $said"
	done
}

with_old_headers_of_linux_the_compiler_asks_for_newer_ones() {
	local program said
	headers_of trixie bookworm
	for program in first-flush first-log remote-log-append; do
		said=$(first_error "$program")
		[[ $said == *"in the headers of Linux 6.2 or newer"* ]] || fail "$program: $said"
	done
}

##############################################################################
# In guests

# The log's target listens first: a client that comes then finds it.
# shellcheck disable=SC2016 # for the guest
serve='
	exec {log}< <(exec remote-log-target "$RXE_ADDR" /dev/dax0.0)
	target=$!
	read -r <&$log
	first-flush target "$RXE_ADDR" || exit
	kill $target
	remote-log-check /dev/dax0.0 "$work/text" 20'
# The other one is a moment late.
# shellcheck disable=SC2016
ask='
	ldd "$work"/bin/{first-flush,remote-log-append} | grep -F libibverbs
	remote-log-append "$RXE_PEER_ADDR" "$work/text" 20 "$work/acknowledged" || exit
	for i in {1..30}; do
		! first-flush initiator "$RXE_PEER_ADDR" || exit 0
		sleep 0.2
	done
	exit 1'

# pair OPTION...: with the stock library in both guests; what it says is in $work/said
pair() {
	local status=0
	"$root/qemu-scripts/rxe-vm" pair --name stock-library --rdma-core "$stock" --client-share "$work" "$@" \
		>"$work/said" 2>&1 || status=$?
	cat "$work/said"
	((!status)) || fail "it ends with status $status"
}

# has_said LINE...
has_said() {
	local line
	for line; do
		grep -qF "$line" "$work/said" || fail "not said: $line"
	done
}

# run_examples [OPTION...]: those that one memory is enough for
run_examples() {
	want_stock_library
	build "$stock"
	seq -f 'line %g' 20 >"$work/text"
	pair --server-pmem "$work/nvdimm:64M" "$@" --server "work=$work PATH=$work/bin:\$PATH bash -c '$serve'" \
		--client "work=$work PATH=$work/bin:\$PATH bash -c '$ask'"
	(($(grep -cF "=> $stock/lib/libibverbs" "$work/said") == 2)) || fail "they ran with another library"
	has_said "flushed: all that access the memory see the text" "in the target's memory: hello, all of you" \
		"20 of 20 records acknowledged" "20 records, 480 bytes: whole, in order, equal to the text"
}

they_run_with_a_stock_library() { run_examples; }

they_run_on_a_stock_kernel() {
	local kernel=${STOCK_KERNEL-}
	[[ $kernel ]] || stock_kernel 6.12
	run_examples --kernel "$kernel"
	# Each of these wants a memory of its own.
	pair --server-pmem 64M --kernel "$kernel" --server "exec $work/bin/first-log target \$RXE_ADDR /dev/dax0.0" \
		--client "exec $work/bin/first-log initiator \$RXE_PEER_ADDR 20"
	has_said "record 19 is durable" "the tail is 20"
	pair --server-pmem 64M --kernel "$kernel" --kill-server --server "exec $work/bin/remote-log-target \$RXE_ADDR /dev/dax0.0" \
		--client "exec $work/bin/remote-log-replicate $work/text 20 $work/acknowledged 20 \$RXE_PEER_ADDR"
	has_said "20 of 20 records acknowledged"
}

on_a_kernel_without_flush_they_say_so() {
	local kernel
	want_stock_library
	build "$stock"
	stock_kernel 6.1
	! "$root/qemu-scripts/rxe-vm" run --name stock-library --rdma-core "$stock" --kernel "$kernel" --share "$work" -- \
		sh -c "$work/bin/first-flush initiator \$RXE_ADDR" >"$work/said" 2>&1 || fail "there is a FLUSH"
	has_said "rxe0 has no FLUSH: use Soft-RoCE of Linux 6.2 or newer"
}

cases=(
	debian_13_compiles_them_without_a_warning
	debian_unstable_compiles_them_without_a_warning
	on_debian_12_the_compiler_asks_for_a_newer_library
	with_old_headers_of_linux_the_compiler_asks_for_newer_ones
	they_run_with_a_stock_library
)
long_cases=(
	on_a_kernel_without_flush_they_say_so
	they_run_on_a_stock_kernel
)

run_suite 2 "$@"
