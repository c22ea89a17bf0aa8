#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# What FLUSH and ATOMIC WRITE look like on the wire, from the captures of both ends of a pair of guests
# that run the remote log.  tshark 4.0 takes their headers for payload, but knows the BTH around them;
# the ICRC is recomputed by icrc, which knows nothing of the kernel.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

vectors=$here/data/roce-vectors.txt
# One publish() for each record and one that makes the log: WRITE, FLUSH, ATOMIC WRITE, FLUSH.
records=50
posts=$((records + 1))

# BTH opcodes
write=10 response=16 flush=28 atomic_write=29

# One pair runs, before the cases, each of which looks at its captures.
prepare() {
	[[ -z ${WIRE_FOLDER-} ]] || return 0
	WIRE_FOLDER=$(make_run_folder "$RXE_OUT" wire)
	export WIRE_FOLDER
	seq -f "line %g" $records >"$WIRE_FOLDER/text"
	mkdir "$WIRE_FOLDER/share"
	# shellcheck disable=SC2016 # for the guests
	RXE_OUT=$WIRE_FOLDER "$root/qemu-scripts/rxe-vm" pair --name pair --stop-server \
		--server-pmem 64M --client-share "$WIRE_FOLDER/share" \
		--server 'remote-log-target $RXE_ADDR /dev/dax0.0' \
		--client "remote-log-append \$RXE_PEER_ADDR $WIRE_FOLDER/text $records $WIRE_FOLDER/share/acknowledged" \
		>"$WIRE_FOLDER/output" 2>&1 || true
}

client=latest/client.pcap
server=latest/server.pcap

# fields PCAP FILTER FIELD...: of each packet that FILTER chooses, on one line
fields() {
	local pcap=$1 filter=$2 field
	local -a wanted=()
	for field in "${@:3}"; do
		wanted+=(-e "$field")
	done
	tshark -r "$WIRE_FOLDER/$pcap" -Y "$filter" -T fields -E separator=' ' "${wanted[@]}" \
		2>"$work/tshark.log" || fail "tshark: $(<"$work/tshark.log")"
}

opcode_is() { echo "infiniband.bth.opcode == $1"; }

# The PSNs of the packets that FILTER chooses; a retransmission counts once.
psns() { fields $client "$1" infiniband.bth.psn | sort -u; }

the_pair_runs() {
	cat "$WIRE_FOLDER/output"
	[[ $(<"$WIRE_FOLDER/latest/verdict") == pass* ]]
	[[ $(<"$WIRE_FOLDER/share/acknowledged") == "$records" ]]
}

icrc_agrees_with_known_packets() { icrc vectors "$vectors"; }

# The QP number of each known packet is changed, and so none agrees any more.
icrc_notices_a_change() {
	sed 's/ffff0000/ffff0001/' "$vectors" | icrc vectors /dev/stdin >"$work/after" && fail "it does not"
	cat "$work/after"
	[[ -s $work/after ]] || fail "it says nothing"
	! grep -v DIFFERENT "$work/after"
}

# Routers may change TOS, TTL and the checksums of IP and UDP.
icrc_does_not_cover_what_routers_change() {
	sed -E 's/^45..(.{12})..11....(.{28})..../45ff\1ff11ffff\2ffff/' "$vectors" >"$work/vectors"
	cmp -s "$work/vectors" "$vectors" && fail "nothing was changed"
	icrc vectors "$work/vectors"
}

# A capture of FLUSHes; one bit is changed in the DMA length of the last.
icrc_notices_a_changed_packet_of_a_capture() {
	tshark -r "$WIRE_FOLDER/$client" -Y "$(opcode_is $flush)" -F pcap \
		-w "$work/flush.pcap" 2>"$work/tshark.log"
	icrc pcap "$work/flush.pcap" >"$work/before"
	printf '\1' | dd of="$work/flush.pcap" bs=1 conv=notrunc status=none \
		seek=$(($(stat -c %s "$work/flush.pcap") - 8))
	icrc pcap "$work/flush.pcap" >"$work/after"
	diff "$work/before" "$work/after" && fail "it does not"
	[[ $(tail -n 1 "$work/before") =~ \ (conforming|legacy)$ && $(tail -n 1 "$work/after") == *" wrong" ]]
}

