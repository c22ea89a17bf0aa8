#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The dissector (qemu-scripts/wireshark/mpe.lua) reads known packets as they were made, and the ladder
# (qemu-scripts/ladder) tells what got lost and was sent again.  Most cases make their captures from
# vectors/; the last one looks at two guests between which the response to a FLUSH gets lost.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

dissector=$root/qemu-scripts/wireshark/mpe.lua
flush=1 flush_region=2 atomic_write=3 response=4 nak=5

# known N [ID]: the N-th packet of the vectors, in hex; with another identification, it is another packet
known() {
	grep -v '^#' "$here/data/roce-vectors.txt" | sed '/^$/d' | sed -n "$1 s/^\(.\{8\}\)..../\1${2:-0001}/p"
}

# answer N [ID]: the same, from the other end
answer() { known "$@" | sed 's/0a0900020a090001/0a0900010a090002/'; }

# capture FILE: the packets on stdin, one in hex per line, a microsecond apart
capture() {
	sed 's/../ &/g; s/^/0000/' | text2pcap -q -F pcap -l 228 - "$1" 2>"$work/log" || fail "$(<"$work/log")"
}

# fields FILE FIELD...: of each packet
fields() {
	local field
	local -a wanted=()
	for field in "${@:2}"; do
		wanted+=(-e "$field")
	done
	tshark -X "lua_script:$dissector" -r "$1" -T fields "${wanted[@]}" 2>"$work/log" ||
		fail "tshark: $(<"$work/log")"
}

# fields_are WANTED: what is on stdin
fields_are() { diff <(echo "$1") - || fail "not as they were made"; }

the_dissector_reads_known_packets() {
	{ known $flush; known $flush_region; known $atomic_write; } | capture "$work/pcap"
	fields "$work/pcap" mpe.name mpe.feth.plt mpe.feth.sel mpe.reth.va mpe.reth.r_key mpe.reth.dmalen mpe.data |
		sed 's/0x0*\([0-9a-f]\)/0x\1/g; s/\t/ /g; s/ $//' | fields_are \
"RC FLUSH 0x1 0 0x7f0012345680 0x2cd 192
RC FLUSH 0x3 1 0x0 0x2cd 0
RC ATOMIC WRITE   0x7f0012346000 0x2cd 8 5441494c50545221"
}

# 4 bytes more, and 8 less, of the UDP datagram and what is around it
the_dissector_notices_a_wrong_length() {
	{
		known $flush | sed 's/^45000040/45000044/; s/002c0000/00300000/; s/$/00000000/'
		known $flush | sed 's/^45000040/45000038/; s/002c0000/00240000/; s/.\{16\}$//'
		known $flush
	} | capture "$work/pcap"
	fields "$work/pcap" mpe.length | fields_are $'1\n1\n'
}

# The command is in the dissector's head.
the_dissector_is_installed_by_one_command() {
	known $atomic_write | capture "$work/pcap"
	export HOME=$work
	cd "$root"
	eval "$(sed -n 's/^--\t\(install .*\)/\1/p' "$dissector")"
	tshark -r "$work/pcap" 2>&1 | grep "RC ATOMIC WRITE QP=0x000011"
}

# needs_dissector: skips the case without it
needs_dissector() {
	[[ -e $root/build/wireshark/plugins ]] || { echo "there is no build/wireshark: run \`make wireshark\`"; exit 4; }
}

# patched FILE ARG...: tshark with the patch of userspace/wireshark/, whose fields begin with ibmpe.  It takes no plugin from root.
patched() {
	local nobody=()
	((EUID)) || nobody=(env HOME=/nonexistent setpriv --reuid 65534 --regid 65534 --clear-groups)
	WIRESHARK_PLUGIN_DIR=$root/build/wireshark/plugins "${nobody[@]}" tshark -r - "${@:2}" <"$1" 2>"$work/log" ||
		fail "tshark: $(<"$work/log")"
}

