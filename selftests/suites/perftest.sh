#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # for the guests' shells
#
# perftest with its series (build/perftest): what it sends for FLUSH and ATOMIC WRITE, by the server's capture, and what the
# server's persistent memory holds then.  What cannot be done is refused with a sentence.  No speed is judged.
#
# STOCK_6_1=IMAGE: a kernel that has neither request, in place of Debian's.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

bin=$root/build/perftest/bin
# The time-out outlasts a busy host, so that nothing is sent twice.
options="-F -d rxe0 -x 1 -u 20"
unit=$((2 * 1024 * 1024))	# the alignment of device DAX


prepare() {
	[[ -x $bin/ib_write_lat ]] || wrong_usage "there is no $bin: run \`make perftest\`"
}

##############################################################################
# What is sent, and stored

# NAME ITERATIONS COMMAND.  Each has a port, and memory, of its own.
tests="
lat_global     10 ib_write_lat -s 64 --flush=global
lat_persistent 10 ib_write_lat -s 64 --flush=persistent
lat_region     10 ib_write_lat -s 64 --flush=persistent --flush_region
bw_persistent  20 ib_write_bw -s 64 --flush=persistent --outs=2
bw_list        20 ib_write_bw -s 64 --flush=global -l 4
bw_inline      20 ib_write_bw -s 64 --flush=global -I 64
bw_both_ways   10 ib_write_bw -s 64 --flush=global --bidirectional
lat_rdma_cm    10 ib_write_lat -s 64 --flush=persistent -R
atomic_lat     10 ib_atomic_lat -A WRITE
atomic_bw      20 ib_atomic_bw -A WRITE
atomic_rdma_cm 10 ib_atomic_lat -A WRITE -R
"

# The client's payload, as numbers of 32 bits, and as the pattern of grep; ATOMIC WRITE has the first two of 16.
payload_file() { printf '0x5a0000%02x\n' {16..31} | paste -sd ,; }
payload() { printf '\\x%02x\\x00\\x00\\x5a' "$@"; }

