#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The rdma tool, and ibv_devinfo, name what the kernel says of FLUSH and ATOMIC WRITE.  The tool as it is before its series
# (build/stock/iproute2) is asked beside it: they differ in these three words, and in nothing else.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

new=$root/build/iproute2/bin/rdma
old=$root/build/stock/iproute2/bin/rdma
names="FLUSH_GLOBAL FLUSH_PERSISTENT ATOMIC_WRITE"
# What ibv_post_send() takes on any kernel
posted="RDMA_WRITE RDMA_WRITE_WITH_IMM SEND SEND_WITH_IMM RDMA_READ ATOMIC_CMP_AND_SWP ATOMIC_FETCH_AND_ADD"
posted+=" LOCAL_INV BIND_MW SEND_WITH_INV"

prepare() {
	local tool
	for tool in "iproute2 $new" "stock-iproute2 $old"; do
		[[ -x ${tool#* } ]] || wrong_usage "there is no ${tool#* }: run \`make ${tool%% *}\`"
	done
}

# in_guest COMMAND [ARG...]: what COMMAND, for the guest's shell, prints
in_guest() { "$root/qemu-scripts/rxe-vm" run --name rdma-tool "${@:2}" -- sh -c "$1"; }

# capabilities TOOL [ARG...]: of rxe0, as `rdma dev show -d` has them, with blanks between
capabilities() { in_guest "$1 dev show -d rxe0" "${@:2}" | sed -n 's/.*caps: <\(.*\)>.*/\1/p' | tr -d ,; }

# The last three capabilities of a kernel with FLUSH and ATOMIC WRITE are these.
the_tool_names_all_three() {
	local said
	said=$(capabilities "$new")
	echo "# $said"
	[[ $said == *" $names" && $said != *UNKNOWN* ]] || fail "it says: $said"
}

# Else the series is for nothing; and what was named before has its name still.
without_the_series_it_says_unknown() {
	local said
	said=$(capabilities "$old")
	[[ $said == *" UNKNOWN UNKNOWN UNKNOWN" ]] || fail "it says: $said"
	[[ "${said% UNKNOWN UNKNOWN UNKNOWN} $names" == "$(capabilities "$new")" ]] || fail "another name has changed"
}

# A list in JSON, for programs.
json_has_the_same_words() {
	local said
	said=$(in_guest "$new -j -d dev show rxe0" | jq -r '.[0].caps | join(" ")')
	[[ $said == "$(capabilities "$new")" ]] || fail "JSON says: $said"
}

nothing_else_is_unknown() {
	local said
	# While a connection is there, to be shown.
	# shellcheck disable=SC2016 # for the guest
	said=$(in_guest 'rping -s -P & until rping -c -a $RXE_ADDR -C 1; do :; done
		rping -c -a $RXE_ADDR -C 1000000 & until rdma res show qp | grep -q "type RC state RTS"; do :; done
		for what in dev link "res show qp" "res show cq" "res show mr" "res show pd" "res show ctx" "res show cm_id"; do
			rdma -d -d $what || exit
		done' 2>/dev/null)
	[[ $said == *"type RC state RTS"* ]] || fail "no connection is shown: $said"
	[[ $said != *UNKNOWN* ]] || fail "$said"
}

# devinfo FIELD [ARG...]: what ibv_devinfo says of the bits of FIELD, with blanks between
devinfo() {
	in_guest "ibv_devinfo -v -d rxe0" "${@:2}" |
		sed -n "1,/\t$1:/d; /^\t[^\t]/q; s/^\t*\([A-Z_]*\|Unknown flags.*\)$/\1/p" | xargs
}

ibv_devinfo_names_all_three() {
	local said
	said=$(devinfo device_cap_flags_ex)
	echo "# $said"
	[[ $said == "$names" ]] || fail "it says: $said"
}

ibv_devinfo_names_what_ibv_post_send_takes() {
	local said
	said=$(devinfo post_send_ops_flags)
	echo "# $said"
	[[ $said == "$posted FLUSH ATOMIC_WRITE" ]] || fail "it says: $said"
}

# With the library of the base.
ibv_devinfo_without_the_series_says_unknown() {
	local stock=$root/build/stock/${rdma_core_folder#build/} said
	[[ -e $stock/built ]] || { echo "no ${stock#"$root/"}: run \`make stock-rdma-core\`"; exit 4; }
	said=$(devinfo device_cap_flags_ex --rdma-core "$stock")
	[[ $said == "Unknown flags: 0x1C000000000" ]] || fail "it says: $said"
}

the_guest_finds_it_first() {
	local said
	said=$(in_guest 'command -v rdma')
	[[ $said == "$new" ]] || fail "the guest's is $said"
}

# The kernel of Debian 12, or ours without the series.
on_a_kernel_without_the_verbs_neither_says_anything() {
	local kernel=$root/build/v6.1-base/bzImage said
	if [[ ! -e $kernel ]]; then
		said=$("$root/scripts/stock-kernel" 6.1 2>&1) || { echo "${said##*$'\n'}"; exit 4; }
		kernel=${said##*$'\n'}
	fi
	said=$(capabilities "$new" --kernel "$kernel")
	[[ $said == *MEM_WINDOW_TYPE_2B ]] || fail "with the series it says: $said"
	[[ $said == "$(capabilities "$old" --kernel "$kernel")" ]] || fail "without the series it says something else"
	said=$(devinfo device_cap_flags_ex --kernel "$kernel")
	[[ -z $said ]] || fail "ibv_devinfo says: $said"
	said=$(devinfo post_send_ops_flags --kernel "$kernel")
	[[ $said == "$posted" ]] || fail "ibv_devinfo says of ibv_post_send(): $said"
}

cases=(
	the_tool_names_all_three
	without_the_series_it_says_unknown
	json_has_the_same_words
	nothing_else_is_unknown
	ibv_devinfo_names_all_three
	ibv_devinfo_names_what_ibv_post_send_takes
	ibv_devinfo_without_the_series_says_unknown
	the_guest_finds_it_first
	on_a_kernel_without_the_verbs_neither_says_anything
)

run_suite 2 "$@"