# both_read FILE: the patch for Wireshark and our dissector find the same headers in each FLUSH and ATOMIC WRITE, and the
# same ICRC if it has the right length.  Prints how many of these there are.  In a packet that is shorter than its headers ours
# reads nothing.
both_read() {
	local field ours=() theirs=()
	for field in feth.plt feth.sel reth.va reth.r_key reth.dmalen; do
		ours+=("mpe.$field") theirs+=(-e "ibmpe.$field")
	done
	fields "$1" frame.number infiniband.bth.opcode "${ours[@]}" mpe.icrc mpe.length | grep -P '^\d+\t(28|29)\t' >"$work/ours"
	patched "$1" -T fields -e frame.number -e ibmpe.bth.opcode "${theirs[@]}" -e ibmpe.invariant.crc |
		grep -P '^\d+\t(28|29)\t' >"$work/theirs"
	# shellcheck disable=SC2016 # for awk
	local comparable='
		NR == FNR { short[$1] = $8 == ""; long_[$1] = $9 != "" }
		NR == FNR && pass == 2 { next }
		short[$1] { print $1, $2; next }
		{ print $1, $2, $3, $4, $5, $6, $7, long_[$1] ? "" : $8 }'
	diff <(awk -F '\t' "$comparable" "$work/ours") <(awk -F '\t' -v pass=2 "$comparable" "$work/ours" "$work/theirs") ||
		fail "they read different things"
	awk -F '\t' '$9 == "" { n++ } END { print n + 0 }' "$work/ours"
}

the_patch_for_wireshark_reads_known_packets() {
	needs_dissector
	both_read "$root/userspace/wireshark/samples.pcap" >"$work/said"
	[[ $(<"$work/said") == 3 ]] || fail "$(<"$work/said")"
	patched "$root/userspace/wireshark/samples.pcap" -V >"$work/said"
	grep 'Selectivity Level: Memory Region (1)' "$work/said"
	grep 'Placement Type: 0x3, Persistence, Global Visibility' "$work/said"
	grep 'Opcode: Reliable Connection (RC) - ATOMIC WRITE (29)' "$work/said"
}

# Good packets and bad ones.
the_patch_for_wireshark_agrees_on_a_conformance_run() {
	needs_dissector
	"$root/qemu-scripts/rxe-vm" run --name ladder --timeout 3000 --pmem 64M --share "$work" -- sh -c "
		dumpcap -q -P -i any -f 'udp port 4791' -w $work/conformance.pcap &
		until [ -s $work/conformance.pcap ]; do sleep 0.1; done
		rxe_conformance >/dev/null
		sleep 1
		kill \$!
		wait \$! || true" || fail "no capture"
	both_read "$work/conformance.pcap" >"$work/said" || fail "$(<"$work/said")"
	echo "# both read $(<"$work/said") good FLUSHes and ATOMIC WRITEs, and the bad ones"
	(($(<"$work/said") > 1000)) || fail "the run had only a few"
}

# Wireshark 4.4 takes bits 4..3 of FETH for the selectivity and 2..0 for the placement type, so that
# only the latter, and the RETH, can be compared.
the_dissector_agrees_with_tsharks_own() {
	local theirs
	tshark -G fields 2>/dev/null | grep "infiniband\.feth\.plt" || {
		echo "$(tshark --version 2>/dev/null | sed 's/\.$//;q') does not know FLUSH by itself"
		exit 4
	}
	{ known $flush; known $flush_region; known $atomic_write; } | capture "$work/pcap"
	theirs=$(fields "$work/pcap" infiniband.feth.plt infiniband.reth.{va,r_key,dmalen} | sed 's/^0x0*//')
	fields "$work/pcap" mpe.feth.plt mpe.reth.{va,r_key,dmalen} | sed 's/^0x0*//' | fields_are "$theirs"
}

# ladder ARG...: what it draws
ladder() { "$root/qemu-scripts/ladder" "$@"; }

# shows PATTERN...: the ladder in $drawn has a line for each, in this order
shows() {
	local pattern
	local -i at=0 next
	for pattern; do
		next=$(tail -n "+$((at + 1))" <<<"$drawn" | grep -n -e "$pattern" | sed 's/:.*//;q') ||
			fail "no line after line $at has: $pattern"
		at=$((at + next))
	done
}

# run_folder: as rxe-vm leaves it; the client is 10.9.0.2, the server 10.9.0.1
run_folder() {
	mkdir "$work/run"
	echo "RXE_ADDR='10.9.0.2' " >"$work/run/client.env"
	echo "RXE_ADDR='10.9.0.1' " >"$work/run/server.env"
}

a_good_exchange_has_no_marks() {
	{ known $flush; answer $response; } | capture "$work/pcap"
	drawn=$(ladder "$work/pcap")
	echo "$drawn"
	shows 'requester 10.9.0.2 .* responder 10.9.0.1' \
		'|-- FLUSH  psn 1000  global, 192 B at 0x7f0012345680 -*>|$' \
		'|<-* READ RESPONSE  psn 1000  for FLUSH, ACK msn 1 --|$'
}