# All tests in one pair of guests, the servers at a time, the clients one after the other.  What a client says is in
# $work/NAME, its report in $work/NAME.json.
run_tests() {
	local name iterations command server='' client='' tcp=0 cm=0 i=0
	while read -r name iterations command; do
		[[ -n $name ]] || continue
		command="$bin/$command $options -n $iterations -p $((20000 + i))"
		server+="$command --mmap=/dev/dax0.0 --mmap-offset=$((i * unit)) >/tmp/$name 2>&1 &
			all=\"\$all \$!:$name\"; "
		client+="$command --payload_file_path=$work/payload --out_json --out_json_file=$work/$name.json \
			\$RXE_PEER_ADDR >$work/$name 2>&1 || { cat $work/$name; exit 1; }; "
		[[ $command == *' -R '* ]] && cm=$((cm + 1)) || tcp=$((tcp + 1))
		i=$((i + 1))
	done <<<"$tests"
	payload_file >"$work/payload"
	RXE_OUT=$work "$root/qemu-scripts/rxe-vm" pair --name perftest --timeout 1800 \
		--server-pmem "$work/nvdimm:64M" --client-share "$work" --client "$client" --server "$server
			until [ \$(cat /proc/net/tcp /proc/net/tcp6 | grep -c ' 0A ') -ge $tcp ] &&
				[ \$(rdma res show cm_id | grep -c LISTEN) -ge $cm ]; do sleep 0.1; done
			rxe-ready
			for one in \$all; do wait \${one%%:*} || { cat /tmp/\${one#*:}; exit 1; }; done"
}

# requests: "QPN OPCODE VA LENGTH PLT SEL" of each WRITE, FLUSH and ATOMIC WRITE that the server got, in order, without
# what was sent again
requests() {
	tshark -X "lua_script:$root/qemu-scripts/wireshark/mpe.lua" -r "$work/latest/server.pcap" -T fields \
		-Y 'ip.dst == 192.0.2.1 && infiniband.bth.opcode in {10, 28, 29}' \
		-e infiniband.bth.destqp -e infiniband.bth.psn -e infiniband.bth.opcode \
		-e infiniband.reth.va -e infiniband.reth.dmalen -e mpe.reth.va -e mpe.reth.dmalen -e mpe.feth.plt -e mpe.feth.sel \
		2>/dev/null |
		awk -F '\t' '
			!seen[$1, $2]++ {
				own = $6 == "" ? 4 : 6
				print $1, $3, $own, $(own + 1), $8, $9
			}' | sed 's/0x0*\([0-9a-f]\)/0x\1/g'
}

# qpn_of NAME: the server's, as the client names it
qpn_of() { sed -n 's/.*remote address:.* QPN 0x0*\([0-9a-f]*\).*/0x\1/p' "$work/$1" | head -n 1; }

# sends_flushes NAME ITERATIONS PLT SEL: a FLUSH after each WRITE, of the same range
sends_flushes() {
	awk -v iterations="$2" -v plt="$3" -v sel="$4" '
		function wrong(why) { print "request " NR ", " $0 ": " why; status = 1; exit }
		$2 == 10 && flush { wrong("a FLUSH is missing") }
		$2 == 10 { va = $3; length_ = $4; flush = 1; next }
		!flush || $2 != 28 { wrong("no FLUSH should be here") }
		$5 != "0x" plt || $6 != sel { wrong("not PLT " plt ", SEL " sel) }
		sel == 0 && ($3 != va || $4 != length_) { wrong("not the range of the WRITE") }
		{ flush = 0; n++ }
		END {
			if (!status && (flush || n != iterations)) { print n + 0 " of " iterations " FLUSHes"; status = 1 }
			exit status
		}' "$work/requests.$1"
}

sends_atomic_writes() {
	awk -v iterations="$2" '
		$2 != 29 || $4 != 8 { print "request " NR ", " $0 ": no ATOMIC WRITE of 8 bytes"; status = 1 }
		END { if (NR != iterations) { print NR " of " iterations; status = 1 }; exit status }' "$work/requests.$1"
}

# find_payload PATTERN: "OFFSET:..." of each place in the NVDIMM
find_payload() { LC_ALL=C grep -obUaP "$1" "$work/nvdimm" || true; }

# holds NAME INDEX BYTES: the memory of the INDEX-th test holds the payload of BYTES, at as many places as were written
holds() {
	local found written
	found=$(awk -F : -v unit="$unit" -v first="$first_unit" -v index_="$2" '
		int($1 / unit) == first + index_ { n++ } END { print n + 0 }' "$work/found.$3")
	written=$(awk '$2 != 28 { print $3 }' "$work/requests.$1" | sort -u | wc -l)
	((written && found == written)) || { echo "at $found places, not $written"; return 1; }
}

# reports NAME FILTER: its JSON
reports() { jq -e "$2" "$work/$1.json" >/dev/null || { cat "$work/$1.json"; return 1; }; }

# has_sent NAME ITERATIONS COMMAND: by the packets, the report, and the memory
has_sent() {
	local plt=1 sel=0 type=global level=range
	[[ $3 != *persistent* ]] || plt=2 type=persistent
	[[ $3 != *flush_region* ]] || sel=1 level=region
	case $3 in
	ib_atomic*)
		sends_atomic_writes "$1" "$2" &&
			reports "$1" '.test_info.test | startswith("Atomic_WRITE_")' ;;
	*)
		sends_flushes "$1" "$2" $plt $sel &&
			reports "$1" ".test_info | .Flush == \"$type\" and .Flush_level == \"$level\"" ;;
	esac || return
	[[ $3 != *outs=2* ]] || reports "$1" '.test_info.Outstand_reads == 2' || return
	# The latency test of WRITE sends zeroes.
	case $3 in
	ib_write_bw*) holds "$1" "$index" 64 ;;
	ib_atomic_*) holds "$1" "$index" 8 ;;
	esac
}

# judge_tests: KTAP, a result for each test
judge_tests() {
	local name iterations command index=0 n=0 said
	echo "KTAP version 1"
	echo "1..$(grep -c . <<<"$tests")"
	while read -r name iterations command; do
		[[ -n $name ]] || continue
		n=$((n + 1))
		grep "^$(qpn_of "$name") " "$work/requests" >"$work/requests.$name" || true
		if said=$(has_sent "$name" "$iterations" "$command"); then
			echo "ok $n $name"
		else
			printf '%s\n' "$said" | sed 's/^/# /'
			echo "not ok $n $name"
		fi
		index=$((index + 1))
	done <<<"$tests"
}

two_guests_send_what_was_asked_for() {
	local first_unit
	run_tests || fail "perftest has failed"
	requests >"$work/requests"
	find_payload "$(payload {16..31})" >"$work/found.64"
	find_payload "$(payload 16 17)(?!$(payload 18))" >"$work/found.8"
	[[ -s $work/found.64 ]] || fail "the payload is nowhere in the memory"
	# The first test with a payload is the fourth.
	first_unit=$(($(head -n 1 "$work/found.64" | cut -d : -f 1) / unit - 3))
	nested judge_tests
}

##############################################################################
# What is refused

