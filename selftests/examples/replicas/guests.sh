# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2016 # the guests expand their commands
# shellcheck disable=SC2034,SC2154 # the script that sources this has work and root
#
# The guests of the replicated log, for those who source this: target N's memory is the file $work/nvdimmN, and
# what the initiator writes goes to $work.

serve_replica='exec remote-log-target "$RXE_ADDR" /dev/dax0.0'

# replicas_group NAME TARGETS SEED SERVER CLIENT: so many targets, which run SERVER, and the initiator's command.
# rxe-kill-server N in it cuts a target's power, the end of it that of all; each takes what a power failure may take.
replicas_group() {
	local n
	local -a options=(--name "$1" --timeout 600 --mem 512M --kill-server="lose:$3" --client-share "$work")
	for ((n = 1; n <= $2; n++)); do
		options+=(--server "$4" "--server$n-pmem" "$work/nvdimm$n:16M")
	done
	"$root/qemu-scripts/rxe-vm" group "${options[@]}" --client "$5"
}

# replicas_check NAME TARGETS: all majorities of what the power failures left hold what was acknowledged
replicas_check() {
	local n
	local -a nvdimms=() devices=()
	for ((n = 1; n <= $2; n++)); do
		nvdimms+=(--pmem "$work/nvdimm$n")
		devices+=("/dev/dax$((n - 1)).0")
	done
	"$root/qemu-scripts/rxe-vm" run --name "$1" "${nvdimms[@]}" -- \
		remote-log-check-replicas "$2" "$work/acknowledged" "${devices[@]}"
}