a_dropped_request_is_shown() {
	run_folder
	{ known $flush; known $flush 0002; answer $response; } | capture "$work/run/client.pcap"
	{ known $flush 0002; answer $response; } | capture "$work/run/server.pcap"
	drawn=$(ladder "$work/run")
	echo "$drawn"
	shows ' 1 .*|-- FLUSH .*X   *|  DROPPED' ' 2 .*|-- FLUSH .*>|  SENT AGAIN: as #1' '|<.* READ RESPONSE .*|$'
}

a_dropped_response_is_shown() {
	run_folder
	{ known $flush; known $flush 0002; answer $response 0002; } | capture "$work/run/client.pcap"
	{ known $flush; answer $response; known $flush 0002; answer $response 0002; } | capture "$work/run/server.pcap"
	drawn=$(ladder "$work/run")
	echo "$drawn"
	shows '|-- FLUSH .*>|$' '|   *X.* READ RESPONSE .*DROPPED' 'FLUSH .*SENT AGAIN: as #1' 'READ RESPONSE .*ANSWERED AGAIN: as #2'
}

# The server's card has the request: its guest was slow.  One capture alone cannot tell.
what_arrived_is_late_and_not_lost() {
	run_folder
	{ known $flush; known $flush 0002; answer $response; answer $response 0002; } | capture "$work/run/client.pcap"
	cp "$work/run/client.pcap" "$work/run/server.pcap"
	drawn=$(ladder "$work/run")
	echo "$drawn"
	shows ' 1 .*|-- FLUSH .*>|  LATE: no answer in time; #2 asks again$' ' 2 .*|-- FLUSH .*>|  SENT AGAIN: as #1$' \
		' 3 .*|<.* READ RESPONSE .*|$' ' 4 .*|<.* READ RESPONSE .*|  ANSWERED AGAIN: as #3$'
	{ known $flush; answer $response; known $flush 0002; answer $response 0002; } | capture "$work/run/client.pcap"
	cp "$work/run/client.pcap" "$work/run/server.pcap"
	drawn=$(ladder "$work/run")
	echo "$drawn"
	shows ' 2 .*|<.* READ RESPONSE .*|  LATE: not in time to rxe; #3 asks again$'
	{ known $flush; known $flush 0002; answer $response; } | capture "$work/pcap"
	drawn=$(ladder "$work/pcap")
	echo "$drawn"
	shows ' 1 .*|-- FLUSH .*X|  LOST: no answer in time; #2 asks again$'
}

# On a hub each capture has all; the second server is booted again, and its QP has the number that the first one had.
run_folder_of_a_group() {
	mkdir "$work/run"
	echo "RXE_ADDR='10.9.0.1' " >"$work/run/server1.env"
	echo "RXE_ADDR='10.9.0.3' " >"$work/run/server2.env"
	echo "RXE_ADDR='10.9.0.2' " >"$work/run/client1.env"
	to_second() { sed 's/0a0900020a090001/0a0900020a090003/; s/0a0900010a090002/0a0900030a090002/'; }
	{ known $flush; answer $response; } >"$work/first"
	{ known $flush; answer $response; } | to_second >"$work/second"
	{ known $flush 0007; answer $response 0007; } | to_second >"$work/third"
	capture "$work/run/server1.pcap" <"$work/first"
	cat "$work/first" "$work/second" | capture "$work/run/server2.pcap"
	capture "$work/run/server2.2.pcap" <"$work/third"
	cat "$work/first" "$work/second" "$work/third" | capture "$work/run/client1.pcap"
}

a_group_has_a_column_for_each() {
	run_folder_of_a_group
	drawn=$(ladder "$work/run")
	echo "$drawn"
	shows "client1 *server1 *server2" "10.9.0.2 *10.9.0.1 *10.9.0.3" \
		" 1 .*|-*>|  *|  .*FLUSH" " 2 .*|<-*|  *|  .*RESPONSE" \
		" 3 .*|-*|-*>|  .*FLUSH" " 4 .*|<-*|-*|  .*RESPONSE" " 5 .*|-*|-*>|  .*FLUSH"
	(($(wc -l <<<"$drawn") == 8)) || fail "not 6 packets"
	! grep -q "AGAIN\|LATE\|LOST" <<<"$drawn" || fail "the second boot is taken for the first"
	ladder --svg "$work/run" | grep -q ">server2 10.9.0.3<" || fail "no picture"
}