# refused SENTENCE COMMAND...: it fails, and says so
refused() {
	local said
	said=$(LD_LIBRARY_PATH=$root/$rdma_core_folder/lib timeout 20 "$bin/$2" "${@:3}" 2>&1) && fail "${*:2} is not refused"
	echo "$said" | tail -n 3
	[[ $said == *"$1"* ]] || fail "${*:2} does not say '$1', but: $said"
}

# Before a device is looked for; the host has none.
options_that_do_not_go_together_are_refused() {
	refused 'choose from {global,persistent}' ib_write_lat --flush=everything
	refused 'give --flush=' ib_write_bw --flush_region
	refused 'only with --flush' ib_write_bw --outs=2
	refused 'only in ib_write_lat and ib_write_bw' ib_read_lat --flush=global
	refused 'only in ib_write_lat and ib_write_bw' ib_write_lat --flush=global --write_with_imm
	refused 'FLUSH is supported only on RC' ib_write_bw --flush=global -c UC
	refused 'leave --use_old_post_send out' ib_write_bw --flush=global --use_old_post_send
	refused 'choose from {CMP_AND_SWAP,FETCH_AND_ADD,WRITE}' ib_atomic_lat -A READ
	refused 'ATOMIC WRITE is supported only on RC' ib_atomic_bw -A WRITE -c XRC
	refused 'leave --use_old_post_send out' ib_atomic_bw -A WRITE --use_old_post_send
}

# refusals_in_guest DEVICE [ARG...]: of a device that has neither
refusals_in_guest() {
	local said
	said=$("$root/qemu-scripts/rxe-vm" run --name perftest "${@:2}" -- sh -c "
		for test in 'write_lat --flush=global' 'write_bw --flush=persistent' 'atomic_lat -A WRITE' 'atomic_bw -A WRITE'; do
			timeout 60 $bin/ib_\$test -d $1 2>&1
			echo \"\$test: status \$?\"
		done")
	echo "$said"
	for name in FLUSH_GLOBAL FLUSH_PERSISTENT ATOMIC_WRITE ATOMIC_WRITE; do
		[[ $said == *"Device $1 does not have the capability $name"*': status 1'* ]] || fail "no word on $name"
		said=${said#*: status 1}
	done
}

a_kernel_without_the_requests_is_refused() {
	local kernel=${STOCK_6_1-} base=$root/build/v6.1-base/bzImage
	[[ $kernel || ! -e $base ]] || kernel=$base
	[[ $kernel ]] || stock_kernel 6.1
	refusals_in_guest rxe0 --kernel "$kernel"
}

persistence_of_dram_is_refused() {
	local said
	said=$("$root/qemu-scripts/rxe-vm" run --name perftest -- sh -c "
		$bin/ib_write_bw $options --flush=persistent 2>&1 &
		until cat /proc/net/tcp /proc/net/tcp6 | grep -q ' 0A '; do sleep 0.1; done
		$bin/ib_write_bw $options --flush=persistent \$RXE_ADDR >/dev/null 2>&1
		wait \$!; echo status \$?")
	echo "$said"
	[[ $said == *"needs persistent memory, as of --mmap=/dev/dax0.0"*"status 1"* ]] || fail "the server does not refuse it"
}

# Debian 12's, whose headers have neither function
a_build_with_an_old_libibverbs_says_so() {
	local package deb bin=$work/old/bin
	mkdir -p "$work/debian"
	for package in libibverbs librdmacm libibumad; do
		deb=$("$root/scripts/fetch" "rdma-core-$package-dev-bookworm" deb bookworm "$package-dev" "$package-dev_*.deb" 2>"$work/said") ||
			{ cat "$work/said"; exit 4; }
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/debian" --strip-components 2 ./usr/include
	done
	# Debian 12 has no header for the driver hns.
	mkdir "$work/debian/lib"
	ln -s -t "$work/debian/lib" "$root/$rdma_core_folder"/lib/lib{ibverbs,rdmacm,ibumad,mlx5,efa}.*
	"$root/scripts/build-perftest" build/perftest/src "$work/old" "$work/debian" || fail "it does not build"
	refused 'built without ibv_wr_flush()' ib_write_lat --flush=global
	refused 'built without ibv_wr_atomic_write()' ib_atomic_bw -A WRITE
}

cases=(
	two_guests_send_what_was_asked_for
	options_that_do_not_go_together_are_refused
	persistence_of_dram_is_refused
)
long_cases=(
	a_kernel_without_the_requests_is_refused
	a_build_with_an_old_libibverbs_says_so
)

run_suite 2 "$@"
