#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh [RECORDS]: a crash-safe remote log, from the first append to the check after a power cut.
#
#	initiator                                    target
#	remote-log-append  ---- Soft-RoCE ---->  remote-log-target
#	lines of MAINTAINERS                     /dev/dax0.0 on an NVDIMM
#
# When RECORDS have been acknowledged, the target's power fails, in the midst of appends: its guest is powered
# off hard, and what was not durable is lost by chance.  It boots again on the same NVDIMM, and
# remote-log-check compares what is left with the text, byte for byte.

set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
# shellcheck source=selftests/examples/demo-steps.sh
. "$here/demo-steps.sh"
# shellcheck source=selftests/examples/log-guests.sh
. "$here/log-guests.sh"
records=${1:-5000}
spare=10000

check_input() {
	local lines
	lines=$(lines_of_text)
	want_number "$records" "demo.sh [RECORDS]"
	# It must not be at the end when the power fails.
	((records + spare <= lines)) || die "$records records? $text has $lines lines"
	want_programs remote-log-target remote-log-append remote-log-check
	type -P tshark >/dev/null || die "there is no tshark: $(to_install tshark)"
}

# "OPCODE PSN" of each RoCE packet that the initiator sent or got, in order
packets() {
	tshark -r "$(echo "$folder"/*-append/client.pcap)" -Y infiniband -T fields -E separator=' ' \
		-e infiniband.bth.opcode -e infiniband.bth.psn 2>"$folder/tshark.log" ||
		die "tshark cannot read the capture: $(<"$folder/tshark.log")"
}

opcode_name() {
	case $1 in
	10) echo "RDMA WRITE ONLY" ;;
	12) echo "RDMA READ REQUEST" ;;
	16) echo "RDMA READ RESPONSE ONLY (answers READ, FLUSH and ATOMIC WRITE)" ;;
	17) echo "ACKNOWLEDGE" ;;
	28) echo "FLUSH" ;;
	29) echo "ATOMIC WRITE" ;;
	100) echo "UD SEND ONLY (connection manager)" ;;
	*) printf 'opcode 0x%02x\n' "$1" ;;
	esac
}

# An append has one round trip, and one more for each request that left only after the one before it
# was answered, be it by chance.
round_trips() {
	awk '
		$1 == 16 || $1 == 17 { answered[$2] }
		($1 == 10 || $1 == 28 || $1 == 29) && !($2 in sent) {
			sent[$2]
			appends += $1 == 10
			trips += $1 == 10 || ($2 + 16777215) % 16777216 in answered
		}
		END { printf "%.2f\n", trips / appends }'
}

# lost_words N: the N-th number of "the power failure took 12 words of 34 ..."
lost_words() { tr -cs '0-9' ' ' <"$(echo "$folder"/*-append/lost)" | cut -d ' ' -f $(($1 + 1)); }

report() {
	local count opcode trips
	packets >"$folder/packets"
	trips=$(round_trips <"$folder/packets")
	row "$(acknowledged)" "records acknowledged, and found again after the power cut"
	row "$(head -n "$(acknowledged)" "$text" | wc -c)" "bytes of text in them"
	row "$trips" "round trips per append (4 if each step were waited for)"
	if (($(lost_words 2))); then
		row "$(lost_words 1)" "words lost to the power cut, of $(lost_words 2) that were not durable yet"
	else
		row "$(lost_words 3)" "words stored, all of them durable when the power failed, so that it took none"
	fi
	echo
	echo "  packets  (with those that make the empty log, and those that were sent again after the power cut)"
	cut -d ' ' -f 1 "$folder/packets" | sort -n | uniq -c | while read -r count opcode; do
		row "$count" "$(opcode_name "$opcode")"
	done
	echo
	echo "The guests ran on QEMU's accelerator $(accelerator append)."
	echo "An emulator's time is not real time: do not take anything here for a speed."
	echo "All that was recorded is in $folder"
	echo "What else might the power failure have left?  $root/Documentation/crash-states.rst shows a CHECKER, for:"
	echo "  $root/qemu-scripts/crash-states $(echo "$folder"/*-append) -- CHECKER"
}

check_input
start_folder

echo "A crash-safe log in the persistent memory of another machine."
echo "Each append is one post of four requests: WRITE record, FLUSH, ATOMIC WRITE tail, FLUSH."

step "Two guests boot, and the initiator appends lines of MAINTAINERS to the target's log: $records, and some more"
status=0
log_pair append $RANDOM "$serve_log" "$(until_power_fails "$(append_lines "$text" $((records + spare)) "$records")")" \
	2>&1 | tee "$folder/append" | sed -u '/^remote-log-append: /d; /^rxe-vm: fail: /d' || status=$?
((status == 1)) || die "the initiator did not lose its target"
grep -q "the power failure took" "$folder/append" || die "the power cut took nothing, and does not say why"
step "The target's power is cut; $(acknowledged) records have been acknowledged"
echo "It boots again on the same NVDIMM, and what is left is compared with the text."
log_recovery check "$(check_log "$text" "$(acknowledged)")"
step "Result"
report