a_refusal_is_shown() {
	{ known $flush; answer $nak; } | capture "$work/pcap"
	drawn=$(ladder "$work/pcap")
	shows 'FLUSH' 'for FLUSH, NAK remote access error msn 0 --|  REFUSED$'
}

# What comes behind the cut, at the server's card, is not there.
a_power_cut_is_shown() {
	run_folder
	{ known $flush; known $atomic_write; answer $response; } | capture "$work/run/client.pcap"
	cp "$work/run/client.pcap" "$work/run/server.pcap"
	drawn=$(ladder --cut 2 --lost 1 "$work/run")
	echo "$drawn"
	shows '|-- FLUSH .*>|  GONE: lost with the power' '|-- ATOMIC WRITE .*>|$' 'the power fails X'
	! grep RESPONSE <<<"$drawn" || fail "the answer had not been sent"
	drawn=$(ladder --svg --cut 2 --lost 1 "$work/run")
	shows '#c01c28">FLUSH' 'the power fails (frame 2 of server.pcap)'
	# More than an argument holds.
	{ printf '1' && seq -s, -f ',%.0f' 100000 140000; } | tr -s , >"$work/lost"
	drawn=$(ladder --cut 2 --lost-file "$work/lost" "$work/run")
	shows '|-- FLUSH .*>|  GONE: lost with the power' '|-- ATOMIC WRITE .*>|$'
	[[ $(ladder --tail 1 --cut 2 "$work/run" | grep -c '|-- ') == 1 ]]
	# What is lost is shown, even before the tail.
	drawn=$(ladder --tail 1 --cut 2 --lost 1 "$work/run")
	shows '|-- FLUSH .*GONE: lost with the power' '|-- ATOMIC WRITE .*>|$'
	! grep -F ... <<<"$drawn" || fail "nothing is left out"
	{ known $flush; known $flush_region; known $atomic_write; } | capture "$work/run/client.pcap"
	cp "$work/run/client.pcap" "$work/run/server.pcap"
	drawn=$(ladder --tail 1 --cut 3 --lost 1 "$work/run")
	echo "$drawn"
	shows '^ *1 .*GONE: lost with the power' '^  \.\.\.$' '^ *3 .*|-- ATOMIC WRITE .*>|$'
	# It may fail before the first packet.
	[[ $(ladder --tail 1 --cut 0 "$work/run" | sed 1d) == *"the power fails X" ]]
}

# Of a server that was booted again: what the boot before had, and what the others have, is not there.
a_power_cut_in_a_group_is_shown() {
	run_folder_of_a_group
	mkdir "$work/run/server2.2.recording"
	drawn=$(ladder --cut 1 --lost 1 "$work/run/server2.2.recording")
	echo "$drawn"
	shows "client1 *server1 *server2" '|-*|-*>|  .*FLUSH .*GONE: lost with the power' '^ \{52\}X  the power fails'
	(($(wc -l <<<"$drawn") == 4)) || fail "not one packet"
	drawn=$(ladder --svg --cut 1 --lost 1 "$work/run/server2.2.recording")
	shows '#c01c28">.*FLUSH' '<line x1="818" .* x2="842"' 'the power fails (frame 1 of server2.2.pcap)'
}

# Of a record, 16 bytes and the frame, QEMU may have written any part when it was killed.
half_a_frame_is_left_out() {
	local -i frame whole left
	run_folder
	{ known $flush; answer $response; known $atomic_write; } | capture "$work/run/client.pcap"
	{ known $flush; answer $response; } | capture "$work/run/server.pcap"
	cp "$work/run/server.pcap" "$work/whole"
	known $atomic_write | capture "$work/last"
	# What comes behind the head of a capture.
	tail -c +25 "$work/last" >"$work/record"
	whole=$(stat -c %s "$work/whole") frame=$(stat -c %s "$work/record")
	for left in 1 15 16 17 $((frame - 1)); do
		{ cat "$work/whole"; head -c $left "$work/record"; } >"$work/run/server.pcap"
		(($(stat -c %s "$work/run/server.pcap") == whole + left)) || fail "not half a frame"
		drawn=$(ladder "$work/run" 2>"$work/said")
		shows ' 1 .*|-- FLUSH .*>|$' ' 2 .*RESPONSE .*|$' ' 3 .*|-- ATOMIC WRITE .*X   *|  DROPPED'
		[[ $(<"$work/said") == "ladder: $work/run/server.pcap ends in the middle of a frame: this frame is left out" ]] ||
			fail "with $left bytes it says: $(<"$work/said")"
	done
	echo "$drawn"
	# With all of it there is nothing to say.
	{ cat "$work/whole" "$work/record"; } >"$work/run/server.pcap"
	drawn=$(ladder "$work/run" 2>"$work/said")
	shows ' 3 .*|-- ATOMIC WRITE .*>|$'
	[[ ! -s $work/said ]] || fail "of a whole frame it says: $(<"$work/said")"
}

