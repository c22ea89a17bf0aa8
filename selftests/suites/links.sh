#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The cases of conformance that depend on the link, on other links than IPv4 without a tag and an MTU of 1024: KTAP.
# With LONG=1 all of its cases, on more links.  And a router on the way to the peer that can't carry a packet of the QP.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

of_links=('verb.*.answered' 'verb.*.icrc_once' 'verb.*.variant_bits' 'verb.*.truncated_headers' 'verb.*.without_udp_length'
	'flush.icrc*'
	'bad_frame.*' 'posted.*' 'icrc*' 'length.*' 'flush_payload.*' 'odp.*' 'unsent.*' 'claimed_mtu.*' 'huge_read.of_half_the_psns' 'long_read.*' 'stalled.*'
	'lost.*.behind_a_half_answered_read' 'ack_request_last.write_of_three_packets')
[[ ${LONG:-0} == 0 ]] || of_links=()

# on LINK [PATTERN...]: the options of the link, as words
on() {
	(($# > 1)) || set -- "$1" "${of_links[@]}"
	# shellcheck disable=SC2086 # words
	nested "$here/conformance.sh" $1 "${@:2}"
}

ipv6_and_an_mtu_of_256() { on '--ipv6 --mtu 256' "$@"; }
a_vlan_and_an_mtu_of_512() { on '--vlan 5 --mtu 512' "$@"; }
an_mtu_of_2048() { on '--mtu 2048' "$@"; }
ipv6_in_a_vlan_and_an_mtu_of_4096() { on '--ipv6 --vlan 4094 --mtu 4096' "$@"; }

# Both ends have agreed on a path MTU of 1024, and the router has 1000.  It tells by ICMP, which lowers nothing: the
# request fails when its seven retries are used up, after eight timeouts of 67 ms.
a_router_with_a_lower_mtu_ends_the_request() {
	local pingpong='ibv_rc_pingpong -g 1 -s 4096 -m 1024 -n 50' said
	# shellcheck disable=SC2016 # for the guests
	said=$("$root/qemu-scripts/rxe-vm" group --name router --timeout 300 --stop-server \
		--server "rxe-ready; exec $pingpong" \
		--server 'cd /proc/sys/net/ipv4 && echo 1 >ip_forward && echo 0 >conf/all/send_redirects &&
			echo 0 >conf/eth0/send_redirects && ip link set eth0 mtu 1000 && rxe-ready && exec sleep 1000' \
		--client 'set -- $RXE_PEER_ADDRS; ip route add $1/32 via $2; ping -c 1 -W 5 $1 >/dev/null && echo routed
			start=$(cut -d. -f1 /proc/uptime); timeout 60 '"$pingpong"' $1; echo "status $?"
			echo "seconds $(($(cut -d. -f1 /proc/uptime) - start))"') || fail "$said"
	echo "$said"
	[[ $said == *routed* ]] || fail "the server is not reached at all"
	[[ $said =~ 'status 1'[[:space:]] && $said =~ 'seconds '([0-9]+) ]] || fail "the request does not end"
	((BASH_REMATCH[1] <= 20)) || fail "it ends only after ${BASH_REMATCH[1]} s"
}

cases=(
	a_router_with_a_lower_mtu_ends_the_request
	ipv6_and_an_mtu_of_256
	ipv6_in_a_vlan_and_an_mtu_of_4096
)
long_cases=(
	a_vlan_and_an_mtu_of_512
	an_mtu_of_2048
)
run_suite 2 "$@"
