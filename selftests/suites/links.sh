#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The cases of conformance that depend on the link, on other links than IPv4 without a tag and an MTU of 1024: KTAP.
# With LONG=1 all of its cases, on more links.

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

cases=(
	ipv6_and_an_mtu_of_256
	ipv6_in_a_vlan_and_an_mtu_of_4096
)
long_cases=(
	a_vlan_and_an_mtu_of_512
	an_mtu_of_2048
)
run_suite 2 "$@"