packets_are_chosen_by_number() {
	{ known $flush; answer $response; known $flush_region; known $atomic_write; } | capture "$work/pcap"
	[[ $(ladder --packets 2-3 "$work/pcap" | sed 1d | awk '{ print $1 }' | paste -sd ' ') == "2 3" ]]
	[[ $(ladder --packets 3 "$work/pcap" | sed 1d | awk '{ print $1 }' | paste -sd ' ') == "3 4" ]]
}

wrong_usage_is_explained() {
	local arguments message said status
	echo "not a capture" >"$work/text"
	answer $response | sed 's/1040ffff/6440ffff/' | capture "$work/no-rc"
	while IFS='|' read -r arguments message; do
		status=0
		# shellcheck disable=SC2086 # words
		said=$(ladder $arguments 2>&1) || status=$?
		[[ $status == 2 && $said == "ladder: error: $message"* ]] || fail "ladder $arguments: $status, $said"
	done <<-END
		a b|name one folder of a run, or one capture
		--frob x|unknown option --frob
		--packets x y|--packets x: say for example 12-40
		/no/such|/no/such: no such folder or capture
		$work|$work has no client.pcap and server.pcap
		$work/text|tshark cannot read $work/text
		$work/no-rc|$work/no-rc: no RC packets in there
	END
}

the_newest_run_is_drawn_if_none_is_named() {
	local said
	said=$(RXE_OUT=$work/none ladder 2>&1) && fail "it draws what is not there: $said"
	[[ $said == "ladder: error: $work/none/latest: no such folder or capture; each run of rxe-vm makes one in $work/none" ]] ||
		fail "$said"
	run_folder
	{ known $flush; answer $response; } | tee >(capture "$work/run/client.pcap") | capture "$work/run/server.pcap"
	ln -s run "$work/latest"
	drawn=$(RXE_OUT=$work ladder)
	shows '|-- FLUSH .*>|$' 'READ RESPONSE'
}

# The caller of a library's inline function, which is a function by itself without optimisation
a_line_is_that_of_the_program() {
	local rdma_core line said
	rdma_core=$root/build/rdma-core
	cc -g -O0 -I"$rdma_core/include" -L"$rdma_core/lib" -o "$work/log" "$root/selftests/examples/first-log.c" -lrdmacm -libverbs
	address() { nm "$work/log" | sed -n "s/^0*\([0-9a-f]*\) t $1$/+0x\1/p"; }
	mkdir "$work/run"
	echo "site 1.0 $work/log$(address ibv_wr_rdma_write) $work/log$(address append)" >"$work/run/client.posted"
	echo "request 0x11 7 1.0" >>"$work/run/client.posted"
	line=$(sed -n '/^static void append(/{n; =}' "$root/selftests/examples/first-log.c")	# its brace
	for said in "0x11 7 first-log.c:$line append()" "0x11 7 log: build it with -g to see the line"; do
		"$root/qemu-scripts/source-lines" "$work/run" | diff <(echo "$said") - || fail "not that"
		# It stays when the program is built anew.
		strip "$work/log"
		"$root/qemu-scripts/source-lines" "$work/run" | diff <(echo "$said") - || fail "not as before"
		rm "$work/run/client.lines"
	done
	# pyverbs is none, and what has called it is Python.
	sed -i 's,site 1.0 ,&/lib/python3/pyverbs/qp.so+0x1 ,' "$work/run/client.posted"
	said=$("$root/qemu-scripts/source-lines" "$work/run")
	[[ -z $said ]] || fail "a line of Python's: $said"
}

# Python loads libibverbs late, and for itself alone.
make_late_user() {
	cat >"$work/late.py" <<-'END'
		import pyverbs.enums as e
		from pyverbs.cq import CQ
		from pyverbs.device import Context
		from pyverbs.pd import PD
		from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx

		context = Context(name="rxe0")
		pd, cq = PD(context), CQ(context, 4)
		wanted = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
		qp = QPEx(context, QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4), pd=pd,
		                                comp_mask=wanted, send_ops_flags=e.IBV_QP_EX_WITH_RDMA_WRITE))
		attr = QPAttr(qp_state=e.IBV_QPS_INIT, cur_qp_state=e.IBV_QPS_RESET)
		attr.port_num = 1
		qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS)
		qp.close()
		print("python ends well")
	END
}