# conforming OPCODE: all packets with it, at both ends, and there are some
conforming() {
	local pcap all
	for pcap in $client $server; do
		all=$(icrc pcap "$WIRE_FOLDER/$pcap" | awk -v opcode="$(printf 0x%02x "$1")" '$1 == opcode')
		[[ -n $all ]] || fail "$pcap has none"
		grep -v ' conforming$' <<<"$all" && fail "of $pcap"
	done
	echo "# $(wc -l <<<"$all") packets"
}

icrc_of_every_flush_is_right() { conforming $flush; }
icrc_of_every_atomic_write_is_right() { conforming $atomic_write; }
icrc_of_every_response_is_right() { conforming $response; }

# expect_requests COUNT OPCODE
expect_requests() {
	local got
	got=$(psns "$(opcode_is "$2")" | wc -l)
	[[ $got == "$1" ]] || fail "$got requests with opcode $2, not $1"
}

every_request_is_on_the_wire() {
	expect_requests "$posts" $write
	expect_requests $((2 * posts)) $flush
	expect_requests "$posts" $atomic_write
}

# expect_header OPCODE LENGTH: all packets with it have this UDP length, and neither SE nor pad
expect_header() {
	local opcode=$1 length=$2 other
	other=$(fields $client "$(opcode_is "$opcode")" udp.length infiniband.bth.se infiniband.bth.padcnt |
		sort | uniq -c)
	[[ $(awk '{ print $2, $3, $4 }' <<<"$other") == "$length 0 0" ]] || fail "$other"
}

# UDP 8, BTH 12, FETH 4, RETH 16, ICRC 4
flush_is_headers_only() { expect_header $flush 44; }

# UDP 8, BTH 12, RETH 16, payload 8, ICRC 4
atomic_write_carries_8_bytes() { expect_header $atomic_write 48; }

# FETH: range, persistence.
flush_asks_for_what_was_posted() {
	local feths
	feths=$(fields $client "$(opcode_is $flush)" udp.payload | cut -c 25-32 | sort -u)
	[[ $feths == 00000002 ]] || fail "$feths"
}

# The requests of a post follow each other on the wire and have consecutive PSNs.
requests_leave_in_the_order_of_the_post() {
	fields $client "ip.src == 192.0.2.2 and infiniband.bth.opcode in {$write, $flush, $atomic_write}" \
		infiniband.bth.opcode infiniband.bth.psn |
		awk -v order="$write $flush $atomic_write $flush" '
			BEGIN { split(order, opcode) }
			$2 in sent { next }
			$1 != opcode[n % 4 + 1] || (n && $2 != (psn + 1) % 16777216) {
				print "request " n ": opcode " $1 ", PSN " $2 " after " psn
				bad = 1
			}
			{ n++; psn = $2; sent[psn] }
			END { exit bad || n == 0 || n % 4 }'
}

# FLUSH and ATOMIC WRITE are answered by a READ RESPONSE ONLY without payload (UDP 8, BTH 12, AETH 4,
# ICRC 4) that acknowledges their PSN.
each_is_answered_by_an_empty_response() {
	local asked answered
	asked=$(psns "infiniband.bth.opcode in {$flush, $atomic_write}")
	answered=$(psns "$(opcode_is $response) and udp.length == 28 and infiniband.aeth.syndrome.opcode == 0")
	[[ -n $asked && $asked == "$answered" ]] || fail "$(diff <(echo "$asked") <(echo "$answered"))"
}

cases=(
	the_pair_runs
	icrc_agrees_with_known_packets
	icrc_notices_a_change
	icrc_does_not_cover_what_routers_change
	icrc_notices_a_changed_packet_of_a_capture
	icrc_of_every_flush_is_right
	icrc_of_every_atomic_write_is_right
	icrc_of_every_response_is_right
	every_request_is_on_the_wire
	flush_is_headers_only
	flush_asks_for_what_was_posted
	atomic_write_carries_8_bytes
	requests_leave_in_the_order_of_the_post
	each_is_answered_by_an_empty_response
)

run_suite 2 "$@"