# first-log in two guests: each request has the line that begins it.
each_request_has_the_line_that_posted_it() {
	local verb call line run
	make_late_user
	RXE_OUT=$(make_run_folder "$RXE_OUT" ladder)
	# shellcheck disable=SC2016 # the guests expand their commands
	"$root/qemu-scripts/rxe-vm" pair --name ladder --server-pmem 16M --server 'exec first-log target $RXE_ADDR /dev/dax0.0' \
		--client "first-log initiator \$RXE_PEER_ADDR 3 && /usr/bin/python3 $work/late.py"
	run=$(readlink -f "$RXE_OUT/latest")
	grep -qx "python ends well" "$run/client.stdout" || fail "a program that loads libibverbs late"
	drawn=$(ladder "$run" | grep -F -e '|-- ')
	echo "$drawn"
	while read -r verb call; do
		line=$(grep -n -F -m 1 "$call" "$root/selftests/examples/first-log.c" | cut -d : -f 1)
		[[ $(grep -cE -e "-- ${verb//_/ } .*\|  first-log\.c:$line append\(\)$" <<<"$drawn") == 3 ]] || fail "$verb: not three of line $line"
	done <<-'END'
		WRITE ibv_wr_rdma_write(qp
		FLUSH.*64.B ibv_wr_flush(qp, log->rkey, to
		ATOMIC_WRITE ibv_wr_atomic_write(qp
		FLUSH.*8.B ibv_wr_flush(qp, log->rkey, log->addr
	END
}

the_loss_of_a_response_is_seen_and_healed() {
	local run
	RXE_OUT=$(make_run_folder "$RXE_OUT" ladder)
	"$here/loss.sh" a_lost_response_to_flush_is_healed
	run=$(find "$RXE_OUT" -name client.pcap -printf '%h\n')
	drawn=$(ladder "$run")
	echo "$drawn"
	shows 'client 192.0.2.2 .* server 192.0.2.1' '|-- FLUSH .*>|  remote-log-connection.c:[0-9]* log_publish()$' \
		'|<-* READ RESPONSE .* for FLUSH, ACK .*LATE: .* asks again' \
		'|-- FLUSH .*>|  SENT AGAIN: as #' '|<-* READ RESPONSE .* for FLUSH, ACK .*ANSWERED AGAIN: as #'
	(($(grep -c LATE <<<"$drawn") == 1)) || fail "more than one packet is said to be late"
	ladder --svg "$run" >"$RXE_OUT/ladder.svg"
	picture_tells_the_same
	echo "# $(wc -l <<<"$drawn") lines, drawn in $RXE_OUT/ladder.svg"
}

# The numbers, and the words behind the fates.
picture_tells_the_same() {
	diff <(sed 1d <<<"$drawn" | awk '{ print $1 }') \
		<(sed -n 's/.*x="50".*>\([0-9]*\)<.*/\1/p' "$RXE_OUT/ladder.svg") || fail "not the same packets"
	diff <(sed -n 's/.*|  [A-Z ]*: //p' <<<"$drawn") \
		<(sed -n 's/.*start.*>[a-z ]*: \([^<]*\)<.*/\1/p' "$RXE_OUT/ladder.svg" | grep -v guest) || fail "not the same fates"
	[[ $(tail -n 1 "$RXE_OUT/ladder.svg") == "</svg>" ]]
}

cases=(
	the_dissector_reads_known_packets
	the_dissector_notices_a_wrong_length
	the_dissector_is_installed_by_one_command
	the_dissector_agrees_with_tsharks_own
	the_patch_for_wireshark_reads_known_packets
	a_good_exchange_has_no_marks
	a_dropped_request_is_shown
	a_dropped_response_is_shown
	what_arrived_is_late_and_not_lost
	a_refusal_is_shown
	a_group_has_a_column_for_each
	a_power_cut_is_shown
	a_power_cut_in_a_group_is_shown
	half_a_frame_is_left_out
	packets_are_chosen_by_number
	wrong_usage_is_explained
	the_newest_run_is_drawn_if_none_is_named
	the_loss_of_a_response_is_seen_and_healed
	a_line_is_that_of_the_program
	each_request_has_the_line_that_posted_it
)
long_cases=(the_patch_for_wireshark_agrees_on_a_conformance_run)

run_suite 2 "$@"
